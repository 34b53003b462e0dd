"""What a chat has of the notebook: results as objects, variables by name, mentions, captured output.

It binds the ports of `actions/environment.py` to `kernel/`. In a kernel and in a terminal what calls print is captured
into their cards; in a script it goes where the script's output goes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ._json import JsonValue
from ._ports import FunctionCall, Host
from .messages import UIMessage, as_message
from .policies import Objects, Variables

if TYPE_CHECKING:
    from .actions import Action, Catalog
    from .kernel.objects import ChatObjects
    from .runtime import Runtime

MENTION_SECONDS = 10.0
"""How long a turn waits for the summaries of its mentions."""
SHOW_SECONDS = 0.1


class Notebook:
    """The notebook as one chat sees it.

    Args:
        chat_id: The chat.
        host: The place that chatnb runs in.
        runtime: Shows output in good time, and runs what needs the main thread.
        objects: How many results are held.
        variables: What of the variables a model may see.
        insert_cell: Asks a page to insert a cell.
        kept: The results of the chat that this one is a fork of.
        history: Returns the chat's messages, all branches.
    """

    def __init__(
        self,
        chat_id: str,
        host: Host,
        runtime: Runtime,
        objects: Objects | None,
        variables: Variables | None,
        *,
        insert_cell: Callable[[str, str, str], bool] | None = None,
        kept: ChatObjects | None = None,
        history: Callable[[], Iterable[UIMessage]] = tuple,
    ) -> None:
        from .kernel.notebook import ChatNotebook

        self._runtime = runtime
        self._host = host
        # Held here: the kernel's own actions find it by the chat's id as long as somebody does.
        self.of_chat = ChatNotebook(
            chat_id, objects=objects, variables=variables, insert_cell=insert_cell, kept=kept, history=history
        )
        self.objects: ChatObjects = self.of_chat.objects
        self.variables = self.of_chat.variables
        self.mentions = self.of_chat.mentions

    def rebind(self, variables: Variables | None) -> None:
        """Go on with the policy of another definition."""
        self.of_chat.policy = variables or Variables()

    def seams(self) -> dict[str, Any]:
        """Return what calls get of it, by field of `CallEnvironment`."""
        captures = self._host.kind in ("kernel", "terminal")
        return {
            "objects": self.objects,
            "resolve": self.variables,
            "capture": Capturing(self._runtime) if captures else None,
        }

    def offered(self, actions: list[Action]) -> list[Action]:
        """Return the actions that a model is offered: none that look at variables where nothing is shared."""
        # Making the notebook actions takes a tenth of a second: an agent that has none of them need not load them.
        if self.variables.policy.share != "off" or "chatnb.kernel.actions" not in sys.modules:
            return actions
        from .kernel.actions import without_variables

        return without_variables(actions, self.variables.policy)

    def listing(self, catalog: Catalog) -> tuple[Mapping[str, JsonValue], ...] | None:
        """Return the variables that fit some parameter of the agent's actions; None where no list belongs."""
        from .kernel.variables import variable_parameters

        return self.variables.listing(variable_parameters(catalog.agent_tools()))

    async def expand(self, message: UIMessage, chat_id: str) -> UIMessage:
        """Return a message with a `data-variable` part for each variable that its text mentions by `@name`.

        What an edited message holds of its former version stays as it was sent. Summaries are made on the main
        thread; one that takes longer than 10 s is said to be unavailable.
        """
        from .kernel.variables_mentions import MENTION_TYPE, unavailable_part

        wire = message.to_wire()
        held = {part["data"].get("name") for part in wire["parts"] if part["type"] == MENTION_TYPE}
        names = [name for name in self.mentions.known(message.text) if name not in held]
        if not names:
            return message
        call = FunctionCall(
            function=self.mentions.parts, kwargs={"text": message.text}, chat_id=chat_id, timeout=MENTION_SECONDS
        )
        result = await self._runtime.calls.run(call)
        parts = result.value if result.error is None and result.reason == "returned" else ()
        made = {part["data"]["name"]: part for part in parts}
        new = [made.get(name) or unavailable_part(name) for name in names]
        return as_message({**wire, "parts": [*wire["parts"], *new]})


def convert_mention(part: Any) -> dict[str, JsonValue] | None:
    """Give the model the text of a mentioned variable."""
    from .kernel.variables_mentions import convert_mention as convert

    return convert(part)


class Capturing:
    """The port `Capture`: what calls print and display goes into their cards."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def open(self, tool_call_id: str, show: Callable[[list[JsonValue]], None]) -> CapturedOutput:
        """Begin with a call."""
        return CapturedOutput(self._runtime, show)


class CapturedOutput:
    """The output of one running call; shown at most 10 times a second."""

    def __init__(self, runtime: Runtime, show: Callable[[list[JsonValue]], None]) -> None:
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
