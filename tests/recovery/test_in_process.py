"""What recovery does while the kernel lives, and what needs no process to die (spec/recovery.md, sections 5 to 11)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chatnb import Agent, Recovery, action
from chatnb.errors import StoreFullError, StoreReadOnlyError
from chatnb.models import Reply, ScriptedModel
from chatnb.store.sql import SqlStore
from chatnb.testing import mock_chat
from chatnb.testing.clock import settle
from tests.recovery.moments import advance, drops, flushed


class FailingStore(SqlStore):
    """A store in memory that can be told to refuse writes."""

    failure: Exception | None = None

    @contextmanager
    def write(self, *args: Any, **options: Any) -> Iterator[Any]:
        if self.failure is not None:
            raise self.failure
        with super().write(*args, **options) as tx:
            yield tx


class TestWrites:
    """An input that can't be written is not acted on; what could not be saved is shown and saved later."""

    async def test_refused(self) -> None:
        """C1: `send` to a store that refuses writes: `error`, stage `input`; not admitted; nothing else happens."""
        store = FailingStore("sqlite://")
        async with mock_chat(Agent(ScriptedModel(["a"])), store=store) as mock:
            store.failure = StoreReadOnlyError("no")
            sent = mock.chat.send("hi")
            outcome = await sent
            assert (outcome.status, outcome.error.stage, sent.admitted) == ("error", "input", False)
            assert (mock.requests, mock.chat.messages) == ([], ())
            store.failure = None
            assert (await mock.chat.send("hi")).status == "completed"

    async def test_the_unsaved_tail(self) -> None:
        """Disk full mid-turn: `error`, the tail stays shown, marked; saved when a write succeeds, at most 5 s later."""
        store = FailingStore("sqlite://")
        model = ScriptedModel([Reply("one two three four", delay=1.0), "fine"])
        async with mock_chat(Agent(model), store=store) as mock:
            sent = mock.chat.send("hi")
            await advance(mock, 2)
            await flushed(mock)
            store.failure = StoreFullError("full")
            await advance(mock, 3)
            await flushed(mock)
            outcome = await sent
            assert (outcome.status, outcome.error.stage) == ("error", "store")
            assert isinstance(outcome.error.cause, StoreFullError)
            shown = mock.chat.messages[-1].text
            assert shown.startswith("one two")
            assert mock.chat._engine.state().unsaved
            assert (await mock.chat.send("no")).error.stage == "input"
            store.failure = None
            await advance(mock, 6)
            assert not mock.chat._engine.state().unsaved
            await mock.restart(kill=True)
            assert [m.text for m in mock.chat.messages] == ["hi", shown]
            assert mock.chat.interruption is None
            assert (await mock.chat.send("again")).text == "fine"

    async def test_a_call_that_can_not_be_written_down(self) -> None:
        """A call whose W6 failed does not run."""
        store = FailingStore("sqlite://")
        ran: list[str] = []

        @action
        def act(order: str) -> str:
            """Act."""
            ran.append(order)
            return "done"

        async def step(request: Any) -> Any:
            store.failure = StoreFullError("full")
            return Reply(calls=[("act", {"order": "1"})])

        async with mock_chat(Agent(ScriptedModel([step]), actions=[act]), store=store) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.status, outcome.error.stage) == ("error", "store")
            assert ran == []
            store.failure = None


