"""The one place that knows how a widget reaches the private side of a `Chat`.

Everything else of the widget works through `ChatSeam`, so that tests can put a fake chat in its place, and so that a
change of the engine is a change of this file.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .._json import JsonValue
from .._ports import FunctionCall
from ..messages import UIMessage
from ..turns.records import ChatState, Update
from .relay import Relay

if TYPE_CHECKING:
    from ..actions import Action
    from ..actions.progress import Show
    from ..actions.settled import Settled
    from ..chat import Chat
    from ..runtime import Runtime
    from ..turns import ChatEngine, Outcome, Submission

T = TypeVar("T")


class ChatSeam:
    """A chat, as a widget sees it.

    Args:
        chat: The chat.
        origin: The widget's id: what its views and methods do counts as its own.
    """

    def __init__(self, chat: Chat, origin: str) -> None:
        self.origin = origin
        self.chat: Chat = chat
        self.bind(chat)

    def bind(self, chat: Any) -> None:
        """Go on with another object of the same chat."""
        self.chat = chat
        self._runtime: Runtime = chat._runtime
        self._engine: ChatEngine = chat._engine

    # --- the runtime --------------------------------------------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the chat works on."""
        return self._runtime.loop

    @property
    def is_alive(self) -> bool:
        """Whether the runtime has not ended."""
        return bool(self._runtime.is_alive)

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the runtime's loop, soon; from any thread."""
        self._runtime.post(function, *args)

    def call(self, function: Callable[..., T], *args: object) -> T:
        """Call a function on the runtime's loop and wait for what it returns; from any thread."""
        return self._runtime.call(function, *args)

    def call_if_free(self, function: Callable[[], T], within: float) -> T | None:
        """Call a function on the runtime's loop if that is free in time, else not at all: None."""
        return self._runtime.call_if_free(function, within)

    def spawn(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Start a task on the runtime."""
        self._runtime.spawn(work, name=name)

    def notify(self, function: Callable[..., object], *args: object) -> None:
        """Call an observer on the main thread, in order; what it raises is logged."""
        self._runtime.notify(function, *args)

    async def run_in_kernel(self, work: Callable[..., Any], /, **kwargs: object) -> Any:
        """Run a person's function, sync or async, where their functions run, and return what it returns.

        Raises:
            BaseException: What the function raised.
        """
        result = await self._runtime.calls.run(FunctionCall(function=work, kwargs=kwargs, chat_id=self.chat.id))
        if result.error is not None:
            raise result.error
        return result.value

    async def ask(self, function: Callable[..., Any], /, *args: object, stop: asyncio.Event | None = None) -> Any:
        """Call a person's function, sync or async, where their functions run, and return what it gives.

        A sync one is called as such: it never runs on the chat's own loop.

        Args:
            function: The function.
            *args: Its arguments.
            stop: When set, the function is stopped.

        Raises:
            BaseException: What the function raised.
        """
        call = FunctionCall(function=partial(function, *args), chat_id=self.chat.id, stop=stop)
        result = await self._runtime.calls.run(call)
        if result.error is None and inspect.isawaitable(result.value):
            rest = FunctionCall(function=_finish, kwargs={"work": result.value}, chat_id=self.chat.id, stop=stop)
            result = await self._runtime.calls.run(rest)
        if isinstance(result.error, asyncio.CancelledError | GeneratorExit):
            raise RuntimeError(f"it ended with {type(result.error).__name__}") from result.error  # it is not us who end
        if result.error is not None:
            raise result.error
        return result.value

    # --- state --------------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[Update], None]) -> Callable[[], None]:
        """Hear of every change, on the runtime, in order."""
        return self._engine.subscribe(listener)

    def state(self) -> ChatState:
        """Return the state as it is; on the runtime."""
        return self._engine.state()

    def messages(self) -> tuple[UIMessage, ...]:
        """Return the history with the unfinished message as far as it is; from any thread."""
        return self.chat.messages

    def settled_messages(self) -> tuple[UIMessage, ...]:
        """Return the history without what is being written; from any thread."""
        return self._engine.read_chain()

    def is_unsaved(self) -> bool:
        """Tell whether the end of what is shown could not be written; on the runtime."""
        return self._engine.unsaved is not None

    def is_untouched(self) -> bool:
        """Tell whether the chat has never held a message."""
        return len(self._engine.tree) == 0

    def knows(self, message_id: str, *, shown: bool = True) -> bool:
        """Tell whether there is a message, among those that are shown or anywhere in the tree; on the runtime.

        What waits in the queue may still bring it back, or take it away: then anywhere will do.
        """
        tree, state = self._engine.tree, self._engine.state()
        if shown and not state.queue and state.status in ("ready", "error"):
            return tree.on_chain(message_id) is not None
        return tree.find(message_id) is not None

    def version(self, message_id: str, index: int) -> str | None:
        """Return the node id of one version of a message, None if there is none of that number; on the runtime."""
        found = (branch.node_id for branch in self._engine.tree.branches(message_id) if branch.index == index)
        return next(found, None)

    def set_tool_phase(self, tool_call_id: str, active: bool) -> None:
        """Say whether a client tool works; on the runtime. All widgets of the chat show it."""
        before = self._engine.tool_phase
        after = before | {tool_call_id} if active else before - {tool_call_id}
        self._engine.set_state(tool_phase=after)

    # --- inputs -------------------------------------------------------------------------------------------------

    def do(self, method: str, *args: object, **options: Any) -> Submission:
        """Call an input method of the chat with this widget as origin.

        With `_body`, an async function, the input is made once that has returned the body; one that raises is the
        outcome `error`, stage `input`.
        """
        make_body: Callable[[], Awaitable[Any]] | None = options.pop("_body", None)
        call = partial(getattr(self.chat, method), *args, **options, _origin=self.origin)
        if make_body is None:
            submission: Submission = call()
            return submission
        return Relay.start(self._runtime, self.chat.id, make_body, call)

    def input_id(self, submission: Submission) -> str | None:
        """Return the id under which an input stands in the queue."""
        input_ = getattr(submission, "_input", None)
        return None if input_ is None else str(input_.row.id)

    def is_of(self, submission: Submission, message: UIMessage) -> bool:
        """Tell whether a message of the history is the one that an input has sent."""
        input_ = getattr(submission, "_input", None)
        return input_ is not None and bool(input_.message.id == message.id)

    def outcome(self, submission: Submission) -> Outcome | None:
        """Return the outcome of an input that is done, without waiting."""
        return submission._future.result() if submission.done else None

    def cancel_input(self, input_id: str) -> str | None:
        """Take a waiting input out of the queue and return its text; None when it does not wait."""
        found = self._engine.cancel_input(input_id)
        if found is None:
            return None
        return str(found.message.text) if found.kind == "send" else ""

    def add_inserter(self, insert: Callable[..., bool]) -> None:
        """Offer to insert cells: `insert(source, kind, position)`; on the runtime."""
        self._engine.cell_inserters = [*self._engine.cell_inserters, insert]

    def remove_inserter(self, insert: Callable[..., bool]) -> None:
        """Offer it no more."""
        self._engine.cell_inserters = [known for known in self._engine.cell_inserters if known != insert]

    @property
    def engine(self) -> Any:
        """What stands for the open chat: another one once it is opened again."""
        return self._engine

    @property
    def store(self) -> Any:
        """The chat's store, or what stands for it."""
        return self._engine.store

    # --- the agent ----------------------------------------------------------------------------------------------

    @property
    def agent_name(self) -> str:
        """What the agent is called."""
        return str(self._engine.definition.name)

    @property
    def has_mentions(self) -> bool:
        """Whether names of the notebook can be completed; a served page never sees them."""
        notebook = getattr(self.chat, "_notebook", None)
        return notebook is not None and not self.origin.startswith("http") and notebook.variables.policy.share != "off"

    @property
    def actions(self) -> Mapping[str, Action]:
        """The agent's actions by name."""
        return self._engine.definition.catalog

    def find_action(self, name: str) -> Action | None:
        """Return an action, or None."""
        return self.actions.get(name)

    @property
    def model(self) -> Any:
        """The agent's model."""
        return self._engine.definition.model

    async def call_action(self, name: str, arguments: JsonValue, show: Show) -> Settled:
        """Call an action at the widget site; a person has just clicked.

        Args:
            name: The action's name.
            arguments: Its input.
            show: Takes progress and lines, on the runtime.
        """
        from ..actions.dispatch import Dispatcher

        place = self.chat._composition
        environment = place.environment(self.chat.agent, self.chat)
        dispatcher = Dispatcher(
            self._engine.definition.catalog,
            environment,
            calls=self._runtime.calls,
            clock=place.clock,
            new_id=place.new_id,
        )
        return await dispatcher.dispatch(
            name,
            arguments,
            site="widget",
            identity=environment.identity,
            proof=True,
            chat_id=self.chat.id,
            show=show,
        )

    def complete(self, prefix: str) -> Mapping[str, JsonValue]:
        """Return the mentions that a prefix may become: `{items, stale}`."""
        return self.chat._notebook.mentions.complete(prefix)

    async def preview(self, name: str) -> Mapping[str, JsonValue] | None:
        """Return what a mention sends, `{text, tokens}`; None when there is no such name."""
        found: Mapping[str, JsonValue] | None = await self.run_in_kernel(
            self.chat._notebook.mentions.preview, name=name
        )
        return found


async def _finish(work: Awaitable[Any]) -> Any:
    return await work
