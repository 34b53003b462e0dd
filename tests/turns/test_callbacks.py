"""The callbacks of policies work inside the chat, as hooks do (spec/turns.md, sections 1, 4 and 8)."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb import Agent, Compaction, Steering, action
from chatnb.errors import ChatBusyError
from chatnb.models import Reply, ScriptedModel, Usage
from chatnb.testing import StrictModel, mock_chat


@action(read_only=True)
async def look(key: str) -> str:
    """Look something up."""
    return key


class TestWaitingInside:
    """Awaiting the same chat's submission raises ChatBusyError wherever user code runs in a turn."""

    @pytest.mark.parametrize("place", ["instructions", "compaction", "steering"])
    async def test_callbacks(self, place: str) -> None:
        """C32: ChatBusyError in instructions, compaction and steering callbacks; the turn goes on where it may."""
        caught: list[Exception] = []

        async def call(event: Any) -> Any:
            if not caught:
                try:
                    await mock.chat.send("inside")
                except ChatBusyError as error:
                    caught.append(error)
            return "text" if place == "instructions" else False

        step = Reply("f", calls=[("look", {"key": "k"}, "c1")], usage=Usage(1, 1), delay=1.0)
        options: dict[str, Any] = {
            "instructions": {"instructions": call},
            "compaction": {"compaction": Compaction(call)},
            "steering": {"steering": Steering(call)},
        }[place]
        agent = Agent(
            StrictModel([step, *[Reply(f"a{n}", usage=Usage(1, 1)) for n in range(5)]]), actions=[look], **options
        )
        async with mock_chat(agent) as mock:
            submission = mock.chat.send("hi")
            await mock.clock.advance(0)
            if place == "steering":
                mock.chat.send("steer")
            for _ in range(4):
                await mock.clock.advance(1.0)
            assert (await submission).status == "completed"
            assert len(caught) == 1
            await mock.done()
            assert mock.chat.messages[-2].text == "inside"


class TestDeferred:
    """`chat.defer` with a function."""

    async def test_a_function_that_gives_an_awaitable(self) -> None:
        """A function is always called; what it gives is awaited, also if it is no `async def`."""
        agent = Agent(ScriptedModel(["one"]))
        ran: list[str] = []

        async def work() -> None:
            ran.append("work")

        agent.on_turn_start(lambda event: event.chat.defer(lambda: work()))
        async with mock_chat(agent) as mock:
            await mock.chat.send("hi")
            assert ran == ["work"]
