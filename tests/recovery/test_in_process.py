"""What recovery does while the kernel lives, and what needs no process to die (spec/recovery.md, sections 5 to 11)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chatnb import Agent, ClientTool, Recovery, action
from chatnb.errors import ConfigError, ModelStreamError, StoreFullError, StoreReadOnlyError
from chatnb.messages import UIMessage
from chatnb.models import Reply, ScriptedModel
from chatnb.store import memory_store
from chatnb.store.sql import SqlStore
from chatnb.testing import mock_chat
from chatnb.testing.clock import settle
from chatnb.turns.limits import fit_chunk, fit_message, size_of


class FailingStore(SqlStore):
    """A store in memory that can be told to refuse writes."""

    failure: Exception | None = None

    @contextmanager
    def write(self, *args: Any, **options: Any) -> Iterator[Any]:
        if self.failure is not None:
            raise self.failure
        with super().write(*args, **options) as tx:
            yield tx


async def flushed(mock: Any) -> None:
    """Let what was said reach the log: its timer is the loop's."""
    await settle()
    await asyncio.sleep(0.07)
    await settle()


async def advance(mock: Any, seconds: float, step: float = 1.0) -> None:
    while seconds > 0:
        await mock.clock.advance(min(step, seconds))
        seconds -= step


def drops(text: str = "so far", **options: Any) -> Reply:
    return Reply(text, fail=ModelStreamError("gone", kind="connection_lost"), **options)


@action
def pay(order: str) -> str:
    """Pay."""
    return f"paid {order}"


class TestPolicy:
    """Limits are positive."""

    @pytest.mark.parametrize(
        "options",
        [
            {"max_attempts": 0},
            {"max_attempts": 1.5},
            {"no_progress_timeout": 0},
            {"max_work": -1},
            {"auto_within": 0},
            {"stall_timeout": -1},
            {"stall_timeout": float("nan")},
        ],
    )
    def test_refused(self, options: dict[str, Any]) -> None:
        """Limits must be positive, `max_attempts` at least 1, else `ConfigError`."""
        with pytest.raises(ConfigError):
            Recovery(**options)


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


class TestRepair:
    """Before every inference each call has a valid input and a result."""

    HISTORY = (
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]},
        {
            "id": "a1",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "tool-pay", "toolCallId": "1", "state": "output-available", "input": "", "output": 1},
                {"type": "tool-pay", "toolCallId": "2", "state": "output-available", "input": '{"a":1}', "output": 1},
                {"type": "tool-pay", "toolCallId": "3", "state": "input-available", "input": {}},
            ],
        },
    )

    async def test_inputs_and_a_dead_call(self) -> None:
        """C26: inputs `""`, `{"a":1}` as text and a dead call: `{}`, the object, an errored result; nothing twice."""
        model = ScriptedModel(["ok", "ok"])
        async with mock_chat(Agent(model, actions=[pay]), messages=self.HISTORY) as mock:
            await mock.chat.continue_last_turn()
            await mock.chat.send("on")
            parts = mock.chat.messages[1].parts
            assert [p.input for p in parts[1:4]] == [{}, {"a": 1}, {}]
            assert parts[3].state == "output-error"
            for request in mock.requests:
                calls = [c for m in request.messages for c in m["content"] if c["type"] == "tool-call"]
                results = [c for m in request.messages for c in m["content"] if c["type"] == "tool-result"]
                assert [c["input"] for c in calls] == [{}, {"a": 1}, {}]
                assert len(results) == 3

    async def test_the_hook(self) -> None:
        """`on_tool_repair` may put another result in place; what it may not give is ignored."""
        agent = Agent(ScriptedModel([drops("", calls=[("pay", {"order": "7"}, "c1")]), "ok"]), actions=[pay])
        seen: list[Any] = []

        @agent.on_tool_repair
        def mend(event: Any) -> Any:
            seen.append((event.part.tool_name, event.ledger))
            return {**event.part.to_wire(), "state": "output-available", "output": "mended"}

        async with mock_chat(agent) as mock:
            sent = mock.chat.send("hi")
            await settle()
            await mock.clock.advance(1)
            await sent
            assert seen == [("pay", "none")]
            assert mock.chat.messages[1].parts[1].output == "mended"


