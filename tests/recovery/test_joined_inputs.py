"""Inputs that belong together, and the turn they wait behind, after a death or a stall: nobody is answered who would
not have been, nobody waits for ever (spec/turns.md, section 2; spec/recovery.md, sections 4 and 7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatnb import Agent, Recovery, Steering
from chatnb.models import Reply
from chatnb.testing import StrictModel, mock_chat
from chatnb.turns import chat_actions, engine_recovery

LONG = Reply("a long answer", delay=1.0)
HANGING = Reply("half", hang=True)


def shown(mock: Any) -> list[str]:
    return [m.text for m in mock.chat.messages]


async def stall(mock: Any) -> None:
    for _ in range(14):
        await mock.clock.advance(10.0)


class TestPolicies:
    """What a policy has made of waiting sends holds after a crash."""

    async def test_latest(self) -> None:
        """Superseded messages enter the history just before the one that is answered, unanswered."""
        agent = Agent(StrictModel([LONG, "rest", "to c"]), concurrency="latest")
        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            former = [mock.chat.send("b1"), mock.chat.send("b2")]
            mock.chat.send("c")
            assert [s.result().status for s in former] == ["skipped", "skipped"]
            await mock.restart(kill=True)
            await mock.done()
            assert shown(mock) == ["a", "rest", "b1", "b2", "c", "to c"]
            assert await mock.chat.stable()
            assert mock.store.load_inputs("chat-1", ("waiting", "held", "taken")) == []

    async def test_merge(self) -> None:
        """Merged sends stay one message."""
        agent = Agent(StrictModel([LONG, "rest", "to both"]), concurrency="merge")
        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            for text in ("x", "y", "z"):
                mock.chat.send(text)
            await mock.restart(kill=True)
            await mock.done()
            assert shown(mock)[2:] == ["x\n\ny\n\nz", "to both"]
            assert mock.store.load_inputs("chat-1", ("waiting", "held", "taken")) == []

    async def test_the_last_was_taken_back(self) -> None:
        """A message that was superseded by one that was taken back enters the history, unanswered."""
        agent = Agent(StrictModel([LONG, "rest"]), concurrency="latest")
        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            mock.chat.send("b")
            mock.chat.send("c").stop()
            await mock.clock.advance(0)
            await mock.restart(kill=True)
            await mock.done()
            assert shown(mock)[2:] == ["b"]
            assert mock.chat.messages[-1].role == "user"

    @pytest.mark.parametrize(("policy", "wanted"), [("latest", ["b", "c", "to c"]), ("merge", ["b\n\nc", "to c"])])
    async def test_death_before_the_chain_is_written(self, policy: Any, wanted: list[str]) -> None:
        """The process dies in `on_validate_messages` of the one that is answered: the others are still before it."""
        agent = Agent(StrictModel(["to a", "to c"]), concurrency=policy)
        calls: list[int] = []

        @agent.on_validate_messages
        async def hang(event: Any) -> None:
            calls.append(1)
            if len(calls) == 2:
                await asyncio.Event().wait()

        async with mock_chat(agent) as mock:
            agent.model.steps = (LONG, "to c")
            mock.chat.send("a")
            await mock.clock.advance(0)
            mock.chat.send("b")
            mock.chat.send("c")
            await mock.clock.advance(5.0)
            assert len(calls) == 2
            await mock.restart(kill=True)
            await mock.done()
            assert shown(mock)[2:] == wanted
            assert mock.store.load_inputs("chat-1", ("waiting", "held", "taken")) == []


class TestOffers:
    """What waits behind an offered turn."""

    async def test_passed_over_in_the_same_process(self) -> None:
        """A new message passes the offer over: held messages are history, and who waits for them hears `skipped`."""
        agent = Agent(StrictModel([HANGING, "to c"]), recovery=Recovery(auto=False))
        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            held, undo = mock.chat.send("b"), mock.chat.undo()
            await stall(mock)
            assert mock.chat.interruption.inputs == 2
            assert (await mock.chat.send("c")).status == "completed"
            assert shown(mock) == ["a", "half", "b", "c", "to c"]
            assert ((await held).status, (await undo).status) == ("skipped", "skipped")

    async def test_death_at_the_new_turn(self) -> None:
        """A new message passes the offer over and the process dies before its chain is written: held ones are before
        it, unanswered."""
        agent = Agent(StrictModel([HANGING, "to c"]), recovery=Recovery(auto=False))
        dying = False

        @agent.on_validate_messages
        async def hang(event: Any) -> None:
            if dying:
                await asyncio.Event().wait()

        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            mock.chat.send("b")
            await mock.restart(kill=True)
            dying = True
            mock.chat.send("c")
            await mock.clock.advance(0)
            await mock.restart(kill=True)
            assert mock.chat.interruption.offered
            dying = False
            assert (await mock.chat.continue_last_turn()).status == "completed"
            assert shown(mock) == ["a", "b", "c", "to c"]
            assert mock.store.load_inputs("chat-1", ("waiting", "held", "taken")) == []

    async def test_death_between_the_offer_and_the_new_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The offer is ended and the new turn has no row yet when the process dies: the same."""
        agent = Agent(StrictModel([HANGING, "to c"]), recovery=Recovery(auto=False))
        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            mock.chat.send("b")
            await mock.restart(kill=True)
            pass_over = engine_recovery.EngineRecovery.pass_over_offer

            async def die(engine: Any, input_: Any) -> Any:
                await pass_over(engine, input_)
                engine.die()
                raise asyncio.CancelledError

            monkeypatch.setattr(engine_recovery.EngineRecovery, "pass_over_offer", die)
            mock.chat.send("c")
            await mock.clock.advance(0)
            monkeypatch.undo()
            await mock.restart(kill=True)
            await mock.done()
            assert shown(mock) == ["a", "b", "c", "to c"]
            assert mock.store.load_inputs("chat-1", ("waiting", "held", "taken")) == []

    @pytest.mark.parametrize(
        ("accept", "wanted"), [(True, ["a", "one", "b", "two", "c"]), (False, ["a", "b", "one", "c"])]
    )
    async def test_order_of_held_inputs(self, accept: bool, wanted: list[str]) -> None:
        """What was held runs before what was sent right after Continue or Discard: it came before that."""
        agent = Agent(StrictModel([HANGING, "one", "two", "three"]), recovery=Recovery(auto=False))
        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            mock.chat.send("b")
            await mock.restart(kill=True)
            if accept:
                mock.chat.continue_last_turn()
            else:
                mock.chat.discard()
            await mock.chat.send("c")
            assert shown(mock)[:5] == [*wanted, "two"][:5]

    async def test_cleared_away(self) -> None:
        """`clear` ends an offered turn: its `on_turn_complete` is called now, not at the next opening."""
        agent = Agent(StrictModel([HANGING, "to b"]), recovery=Recovery(auto=False), concurrency="drop")
        ended: list[tuple[int, str]] = []
        agent.on_turn_complete(lambda event: ended.append((event.turn_number, event.status)))
        async with mock_chat(agent) as mock:
            mock.chat.send("a")
            await mock.clock.advance(1.0)
            await mock.restart(kill=True)
            cleared, following = mock.chat.clear(), mock.chat.send("b")
            assert ((await cleared).status, (await following).status) == ("applied", "completed")
            assert ended == [(0, "stopped"), (1, "completed")]
            assert shown(mock) == ["b", "to b"]


