"""Chats on the runtime's own thread: isolation and admission from other threads (spec/turns.md, 2, 8 and 9)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chatnb import Agent
from chatnb.errors import ChatClosedError
from chatnb.models import Reply, ScriptedModel
from chatnb.store import memory_store


class TestIsolation:
    """Queue, context, hooks' worker and counters belong to one chat."""

    def test_a_slow_hook(self) -> None:
        """C39: chat A blocks in a sync hook; B finishes first, with its own injected context and number."""
        free = threading.Event()
        agent = Agent(ScriptedModel(["one", "two"]), store=memory_store(), runtime="thread")
        entered = threading.Event()

        @agent.on_turn_start
        def block(event: Any) -> None:
            if event.chat_id == "a":
                entered.set()
                assert free.wait(10)

        a, b = agent.chat("a"), agent.chat("b")
        try:
            b.inject("for b alone")
            first = a.send("to a")
            assert entered.wait(10)
            second = b.send("to b").result(10)
            assert (second.status, second.turn) == ("completed", 0)
            assert not first.done
            free.set()
            assert first.result(10).status == "completed"
            requests = [str(r.messages) for r in agent.model.requests]
            assert ["for b alone" in r for r in requests] == [True, False]
        finally:
            free.set()
            a.close()
            b.close()


class TestAdmission:
    """A send that is admitted counts at once."""

    def test_a_slow_store(self) -> None:
        """C23: two sends in the same tick while the store is slow: the second counts as overlapping."""
        store = memory_store()
        slow = SlowStore(store)
        agent = Agent(ScriptedModel(["one", "two", "three"]), store=slow, runtime="thread", concurrency="latest")
        chat = agent.chat("slow")
        try:
            slow.wait = True
            submissions = [chat.send(text) for text in ("first", "second", "third")]
            slow.free.set()
            outcomes = [s.result(10) for s in submissions]
            assert [o.status for o in outcomes] == ["completed", "skipped", "completed"]
            assert [m.text for m in chat.messages] == ["first", "one", "second", "third", "two"]
        finally:
            slow.free.set()
            chat.close()


class SlowStore:
    """A store whose writes wait until they are let go."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.wait = False
        self.free = threading.Event()
        self.release_chat = store.release_chat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def write(self, *args: Any, **options: Any) -> Iterator[Any]:
        if self.wait:
            assert self.free.wait(10)
        with self._store.write(*args, **options) as tx:
            yield tx


class TestThread:
    """The same rules on the runtime's own thread."""

    async def test_sync_hooks(self) -> None:
        """Sync hooks run on the chat's worker; their edits, parts, injections and deferred work count as ever."""
        agent = Agent(ScriptedModel(["a1", "a2"]), store=memory_store(), runtime="thread")
        seen: list[str] = []

        @agent.on_turn_start
        def start(event: Any) -> None:
            seen.append(threading.current_thread().name)
            event.write({"type": "data-note", "data": 1})
            event.chat.inject("context")
            if event.turn_number == 1:
                event.chat.history.slice(-1)
            event.chat.defer(lambda: seen.append("deferred"))

        @agent.on_before_turn_complete
        def before(event: Any) -> None:
            wire = event.response_message.to_wire() | {"metadata": {"k": 1}}
            event.chat.history.replace(wire["id"], wire)

        chat = agent.chat("worker")
        try:
            assert (await chat.send("u1")).status == "completed"
            submission = chat.send("u2")
            kinds = [chunk["type"] async for chunk in submission]
            assert (await submission).status == "completed"
            assert (kinds[0], kinds[-1]) == ("start", "finish")
            assert [m.text for m in chat.messages] == ["u2", "a2"]
            assert chat.messages[-1].metadata == {"k": 1}
            assert "hooks" in seen[0]
            assert "deferred" in seen
            assert "context" in str(agent.model.requests[0].messages)
            assert await chat.stable(5)
        finally:
            chat.close()

    async def test_clear(self) -> None:
        """C24 on a thread: the running turn is stopped, what waits is skipped, what comes after runs."""
        slow = Reply("one two three four", delay=0.02, hang=True)
        agent = Agent(ScriptedModel([slow, "b"]), store=memory_store(), runtime="thread", concurrency="drop")
        chat = agent.chat("cleared")
        try:
            running, saved = chat.send("u1"), chat.save_messages([])
            async for chunk in running:
                if chunk["type"] == "text-delta":
                    break
            cleared, after = chat.clear(), chat.send("after")
            outcomes = [await s for s in (running, saved, cleared, after)]
            assert [o.status for o in outcomes] == ["stopped", "skipped", "applied", "completed"]
            assert [m.text for m in chat.messages] == ["after", "b"]
        finally:
            chat.close()


