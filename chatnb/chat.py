"""`Chat`: one durable conversation of an agent, from any thread and any loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from . import _copies, _json
from ._changes import Observer
from ._inputs import ChatInputs
from ._json import JsonValue
from ._notebook import Notebook
from ._pending import as_json
from ._state import ChatState
from .actions import find_identity
from .errors import ChatBusyError, ChatInUseError, InputError, MessageTooLargeError, NoActiveTurnError
from .history.api import checked_messages
from .messages import UIMessage
from .turns import ChatEngine, ClientTool, Update
from .turns.context import normalize_injected
from .turns.hooks import current_checkpoint

if TYPE_CHECKING:
    from ._composition import Composition
    from .actions import Change, Identity
    from .agent import Agent
    from .kernel.objects import ChatObjects
    from .runtime import Runtime
    from .store import Owner
    from .widget import ChatWidget

__all__ = ["Chat"]

F = TypeVar("F", bound=Callable[..., Any])
MAX_STASH_BYTES = 256 * 1024
CLOSE_SECONDS = 2.0


class Chat(ChatInputs, ChatState):
    """One conversation, kept in the store. Made by `agent.chat(id)`.

    As the last line of a cell it shows the panel. Every input returns a `Submission` at once; a turn that fails is an
    `Outcome`, not an exception.
    """

    id: str
    agent: Agent

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("chats are opened with agent.chat(id)")

    @classmethod
    def _make(cls, agent: Agent, chat_id: str, runtime: Runtime) -> Chat:
        chat = cls.__new__(cls)
        chat.id = chat_id
        chat.agent = agent
        chat._runtime = runtime
        chat._client_data = None
        chat._observers = []
        chat._bound_notebook = None
        chat._kept_objects = None
        chat._default_client_tools = ()
        chat._identity = None
        chat._asleep = None
        return chat

    _runtime: Runtime
    _bound_engine: ChatEngine
    _process: int
    _composition: Composition
    _client_data: Any
    _observers: list[Observer]
    _bound_notebook: Notebook | None
    _kept_objects: ChatObjects | None
    _default_client_tools: tuple[ClientTool, ...]
    _identity: Identity | None
    """Whom a site has authenticated; None where the place says who works here."""

    _asleep: tuple[datetime, datetime] | None
    """When no kernel had the chat, before it was opened here."""

    _owner: Owner

    def _attach(self, engine: ChatEngine, composition: Composition, owner: Owner) -> None:
        self._bound_engine = engine
        self._process = os.getpid()
        self._composition = composition
        self._owner = owner
        engine.chat = self
        self._bound_notebook = Notebook(
            self.id,
            composition.host,
            self._runtime,
            self.agent.objects_policy,
            self.agent.variables_policy,
            insert_cell=self._insert_cell,
            kept=self._kept_objects,
            history=self._answers,
        )
        engine.restorable = lambda: self._notebook.of_chat.restorable(engine.shown_messages())

    @property
    def _engine(self) -> ChatEngine:  # type: ignore[override]  # read everywhere, set nowhere
        self._check_process()
        return self._bound_engine

    def _check_process(self) -> None:
        """Refuse every use in a process that was forked from the chat's own.

        Raises:
            ChatInUseError: It is another process.
        """
        if os.getpid() != self._process:
            owner = self._owner
            raise ChatInUseError(
                f"chat {self.id!r} belongs to the process {self._process} that this one was forked from; use it there, "
                "or open another chat here",
                chat_id=self.id,
                host=owner.host.partition("/")[0],
                pid=self._process,
                kernel_id=owner.kernel_id,
                label=owner.label,
            )

    def _bind(self, agent: Agent, client_data: Any) -> None:
        """Go on with a definition; a running turn finishes on the one it began with."""
        if client_data is not None:
            self._client_data = client_data
        if agent is not self.agent:
            self.agent = agent
            self._notebook.rebind(agent.variables_policy)
            self._engine.definition = agent.definition(self._composition, self)

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

        Raises:
            ChatBusyError: Without a timeout, inside this chat's own hook, `run` or action: it could never end.
        """
        if timeout is None and current_checkpoint(self.id) is not None:
            raise ChatBusyError("a hook, run or action of a chat can't wait until the chat is stable; wait in a cell")
        engine = self._engine
        return bool(await self._on_runtime(lambda: engine.stable(timeout)))

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

        Example:
            chat.inject("The shop is closed on Mondays.")
            await chat.send("When can I come?")
        """
        self._check_open()
        made = as_json(normalize_injected(messages), "injected context")
        checkpoint = current_checkpoint(self.id)
        if checkpoint is not None and checkpoint.is_hook:
            checkpoint.injected.append(made)
        else:
            self._runtime.call(self._engine.keep_injected, made)

    def defer(self, work: Awaitable[Any] | Callable[[], Any]) -> None:
        """Start work that the turn waits for, at most 5 s, before it completes. Failures are logged.

        Raises:
            InputError: It is neither an awaitable nor a function.
        """
        self._check_open()
        if not inspect.isawaitable(work) and not callable(work):
            raise InputError(f"defer() takes an awaitable or a function, not {type(work).__name__}")
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
        self._runtime.call(self._engine.persist, checked_messages(messages), current_checkpoint(self.id))

    def on_change(self, function: Callable[[Change], Any]) -> Observer:
        """Call a function for every `Change` of this chat's actions, and for those that belong to no chat.

        Works as a decorator. What it returns, called without arguments, ends it.

        Example:
            @chat.on_change
            def refresh(change):
                print(change.action, change.resources)
        """
        observer = Observer(function, self._observers)
        self._composition.watch_changes(self._engine.store)
        return observer

    def fork(self, message_id: str | None = None, id: str | None = None) -> Chat:
        """Return a new, independent chat with the conversation up to a message.

        Args:
            message_id: The last message that is copied; None: the end.
            id: The new chat's id; None makes one.

        Raises:
            UnknownMessageError: No such message in the conversation.
            ChatExistsError: The id is taken.

        Example:
            other = chat.fork()
            await other.send("And in the South?")  # `chat` does not hear of it
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

        Example:
            text = chat.export("md")
        """
        self._check_process()
        return _copies.export(self, format, path, branches=branches)

    def close(self) -> None:
        """Release the chat: a running turn is interrupted, to go on at the next opening; waiting inputs stay.

        Waits for at most 2 s; what a slow store has to write then is written behind it.
        """
        self._check_process()
        chats = self._composition.forget(self)
        task = self._runtime.spawn(self._composition.close(chats), name=f"close {self.id}")
        if not self._runtime.on_loop():
            done: concurrent.futures.Future[None] = concurrent.futures.Future()
            self._runtime.call(task.add_done_callback, lambda _: done.set_result(None))
            concurrent.futures.wait([done], CLOSE_SECONDS)

    def _whose(self) -> Identity | None:
        return self._identity or find_identity(self.agent.identity, host=self._composition.host.kind)

    # --- showing ------------------------------------------------------------------------------------------------

    def view(self, **options: Any) -> ChatWidget:
        """Return a new view of this chat: a panel with options of its own.

        Args:
            **options: Those of `ChatWidget`. Most used: `height` (a CSS length or "auto"), `theme` ("auto", "light",
                "dark"), `title`, `placeholder`, `suggestions` (texts to click), `body` (extra fields for hooks: a dict
                or a function that returns one), `allow_attachments`.

        Raises:
            TypeError: There is no such option; the text names the nearest.
            ConfigError: An option can't be so.

        Example:
            panel = chat.view(height="320px", title="The shop", suggestions=["Show the sales in the North"])
            panel.observe(lambda change: print(change.new), "status")
        """
        from .widget import ChatWidget

        return ChatWidget(self, **options)

    def _ipython_display_(self) -> None:
        from .kernel.host import is_text_terminal

        if is_text_terminal():
            print(f"{self!r}: a terminal can't draw the panel; chat.send(text).result() talks to it.")  # noqa: T201
            return
        self.view()._ipython_display_()

    def _display_(self) -> Any:  # what marimo asks for
        return self.view()

    def __repr__(self) -> str:
        return f"Chat {self.id} ({len(self.messages)} messages, {self.status})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a Chat is bound to its kernel and can't be copied or pickled; chat.fork() makes another one, "
            'chat.export("json") a file that agent.load reads'
        )

    # --- inside -------------------------------------------------------------------------------------------------

    def _show_change(self, change: Change) -> None:
        self._engine.publish(Update(kind="change", data=change.to_json()))

    def _publish_change(self, change: Change) -> None:
        self._show_change(change)
        for observer in (*self._observers, *self.agent._observers):
            self._runtime.notify(observer.tell, change)

    def _insert_cell(self, source: str, kind: str, position: str) -> bool:
        """Ask the views, the latest first, to insert a cell."""
        inserters = reversed(self._engine.cell_inserters)
        return any(insert(source, kind, position) for insert in inserters)

    def _answers(self) -> list[UIMessage]:
        """All answers, of all branches; from any thread."""
        return self._runtime.call(lambda: self._engine.tree.all_messages("assistant"))

    @property
    def _notebook(self) -> Notebook:
        assert self._bound_notebook is not None
        return self._bound_notebook
