"""The chunks that a turn sends (spec/messages.md, sections 7 and 10)."""

from __future__ import annotations

import asyncio
from typing import Any

from chatnb import Agent, action
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import StrictModel, mock_chat


@action(read_only=True)
async def nothing() -> None:
    """Return nothing."""


@action(read_only=True)
async def wait() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""


def kinds(mock: Any) -> list[str]:
    return [c["type"] for c in mock.chunks]


class TestFrame:
    """`start`, steps and one end."""

    async def test_a_turn_with_an_action(self) -> None:
        """C25 of messages.md: start, start-step, …, finish-step, start-step, …, finish; no null optional keys."""
        model = StrictModel([Reply("Look.", calls=[("nothing", {}, "c1")]), "Done."])
        async with mock_chat(Agent(model, actions=[nothing])) as mock:
            await mock.chat.send("hi")
            frame = [k for k in kinds(mock) if k in ("start", "start-step", "finish-step", "finish")]
            assert frame == ["start", "start-step", "finish-step", "start-step", "finish-step", "finish"]
            assert mock.chunks[0]["messageId"] == mock.chat.messages[-1].id
            assert mock.chunks[-1] == {"type": "finish", "finishReason": "stop"}
            assert all(v is not None for c in mock.chunks for k, v in c.items() if k not in ("data", "input", "output"))

    async def test_nothing_returned(self) -> None:
        """C26 of messages.md: an action that returns None: tool-output-available with `output: null`."""
        model = StrictModel([Reply(calls=[("nothing", {}, "c1")]), "Done."])
        async with mock_chat(Agent(model, actions=[nothing])) as mock:
            await mock.chat.send("hi")
            chunk = next(c for c in mock.chunks if c["type"] == "tool-output-available")
            assert chunk["output"] is None

    async def test_stop_with_a_call_running(self) -> None:
        """C29 of messages.md: stop in mid-text with a call running: text-end, tool-output-error, finish-step, abort."""
        agent = Agent(ScriptedModel([Reply(calls=[("wait", {}, "c1")])]), actions=[wait])

        @agent.run
        async def run(turn: Any) -> Any:
            async for chunk in turn.stream_text():
                yield chunk
                if chunk["type"] == "tool-input-available":
                    yield {"type": "text-start", "id": "own"}
                    yield {"type": "text-delta", "id": "own", "delta": "meanwhile"}

        async with mock_chat(agent) as mock:
            submission = mock.chat.send("hi")
            await mock.clock.advance(0)
            mock.chat.stop()
            await mock.clock.advance(3.0)
            assert (await submission).status == "stopped"
            ends = [k for k in kinds(mock) if k in ("text-end", "tool-output-error", "finish-step", "abort", "finish")]
            assert sorted(ends[:2]) == ["text-end", "tool-output-error"]
            assert ends[2:] == ["finish-step", "abort"]

    async def test_a_call_that_nobody_ran(self) -> None:
        """Section 7.2: every call that did not finish gets tool-output-error, also at the end of a completed turn."""
        agent = Agent(StrictModel(["Next."]), actions=[nothing])

        @agent.run
        async def run(turn: Any) -> Any:
            if turn.number:
                async for chunk in turn.stream_text():
                    yield chunk
                return
            yield {"type": "tool-input-start", "toolCallId": "c1", "toolName": "nothing"}
            yield {"type": "tool-input-available", "toolCallId": "c2", "toolName": "nothing", "input": {}}

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "completed"
            assert kinds(mock)[-3:] == ["tool-input-error", "tool-output-error", "finish"]
            assert [part.state for part in outcome.message.parts] == ["output-error", "output-error"]
            assert (await mock.chat.send("go on")).text == "Next."

    async def test_steps_of_a_run(self) -> None:
        """Section 7.2: one start-step and one finish-step each, blocks ended before it, whatever a `run` yields."""
        agent = Agent(ScriptedModel([]))

        @agent.run
        async def run(turn: Any) -> Any:
            for step in ("one", "two"):
                yield {"type": "start-step"}
                yield {"type": "text-start", "id": step}
                yield {"type": "text-delta", "id": step, "delta": step}
            yield {"type": "finish-step"}
            yield {"type": "finish-step"}

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.status, outcome.text) == ("completed", "one\n\ntwo")
            step = ["start-step", "text-start", "text-delta", "text-end", "finish-step"]
            assert kinds(mock) == ["start", *step, *step, "finish"]

    async def test_an_error_chunk_of_a_run(self) -> None:
        """A `run` that passes on a stream which failed: the turn fails with its text, and there is one error chunk."""
        agent = Agent(ScriptedModel([]))

        @agent.run
        async def run(turn: Any) -> Any:
            yield {"type": "text-start", "id": "t"}
            yield {"type": "text-delta", "id": "t", "delta": "half"}
            yield {"type": "error", "errorText": "upstream is down"}

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.status, outcome.text) == ("error", "half")
            assert (outcome.error.stage, outcome.error.message) == ("run", "RemoteStreamError: upstream is down")
            assert kinds(mock).count("error") == 1

    async def test_an_unknown_action(self) -> None:
        """An unknown action: tool-input-start and tool-input-error with the same name; the model hears of it."""
        model = StrictModel([Reply(calls=[("wat", {}, "c1")]), "Sorry."])
        async with mock_chat(Agent(model, actions=[nothing])) as mock:
            assert (await mock.chat.send("hi")).text == "Sorry."
            of_call = [c for c in mock.chunks if c.get("toolName") == "wat"]
            assert [c["type"] for c in of_call] == ["tool-input-start", "tool-input-error"]
            assert "nothing" in of_call[-1]["errorText"]

    async def test_an_odd_finish_reason(self) -> None:
        """A finish reason that the protocol does not have becomes "other"."""
        async with mock_chat(Agent(ScriptedModel([Reply("x", finish_reason="tired")]))) as mock:
            assert (await mock.chat.send("hi")).finish_reason == "other"
            assert mock.chunks[-1]["finishReason"] == "other"

    async def test_max_steps(self) -> None:
        """The limit of steps reached: `completed`, finish reason "tool-calls"."""
        model = StrictModel([Reply(calls=[("nothing", {}, "c1")]), Reply(calls=[("nothing", {}, "c2")])])
        async with mock_chat(Agent(model, actions=[nothing], max_steps=2)) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.status, outcome.finish_reason, outcome.steps) == ("completed", "tool-calls", 2)
