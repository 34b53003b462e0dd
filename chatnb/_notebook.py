"""What a chat has of the notebook: results as objects, variables by name, mentions, captured output.

It binds the ports of `actions/environment.py` to `kernel/`. In a kernel and in a terminal what calls print is captured
into their cards; in a script it goes where the script's output goes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ._json import JsonValue
from ._ports import FunctionCall, Host
from .messages import UIMessage, as_message
from .policies import Objects, Variables

if TYPE_CHECKING:
    from .actions import Catalog
    from .kernel.objects import ChatObjects

MENTION_SECONDS = 10.0
SHOW_SECONDS = 0.1


class Notebook:
    """The notebook as one chat sees it.

    Args:
        host: The place that chatnb runs in.
        runtime: Shows output in good time, and runs what needs the main thread.
        objects: How many results are held.
        variables: What of the variables a model may see.
    """

    def __init__(self, host: Host, runtime: Any, objects: Objects | None, variables: Variables | None) -> None:
        from .kernel.objects import ChatObjects
        from .kernel.variables import ChatVariables
        from .kernel.variables_mentions import Mentions
        from .kernel.variables_watch import watch_of

        self._runtime = runtime
        self._host = host
        self.objects: ChatObjects = ChatObjects(objects, namespace=host.namespace)
        self.variables = ChatVariables(variables or Variables(), watch_of(host.namespace), self.objects)
        self.mentions = Mentions(self.variables)

    def seams(self) -> dict[str, Any]:
        """Return what calls get of it, by field of `CallEnvironment`."""
        captures = self._host.kind in ("kernel", "terminal")
        return {
            "objects": self.objects,
            "resolve": self.variables,
            "capture": Capturing(self._runtime) if captures else None,
        }

    def listing(self, catalog: Catalog) -> tuple[Mapping[str, JsonValue], ...] | None:
        """Return the variables that fit some parameter of the agent's actions; None where no list belongs."""
        from .kernel.variables import variable_parameters

        return self.variables.listing(variable_parameters(catalog.agent_tools()))

    async def expand(self, message: UIMessage, chat_id: str) -> UIMessage:
        """Return a message with a `data-variable` part for each variable that its text mentions by `@name`.

        The summaries are made on the main thread; one that takes longer than 10 s is said to be unavailable.
        """
        from .kernel.variables_mentions import unavailable_part

        names = self.mentions.known(message.text)
        if not names:
            return message
        call = FunctionCall(
            function=self.mentions.parts, kwargs={"text": message.text}, chat_id=chat_id, timeout=MENTION_SECONDS
        )
        result = await self._runtime.calls.run(call)
        parts: Sequence[JsonValue] = result.value if result.error is None and result.reason == "returned" else ()
        if not parts:
            parts = [unavailable_part(name) for name in names]
        wire = message.to_wire()
        return as_message({**wire, "parts": [*wire["parts"], *parts]})


def convert_mention(part: Any) -> dict[str, JsonValue] | None:
    """Give the model the text of a mentioned variable."""
    from .kernel.variables_mentions import convert_mention as convert

    return convert(part)


class Capturing:
    """The port `Capture`: what calls print and display goes into their cards."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime

    def open(self, tool_call_id: str, show: Callable[[list[JsonValue]], None]) -> CapturedOutput:
        """Begin with a call."""
        return CapturedOutput(self._runtime, show)


class CapturedOutput:
    """The output of one running call; shown at most 10 times a second."""

    def __init__(self, runtime: Any, show: Callable[[list[JsonValue]], None]) -> None:
        from .kernel.outputs import Outputs

        self._runtime = runtime
        self._show = show
        self._outputs = Outputs(self._changed)
        self._lock = threading.Lock()
        self._closed = False

    def scope(self) -> AbstractContextManager[Any]:
        """Wrap the handler on the thread where it runs."""
        from .kernel.capture import capture

        return capture(self._outputs)

    def add(self, value: object) -> None:
        """Add an object that the call displays. Any thread."""
        from .kernel.summaries_bundles import bundle_of

        self._outputs.show(bundle_of(value))

    def add_bundle(self, bundle: Mapping[str, JsonValue]) -> None:
        """Add a MIME bundle."""
        self._outputs.show(bundle)

    def close(self) -> list[JsonValue]:
        """End capturing and return all outputs."""
        with self._lock:
            self._closed = True
        return list(self._outputs.items())

    def _changed(self, _: object) -> None:
        # The outputs announce a change once until they are read, so one timer is enough.
        self._runtime.post(lambda: self._runtime.loop.call_later(SHOW_SECONDS, self._tell))

    def _tell(self) -> None:
        with self._lock:
            if self._closed:
                return
        self._show(list(self._outputs.items()))