class Retrieving(ScriptedModel):
    """A model whose provider keeps its answers."""

    kept: Any = None

    async def stream(self, request: Any) -> Any:
        request.stash({"id": "r1"})
        async for item in super().stream(request):
            yield item

    def retrieve(self, stash: Any, request: Any) -> Any:
        assert stash == {"id": "r1"}
        if isinstance(self.kept, Exception):
            raise self.kept
        return None if self.kept is None else self._play(self.kept, request)


class TestRetrieve:
    """`continuation="retrieve"`: an answer that the provider has kept is not asked for again."""

    @pytest.mark.parametrize("kill", [True, False])
    async def test_retrieved(self, kill: bool) -> None:
        """C17: no `stream` call, the whole text, settled parts kept."""
        model = Retrieving([Reply("one two", hang=True)], continuation="retrieve")
        async with mock_chat(Agent(model)) as mock:
            mock.chat.send("hi")
            await flushed(mock)
            model.kept = Reply("one two three")
            await mock.restart(kill=kill)
            await mock.chat.stable()
            assert [m.text for m in mock.chat.messages] == ["hi", "one two three"]
            assert len(mock.requests) == 1

    @pytest.mark.parametrize("kept", [None, ValueError("gone")])
    async def test_not_retrieved(self, kept: Any) -> None:
        """C17: retrieval fails: a `user-message` continuation."""
        model = Retrieving([Reply("one two", hang=True), "three"], continuation="retrieve")
        async with mock_chat(Agent(model)) as mock:
            mock.chat.send("hi")
            await flushed(mock)
            model.kept = kept
            await mock.restart(kill=True)
            await mock.chat.stable()
            assert mock.requests[-1].messages[-1]["role"] == "user"
            assert mock.chat.messages[-1].parts[-1].text == "three"


class TestReasoning:
    """Unfinished reasoning is shown but never sent back."""

    async def test_unfinished(self) -> None:
        """Reasoning that was cut off stays visible, ended, and no request holds it."""
        chunks = [{"type": "reasoning-start", "id": "r"}, {"type": "reasoning-delta", "id": "r", "delta": "hmm"}]

        class Thinks(ScriptedModel):
            async def stream(self, request: Any) -> Any:
                if self.requests:
                    async for item in super().stream(request):
                        yield item
                    return
                self.requests.append(request)
                for chunk in chunks:
                    yield chunk
                await asyncio.get_running_loop().create_future()

        async with mock_chat(Agent(Thinks(["", "answer"]))) as mock:
            mock.chat.send("hi")
            await flushed(mock)
            await mock.restart(kill=True)
            await mock.chat.stable()
            parts = mock.chat.messages[-1].parts
            assert [p.type for p in parts] == ["step-start", "reasoning", "step-start", "text"]
            assert parts[1].wire["state"] == "done"
            sent = [c["type"] for m in mock.requests[-1].messages for c in m["content"]]
            assert "reasoning" not in sent


class TestHeldDecisions:
    """A decision that arrived while its message streamed counts once."""

    async def test_laid_over_after_a_crash(self) -> None:
        """W8: the input row alone carries the decision; the scan lays it over, and the call runs once."""
        ran: list[str] = []
        reached = asyncio.Event()

        @action(needs_approval=True)
        def refund(order: str) -> str:
            """Refund."""
            ran.append(order)
            return "refunded"

        @action(parallel_safe=True, read_only=True)
        async def slow(order: str) -> str:
            """Slow."""
            reached.set()
            await asyncio.get_running_loop().create_future()
            return "never"

        model = ScriptedModel([Reply(calls=[("refund", {"order": "7"}), ("slow", {"order": "1"})]), "end"])
        async with mock_chat(Agent(model, actions=[refund, slow])) as mock:
            mock.chat.send("hi")
            await reached.wait()
            await flushed(mock)
            mock.chat.approve()
            await settle()
            await mock.restart(kill=True)
            await mock.chat.stable()
            assert ran == ["7"]
            assert mock.chat.pending == ()
            assert mock.chat.messages[-1].text == "end"
            assert mock.chat._engine.store.load_inputs(mock.chat_id, ("waiting", "taken")) == []


