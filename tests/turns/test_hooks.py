"""Hooks: which fire, in what order, what they see (spec/turns.md, sections 3 and 9)."""

from __future__ import annotations

from typing import Any

from chatnb import Agent
from chatnb.errors import ChatBusyError
from chatnb.models import ScriptedModel
from chatnb.testing import mock_chat

ORDER = [
    "on_boot",
    "on_validate_messages",
    "hydrate_messages",
    "on_chat_start",
    "on_turn_start",
    "prepare_messages",
    "run",
    "on_before_turn_complete",
    "on_turn_complete",
]


def agent_with_hooks(*steps: Any, without: tuple[str, ...] = (), **options: Any) -> Agent:
    """An agent with every hook of a message turn; hydrate returns the chain with the incoming message."""
    agent = Agent(ScriptedModel(list(steps) or ["one", "two", "three", "four"]), **options)

    def hydrate(event: Any) -> list[Any]:
        return [*event.previous_messages, *event.incoming_messages]

    def run(turn: Any) -> Any:
        return turn.stream_text()

    for name in ORDER:
        if name not in without:
            function = {"hydrate_messages": hydrate, "run": run}.get(name, lambda event: None)
            getattr(agent, name)(function)
    return agent


def names(mock: Any) -> list[str]:
    return [name for name, _ in mock.hooks]


class TestOrder:
    """The order of a message turn."""

    async def test_a_fresh_chat(self) -> None:
        """C1 of turns.md: on a fresh chat every hook fires once, in the order of section 3."""
        async with mock_chat(agent_with_hooks()) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "completed"
            assert names(mock) == ORDER

    async def test_the_second_send(self) -> None:
        """C2: no boot, no chat start; number 1; the model sees three messages; after a restart the third has 2."""
        agent = agent_with_hooks(without=("hydrate_messages",))
        async with mock_chat(agent) as mock:
            await mock.chat.send("one")
            mock.hooks.clear()
            outcome = await mock.chat.send("two")
            assert "on_boot" not in names(mock)
            assert "on_chat_start" not in names(mock)
            assert outcome.turn == 1
            assert len(mock.requests[-1].messages) == 3
            await mock.restart()
            mock.hooks.clear()
            outcome = await mock.chat.send("three")
            assert outcome.turn == 2
            assert names(mock)[0] == "on_boot"
            assert "on_chat_start" not in names(mock)


class TestChatStart:
    """`on_chat_start` fires exactly once in a chat's life."""

    async def test_after_a_refused_first_turn(self) -> None:
        """C11: refused first, it fires in the second turn, with number 1; the refused message is a branch."""
        agent = Agent(ScriptedModel(["fine"]))
        seen: list[int] = []

        @agent.on_validate_messages
        def validate(event: Any) -> None:
            if event.messages[0].text == "bad":
                raise ValueError("no")

        @agent.on_chat_start
        def start(event: Any) -> None:
            seen.append(event.turn_number)

        async with mock_chat(agent) as mock:
            refused = await mock.chat.send("bad")
            assert refused.status == "error"
            assert refused.error is not None
            assert refused.error.stage == "on_validate_messages"
            assert mock.chat.messages == ()
            assert mock.requests == []
            outcome = await mock.chat.send("good")
            assert outcome.status == "completed"
            assert seen == [1]
            texts = [b.message.text for b in mock.chat.history.branches(mock.chat.messages[0].id)]
            assert texts == ["bad", "good"]

    async def test_an_action_that_answers_first(self) -> None:
        """C12: `event.turn()` as the first input, after `inject`: chat start once, before turn start, number 0."""
        from typing import Literal

        from pydantic import BaseModel

        class Begin(BaseModel):
            type: Literal["begin"]

        agent = Agent(ScriptedModel(["hello"]), chat_actions=Begin)
        order: list[tuple[str, int]] = []

        @agent.on_action
        def begin(event: Any) -> Any:
            event.chat.history.set([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "start"}]}])
            return event.turn()

        agent.on_chat_start(lambda event: order.append(("chat", event.turn_number)))
        agent.on_turn_start(lambda event: order.append(("turn", event.turn_number)))
        async with mock_chat(agent) as mock:
            mock.chat.inject("be brief")
            outcome = await mock.chat.act({"type": "begin"})
            assert outcome.status == "completed"
            assert order == [("chat", 0), ("turn", 0)]
            assert "be brief" in str(mock.requests[0].messages)


