"""Chat actions: undo, redo, edit, regenerate, the app's own (spec/turns.md, sections 5 and 9)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from chatnb import Agent
from chatnb.models import ScriptedModel
from chatnb.testing import mock_chat


class Retry(BaseModel):
    """The app's own action."""

    type: Literal["retry"]
    tone: str = "plain"


class Trim(BaseModel):
    """Another."""

    type: Literal["trim"]
    count: int


Actions = Annotated[Retry | Trim, Field(discriminator="type")]


def texts(mock: Any) -> list[str]:
    return [m.text for m in mock.chat.messages]


def answers(*steps: Any, **options: Any) -> Agent:
    return Agent(ScriptedModel(list(steps) or [f"a{n}" for n in range(1, 9)]), **options)


class TestUndo:
    """Undo and redo move the head; nothing is destroyed."""

    async def test_costs_no_turn(self) -> None:
        """C3: one exchange, undo: `applied`, no turn, no turn hook, empty chain; the next send has number 1."""
        agent = answers()
        seen: list[str] = []
        agent.on_turn_start(lambda e: seen.append("start"))
        agent.on_turn_complete(lambda e: seen.append("complete"))
        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            seen.clear()
            outcome = await mock.chat.undo()
            assert (outcome.status, outcome.turn) == ("applied", None)
            assert seen == []
            assert texts(mock) == []
            assert (await mock.chat.send("u2")).turn == 1

    async def test_survives_a_restart(self) -> None:
        """C6: after a restart the model does not see the undone exchange; `redo()` before would bring it back."""
        async with mock_chat(answers()) as mock:
            await mock.chat.send("u1")
            await mock.chat.undo()
            await mock.restart(kill=True)
            await mock.chat.redo()
            assert texts(mock) == ["u1", "a1"]
            await mock.chat.undo()
            await mock.restart(kill=True)
            await mock.chat.send("u2")
            assert len(mock.requests[-1].messages) == 1
            assert texts(mock) == ["u2", "a2"]

    async def test_nothing_to_undo(self) -> None:
        """Nothing to undo or redo is `applied`, nothing written."""
        async with mock_chat(answers()) as mock:
            assert (await mock.chat.undo()).status == "applied"
            assert (await mock.chat.redo()).status == "applied"

    async def test_redo_takes_back_clear_and_rollback(self) -> None:
        """Redo takes back the latest of undo, rollback and clear; another move of the head empties the stack."""
        async with mock_chat(answers()) as mock:
            await mock.chat.send("u1")
            await mock.chat.send("u2")
            all_of_it = texts(mock)
            await mock.chat.rollback(mock.chat.messages[1].id)
            await mock.chat.clear()
            assert texts(mock) == []
            await mock.chat.redo()
            assert texts(mock) == ["u1", "a1"]
            await mock.chat.redo()
            assert texts(mock) == all_of_it
            await mock.chat.undo()
            await mock.chat.send("u3")
            await mock.chat.redo()
            assert texts(mock) == ["u1", "a1", "u3", "a3"]

    async def test_unknown_ids(self) -> None:
        """C15: `chat.rollback("x")`: `error` with UnknownMessageError, nothing changed; slice of one message: empty."""
        async with mock_chat(answers()) as mock:
            await mock.chat.send("u1")
            outcome = await mock.chat.rollback("x")
            assert outcome.status == "error"
            assert type(outcome.error.cause).__name__ == "UnknownMessageError"
            assert texts(mock) == ["u1", "a1"]
            mock.chat.history.remove("nope")
            mock.chat.history.rollback_to("nope")
            mock.chat.history.rollback_to(mock.chat.messages[0].id)
            mock.chat.history.slice(0, -2)
            assert texts(mock) == []