class TestSteering:
    """Messages that no boundary took, and a turn that is interrupted."""

    @pytest.mark.parametrize("auto", [True, False])
    async def test_a_stall(self, auto: bool) -> None:
        """The turn goes on first: they wait behind it, or are held behind the offer."""
        agent = Agent(
            StrictModel([HANGING, "rest", "to b"]), steering=Steering(lambda batch: True), recovery=Recovery(auto=auto)
        )
        async with mock_chat(agent) as mock:
            first = mock.chat.send("a")
            await mock.clock.advance(1.0)
            second = mock.chat.send("b")
            await stall(mock)
            if not auto:
                assert (shown(mock), mock.chat.interruption.inputs) == (["a", "half"], 1)
                await mock.chat.continue_last_turn()
            assert (await second).status == "completed"
            assert shown(mock) == ["a", "half\n\nrest", "b", "to b"]
            assert first.result().status == ("completed" if auto else "stopped")


class TestChatActions:
    """A chat action that answers, and what waits behind it."""

    async def test_a_stall(self) -> None:
        """The turn of an edit is broken off and goes on: the edit's submission waits for it, and the chat is ready."""
        async with mock_chat(Agent(StrictModel(["to a", HANGING, "rest"]))) as mock:
            await mock.chat.send("a")
            edited = mock.chat.edit(mock.chat.messages[0].id, "a2")
            await stall(mock)
            assert edited.done
            assert [c["type"] async for c in edited][-1] == "finish"
            assert (await edited).status == "completed"
            assert (shown(mock), mock.chat.status) == (["a2", "half\n\nrest"], "ready")

    async def test_death_between_the_edit_and_its_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The edit stands and its turn runs first, before the messages that waited behind the chat action."""
        agent = Agent(StrictModel(["to a", "to the edit", "to b"]))
        async with mock_chat(agent) as mock:
            await mock.chat.send("a")

            def die(point: str) -> None:
                if point == "edit.after":
                    mock.chat.send("b")
                    mock.chat._engine.die()
                    raise asyncio.CancelledError

            monkeypatch.setattr(chat_actions, "kill_point", die)
            mock.chat.edit(mock.chat.messages[0].id, "a2")
            await mock.clock.advance(0)
            monkeypatch.undo()
            await mock.restart(kill=True)
            await mock.done()
            assert shown(mock) == ["a2", "to the edit", "b", "to b"]