class TestCheckpoints:
    """Edits of a hook compose and apply when it returns."""

    async def test_edits_compose(self) -> None:
        """C13: each step shows in `all()`; the event's list does not change; the next hook sees the result."""
        agent = Agent(ScriptedModel(["a1", "a2", "a3"]))
        seen: dict[str, Any] = {}

        @agent.on_validate_messages
        def edit(event: Any) -> None:
            if event.turn_number < 2:
                return
            history = event.chat.history
            ids = [m.id for m in history.all()]
            before = event.messages
            history.remove(ids[0])
            seen["after remove"] = len(history.all())
            history.replace(ids[1], {"id": "new", "role": "assistant", "parts": [{"type": "text", "text": "x"}]})
            seen["replaced"] = history.all()[0].id
            history.slice(0, 2)
            seen["sliced"] = len(history.all())
            seen["event"] = event.messages is before

        @agent.on_turn_start
        def look(event: Any) -> None:
            seen["next"] = [m.id for m in event.ui_messages]

        async with mock_chat(agent) as mock:
            await mock.chat.send("one")
            await mock.chat.send("two")
            outcome = await mock.chat.send("three")
            assert outcome.status == "completed", outcome.error
            assert seen["after remove"] == 3
            assert seen["replaced"] == "new"
            assert seen["sliced"] == 2
            assert seen["event"]
            assert seen["next"][0] == "new"
            assert len(seen["next"]) == 3

    async def test_validate_rolls_back(self) -> None:
        """C14: a rollback in `on_validate_messages` alone: the model call sees the shortened chain."""
        agent = Agent(ScriptedModel(["a1", "a2"]))

        @agent.on_validate_messages
        def edit(event: Any) -> None:
            chain = event.chat.history.all()
            if chain:
                event.chat.history.rollback_to(chain[0].id)

        async with mock_chat(agent) as mock:
            await mock.chat.send("one")
            await mock.chat.send("two")
            assert [m["role"] for m in mock.requests[-1].messages] == ["user", "user"]
            assert [m.text for m in mock.chat.messages] == ["one", "two", "a2"]

    async def test_a_failing_hook_discards(self) -> None:
        """A hook that raises leaves neither its edits nor its injections."""
        agent = Agent(ScriptedModel(["a1", "a2"]))

        @agent.on_turn_start
        def fail(event: Any) -> None:
            if event.turn_number == 1:
                event.chat.history.set([])
                event.chat.inject("never")
                raise RuntimeError("no")

        async with mock_chat(agent) as mock:
            await mock.chat.send("one")
            failed = await mock.chat.send("two")
            assert failed.error is not None
            assert failed.error.stage == "on_turn_start"
            assert [m.text for m in mock.chat.messages] == ["one", "a1", "two"]
            await mock.chat.send("three")
            assert "never" not in str(mock.requests[-1].messages)


