"""`Chat`: one durable conversation of an agent, from any thread and any loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from . import _copies, _json
from ._json import JsonValue
from ._notebook import Notebook
from .actions.effects import refuse_decision_inside_call
from .errors import ChatClosedError, InputError, LeaseLostError, MessageTooLargeError, NoActiveTurnError
from .history import History
from .history.api import checked_message
from .messages import UIMessage
from .store import InputKind
from .turns import ChatEngine, ClientTool, Input, Pending, Submission, TurnError, Update, Waiting, user_message
from .turns.context import normalize_injected
from .turns.decisions import Decision
from .turns.hooks import current_checkpoint
from .turns.records import ChatStatus
from .usage import ChatUsage

if TYPE_CHECKING:
    from ._composition import Composition
    from .actions import Change
    from .agent import Agent
    from .kernel.objects import ChatObjects

__all__ = ["Chat"]

F = TypeVar("F", bound=Callable[..., Any])
MAX_STASH_BYTES = 256 * 1024


class Chat:
    """One conversation, kept in the store. Made by `agent.chat(id)`.

    As the last line of a cell it shows the panel. Every input returns a `Submission` at once; a turn that fails is an
    `Outcome`, not an exception.
    """

    id: str
    agent: Agent

    def __init__(self) -> None:
        raise TypeError("chats are opened with agent.chat(id)")

    @classmethod
    def _make(cls, agent: Agent, chat_id: str, runtime: Any) -> Chat:
        chat = cls.__new__(cls)
        chat.id = chat_id
        chat.agent = agent
        chat._runtime = runtime
        chat._client_data = None
        chat._observers = []
        chat._bound_notebook = None
        chat._default_client_tools = ()
        return chat

    _runtime: Any
    _engine: ChatEngine
    _composition: Composition
    _client_data: Any
    _observers: list[Callable[[Change], Any]]
    _bound_notebook: Notebook | None
    _default_client_tools: tuple[ClientTool, ...]

    def _attach(self, engine: ChatEngine, composition: Composition) -> None:
        self._engine = engine
        self._composition = composition
        engine.chat = self

    def _bind(self, agent: Agent, client_data: Any) -> None:
        """Go on with a definition; a running turn finishes on the one it began with."""
        if client_data is not None:
            self._client_data = client_data
        if agent is not self.agent:
            self.agent = agent
            self._engine.definition = agent.definition(self._composition, self)

    # --- state --------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[UIMessage, ...]:
        """The current history, with the message that is being written."""
        return self._engine.read_messages()

    @property
    def history(self) -> History:
        """Reads and edits the history and its branches."""
        return self._engine.history

    @property
    def status(self) -> ChatStatus:
        """`"ready"`, `"submitted"`, `"streaming"` or `"error"`."""
        return self._engine.status

    @property
    def is_streaming(self) -> bool:
        """An answer is arriving."""
        return self.status == "streaming" or self.is_server_streaming

    @property
    def is_server_streaming(self) -> bool:
        """A client-side call is being worked on, or an answer arrives that nobody here has asked for."""
        turn = self._engine.turn
        foreign = self.status == "streaming" and turn is not None and turn.input.origin == "recovery"
        return bool(self._engine.tool_phase) or foreign

    @property
    def is_tool_continuation(self) -> bool:
        """The answer goes on after a decision."""
        return self._engine.is_tool_continuation

    @property
    def is_recovering(self) -> bool:
        """An interrupted answer is being taken up again."""
        return self._engine.is_recovering

    @property
    def error(self) -> TurnError | None:
        """Why the last turn failed, until the next input."""
        return self._engine.error

    @property
    def pending(self) -> PendingCalls:
        """The calls that wait for a person; a table in a notebook."""
        return PendingCalls(self._runtime.call(self._engine.pending))

    @property
    def queue(self) -> tuple[Waiting, ...]:
        """The inputs that wait for their slot."""
        return self._runtime.call(self._engine.waiting_lines)  # type: ignore[no-any-return]

    @property
    def usage(self) -> ChatUsage:
        """What the chat has used: `turns`, `total`, `complete`, `to_frame()`."""
        return ChatUsage(self._engine.store, self.id, self._engine.total_usage, self.agent.model.name)

    @property
    def objects(self) -> ChatObjects:
        """The results of actions as Python objects, by name or tool call id."""
        return self._notebook.objects

    @property
    def interruption(self) -> Any:
        """An interrupted turn that is not running again, or None."""
        return self._engine.interruption

    @property
    def restorable(self) -> tuple[Any, ...]:
        """Calls off the chain whose variables can be brought back."""
        return ()

    @property
    def has_pending_interaction(self) -> bool:
        """A call waits for a person."""
        return len(self.pending) > 0

    @property
    def is_closed(self) -> bool:
        """The chat is closed, or another kernel has taken it over."""
        return self._engine.closed is not None

    # --- input --------------------------------------------------------------------------------------------------

    def send(
        self,
        message: str | UIMessage | Mapping[str, Any] | Iterable[Any],
        *,
        files: Iterable[Any] = (),
        metadata: JsonValue = None,
        body: Mapping[str, JsonValue] | None = None,
        client_data: Any = None,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Send a message of the user.

        Args:
            message: Text, a message, its wire dict, or a list of parts.
            files: Paths, `(name, bytes)` pairs or file parts.
            metadata: The message's metadata.
            body: Extra request fields, for hooks and `run`.
            client_data: Client data for this input; default: the chat's.
            client_tools: Tools that the page runs or a person answers.

        Raises:
            InputError: No text and no part, or a role other than the user's.
            MessageTooLargeError: More than 16,000,000 bytes.
            ChatClosedError: The chat is closed.
        """
        self._check_open()
        made = user_message(message, files=files, metadata=metadata, new_id=self._engine.new_id)
        return self._submit(
            "send",
            {"message": made.to_wire()},
            body=body,
            client_data=client_data,
            client_tools=client_tools,
            origin=_origin,
        )

    def act(
        self,
        chat_action: Mapping[str, Any] | Any,
        *,
        body: Mapping[str, JsonValue] | None = None,
        client_data: Any = None,
        _origin: str = "chat",
    ) -> Submission:
        """Give the chat a command: a chat action of the app's own or a built-in one, as a model or a dict with `type`.

        Raises:
            InputError: It has no `type`.
        """
        live = None
        if hasattr(chat_action, "model_dump"):
            live, chat_action = chat_action, chat_action.model_dump(mode="json", by_alias=True)
        if not isinstance(chat_action, Mapping) or not isinstance(chat_action.get("type"), str):
            raise InputError("a chat action is a dict (or model) with a `type`, as in {'type': 'undo'}")
        payload = {"action": _as_json(dict(chat_action), "the chat action")}
        return self._submit("action", payload, body=body, client_data=client_data, origin=_origin, live=live)

    def regenerate(
        self,
        message_id: str | None = None,
        *,
        body: Mapping[str, JsonValue] | None = None,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Answer again; the former answer stays as a branch. Without an id: the last answer."""
        return self._submit(
            "regenerate", {"messageId": message_id}, body=body, client_tools=client_tools, origin=_origin
        )

    def continue_last_turn(
        self,
        body: Mapping[str, JsonValue] | None = None,
        *,
        client_tools: Sequence[ClientTool] = (),
        _origin: str = "chat",
    ) -> Submission:
        """Go on with the assistant message at the end, or accept an offered, interrupted turn."""
        engine = self._engine
        inherited = body if body is not None else engine.last_body
        tools = [t.to_json() for t in client_tools] or engine.last_client_tools
        return self._submit("continue", {}, body=inherited, origin=_origin, wire_tools=tools)

    def save_messages(
        self, messages: Sequence[Any] | Callable[[list[UIMessage]], Any], *, _origin: str = "chat"
    ) -> Submission:
        """Make a list the history, and answer it if it ends in something to answer.

        Args:
            messages: The list, or a function (sync or async) of a copy of the history as it is at its turn.
        """
        if callable(messages):
            return self._submit("save", {"function": True}, origin=_origin, live=messages)
        wires = [checked_message(m).to_wire() for m in messages]
        return self._submit("save", {"messages": wires}, origin=_origin)

    def undo(self, *, _origin: str = "chat") -> Submission:
        """Take back the last message of the user and what followed it."""
        return self.act({"type": "undo"}, _origin=_origin)

    def redo(self, *, _origin: str = "chat") -> Submission:
        """Take back the latest undo, rollback or clear."""
        return self.act({"type": "redo"}, _origin=_origin)

    def rollback(self, message_id: str, *, _origin: str = "chat") -> Submission:
        """Keep the conversation up to and including a message."""
        return self.act({"type": "rollback", "messageId": message_id}, _origin=_origin)

    def edit(self, message_id: str, text: str, *, _origin: str = "chat") -> Submission:
        """Put another version of a message beside it, and answer that if it is the user's."""
        return self.act({"type": "edit", "messageId": message_id, "text": text}, _origin=_origin)

    def switch(self, message_id: str, *, _origin: str = "chat") -> Submission:
        """Show another version of a message, and what followed it. Takes a message or node id."""
        return self.act({"type": "switch", "messageId": message_id}, _origin=_origin)

    def remove(self, message_id: str, *, _origin: str = "chat") -> Submission:
        """Drop a message from the conversation shown."""
        return self.act({"type": "remove", "messageId": message_id}, _origin=_origin)

    def clear(self, *, _origin: str = "chat") -> Submission:
        """Begin an empty conversation; stops the running turn and skips what waits. `redo()` takes it back."""
        return self.act({"type": "clear"}, _origin=_origin)

    # --- decisions ----------------------------------------------------------------------------------------------

    def approve(
        self,
        id: str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        reason: str | None = None,
        continue_: bool = True,
        _origin: str = "chat",
    ) -> Submission:
        """Bless one pending call; it runs once.

        Args:
            id: The approval id or tool call id; None: the only pending one.
            args: Edited arguments, merged over those shown.
            reason: Why, for the record.
            continue_: Go on answering when nothing is pending any more.

        Raises:
            PendingError: No such call, or not exactly one; the text lists them.
            InvalidArgumentsError: The edited arguments do not fit; the call is still pending.
            ApprovalExpiredError: It was asked too long ago.
            ForbiddenError: From inside an action: a call never approves.
        """
        edited = dict(args) if args is not None else None
        return self._decide(
            Decision(kind="approve", id=id, args=edited, reason=reason, continue_=continue_), origin=_origin
        )

    def reject(
        self, id: str | None = None, *, reason: str | None = None, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Refuse one pending call; the model hears the reason. Raises as `approve`."""
        return self._decide(Decision(kind="reject", id=id, reason=reason, continue_=continue_), origin=_origin)

    def add_tool_output(
        self, tool_call_id: str, output: JsonValue, *, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Give the output of a client-side call."""
        value = _as_json(output, "the output")
        return self._decide(Decision(kind="output", id=tool_call_id, output=value, continue_=continue_), origin=_origin)

    def add_tool_error(
        self, tool_call_id: str, text: str, *, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Say that a client-side call failed."""
        return self._decide(Decision(kind="error", id=tool_call_id, text=text, continue_=continue_), origin=_origin)

    def add_tool_approval_response(
        self, id: str, approved: bool, reason: str | None = None, *, continue_: bool = True, _origin: str = "chat"
    ) -> Submission:
        """Decide by approval id, as the protocol names it."""
        if approved:
            return self.approve(id, reason=reason, continue_=continue_, _origin=_origin)
        return self.reject(id, reason=reason, continue_=continue_, _origin=_origin)

    # --- control ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the running turn; what was produced stays. Waiting inputs run on."""
        if self._runtime.on_loop():
            self._engine.stop()
        else:
            self._runtime.post(self._engine.stop)

    def discard(self) -> None:
        """End an offered, interrupted turn; its partial answer stays."""
        self._check_open()
        self._runtime.call(self._engine.discard)

    async def stable(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs, waits or is due.

        Args:
            timeout: Seconds at most.

        Returns:
            False on timeout, and at once when only a person can go on.
        """
        return bool(await self._on_runtime(lambda: self._engine.stable(timeout)))

    async def _on_runtime(self, make: Callable[[], Awaitable[Any]]) -> Any:
        if self._runtime.on_loop():
            return await make()
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        async def work() -> None:
            try:
                future.set_result(await make())
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                future.set_exception(error)

        self._runtime.spawn(work(), name=f"wait for {self.id}")
        with self._runtime.waiting(self.id):
            return await asyncio.wrap_future(future)

    def inject(self, messages: Any) -> None:
        """Give the model context for the next turn, in no history, view or export.

        Args:
            messages: Text, `(role, content)` pairs with role `system` or `user`, or messages.

        Raises:
            InputError: It is none of these.
        """
        self._check_open()
        made = normalize_injected(messages)
        checkpoint = current_checkpoint(self.id)
        if checkpoint is not None and checkpoint.is_hook:
            checkpoint.injected.append(made)
        else:
            self._runtime.call(self._engine.keep_injected, made)

    def defer(self, work: Awaitable[Any] | Callable[[], Any]) -> None:
        """Start work that the turn waits for, at most 5 s, before it completes. Failures are logged."""
        self._check_open()
        context = contextvars.copy_context()
        self._runtime.call(self._engine.defer, work, context)

    def stash(self, data: JsonValue) -> None:
        """Keep JSON for `on_chat_recovery` should this turn be interrupted; committed when it returns.

        Raises:
            NoActiveTurnError: No turn runs.
            TypeError: Not JSON.
            MessageTooLargeError: More than 256 KiB.
        """
        try:
            size = _json.size(data)
        except (TypeError, ValueError) as error:
            raise TypeError(f"stash() takes JSON, not {type(data).__name__}") from error
        if size > MAX_STASH_BYTES:
            raise MessageTooLargeError(f"stash() keeps at most 256 KiB; this has {size:,} bytes")
        if not self._runtime.call(self._engine.keep_stash, data):
            raise NoActiveTurnError("stash() works while a turn runs; there is none now")

    def set_messages(self, messages: Iterable[Any]) -> None:
        """Make a list the history; runs no turn. Same as `history.set`."""
        self._check_open()
        self.history.set(messages)

    def persist_messages(self, messages: Iterable[Any]) -> None:
        """Update known messages and append unknown ones; removes nothing and runs no turn."""
        self._check_open()
        self._runtime.call(self._engine.persist, [checked_message(m) for m in messages], current_checkpoint(self.id))

    def on_change(self, function: F) -> F:
        """Call a function for every `Change` of this chat's actions. Works as a decorator; `.unsubscribe()` ends it."""
        from .agent import _add_unsubscribe

        self._observers.append(function)
        _add_unsubscribe(function, self._observers)
        return function

    def fork(self, message_id: str | None = None, id: str | None = None) -> Chat:
        """Return a new, independent chat with the conversation up to a message.

        Args:
            message_id: The last message that is copied; None: the end.
            id: The new chat's id; None makes one.

        Raises:
            UnknownMessageError: No such message in the conversation.
            ChatExistsError: The id is taken.
        """
        return _copies.fork(self, message_id, id)

    def export(self, format: str, path: str | os.PathLike[str] | None = None, *, branches: bool = False) -> str:
        """Return the conversation as text, and write it to a file if a path is given.

        Args:
            format: `"md"`, `"html"`, `"json"` or `"ipynb"`.
            path: Where to write it.
            branches: With `"json"`: the whole message tree.

        Raises:
            ExportError: An unknown format.
        """
        return _copies.export(self, format, path, branches=branches)

    def close(self) -> None:
        """Release the chat: a running turn is interrupted, to go on at the next opening; waiting inputs stay."""
        self._composition.forget(self)
        task = self._runtime.spawn(self._engine.close(), name=f"close {self.id}")
        if not self._runtime.on_loop():
            done: concurrent.futures.Future[None] = concurrent.futures.Future()
            self._runtime.call(task.add_done_callback, lambda _: done.set_result(None))
            done.result(2.0)

    # --- showing ------------------------------------------------------------------------------------------------

    def view(self, **options: Any) -> Any:
        """Return a new `ChatWidget` of this chat."""
        from .widget import ChatWidget

        return ChatWidget(self, **options)

    def _ipython_display_(self) -> None:
        self.view()._ipython_display_()

    def __repr__(self) -> str:
        return f"Chat {self.id} ({len(self.messages)} messages, {self.status})"

    # --- inside -------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        closed = self._engine.closed
        if closed is None:
            return
        if closed.startswith("taken over"):
            raise LeaseLostError(f"chat {self.id!r} was {closed}")
        raise ChatClosedError(f"chat {self.id!r} is closed; open it again with agent.chat({self.id!r})")

    def _submit(
        self,
        kind: InputKind,
        payload: JsonValue,
        *,
        body: Mapping[str, JsonValue] | None = None,
        client_data: Any = None,
        client_tools: Sequence[ClientTool] = (),
        origin: str = "chat",
        live: Any = None,
        wire_tools: JsonValue = None,
    ) -> Submission:
        self._check_open()
        engine, runtime = self._engine, self._runtime
        if body is not None and not isinstance(body, Mapping):
            raise InputError("body is a dict of extra request fields")
        offered = client_tools or self._default_client_tools
        tools = wire_tools if wire_tools is not None else [t.to_json() for t in offered] or None
        data = client_data if client_data is not None else self._client_data
        submission = Submission(runtime, self.id, engine.stop_submission)
        context = contextvars.copy_context()
        stored_body = _as_json(dict(body), "body") if body is not None else None

        def admit() -> None:
            row = engine.new_row(kind, payload, body=stored_body, client_data=_json_or_none(data), client_tools=tools)
            engine.admit(Input(row, [submission], origin=origin, context=context, client_data=data, live=live))

        if runtime.on_loop():
            admit()
        else:
            runtime.post(admit)
        return submission

    def _decide(self, decision: Decision, *, origin: str) -> Submission:
        refuse_decision_inside_call()
        self._check_open()
        submission = Submission(self._runtime, self.id, self._engine.stop_submission)
        self._runtime.call(self._engine.decide, submission, decision, origin)
        return submission

    def _publish_change(self, change: Change) -> None:
        self._engine.publish(Update(kind="change", data=change.to_json()))
        for observer in (*self._observers, *self.agent._observers):
            self._runtime.notify(observer, change)

    @property
    def _notebook(self) -> Notebook:
        if self._bound_notebook is None:
            self._bound_notebook = Notebook(
                self._composition.host, self._runtime, self.agent.objects_policy, self.agent.variables_policy
            )
        return self._bound_notebook


class PendingCalls(tuple[Pending, ...]):
    """The pending calls; a table in a notebook."""

    __slots__ = ()

    def __new__(cls, items: Iterable[Pending] = ()) -> Self:
        return super().__new__(cls, tuple(items))

    def _repr_html_(self) -> str:
        from html import escape

        if not self:
            return "<p>Nothing is pending.</p>"
        rows = "".join(
            f"<tr><td>{escape(p.kind)}</td><td>{escape(p.title)}</td>"
            f"<td><code>{escape(_json.dumps(_json_or_none(p.args)))}</code></td><td><code>{escape(p.id)}</code></td></tr>"
            for p in self
        )
        return f"<table><tr><th>kind</th><th>action</th><th>arguments</th><th>id</th></tr>{rows}</table>"


def _as_json(value: Any, what: str) -> JsonValue:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        made = to_jsonable_python(value)
        _json.dumps(made)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise InputError(f"{what} has to be JSON") from error
    return made


def _json_or_none(value: Any) -> JsonValue:
    if value is None:
        return None
    try:
        return _as_json(value, "the value")
    except InputError:
        return None
