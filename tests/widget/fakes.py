"""Simulated time, a fake chat and a comm that delays, drops, doubles and reorders."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

from pydantic import ValidationError

from chatnb.actions import Catalog
from chatnb.errors import PendingError
from chatnb.messages import Fold, UIMessage
from chatnb.turns.records import ChatState, Outcome, Pending, Update, Waiting
from chatnb.widget.panel import Panel
from chatnb.widget.protocol import FRAME
from chatnb.widget.settings import Settings

from .page import Page


class SimTime:
    """An event loop's timers, in simulated time."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._heap: list[tuple[float, int, Any]] = []
        self._order = count()

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> Any:
        handle = SimpleNamespace(work=lambda: callback(*args), cancelled=False)
        handle.cancel = lambda: setattr(handle, "cancelled", True)
        heapq.heappush(self._heap, (max(when, self._now), next(self._order), handle))
        return handle

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> Any:
        return self.call_at(self._now + seconds, callback, *args)

    def call_soon(self, callback: Callable[..., object], *args: object) -> Any:
        return self.call_at(self._now, callback, *args)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self._now + seconds
        while self._heap and self._heap[0][0] <= end:
            when, _, handle = heapq.heappop(self._heap)
            self._now = when
            if not handle.cancelled:
                handle.work()
        self._now = end


class FakeSubmission:
    """A submission whose outcome the test decides."""

    def __init__(self) -> None:
        self.admitted = True
        self.stopped = False
        self._outcome: Outcome | None = None
        self._waiters: list[Callable[[], None]] = []
        self._future = SimpleNamespace(result=lambda: self._outcome)
        self._input = None

    @property
    def done(self) -> bool:
        return self._outcome is not None

    def settle(self, outcome: Outcome) -> None:
        if self._outcome is None:
            self._outcome = outcome
            for waiter in self._waiters:
                waiter()

    def stop(self) -> None:
        self.stopped = True

    def __await__(self) -> Any:
        while self._outcome is None:
            yield self
        return self._outcome


class FakeRuntime:
    is_alive = True

    def __init__(self, time: SimTime) -> None:
        self.loop = time
        self.notified: list[Any] = []
        self.calls = SimpleNamespace(run=self._run)

    def post(self, function: Callable[..., object], *args: object) -> None:
        self.loop.call_soon(function, *args)

    def call(self, function: Callable[..., Any], *args: object) -> Any:
        return function(*args)

    def notify(self, function: Callable[..., object], *args: object) -> None:
        function(*args)

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> None:
        def step() -> None:
            try:
                waited = work.send(None)
            except StopIteration:
                return
            waited._waiters.append(lambda: self.loop.call_soon(step))

        self.loop.call_soon(step)

    async def _run(self, call: Any) -> Any:
        result = call.function(**call.kwargs)
        if hasattr(result, "__await__"):
            result = await result
        return SimpleNamespace(error=None, value=result)