class TestBranches:
    """Edit and regenerate add branches."""

    async def test_edit(self) -> None:
        """C16: edit(u1): chain [u1', a1'], two branches, switch(u1) shows all four old messages again."""
        async with mock_chat(answers()) as mock:
            await mock.chat.send("u1")
            await mock.chat.send("u2")
            old = texts(mock)
            first = mock.chat.messages[0].id
            outcome = await mock.chat.edit(first, "better")
            assert outcome.status == "completed"
            assert texts(mock) == ["better", "a3"]
            assert mock.chat.messages[0].id != first
            branches = mock.chat.history.branches(mock.chat.messages[0].id)
            assert [(b.index, b.active) for b in branches] == [(0, False), (1, True)]
            await mock.chat.switch(first)
            assert texts(mock) == old

    async def test_three_regenerates(self) -> None:
        """C17: four versions in the order made, the last active; the same after a restart with a clock gone back."""
        async with mock_chat(answers()) as mock:
            await mock.chat.send("u1")
            for _ in range(3):
                await mock.chat.regenerate()
            for _ in range(2):
                branches = mock.chat.history.branches(mock.chat.messages[-1].id)
                assert [b.message.text for b in branches] == ["a1", "a2", "a3", "a4"]
                assert [b.active for b in branches] == [False, False, False, True]
                mock.clock.advance(-1000)
                await mock.restart()

    async def test_regenerate_a_failed_turn(self) -> None:
        """C41: a turn that failed without a part: regenerate answers its message; an empty chain: InputError."""
        agent = answers("a0", RuntimeError("down"), "a1")
        async with mock_chat(agent) as mock:
            empty = await mock.chat.regenerate()
            assert empty.status == "error"
            assert type(empty.error.cause).__name__ == "InputError"
            await mock.chat.send("u0")
            assert (await mock.chat.send("u1")).status == "error"
            outcome = await mock.chat.regenerate()
            assert outcome.status == "completed"
            assert texts(mock) == ["u0", "a0", "u1", "a1"]

    async def test_regenerate_as_an_action(self) -> None:
        """C40: the chat action builds the same branch; the span `chat action` holds `chat turn N`."""
        async with mock_chat(answers()) as mock:
            await mock.chat.send("u1")
            mock.spans.clear()
            outcome = await mock.chat.act({"type": "regenerate"})
            assert outcome.status == "completed"
            assert [b.message.text for b in mock.chat.history.branches(mock.chat.messages[-1].id)] == ["a1", "a2"]
            turn = next(s for s in mock.spans if s.name == "chat turn 1")
            assert turn.parent == "chat action"
            mock.spans.clear()
            await mock.chat.undo()
            assert [s.name for s in mock.spans] == ["chat action"]


class TestOwn:
    """The app's own chat actions."""

    async def test_answers(self) -> None:
        """C4: slicing off the last and returning `event.turn()`: [u1, a2], one completion, number 1."""
        agent = answers(chat_actions=Actions)
        done: list[Any] = []
        agent.on_turn_complete(done.append)

        @agent.on_action
        def retry(event: Any) -> Any:
            assert event.trigger == "action"
            assert event.turn_number == 1
            assert event.action.tone == "formal"
            event.chat.history.slice(0, -1)
            return event.turn()

        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            done.clear()
            outcome = await mock.chat.act(Retry(type="retry", tone="formal"))
            assert outcome.status == "completed"
            assert outcome.turn == 1
            assert texts(mock) == ["u1", "a2"]
            assert [(e.trigger, [m.text for m in e.new_ui_messages]) for e in done] == [("action-turn", ["a2"])]

    @pytest.mark.parametrize("value", ["text", {"id": "m"}, True, "foreign"])
    async def test_wrong_results(self, value: Any) -> None:
        """C5: any other value: `error`, no model call, history and number unchanged."""
        agent = answers(chat_actions=Actions)
        kept: list[Any] = []

        @agent.on_action
        def act(event: Any) -> Any:
            kept.append(event.turn())
            event.chat.history.set([])
            return kept[0] if value == "foreign" else value

        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            if value == "foreign":
                await mock.chat.act({"type": "retry"})
                await mock.chat.redo()
                mock.chat.history.set([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "x"}]}])
            before = mock.chat.messages
            calls = len(mock.requests)
            outcome = await mock.chat.act({"type": "retry"})
            assert outcome.status == "error"
            assert outcome.error.stage == "action"
            assert mock.chat.messages == before
            assert len(mock.requests) == calls

    async def test_bad_payload(self) -> None:
        """C9: a wrong field: `error` naming it; hooks silent; the next send works."""
        agent = answers(chat_actions=Actions)
        seen: list[Any] = []
        agent.on_action(seen.append)
        agent.on_turn_start(seen.append)
        async with mock_chat(agent) as mock:
            outcome = await mock.chat.act({"type": "trim", "count": "many"})
            assert outcome.status == "error"
            assert "count" in outcome.error.message
            assert "many" not in outcome.error.message
            assert seen == []
            unknown = await mock.chat.act({"type": "wat"})
            assert unknown.status == "error"
            assert "retry" in unknown.error.message
            assert (await mock.chat.send("u1")).status == "completed"

    async def test_models(self) -> None:
        """A model of the schema reaches the handler as it is; another class of that type is validated."""

        class Other(BaseModel):
            type: Literal["trim"] = "trim"
            amount: int = 1

        seen: list[Any] = []
        agent = answers(chat_actions=Actions)
        agent.on_action(lambda event: seen.append(event.action))
        async with mock_chat(agent) as mock:
            given = Trim(type="trim", count=2)
            assert (await mock.chat.act(given)).status == "applied"
            assert seen == [given]
            assert seen[0] is given
            outcome = await mock.chat.act(Other())
            assert outcome.status == "error"
            assert outcome.error is not None
            assert outcome.error.stage == "action"
            assert "count" in outcome.error.message
            assert len(seen) == 1

    async def test_nothing_to_answer(self) -> None:
        """C10: `event.turn()` on an empty chain or one that ends in an answer: `error`; the edit stays; no turn."""
        agent = answers(chat_actions=Actions)

        @agent.on_action
        def act(event: Any) -> Any:
            event.chat.history.set([])
            return event.turn()

        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            outcome = await mock.chat.act({"type": "retry"})
            assert outcome.status == "error"
            assert outcome.error.stage == "action"
            assert texts(mock) == []
            assert (await mock.chat.send("u2")).turn == 1

    async def test_failing_turn_keeps_the_edit(self) -> None:
        """A chat action whose turn fails keeps its edit, and the turn has one completion."""
        agent = answers("a1", RuntimeError("down"), chat_actions=Actions)
        done: list[Any] = []
        agent.on_turn_complete(done.append)

        @agent.on_action
        def act(event: Any) -> Any:
            event.chat.history.slice(0, -1)
            return event.turn()

        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            outcome = await mock.chat.act({"type": "retry"})
            assert outcome.status == "error"
            assert outcome.turn == 1
            assert texts(mock) == ["u1"]
            assert len(done) == 2