class TestClientTools:
    """A client-side call waits for a person, whatever happens."""

    async def test_parked(self) -> None:
        """A crash while a client-side call waits: parked; its output continues the turn."""
        ask = ClientTool("ask", "Ask.", {"type": "object", "properties": {}})

        async def slow(request: Any) -> Any:
            return [{"type": "tool-input-available", "toolCallId": "c1", "toolName": "ask", "input": {}}]

        model = ScriptedModel([slow, "thanks"])
        async with mock_chat(Agent(model), client_tools=[ask]) as mock:
            await mock.chat.send("hi")
            await mock.restart(kill=True)
            assert [p.kind for p in mock.chat.pending] == ["client-tool"]
            assert (await mock.chat.add_tool_output("c1", "yes")).text == "thanks"


class TestLimits:
    """What is too large is cut for the store, and said so."""

    async def test_a_large_output(self) -> None:
        """C31: 17 MB of "ü" as output: valid, within the limit, listed."""
        ask = ClientTool("ask", "Ask.", {"type": "object", "properties": {}})
        call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "ask", "input": {}}
        async with mock_chat(Agent(ScriptedModel([[call], "ok"])), client_tools=[ask]) as mock:
            await mock.chat.send("hi")
            assert (await mock.chat.add_tool_output("c1", "ü" * 8_500_000)).text == "ok"
            tree = mock.chat._engine.tree
            wire = mock.chat._engine.store.load_messages(mock.chat_id, tree.chain)[tree.head]
            assert size_of(wire) <= 16_000_000
            assert wire["metadata"]["chatnb"]["truncated"][0]["toolCallId"] == "c1"
            assert UIMessage.from_wire(wire).text == "ok"

    async def test_plots(self) -> None:
        """C32: text and two plots of 400 kB: whole; 17 MB of plots and a long text: plots become notes, text whole."""

        def message(count: int) -> UIMessage:
            plots = [
                {
                    "type": "data-output",
                    "id": str(n),
                    "data": {"toolCallId": str(n), "outputs": [{"image/png": "A" * 400_000}]},
                }
                for n in range(count)
            ]
            text = {"type": "text", "text": "word " * 20_000}
            return UIMessage.from_wire({"id": "m", "role": "assistant", "parts": [text, *plots]})

        small = message(2)
        assert fit_message(small) is small
        large = fit_message(message(43))
        assert size_of(large.to_wire()) <= 16_000_000
        assert large.text == "word " * 20_000
        notes = [p for p in large.parts[1:] if "left out" in str(p.data)]
        assert 0 < len(notes) < 6
        assert [t["toolCallId"] for t in large.metadata["chatnb"]["truncated"]] == [p.wire["id"] for p in notes]

    async def test_a_large_chunk(self) -> None:
        """A chunk above 2,000,000 bytes is logged in its truncated form; characters are never split."""
        chunk = {"type": "tool-output-available", "toolCallId": "c", "output": {"a": ["ü" * 3_000_000], "b": 1}}
        cut = fit_chunk(chunk)
        assert size_of(cut) <= 2_000_000
        assert cut["output"]["b"] == 1
        assert "of 3,000,000 characters" in cut["output"]["a"][0]
        assert fit_chunk({"type": "text-delta", "id": "t", "delta": "x"})["delta"] == "x"

    async def test_chunk_logs_go(self) -> None:
        """Chunks of an ended turn go 10 minutes after its end, or at the next open."""
        store = memory_store()
        async with mock_chat(Agent(ScriptedModel(["a", "b"])), store=store) as mock:
            await mock.chat.send("hi")
            turn = store.load_turns(mock.chat_id)[0]
            assert store.load_chunks(turn.id)
            await mock.clock.advance(601)
            assert store.load_chunks(turn.id) == []
            await mock.chat.send("x")
            await mock.restart()
            assert [store.load_chunks(t.id) for t in store.load_turns(mock.chat_id)] == [[], []]


class TestClearing:
    """`clear` ends what was interrupted."""

    async def test_an_offer(self) -> None:
        """`clear()` ends an offered turn; nothing is recovered afterwards."""
        agent = Agent(ScriptedModel([Reply("one", hang=True), "x"]), recovery=Recovery(auto=False))
        async with mock_chat(agent) as mock:
            mock.chat.send("hi")
            await flushed(mock)
            await mock.restart(kill=True)
            await mock.chat.stable()
            assert mock.chat.interruption.offered
            await mock.chat.clear()
            assert (mock.chat.interruption, mock.chat.messages) == (None, ())
            await mock.restart(kill=True)
            assert (mock.chat.interruption, mock.chat.is_recovering) == (None, False)
