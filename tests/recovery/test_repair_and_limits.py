"""Repair before each request, retrieved answers, decisions in flight, limits (spec/recovery.md, 6, 8 and 11)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatnb import Agent, ClientTool, Recovery, action
from chatnb.messages import UIMessage
from chatnb.models import Reply, ScriptedModel
from chatnb.store import memory_store
from chatnb.testing import mock_chat
from chatnb.testing.clock import settle
from chatnb.turns.limits import fit_chunk, fit_message, size_of
from tests.recovery.moments import drops, flushed, pay


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