class TestHydrated:
    """With `hydrate_messages` the app owns the history."""

    def agent(self, stored: list[Any], **options: Any) -> Agent:
        agent = answers(**options)

        @agent.hydrate_messages
        def hydrate(event: Any) -> list[Any]:
            stored.extend(m for m in event.incoming_messages)
            return list(stored)

        @agent.on_turn_complete
        def keep(event: Any) -> None:
            stored.append(event.response_message)

        return agent

    async def test_an_edit_is_not_stored(self) -> None:
        """C7: an undo that is not mirrored: the next send has the messages back; the store holds no edit."""
        stored: list[Any] = []
        async with mock_chat(self.agent(stored)) as mock:
            await mock.chat.send("u1")
            await mock.chat.undo()
            assert texts(mock) == []
            await mock.restart(kill=True)
            assert texts(mock) == ["u1", "a1"]
            await mock.chat.undo()
            await mock.chat.send("u2")
            assert texts(mock) == ["u1", "a1", "u2", "a2"]

    async def test_edits_in_the_hook(self) -> None:
        """Edits in `hydrate_messages` apply on top of the returned list."""
        stored: list[Any] = []
        agent = answers()

        @agent.hydrate_messages
        def hydrate(event: Any) -> list[Any]:
            stored.extend(event.incoming_messages)
            event.chat.history.slice(-1)
            return [{"id": "old", "role": "user", "parts": [{"type": "text", "text": "old"}]}, *stored]

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("u1")
            assert outcome.status == "completed"
            assert texts(mock) == ["u1", "a1"]

    async def test_an_action_that_answers(self) -> None:
        """C8: hydrate is called once, trigger "action", incoming empty; `run` sees exactly the edited chain."""
        stored: list[Any] = []
        agent = self.agent(stored, chat_actions=Actions)
        events: list[Any] = []

        @agent.on_action
        def act(event: Any) -> Any:
            event.chat.history.slice(0, -1)
            return event.turn()

        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            mock.hooks.clear()
            outcome = await mock.chat.act({"type": "retry"})
            assert outcome.status == "completed", outcome.error
            events = [e for name, e in mock.hooks if name == "hydrate_messages"]
            assert [(e.trigger, e.incoming_messages) for e in events] == [("action", ())]
            assert [m["role"] for m in mock.requests[-1].messages] == ["user"]
            assert texts(mock) == ["u1", "a2"]
