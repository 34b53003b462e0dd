"""Stop and errors: what stays, what is settled, what the next request looks like (spec/turns.md, sections 7 and 9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chatnb import Agent, StepEnd, action
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import StrictModel, mock_chat


@action(read_only=True)
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@action(read_only=True)
async def wait(key: str) -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return key


def parts(mock: Any) -> list[Any]:
    return list(mock.chat.messages[-1].parts)


class TestStop:
    """`stop()` acts on the running turn only."""

    async def test_in_text(self) -> None:
        """C28: text kept and done, `stopped`, both completion hooks with `stopped=True`; the next send works."""
        agent = Agent(StrictModel([Reply("one two three", delay=1.0), "fine"]))
        done: list[tuple[str, bool]] = []
        agent.on_before_turn_complete(lambda e: done.append(("before", e.stopped)))
        agent.on_turn_complete(lambda e: done.append(("after", e.stopped)))
        async with mock_chat(agent) as mock:
            submission = mock.chat.send("hi")
            await mock.clock.advance(0)
            await mock.clock.advance(1.0)
            mock.chat.stop()
            outcome = await submission
            assert outcome.status == "stopped"
            assert outcome.finish_reason is None
            assert done == [("before", True), ("after", True)]
            assert [(p.type, getattr(p, "state", None)) for p in parts(mock)] == [
                ("step-start", None),
                ("text", "done"),
            ]
            assert [c["type"] for c in mock.chunks][-3:] == ["text-end", "finish-step", "abort"]
            assert (await mock.chat.send("again")).text == "fine"

    async def test_when_idle(self) -> None:
        """C28: stop when idle leaves the next turn unharmed."""
        async with mock_chat(Agent(ScriptedModel(["one"]))) as mock:
            mock.chat.stop()
            assert (await mock.chat.send("hi")).status == "completed"

    async def test_two_calls(self) -> None:
        """C29: the finished call keeps its output, the other "may have had effects"; the next request has both."""
        model = StrictModel([Reply(calls=[("look", {"key": "a"}, "c1"), ("wait", {"key": "b"}, "c2")]), "fine"])
        async with mock_chat(Agent(model, actions=[look, wait])) as mock:
            submission = mock.chat.send("hi")
            await mock.clock.advance(0)
            mock.chat.stop()
            await mock.clock.advance(2.5)
            outcome = await submission
            assert outcome.status == "stopped"
            by_id = {p.tool_call_id: p for p in parts(mock) if p.type.startswith("tool-")}
            assert by_id["c1"].state == "output-available"
            assert by_id["c2"].state == "output-error"
            assert "may have had effects" in by_id["c2"].error_text
            assert (await mock.chat.send("again")).status == "completed"
            assert str(mock.requests[-1].messages).count("tool-result") == 2

    async def test_nothing_produced(self) -> None:
        """Nothing produced: no assistant node; the user message stays."""
        async with mock_chat(Agent(ScriptedModel([Reply(hang=True)]))) as mock:
            submission = mock.chat.send("hi")
            await mock.clock.advance(0)
            mock.chat.stop()
            await mock.clock.advance(2.5)
            outcome = await submission
            assert outcome.status == "stopped"
            assert outcome.message is None
            assert [m.text for m in mock.chat.messages] == ["hi"]

    async def test_a_run_that_ignores_it(self) -> None:
        """Code that ignores the stop is abandoned after 2 s; later chunks are discarded."""
        agent = Agent(ScriptedModel(["next"]))

        @agent.run
        async def run(turn: Any) -> Any:
            if turn.number:
                return turn.stream_text()
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        async with mock_chat(agent) as mock:
            free = asyncio.Event()
            submission = mock.chat.send("hi")
            await mock.clock.advance(0)
            mock.chat.stop()
            await mock.clock.advance(1.0)
            assert not submission.done
            await mock.clock.advance(1.5)
            assert (await submission).status == "stopped"
            free.set()
            await mock.clock.advance(0)
            assert (await mock.chat.send("again")).status == "completed"
            assert "too late" not in str(mock.chunks)

    async def test_a_call_that_ignores_it(self) -> None:
        """A call that ignores the stop is left behind after 2 s; its late result is discarded."""

        @action(read_only=True)
        async def stubborn() -> str:
            """Ignore everything."""
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        async with mock_chat(
            Agent(StrictModel([Reply(calls=[("stubborn", {}, "c1")]), "next"]), actions=[stubborn])
        ) as mock:
            free = asyncio.Event()
            submission = mock.chat.send("hi")
            await mock.clock.advance(0)
            submission.stop()
            await mock.clock.advance(2.0)
            assert submission.done
            assert (await submission).status == "stopped"
            free.set()
            await mock.clock.advance(1.0)
            assert (await mock.chat.send("again")).status == "completed"
            assert "too late" not in str(mock.chunks)

    def script(self) -> list[Any]:
        calls = [("look", {"key": "a"}, "c1"), ("look", {"key": "b"}, "c2")]
        return [
            Reply("Let me look at it.", reasoning="Hm, two of them.", calls=calls, delay=1.0),
            Reply("All done.", delay=1.0),
        ]

    async def test_at_every_chunk(self) -> None:
        """Stop at every chunk of a turn with thinking, text, two calls, two steps: the next request is accepted."""
        async with mock_chat(Agent(ScriptedModel(self.script()), actions=[look])) as mock:
            submission = mock.chat.send("go")
            for _ in range(60):
                await mock.clock.advance(1.0)
            assert (await submission).status == "completed"
            total = len(mock.chunks)
        assert total > 20
        for count in range(1, total):
            model = StrictModel([*self.script(), "after", "after", "after"])
            async with mock_chat(Agent(model, actions=[look])) as mock:
                submission = mock.chat.send("go")
                stopped = False
                for _ in range(60):
                    if not stopped and len(mock.chunks) >= count:
                        stopped = True
                        mock.chat.stop()
                    if submission.done:
                        break
                    await mock.clock.advance(1.0)
                outcome = await submission
                assert outcome.status in ("stopped", "completed")
                model.skip_to_end() if hasattr(model, "skip_to_end") else None
                follow = mock.chat.send("next")
                for _ in range(80):
                    if follow.done:
                        break
                    await mock.clock.advance(1.0)
                assert (await follow).status == "completed", (count, (await follow).error)
                kinds = [c["type"] for c in mock.chunks]
                assert sum(k in ("finish", "abort", "error") for k in kinds) == 2


class TestErrors:
    """A failed turn is an outcome."""

    async def test_run_raises(self) -> None:
        """C30: run raises after text: `error`, stage `run`; partial on the chain and in the hook; one completion."""
        agent = Agent(ScriptedModel(["x"]))
        done: list[Any] = []
        agent.on_turn_complete(done.append)

        @agent.run
        async def run(turn: Any) -> Any:
            yield {"type": "text-start", "id": "t"}
            yield {"type": "text-delta", "id": "t", "delta": "partial"}
            raise ValueError("broken")

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "error"
            assert outcome.error.stage == "run"
            assert outcome.error.message == "ValueError: broken"
            assert mock.chat.messages[-1].text == "partial"
            assert done[0].response_message.text == "partial"
            assert [c["type"] for c in mock.chunks].count("error") == 1
            assert len(done) == 1

    async def test_a_model_that_fails_in_reasoning(self) -> None:
        """C30 of messages.md: reasoning-end before error, no finish, no open part."""
        agent = Agent(ScriptedModel([Reply(reasoning="deep thought", fail=RuntimeError("down"), fail_after=2)]))
        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.error.stage == "model"
            kinds = [c["type"] for c in mock.chunks]
            assert kinds.index("reasoning-end") < kinds.index("error")
            assert "finish" not in kinds
            assert all(getattr(p, "state", None) in (None, "done") for p in parts(mock))

    @pytest.mark.parametrize("kind", ["custom", "reset-step"])
    async def test_a_chunk_that_is_never_sent(self, kind: str) -> None:
        """C24 of messages.md: outcome `error` naming the type; the chunk is in no log and no view."""
        chunk = {"type": kind, "kind": "x.y"} if kind == "custom" else {"type": kind}
        async with mock_chat(Agent(ScriptedModel([[chunk]]))) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "error"
            assert kind in outcome.error.message
            assert kind not in [c["type"] for c in mock.chunks]

    async def test_run_results(self) -> None:
        """C37: a data part first in the message, a transient one only streamed; a dict: `error`, stage `run`."""
        agent = Agent(ScriptedModel(["model text"]))

        @agent.run
        async def run(turn: Any) -> Any:
            yield {"type": "data-note", "data": 1}
            yield {"type": "data-ping", "data": 2, "transient": True}
            async for chunk in turn.stream_text():
                yield chunk

        async with mock_chat(agent) as mock:
            await mock.chat.send("hi")
            assert [p.type for p in parts(mock)] == ["data-note", "step-start", "text"]
            assert "data-ping" in [c["type"] for c in mock.chunks]

        other = Agent(ScriptedModel(["x"]))
        other.run(lambda turn: {"text": "no"})
        async with mock_chat(other) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.error.stage == "run"

    async def test_text_from_run(self) -> None:
        """`run` may return text."""
        agent = Agent(ScriptedModel([]))
        agent.run(lambda turn: f"you said {turn.ui_messages[-1].text}")
        async with mock_chat(agent) as mock:
            assert (await mock.chat.send("hi")).text == "you said hi"

    async def test_transformed_chunks(self) -> None:
        """What `run` yields lands in the response, changed or not; calls run once."""
        ran: list[str] = []

        @action(read_only=True)
        async def note(key: str) -> str:
            """Note."""
            ran.append(key)
            return key

        agent = Agent(ScriptedModel([Reply("shout", calls=[("note", {"key": "k"})]), "bye"]), actions=[note])

        @agent.run
        async def run(turn: Any) -> Any:
            async for chunk in turn.stream_text():
                if chunk["type"] == "text-delta":
                    chunk = {**chunk, "delta": chunk["delta"].upper()}
                yield chunk

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.text == "SHOUT\n\nBYE"
            assert ran == ["k"]


class Silent:
    """A model that opens a block and says nothing in it; then it waits, or ends."""

    name = "silent"

    def __init__(self, kind: str, *, waits: bool = False, **extra: Any) -> None:
        self.kind, self.waits, self.extra = kind, waits, extra

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        yield {"type": f"{self.kind}-start", "id": "b"}
        if self.waits:
            await asyncio.Event().wait()
        yield {"type": f"{self.kind}-end", "id": "b", **self.extra}
        yield StepEnd("stop")


class TestNothingSaid:
    """A block that nothing was said in is no content: no node, and `message` is None."""

    @pytest.mark.parametrize("kind", ["text", "reasoning"])
    async def test_a_blank_reply(self, kind: str) -> None:
        """The turn is completed; the next request holds no empty message."""
        async with mock_chat(Agent(Silent(kind))) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.status, outcome.message) == ("completed", None)
            await mock.chat.send("again")
            assert [m.text for m in mock.chat.messages] == ["hi", "again"]
            assert [m["role"] for m in mock.requests[-1].messages] == ["user", "user"]

    @pytest.mark.parametrize("kind", ["text", "reasoning"])
    async def test_a_stop(self, kind: str) -> None:
        """Stopped before the first word: nothing was produced, the user message stays."""
        async with mock_chat(Agent(Silent(kind, waits=True))) as mock:
            sent = mock.chat.send("hi")
            await mock.clock.advance(0)
            mock.chat.stop()
            outcome = await sent
            assert (outcome.status, outcome.message) == ("stopped", None)
            assert [m.role for m in mock.chat.messages] == ["user"]

    async def test_a_signature_alone(self) -> None:
        """Reasoning of which only the signature is told is something."""
        signed = {"providerMetadata": {"anthropic": {"redactedData": "x"}}}
        async with mock_chat(Agent(Silent("reasoning", **signed))) as mock:
            assert (await mock.chat.send("hi")).message is not None
