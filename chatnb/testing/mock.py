"""`mock_chat`: a chat for tests, with everything that happens in it laid open (spec/turns.md, section 8)."""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .._composition import Composition
from .._ids import Kind
from ..agent import Agent
from ..chat import Chat
from ..errors import ConfigError
from ..models import ModelRequest, OfflineModel, StepItem, resolve_model
from ..runtime import InlineRuntime
from ..store import Owner, Store, memory_store
from ..turns import ClientTool, Update
from ..turns.wire import WireChunk
from .clock import Clock, settle

__all__ = ["MockChat", "RecordedSpan", "mock_chat"]


@dataclass
class RecordedSpan:
    """One finished or running span.

    Attributes:
        parent: The name of the span around it, or None.
        error: What made it fail, or None.
    """

    name: str
    parent: str | None
    attributes: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def set(self, name: str, value: str | float | bool) -> None:
        """Add an attribute."""
        self.attributes[name] = value

    def fail(self, message: str) -> None:
        """Mark it failed."""
        self.error = self.error or message


class RecordingTracer:
    """Keeps spans in a list."""

    def __init__(self) -> None:
        import contextvars

        self.spans: list[RecordedSpan] = []
        self._open: contextvars.ContextVar[str | None] = contextvars.ContextVar("chatnb_test_span", default=None)

    @contextmanager
    def span(self, name: str, /, **attributes: str | float | bool) -> Iterator[RecordedSpan]:
        """Open a span around a block."""
        made = RecordedSpan(name, self._open.get(), dict(attributes))
        self.spans.append(made)
        token = self._open.set(name)
        try:
            yield made
        finally:
            self._open.reset(token)


class CountingIds:
    """Ids that count: `msg-1`, `call-1`.

    Args:
        start: What was counted before.
    """

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self._counts: dict[str, int] = {}

    def __call__(self, kind: Kind) -> str:
        self._counts[kind] = self._counts.get(kind, self._start) + 1
        return f"{kind}-{self._counts[kind]}"


_counting: weakref.WeakKeyDictionary[Store, CountingIds] = weakref.WeakKeyDictionary()


def ids_for(store: Store) -> CountingIds:
    """Return the ids of a store: all chats of a store count on, and begin above what a former process has left."""
    if store not in _counting:
        _counting[store] = CountingIds(sum(1000 * store.next_arrival(chat.id) for chat in store.list_chats()))
    return _counting[store]