class TestStall:
    """A silent model is left, and its turn taken up in the same process."""

    async def test_recovers(self) -> None:
        """C24: model silent for `stall_timeout`: the same process recovers, cause `stalled`."""
        agent = Agent(ScriptedModel([Reply("one two", hang=True), "three"]), recovery=Recovery(stall_timeout=10))
        causes: list[Any] = []
        agent.on_chat_recovery(lambda event: causes.append((event.cause, event.attempt, event.kind)))
        async with mock_chat(agent) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await mock.clock.advance(10)
            assert mock.chat.is_recovering
            assert not sent.done
            await mock.clock.advance(1)
            outcome = await sent
            assert (outcome.status, outcome.turn, len(mock.chat.messages)) == ("completed", 0, 2)
            assert causes == [("stalled", 1, "continue")]
            assert mock.chat.is_recovering is False
            kinds = [c["type"] async for c in sent]
            assert (kinds.count("start"), kinds.count("finish")) == (1, 1)

    async def test_never_recovers(self) -> None:
        """C24: it never recovers: `error`, never `stopped`; pauses of 2^(n-1) s between attempts."""
        model = ScriptedModel([Reply("one", hang=True)] + [Reply("", hang=True)] * 5)
        agent = Agent(model, recovery=Recovery(stall_timeout=10, max_attempts=2))
        async with mock_chat(agent) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await advance(mock, 10 + 1 + 10 + 2 + 10 + 5)
            outcome = await sent
            assert (outcome.status, outcome.error.code) == ("error", "max_attempts_exceeded")
            assert len(mock.requests) == 3

    async def test_keep_alives_count(self) -> None:
        """A keep-alive of the provider is a sign of life."""

        class Pinging:
            name = "pinging"

            async def stream(self, request: Any) -> Any:
                from chatnb.models import StepEnd

                for _ in range(5):
                    await request.sleep(8)
                    yield None
                yield {"type": "text-start", "id": "t"}
                yield {"type": "text-delta", "id": "t", "delta": "late"}
                yield {"type": "text-end", "id": "t"}
                yield StepEnd("stop")

        async with mock_chat(Agent(Pinging(), recovery=Recovery(stall_timeout=10))) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await advance(mock, 41, 8)
            assert (await sent).text == "late"
            assert len(mock.requests) == 1

    async def test_tools_do_not_count(self) -> None:
        """The time of tools is not the model's."""

        @action
        async def slow(order: str) -> str:
            """Slow."""
            await clock.sleep(60)
            return "done"

        model = ScriptedModel([Reply(calls=[("slow", {"order": "1"})]), "ok"])
        async with mock_chat(Agent(model, actions=[slow], recovery=Recovery(stall_timeout=10))) as mock:
            clock = mock.clock
            sent = mock.chat.send("hi")
            await settle()
            await advance(mock, 61)
            assert (await sent).status == "completed"
            assert len(mock.requests) == 2

    async def test_only_offered(self) -> None:
        """C36: `Recovery(auto=False)`: the submission is `stopped`, code `stalled`; offered; Continue answers."""
        model = ScriptedModel([Reply("", hang=True), "answer"])
        async with mock_chat(Agent(model, recovery=Recovery(stall_timeout=10, auto=False))) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await mock.clock.advance(10)
            outcome = await sent
            assert (outcome.status, outcome.error.stage, outcome.error.code) == ("stopped", "interrupted", "stalled")
            assert mock.chat.interruption.offered
            assert (await mock.chat.continue_last_turn()).text == "answer"
            assert [m.text for m in mock.chat.messages] == ["hi", "answer"]

    async def test_a_stop_during_the_pause(self) -> None:
        """A stop while the next attempt is waited for ends the turn `stopped`; the partial stays."""
        model = ScriptedModel([Reply("one", hang=True), "two"])
        async with mock_chat(Agent(model, recovery=Recovery(stall_timeout=10))) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await mock.clock.advance(10)
            mock.chat.stop()
            assert (await sent).status == "stopped"
            assert [m.text for m in mock.chat.messages] == ["hi", "one"]
            assert mock.chat.is_recovering is False
            assert (await mock.chat.send("x")).text == "two"

    async def test_quiet_time(self) -> None:
        """An attempt without progress for `no_progress_timeout` ends, and the turn is given up."""
        model = ScriptedModel([Reply("one", hang=True)] + [Reply("", hang=True)] * 9)
        policy = Recovery(stall_timeout=20, no_progress_timeout=50)
        async with mock_chat(Agent(model, recovery=policy)) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await advance(mock, 150)
            outcome = await sent
            assert (outcome.status, outcome.error.code) == ("error", "no_progress_timeout")

    async def test_quiet_after_a_beginning(self) -> None:
        """What an attempt has begun to say counts, and the quiet time begins anew there; then it is given up too."""
        silent = Reply("never", delay=1000.0)
        policy = Recovery(stall_timeout=None, no_progress_timeout=12)
        async with mock_chat(Agent(ScriptedModel([silent, silent, "no more"]), recovery=policy)) as mock:
            mock.chat.send("hi")
            await flushed(mock)
            await mock.restart(kill=True)
            await flushed(mock)
            await advance(mock, 14)
            assert (mock.chat.status, mock.chat.is_recovering) == ("streaming", True)
            await advance(mock, 10)
            assert (mock.chat.error.code, mock.chat.is_recovering) == ("no_progress_timeout", False)
            assert len(mock.requests) == 2


class TestConnectionLost:
    """A connection that breaks after the first chunk is taken up; one that never came is an error."""

    async def test_after_the_first_chunk(self) -> None:
        """A broken connection after the first chunk: recovery with cause `connection_lost`."""
        agent = Agent(ScriptedModel([drops(), "and on"]))
        async with mock_chat(agent) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await mock.clock.advance(1)
            assert (await sent).status == "completed"
            assert [n for n, _ in mock.hooks] == []
            assert mock.chat.messages[-1].parts[-1].text == "and on"

    async def test_before_the_first_chunk(self) -> None:
        """Before the first chunk it is an error like any other."""
        async with mock_chat(Agent(ScriptedModel([drops("", fail_after=0)]))) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.status, outcome.error.stage) == ("error", "model")

    async def test_in_flight_inputs_follow(self) -> None:
        """What waited runs after the recovered turn."""
        async with mock_chat(Agent(ScriptedModel([drops(), "on", "a2"]))) as mock:
            first, second = mock.chat.send("hi"), mock.chat.send("x")
            await settle()
            await mock.clock.advance(1)
            await first
            assert (await second).text == "a2"
            assert [m.text for m in mock.chat.messages][2:] == ["x", "a2"]