class FakeTree:
    """What a widget asks of the message tree."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    def __len__(self) -> int:
        return len(self._engine.now.messages)

    def on_chain(self, message_id: str) -> str | None:
        return next((m.id for m in self._engine.now.messages if m.id == message_id), None)

    find = on_chain


class FakeStore:
    """What a widget asks of a store."""

    in_memory = True


class FakeEngine:
    """The engine's seam, over a state that the test sets."""

    def __init__(self) -> None:
        self.now = ChatState()
        self.listeners: list[Callable[[Update], None]] = []
        self.tool_phase: frozenset[str] = frozenset()
        self.definition = SimpleNamespace(name="agent", catalog=Catalog(), model=SimpleNamespace(name="scripted"))
        self.tree = FakeTree(self)
        self.store = FakeStore()
        self.unsaved: UIMessage | None = None
        self.cell_inserters: list[Callable[..., bool]] = []

    def subscribe(self, listener: Callable[[Update], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def state(self) -> ChatState:
        return self.now

    def read_chain(self) -> tuple[UIMessage, ...]:
        return self.now.messages

    def set_state(self, **fields: Any) -> None:
        self.tool_phase = fields["tool_phase"]
        self.update("state", tool_phase=self.tool_phase)

    def cancel_input(self, input_id: str) -> Any:
        return None

    def update(self, kind: Any, **fields: Any) -> None:
        """Change the state and tell it."""
        self.now = replace(self.now, **fields)
        self.publish(Update(kind=kind))

    def publish(self, update: Update) -> None:
        for listener in tuple(self.listeners):
            listener(update)


class FakeChat:
    """A chat that answers with what the test streams, and records what was asked of it."""

    id = "chat-1"

    def __init__(self, time: SimTime) -> None:
        self._runtime = FakeRuntime(time)
        self._engine = FakeEngine()
        self.agent = SimpleNamespace()
        self.done: list[tuple[Any, ...]] = []
        self.usage = None
        self._numbers = count(1)
        self._fold: Fold | None = None
        self._chain: tuple[UIMessage, ...] = ()
        self.submissions: list[FakeSubmission] = []
        self.raises: Exception | None = None
        self.approved: list[str] = []

    @property
    def messages(self) -> tuple[UIMessage, ...]:
        return self._engine.now.messages

    # --- what the widget calls ----------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def record(*args: Any, _origin: str = "chat", **options: Any) -> Any:
            if self.raises is not None:
                raise self.raises
            self.done.append((name, *args))
            submission = FakeSubmission()
            self.submissions.append(submission)
            hook = getattr(self, f"_do_{name}", None)
            if hook is not None:
                hook(submission, _origin, *args)
            return submission

        return record

    def _do_send(self, submission: FakeSubmission, origin: str, parts: Any) -> None:
        text = parts if isinstance(parts, str) else "".join(p["text"] for p in parts if p["type"] == "text")
        self.say(text)
        self.begin(own=origin)
        for word in ("one ", "two ", "three"):
            self.delta(word)
        self.end()
        submission.settle(Outcome(status="completed", turn=1))

    def _do_undo(self, submission: FakeSubmission, origin: str) -> None:
        self.set_chain(self._chain[:-2])
        submission.settle(Outcome(status="applied"))

    def _do_approve(self, submission: FakeSubmission, origin: str, id: str) -> None:
        if not any(item.id == id for item in self._engine.now.pending):
            raise PendingError("not pending")
        self.approved.append(id)
        left = tuple(item for item in self._engine.now.pending if item.id != id)
        self._engine.update("pending", pending=left)
        submission.settle(Outcome(status="applied"))

    # --- what the test does -------------------------------------------------------------------------------------

    def set_chain(self, chain: tuple[UIMessage, ...], kind: Any = "history", **fields: Any) -> None:
        self._chain = chain
        self._engine.update(kind, messages=chain, **fields)

    def say(self, text: str) -> None:
        """A user's message enters the history."""
        wire = {"id": f"u{next(self._numbers)}", "role": "user", "parts": [{"type": "text", "text": text}]}
        self.set_chain((*self._chain, UIMessage.from_wire(wire)))

    def begin(self, own: str = "chat") -> None:
        """A turn begins to stream."""
        self._fold = Fold(id=f"a{next(self._numbers)}")
        self._engine.update("state", status="submitted", own=own)
        self.feed({"type": "start-step"})
        self.feed({"type": "text-start", "id": "t"})

    def feed(self, chunk: dict[str, Any]) -> None:
        """Fold one chunk and tell it."""
        assert self._fold is not None
        change = self._fold.feed(chunk)
        fold = self._fold
        now = self._engine.now
        if now.status != "streaming":
            self._engine.now = replace(now, status="streaming", streaming_id=fold.message_id)
        self._sync = lambda: (*self._chain, fold.message)
        self._engine.state = self._streaming_state  # type: ignore[method-assign]
        self._engine.publish(Update(kind="chunk", message_id=fold.message_id, change=change, chunk=chunk))  # type: ignore[arg-type]

    def _streaming_state(self) -> ChatState:
        if self._fold is None:
            return self._engine.now
        return replace(self._engine.now, messages=(*self._chain, self._fold.message))

    def delta(self, text: str) -> None:
        self.feed({"type": "text-delta", "id": "t", "delta": text})

    def end(self) -> None:
        """The turn ends."""
        assert self._fold is not None
        self.feed({"type": "text-end", "id": "t"})
        message, self._fold = self._fold.message, None
        self._chain = (*self._chain, message)
        now = self._engine.now
        self._engine.now = replace(now, messages=self._chain, status="ready", streaming_id=None, own=None)
        self._engine.publish(Update(kind="history"))
        self._engine.publish(Update(kind="settled"))

    def ask(self, id: str, **args: Any) -> Pending:
        """Something waits for a person."""
        item = Pending(
            kind="approval",
            id=id,
            tool_call_id=f"call-{id}",
            action="refund",
            title="Refund",
            args=args,
            hash="h" * 64,
            message_id="a1",
        )
        self._engine.update("pending", pending=(*self._engine.now.pending, item))
        return item

    def wait_in_line(self, *texts: str) -> None:
        lines = tuple(Waiting(id=f"i{n}", kind="send", text=text, arrival=n) for n, text in enumerate(texts))
        self._engine.update("queue", queue=lines)


class InvalidFrame(BaseException):
    """A frame is not of the protocol. No `Exception`: what a comm raises is a lost frame to the channel."""


class Rig:
    """A panel with pages, over a comm that may misbehave.

    Args:
        fate: Decides what becomes of a message (`"to-page"` or `"to-kernel"`): a list of delays in seconds, one for
            each copy; empty when it is lost.
    """

    def __init__(self, fate: Callable[[str], list[float]] | None = None, **settings: Any) -> None:
        self.time = SimTime()
        self.chat = FakeChat(self.time)
        self.sent: list[tuple[float, dict[str, Any], list[bytes]]] = []
        self.fate = fate or (lambda way: [0.001])
        self.pages: list[Page] = []
        self.live = {"height": "560px", "theme": "auto", "placeholder": None, "title": None, "suggestions": ()}
        self.told: list[tuple[str, Any, Any]] = []
        self.settled = 0
        self.panel = Panel(
            self.chat,
            "widget-1",
            Settings(**settings),
            lambda: self.live,
            self._to_page,
            lambda name, old, new: self.told.append((name, old, new)),
            self._count_settled,
        )

    def _count_settled(self) -> None:
        self.settled += 1

    def _to_page(self, frame: dict[str, Any], buffers: Any) -> None:
        try:
            FRAME.validate_python(frame)
        except ValidationError as error:
            raise InvalidFrame(str(error)) from error
        text = json.dumps(frame)
        self.sent.append((self.time.time(), frame, list(buffers)))
        for delay in self.fate("to-page"):
            for page in self.pages:
                self.time.call_later(delay, page.receive, json.loads(text), list(buffers))

    def _to_kernel(self, command: dict[str, Any], buffers: list[bytes]) -> None:
        for delay in self.fate("to-kernel"):
            self.time.call_later(delay, self.panel.desk.receive, json.loads(json.dumps(command)), buffers)

    def page(self, id: str = "view-1", *, wait: bool = True) -> Page:
        """Open a view."""
        page = Page(id, self.time, self._to_kernel)
        self.pages.append(page)
        page.open()
        if wait:
            self.time.run(0.1)
        return page

    def frames(self, type: str) -> list[dict[str, Any]]:
        """The frames of one type that were sent."""
        return [frame for _, frame, _ in self.sent if frame["type"] == type]

    def kernel_view(self, count: int | None = None) -> list[dict[str, Any]]:
        """The history in the view's form; the newest `count`."""
        messages = self.chat._engine.state().messages
        shown = messages if count is None else messages[len(messages) - count :]
        return json.loads(json.dumps([self.panel._form.message(message) for message in shown]))  # type: ignore[no-any-return]