class WatchedModel:
    """A model that keeps what it was asked; all else is the real one's."""

    def __init__(self, model: Any, requests: list[ModelRequest]) -> None:
        self._model = model
        self._requests = requests

    @property
    def name(self) -> str:
        """The real model's name."""
        return str(self._model.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Answer one step."""
        self._requests.append(request)
        stream: AsyncIterator[StepItem] = self._model.stream(request)
        return stream


@dataclass(eq=False)
class MockChat:
    """A chat under test.

    Attributes:
        chat: The chat; another object after `restart`.
        hooks: `(name, event)` of every hook call, in order.
        chunks: Every chunk that was sent, in order.
        requests: Every model request.
        spans: Every span.
        clock: Stands still until `clock.advance(seconds)`.
        ids: Counts `msg-1`, `call-1` and so on.
    """

    agent: Agent
    chat_id: str
    store: Store
    clock: Clock
    ids: CountingIds
    client_tools: Sequence[ClientTool] = ()
    hooks: list[tuple[str, Any]] = field(default_factory=list)
    chunks: list[WireChunk] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    tracer: RecordingTracer = field(default_factory=RecordingTracer)
    restarts: int = 0
    chat: Chat = field(init=False)
    runtime: Any = field(init=False)
    _last_sign: datetime | None = field(init=False, default=None)

    @property
    def spans(self) -> list[RecordedSpan]:
        """Every span, in order of opening."""
        return self.tracer.spans

    def _open(self) -> None:
        self.runtime = InlineRuntime(asyncio.get_running_loop(), clock=self.clock)
        composition = Composition(self.runtime, self.runtime.host, self.clock, self.ids, self.tracer, beat=False)
        composition.last_sign = self._last_sign
        owner = Owner(
            host="mock", pid=1000 + self.restarts, start=str(self.restarts), kernel_id=f"kernel-{self.restarts}"
        )
        self.chat = composition.open(self.agent, self.store, self.chat_id, owner)
        self.chat._bind(self.agent, None)
        self.chat._default_client_tools = tuple(self.client_tools)
        self.chat._engine.hook_listeners.append(lambda name, event: self.hooks.append((name, event)))
        self.chat._engine.request_listeners.append(self._note_request)
        self.chat._engine.subscribe(self._note)

    def _note_request(self, model: Any, request: ModelRequest) -> None:
        if not isinstance(model, WatchedModel):  # one that `stream_text(model=...)` was given
            self.requests.append(request)

    def _note(self, update: Update) -> None:
        self.updates.append(update)
        if update.kind == "chunk" and update.chunk is not None:
            self.chunks.append(update.chunk)

    async def done(self) -> None:
        """Wait until the queue is empty, hooks have returned and deferred work is over."""
        engine = self.chat._engine
        while True:
            await settle()
            if engine.queue.is_idle and not engine.background and not engine.steering:
                return
            pending = [*engine.background]
            if pending:
                await asyncio.wait(pending)
            else:
                await engine.changed()

    async def restart(self, kill: bool = False, after: float = 0.0) -> Chat:
        """Open the chat again on the same store, as a new kernel would.

        Args:
            kill: The old process dies where it stands: nothing is flushed or released.
            after: Seconds between its end and the opening.
        """
        composition = self.chat._composition
        if kill:
            for chat in composition.chats.values():
                chat._engine.die()
                self.store.forget_owner(chat.id)  # type: ignore[attr-defined]
        else:
            await composition.close(composition.forget(self.chat))
        await settle()
        self._last_sign = self.clock.now()
        await self.clock.advance(after)
        self.restarts += 1
        self._open()
        await settle()
        return self.chat


@asynccontextmanager
async def mock_chat(
    agent: Agent,
    id: str = "chat-1",
    *,
    model: Any = None,
    store: Store | None = None,
    messages: Iterable[Any] = (),
    client_tools: Sequence[ClientTool] = (),
) -> AsyncIterator[MockChat]:
    """Open a chat of an agent for a test: no network, no thread of its own, no wall clock.

    The same script gives the same ids, chunks and times on each run.

    Args:
        agent: The agent; it is not changed.
        id: The chat's id.
        model: Answers instead of the agent's model.
        store: A store to use; default: a new one in memory.
        messages: A history to begin with.
        client_tools: Client-side tools that every input brings.

    Yields:
        The chat with all that happens in it.

    Example:
        async with mock_chat(agent, model=ScriptedModel(["Hello."])) as mock:
            outcome = await mock.chat.send("Hi")
        assert outcome.text == "Hello."
    """
    tested = copy.copy(agent)
    requests: list[ModelRequest] = []
    if not isinstance(agent, Agent):
        raise ConfigError(f"mock_chat(agent) takes an Agent, not {type(agent).__name__}")
    if isinstance(model, list | tuple):
        raise ConfigError("mock_chat(model=...) takes a model; make one of the list: ScriptedModel([...])")
    answering = resolve_model(model if model is not None else agent.model)
    if isinstance(answering, OfflineModel):
        answering = OfflineModel(rhythm=False, seed=answering.seed)  # its pauses would wait for a clock that stands
    tested.model = WatchedModel(answering, requests)
    store = memory_store() if store is None else store
    mock = MockChat(tested, id, store, Clock(), ids_for(store), client_tools, requests=requests)
    mock._open()
    given = list(messages)
    if given:
        mock.chat.set_messages(given)
    try:
        yield mock
    finally:
        for chat in mock.chat._composition.chats.values():
            chat._engine.die()
        await settle()