class TestCallbacks:
    """`should_keep_recovering` and `on_exhausted`."""

    async def test_asked_from_the_second_attempt_on(self) -> None:
        """C21: false: the 1st attempt is not asked, the 2nd ends `recovery_aborted`."""
        asked: list[Any] = []

        def keep(event: Any) -> bool:
            asked.append((event.attempt, event.work, event.kind, event.age >= 0))
            return False

        agent = Agent(ScriptedModel([drops(), drops()]), recovery=Recovery(should_keep_recovering=keep))
        async with mock_chat(agent) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await advance(mock, 5)
            assert (await sent).error.code == "recovery_aborted"
            assert len(asked) == 1

    async def test_raising_counts_as_true(self) -> None:
        """C21: raising: goes on."""

        def keep(event: Any) -> bool:
            raise ValueError("no")

        agent = Agent(ScriptedModel([drops(), drops(), "end"]), recovery=Recovery(should_keep_recovering=keep))
        async with mock_chat(agent) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await advance(mock, 5)
            assert (await sent).status == "completed"

    async def test_on_exhausted_raising(self) -> None:
        """C21: `on_exhausted` raising: the banner is shown all the same."""

        async def exhausted(event: Any) -> None:
            assert (event.reason, event.partial_text) == ("max_attempts_exceeded", "so far")
            raise ValueError("no")

        policy = Recovery(max_attempts=1, on_exhausted=exhausted, stall_timeout=5, terminal_message="Over.")
        agent = Agent(ScriptedModel([drops(), Reply("", hang=True)]), recovery=policy)
        async with mock_chat(agent) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await advance(mock, 10)
            assert (await sent).status == "error"
            assert (mock.chat.error.message, mock.chat.status) == ("Over.", "error")


class TestTerminalRecord:
    """A turn that ended in error is told to views that come later."""

    async def test_kept_until_the_next_success(self) -> None:
        """C25: a turn failed before any chunk: a new view shows it; after the next completed turn it does not."""
        async with mock_chat(Agent(ScriptedModel([ValueError("no"), "fine"]))) as mock:
            await mock.chat.send("hi")
            await mock.restart(kill=True)
            assert (mock.chat.error.stage, mock.chat.error.cause) == ("model", None)
            assert mock.chat._engine.state().error is not None
            await mock.chat.send("again")
            assert mock.chat.error is None
            await mock.restart(kill=True)
            assert mock.chat.error is None

    async def test_clear(self) -> None:
        """`clear()` clears it."""
        async with mock_chat(Agent(ScriptedModel([ValueError("no")]))) as mock:
            await mock.chat.send("hi")
            await mock.chat.clear()
            await mock.restart(kill=True)
            assert mock.chat.error is None


class TestHook:
    """`on_chat_recovery` has 30 s."""

    async def test_overruns(self) -> None:
        """A hook that overruns: the turn is offered, the reason told, the model not called."""
        agent = Agent(ScriptedModel([Reply("one", hang=True), "two"]))

        async with mock_chat(agent) as mock:
            clock = mock.clock

            @agent.on_chat_recovery
            async def hook(event: Any) -> None:
                await clock.sleep(3600)

            mock.chat.send("hi")
            await flushed(mock)
            await mock.restart(kill=True)
            await advance(mock, 31)
            await mock.chat.stable()
            assert mock.chat.interruption.offered
            assert "TimeoutError" in mock.chat.interruption.reason
            assert len(mock.requests) == 1
            assert (await mock.chat.continue_last_turn()).status == "completed"

    async def test_what_it_is_told(self) -> None:
        """The event holds the partial, the history without it, and the turn's body."""
        agent = Agent(ScriptedModel(["a1", Reply("one", hang=True), "two"]))
        seen: list[Any] = []
        agent.on_boot(lambda event: seen.append("boot"))
        agent.on_chat_recovery(seen.append)
        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            mock.chat.send("u2", body={"k": 1})
            await flushed(mock)
            seen.clear()
            await mock.restart(kill=True)
            await mock.chat.stable()
            boot, event = seen
            assert boot == "boot"
            assert [m.text for m in event.messages] == ["u1", "a1", "u2"]
            assert (event.partial_text, event.body, event.trigger) == ("one", {"k": 1}, "submit-message")
            assert event.created_at.tzinfo is not None
            assert event.interrupted_at >= event.created_at
            assert (event.turn_number, event.max_attempts, event.chat_id) == (1, 10, "chat-1")

    async def test_a_chain_that_ends_in_an_answer(self) -> None:
        """`chain` with an assistant leaf: that message is continued."""
        from chatnb import RecoveryDecision

        agent = Agent(ScriptedModel(["a1", Reply("one", hang=True), "more"]))
        agent.on_chat_recovery(lambda event: RecoveryDecision(chain=list(event.messages[:2])))
        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            mock.chat.send("u2")
            await flushed(mock)
            await mock.restart(kill=True)
            await mock.chat.stable()
            assert [[p.text for p in m.parts if p.type == "text"] for m in mock.chat.messages] == [
                ["u1"],
                ["a1", "more"],
            ]
            assert mock.chat.history.branches(mock.chat.messages[1].id) != []
