"""What a call needs of the place it works in: a chat's settings, and ports to objects, views and child chats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .._json import JsonValue
from .._ports import Tracer
from .change import Change
from .identity import Identity
from .ports import Bookkeeper
from .variables import MainNamespace, Resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """What is said and shown of a result that is not plain JSON.

    Attributes:
        type: The type's name.
        summary: At most 2,000 characters for the model.
        preview: More JSON for the model, or None.
        bundle: MIME type to data, for the view, or None.
    """

    type: str
    summary: str
    preview: JsonValue = None
    bundle: Mapping[str, JsonValue] | None = None


IN_OBJECTS = "The object itself is in chat.objects."
"""The end of a note that stands for a result which can't be shown; its name is filled in when the result is kept."""


def naming(bundle: Mapping[str, JsonValue], name: str | None) -> Mapping[str, JsonValue]:
    """Return a result's bundle whose note, if it is one, says where the object is: under its name, or nowhere."""
    text = bundle.get("text/plain")
    if not isinstance(text, str) or not text.endswith(IN_OBJECTS):
        return bundle
    where = "Bind it to a name to use it in a cell." if name is None else f'It is chat.objects["{name}"] itself.'
    return {**bundle, "text/plain": text.removesuffix(IN_OBJECTS) + where}


class Objects(Protocol):
    """The results of a chat as Python objects (spec/notebook.md, section 4)."""

    def keep(self, value: object, *, action: str, tool_call_id: str | None) -> str | None:
        """Keep a result and return its name; None is not kept."""

    def present(self, value: object) -> Presented:
        """Describe a result. Called where the handler ran; never raises, never changes it."""


class CapturedCall(Protocol):
    """The output of one running call."""

    def scope(self) -> AbstractContextManager[Any]:
        """Wrap the handler on the thread where it runs."""

    def add(self, value: object) -> None:
        """Add an object that the call displays. Any thread."""

    def add_bundle(self, bundle: Mapping[str, JsonValue]) -> None:
        """Add a MIME bundle: the result's."""

    def close(self) -> list[JsonValue]:
        """End capturing and return all outputs; nothing is shown afterwards."""


class Capture(Protocol):
    """Captures what calls print and display (spec/notebook.md, section 3)."""

    def open(self, tool_call_id: str, show: Callable[[list[JsonValue]], None]) -> CapturedCall:
        """Begin with a call. `show` takes all outputs so far, from any thread, at most 10 times a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """How a child's turn ended.

    Attributes:
        output: The child's message in wire form.
        text: Its text, or for an error the reason.
        chat_id: The child chat.
    """

    status: Literal["completed", "awaiting", "stopped", "error"]
    output: JsonValue
    text: str
    chat_id: str


class ChildRun(Protocol):
    """A child chat's submission that a handler has returned (spec/turns.md, section 8)."""

    def snapshots(self) -> AsyncIterator[JsonValue]:
        """Yield the child's message, whole, as it grows."""

    def stop(self) -> None:
        """Stop the child."""

    async def end(self) -> ChildEnd:
        """Wait for the outcome."""


class Children(Protocol):
    """Child chats of calls."""

    def open(self, agent: Any, tool_call_id: str) -> Any:
        """Open the chat `PARENT/CALL_ID`. Any thread."""

    def watch(self, value: object) -> ChildRun | None:
        """Return the run that a handler's result stands for, or None if it is an ordinary value."""


def _ignore(change: Change) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnvironment:
    """What a site gives to the calls it dispatches. One for each chat, or one for a site without chats.

    Attributes:
        identity: Who calls where the site does not say (spec/actions.md, 2.7).
        books: Opens transactions outside a turn: late results, nested audits. None: nothing is written down.
        plan_mode: Only reads go on (agent site).
        approval_ttl: Seconds that an ask waits; None: as long as it must.
        objects: Keeps results by name.
        resolve: Looks notebook variables up.
        capture: Captures output.
        children: Opens child chats.
        publish_change: Told of each `Change`, on the runtime, after it is committed.
        accepts_images: The model takes images.
        tracer: Opens a span for each call.
        client_data: The chat's client data, parsed, for sites that bring none of their own.
    """

    identity: Identity | None = None
    books: Bookkeeper | None = None
    plan_mode: bool = False
    approval_ttl: float | None = None
    objects: Objects | None = None
    resolve: Resolve = field(default_factory=MainNamespace)
    capture: Capture | None = None
    children: Children | None = None
    publish_change: Callable[[Change], None] = _ignore
    accepts_images: bool = False
    tracer: Tracer | None = None
    client_data: JsonValue = None
