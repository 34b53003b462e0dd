"""The model port: what a turn asks of a model, and what a model answers (spec/notebook.md, section 8).

A model answers one **step** at a time. It never sees UI messages, turns or the store: it gets model messages
(spec/messages.md, section 8), and it gives content chunks. `start`, `start-step`, `finish-step` and `finish` belong to
the turn, so a model never yields them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from chatnb.models.usage import Usage

Chunk: TypeAlias = dict[str, Any]
ModelMessage: TypeAlias = Mapping[str, Any]
FinishReason = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]
Continuation = Literal["prefill", "user-message", "retrieve"]


def _no_stash(data: Any) -> None:
    """Forget the data: nobody keeps it for this request."""


@dataclass(frozen=True)
class ActionSpec:
    """One action as a model sees it.

    Attributes:
        name: The name to call it by.
        description: What it does, for the model.
        input_schema: A JSON schema of type `object`.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@dataclass(frozen=True)
class ModelRequest:
    """All that a model gets for one step.

    Attributes:
        messages: Model messages, as `chatnb.messages.to_model_messages` makes them.
        instructions: The system text, or None.
        actions: What may be called.
        settings: Further options of this call, such as `temperature`; each model takes those it knows.
        variables: Notebook variables that fit some parameter (spec/notebook.md, section 5), or None. Each is a mapping
            with `name` and `type`, and more keys that say what is known of it.
        chat_id: The chat, or None outside one.
        turn_number: The turn's number, from 1.
        step: The step's number within the turn, from 1.
        stash: Keeps JSON for `retrieve` after a crash. Does nothing by default.
        sleep: How to wait, in seconds. Every wait of a model goes through it, so that a test's clock rules them all.
    """

    messages: tuple[ModelMessage, ...]
    instructions: str | None = None
    actions: tuple[ActionSpec, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    variables: tuple[Mapping[str, Any], ...] | None = None
    chat_id: str | None = None
    turn_number: int = 1
    step: int = 1
    stash: Callable[[Any], None] = field(default=_no_stash, repr=False, compare=False)
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False, compare=False)


@dataclass(frozen=True)
class StepEnd:
    """The last thing that a model yields: the step is whole.

    Attributes:
        finish_reason: Why the model stopped.
        usage: What the step cost, or None if the model does not know.
    """

    finish_reason: str = "stop"
    usage: Usage | None = None


StepItem: TypeAlias = Chunk | StepEnd | None


@runtime_checkable
class Model(Protocol):
    """Anything with a name that can stream one step.

    Optional attributes, read with `getattr`:
        continuation: `"prefill"`, `"user-message"` (the default) or `"retrieve"`: how an answer that broke off goes on.
        accepts_images: Whether image results may be sent to it (default False).
        count_tokens: `await count_tokens(request)`, the number of input tokens.
        retrieve: `retrieve(stash, request)`, an iterator like `stream` for an answer that the provider kept, or None.
        timeout: Seconds to the first chunk.

    Example:
        class Loud:
            name = "loud"

            async def stream(self, request):
                said = request.messages[-1]["content"][-1]["text"]
                yield {"type": "text-start", "id": "1"}
                yield {"type": "text-delta", "id": "1", "delta": said.upper()}
                yield {"type": "text-end", "id": "1"}
                yield StepEnd("stop")

        assert (await Agent(Loud()).chat().send("Hello")).text == "HELLO"
    """

    @property
    def name(self) -> str:
        """The name that logs, usage and the panel show."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Answer one step.

        Yields content chunks in wire form: `text-*`, `reasoning-*`, `file`, `source-*`, `tool-input-*`, `data-*`, and
        `tool-output-available` for tools that the provider ran itself; `None` as a sign of life; last one `StepEnd`.
        Ids of blocks and calls are unique within the step; across steps the turn renames block ids where it must.

        Raises:
            ModelError: The step failed. Other exceptions are wrapped by `stream_step`.
        """
        ...


EPHEMERAL_OPTIONS: Mapping[str, Any] = {"chatnb": {"ephemeral": True}}
"""`providerOptions` of a content item that belongs to one request alone, such as the list of variables: no model marks
it for its cache, the offline model does not take it for the user's words, and recordings leave it out."""


def is_ephemeral(item: Any) -> bool:
    """Whether a content item carries `EPHEMERAL_OPTIONS`."""
    options = item.get("providerOptions") if isinstance(item, Mapping) else None
    own = options.get("chatnb") if isinstance(options, Mapping) else None
    return isinstance(own, Mapping) and own.get("ephemeral") is True