class TestClosed:
    """A chat that was closed says so, whatever is asked of it."""

    def test_inputs_and_edits(self) -> None:
        """Section 1: ChatClosedError, nothing written; reading goes on; opened again it is as it was."""
        agent = Agent(ScriptedModel(["one"]), store=memory_store(), runtime="thread")
        chat = agent.chat("gone")
        chat.send("hi").result(10)
        chat.close()
        for ask in (
            lambda: chat.send("more"),
            lambda: chat.history.set([]),
            lambda: chat.history.switch(chat.messages[0].id),
            lambda: chat.set_messages([]),
            lambda: chat.inject("context"),
            lambda: chat.approve("x"),
        ):
            with pytest.raises(ChatClosedError, match="open it again"):
                ask()
        assert [m.text for m in chat.messages] == ["hi", "one"]
        again = agent.chat("gone")
        assert [m.text for m in again.messages] == ["hi", "one"]
        again.close()

    async def test_a_slow_store(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`close()` waits 2 s at most, and raises nothing then: what is being said is written all the same."""
        monkeypatch.setattr("chatnb.chat.CLOSE_SECONDS", 0.2)
        slow, released = SlowStore(memory_store()), threading.Event()

        def release(*args: Any) -> None:
            slow._store.release_chat(*args)
            released.set()

        slow.release_chat = release
        agent = Agent(ScriptedModel([Reply("so far", hang=True), " (on)"]), store=slow, runtime="thread")
        chat = agent.chat("slow")
        sent = chat.send("hi")
        async for chunk in sent:
            if chunk["type"] == "text-delta":
                break
        slow.wait = True
        chat.close()
        slow.free.set()
        outcome = await sent
        assert (outcome.status, outcome.error and outcome.error.stage) == ("stopped", "closed")
        assert released.wait(10)
        again = agent.chat("slow")
        assert again.messages[1].text.startswith("so far")
        again.close()


class TestInterruptedOpening:
    """Ctrl-C while a chat is being opened ends the wait, and leaves no lease that nobody could give back."""

    @pytest.mark.parametrize("way", ["chat", "fork"])
    def test_it_can_be_opened_again(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        agent = Agent(ScriptedModel(["hello"], loop=True), store=memory_store(), runtime="thread")
        first = agent.chat("first")
        first.send("one").result(10)
        store = first._engine.store
        inner = store.open_chat

        def open_chat(*args: Any, **options: Any) -> Any:
            opened = inner(*args, **options)
            signal.raise_signal(signal.SIGINT)
            return opened

        former = signal.signal(signal.SIGINT, signal.default_int_handler)
        monkeypatch.setattr(store, "open_chat", open_chat)
        try:
            with pytest.raises(KeyboardInterrupt):
                agent.chat("late") if way == "chat" else first.fork(id="late")
        finally:
            signal.signal(signal.SIGINT, former)
            monkeypatch.undo()
        chat = agent.chat("late")
        try:
            assert len(chat.messages) == (0 if way == "chat" else 2)
            assert chat.send("two").result(10).text == "hello"
        finally:
            chat.close()
            first.close()