class TestFailures:
    """What a failing hook does to the outcome."""

    async def test_before_complete(self) -> None:
        """C31: `on_before_turn_complete` raises: `error`, the whole answer is kept, completion fires."""
        agent = Agent(ScriptedModel(["whole answer"]))
        done: list[Any] = []

        @agent.on_before_turn_complete
        def fail(event: Any) -> None:
            raise RuntimeError("no")

        agent.on_turn_complete(done.append)
        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "error"
            assert outcome.error is not None
            assert outcome.error.stage == "on_before_turn_complete"
            assert mock.chat.messages[-1].text == "whole answer"
            assert len(done) == 1
            assert [c["type"] for c in mock.chunks][-1] == "error"

    async def test_turn_complete(self) -> None:
        """C31: `on_turn_complete` raises: still `completed`; `chat.error` set, status `ready`; called once."""
        agent = Agent(ScriptedModel(["answer"]))
        calls: list[Any] = []

        @agent.on_turn_complete
        def fail(event: Any) -> None:
            calls.append(event)
            raise RuntimeError("no")

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "completed"
            assert mock.chat.error is not None
            assert mock.chat.status == "ready"
            assert len(calls) == 1

    async def test_messages_show_the_edits(self) -> None:
        """C13's kind: `chat.messages` in a hook shows that hook's edits, the message being written on top of them."""
        agent = Agent(ScriptedModel(["one", "two"]))
        seen: list[list[str]] = []

        @agent.on_turn_start
        def start(event: Any) -> None:
            if event.turn_number:
                event.chat.history.slice(1)
            seen.append([m.text for m in event.chat.messages])

        @agent.run
        async def run(turn: Any) -> Any:
            yield {"type": "text-start", "id": "t"}
            yield {"type": "text-delta", "id": "t", "delta": "said"}
            if turn.number:
                turn.chat.history.set([])
            seen.append([m.text for m in turn.chat.messages])

        @agent.on_before_turn_complete
        def before(event: Any) -> None:
            event.chat.history.set(
                [{"id": "x", "role": "user", "parts": [{"type": "text", "text": "AB"[event.turn_number]}]}]
            )
            seen.append([m.text for m in event.chat.messages])

        async with mock_chat(agent) as mock:
            await mock.chat.send("A")
            await mock.chat.send("B")
            assert seen == [["A"], ["A", "said"], ["A"], ["B"], ["said"], ["B"]]

    async def test_waiting_until_stable_inside(self) -> None:
        """C32's kind: `await chat.stable()` without a timeout in a hook could never end either: ChatBusyError."""
        agent = Agent(ScriptedModel(["one"]))
        caught: list[Exception] = []

        @agent.on_turn_start
        async def wait(event: Any) -> None:
            assert not await event.chat.stable(0)
            try:
                await event.chat.stable()
            except ChatBusyError as error:
                caught.append(error)

        async with mock_chat(agent) as mock:
            assert (await mock.chat.send("hi")).text == "one"
            assert len(caught) == 1

    async def test_waiting_inside(self) -> None:
        """C32: awaiting `chat.send` in a hook raises ChatBusyError; not awaited, it runs as the next turn."""
        agent = Agent(ScriptedModel(["one", "two"]))
        caught: list[Exception] = []

        @agent.on_turn_complete
        async def more(event: Any) -> None:
            if event.turn_number == 0:
                submission = event.chat.send("again")
                try:
                    await submission
                except ChatBusyError as error:
                    caught.append(error)

        async with mock_chat(agent) as mock:
            await mock.chat.send("hi")
            await mock.done()
            assert len(caught) == 1
            assert [m.text for m in mock.chat.messages] == ["hi", "one", "again", "two"]

    async def test_the_new_message_of_a_turn_that_fails_early(self) -> None:
        """Section 3: `new_ui_messages` holds this turn's new user messages, also when boot or client data failed."""
        agent = Agent(ScriptedModel(["one"]), client_data=int)
        seen: list[list[str]] = []
        agent.on_turn_complete(lambda event: seen.append([m.text for m in event.new_ui_messages]))

        @agent.on_boot
        def fail(event: Any) -> None:
            if event.turn_number == 0:
                raise ValueError("not yet")

        async with mock_chat(agent) as mock:
            first = await mock.chat.send("A", client_data=1)
            second = await mock.chat.send("B", client_data="no number")
            assert [o.error.stage for o in (first, second) if o.error] == ["on_boot", "client_data"]
            assert seen == [["A"], ["B"]]

    async def test_the_body_can_not_be_changed(self) -> None:
        """Section 3: events are frozen; what one hook does with its `body` no other hook sees, nor a continuation."""
        agent = Agent(ScriptedModel(["one"]))
        failed: list[Exception] = []

        @agent.on_turn_start
        def change(event: Any) -> None:
            assert event.body == {"k": [1]}
            for edit in (lambda: event.body.update(k=2), lambda: event.body["k"].append(2)):
                try:
                    edit()
                except TypeError as error:
                    failed.append(error)

        async with mock_chat(agent) as mock:
            await mock.chat.send("A", body={"k": [1]})
            assert len(failed) == 2
            assert mock.hooks[-1][1].body == {"k": [1]}
