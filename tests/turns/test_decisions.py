"""Decisions of people: first write wins, one continuation (spec/turns.md, sections 1, 2 and 9)."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from chatnb import Agent, ClientTool, action
from chatnb.errors import PendingError
from chatnb.models import Reply
from chatnb.testing import StrictModel, mock_chat

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@action(needs_approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    ran.append(to)
    return f"paid {to}"


LOCATE = ClientTool("locate", "Where the person is.", {"type": "object", "properties": {}})
TWO = Reply("One moment.", calls=[("pay", {"to": "ann"}, "c1"), ("pay", {"to": "bob"}, "c2")])
ONE = Reply(calls=[("pay", {"to": "ann"}, "c1")])


def agent(*steps: Any, **options: Any) -> Agent:
    return Agent(StrictModel([*steps, "done", "and on", "and on"]), actions=[pay], **options)


def states(mock: Any) -> dict[str, str]:
    return {
        p.tool_call_id: p.state
        for m in mock.chat.messages
        for p in m.parts
        if getattr(p, "tool_call_id", None) is not None
    }


class TestMoot:
    """A decision on a call that the turn itself settles before its end."""

    @pytest.mark.parametrize("kind", ["approve", "reject"])
    async def test_the_turn_is_ended_by_a_call(self, kind: str) -> None:
        """8.3 of actions.md with turns.md, 1: a call that ends the turn leaves the later ones not executed, also one
        that was decided meanwhile: that decision ends `skipped`, nothing runs, and the chat goes on."""

        @action(ends_turn=True)
        async def leave() -> str:
            """End the turn."""
            await mock.clock.sleep(1.0)
            return "left"

        calls = [("leave", {}, "c0"), ("pay", {"to": "ann"}, "c1")]
        made = Agent(StrictModel([Reply(calls=calls), "on"]), actions=[pay, leave])
        async with mock_chat(made) as mock:
            sent = mock.chat.send("go")
            await mock.clock.advance(0)
            decision = getattr(mock.chat, kind)("c1")
            await mock.clock.advance(1.0)
            assert (sent.result().status, decision.result().status) == ("completed", "skipped")
            assert (states(mock)["c0"], ran, mock.chat.pending) == ("output-available", [], ())
            grants = mock.store.load_grants("chat-1", ("pending", "approved", "rejected", "superseded"))
            assert [g.state for g in grants] == ["superseded"]
            assert (await mock.chat.send("and now?")).text == "on"
            assert mock.store.load_inputs("chat-1", ("waiting", "taken", "held")) == []

    async def test_a_hook_has_taken_the_call_out(self) -> None:
        """`on_before_turn_complete` replaces the response: a decision on a call that it holds no more is `skipped`."""

        @action(parallel_safe=True)
        async def slow() -> str:
            """Take a while."""
            await mock.clock.sleep(1.0)
            return "slept"

        made = Agent(
            StrictModel([Reply(calls=[("pay", {"to": "ann"}, "c1"), ("slow", {}, "c2")])]), actions=[pay, slow]
        )

        @made.on_before_turn_complete
        def replace(event: Any) -> None:
            message = event.response_message.to_wire() | {"parts": [{"type": "text", "text": "Nothing was asked."}]}
            event.chat.history.replace(message["id"], message)

        async with mock_chat(made) as mock:
            sent = mock.chat.send("go")
            await mock.clock.advance(0)
            decision = mock.chat.approve("c1")
            await mock.clock.advance(1.0)
            assert (sent.result().status, decision.result().status) == ("awaiting", "skipped")
            assert ([m.text for m in mock.chat.messages], ran) == (["go", "Nothing was asked."], [])
            assert await mock.chat.stable()


class TestEditedBefore:
    """A hook edits what stands before a message that goes on."""

    @pytest.mark.parametrize("hook", ["on_turn_start", "run", "on_before_turn_complete"])
    async def test_a_message_is_removed(self, hook: str) -> None:
        """Sections 4 and 6 of turns.md: the response moves with the edit, the former chain stays in the tree, and the
        next input works."""
        made = Agent(StrictModel(["hello", ONE, "done", "on"]), actions=[pay])

        def forget(event: Any) -> Any:
            if event.trigger == "continuation":
                event.chat.history.remove(event.chat.messages[0].id)
            return event.stream_text() if hook == "run" else None

        getattr(made, hook)(forget)
        async with mock_chat(made) as mock:
            await mock.chat.send("hi")
            await mock.chat.send("pay ann")
            assert (await mock.chat.approve()).status == "completed"
            wanted = ["hello", "pay ann", "done"]
            assert ([m.text for m in mock.chat.messages], ran) == (wanted, ["ann"])
            assert states(mock) == {"c1": "output-available"}
            await mock.restart()
            assert [m.text for m in mock.chat.messages] == wanted
            assert (await mock.chat.send("and?")).text == "on"
            assert len(mock.chat.history.branches(mock.chat.messages[0].id)) == 2

    async def test_the_response_stands_there_twice(self) -> None:
        """A hook that puts the response in twice does not keep the turn from its end."""
        made = agent("one")

        @made.on_before_turn_complete
        def double(event: Any) -> None:
            event.chat.history.set([*event.ui_messages, event.response_message])

        async with mock_chat(made) as mock:
            assert (await mock.chat.send("go")).status == "completed"
            assert [m.text for m in mock.chat.messages] == ["go", "one", "one"]


class TestContinuation:
    """The last decision queues exactly one continuation."""

    async def test_two_pending(self) -> None:
        """C26: the first is `applied` without a model call; the other, an hour later, starts one continuation."""
        async with mock_chat(agent(TWO)) as mock:
            asked = await mock.chat.send("pay both")
            assert asked.status == "awaiting"
            assert [p.tool_call_id for p in asked.pending] == ["c1", "c2"]
            first = await mock.chat.approve("c1")
            assert first.status == "applied"
            assert len(mock.requests) == 1
            await mock.clock.advance(3600)
            assert len(mock.requests) == 1
            before = mock.chat.messages[-1].id
            second = await mock.chat.reject("c2", reason="too much")
            assert (second.status, second.turn) == ("completed", 1)
            assert mock.chat.messages[-1].id == before
            assert len(mock.requests) == 2
            assert ran == ["ann"]
            assert states(mock) == {"c1": "output-available", "c2": "output-denied"}
            assert "too much" in str(mock.requests[-1].messages)

    async def test_after_a_restart(self) -> None:
        """C26: the same across a restart, with the client data of the turn it continues."""
        seen: list[Any] = []
        made = agent(ONE)
        made.on_turn_start(lambda event: seen.append((event.trigger, event.client_data, event.body)))
        async with mock_chat(made) as mock:
            await mock.chat.send("pay", client_data={"who": "me"}, body={"b": 1})
            await mock.restart(kill=True)
            outcome = await mock.chat.approve()
            assert outcome.status == "completed"
            assert seen[-1] == ("continuation", {"who": "me"}, {"b": 1})
            assert ran == ["ann"]

    async def test_new_messages_of_a_continuation(self) -> None:
        """`new_ui_messages` of a continuation holds only the response; nothing of the old parts is sent again."""
        made = agent(Reply("Old text.", calls=[("pay", {"to": "ann"}, "c1")]))
        done: list[Any] = []
        made.on_turn_complete(done.append)
        async with mock_chat(made) as mock:
            await mock.chat.send("pay")
            mock.chunks.clear()
            await mock.chat.approve()
            assert [m.role for m in done[-1].new_ui_messages] == ["assistant"]
            kinds = [c["type"] for c in mock.chunks]
            assert kinds[:3] == ["start", "tool-output-available", "start-step"]
            assert mock.chunks[0]["messageId"] == mock.chat.messages[-1].id
            assert "Old text." not in str(mock.chunks)

    async def test_without_continuing(self) -> None:
        """`continue_=False` applies the decision alone; `continue_last_turn` runs what was approved."""
        async with mock_chat(agent(ONE)) as mock:
            await mock.chat.send("pay")
            assert (await mock.chat.approve(continue_=False)).status == "applied"
            assert (len(mock.requests), ran) == (1, [])
            assert (await mock.chat.continue_last_turn()).status == "completed"
            assert ran == ["ann"]

    async def test_while_it_streams(self) -> None:
        """A decision while the message still streams rides into its final write; that turn ends `awaiting`."""
        step = Reply(calls=[("pay", {"to": "ann"}, "c1"), ("wait", {}, "c2")])
        import asyncio

        gate = asyncio.Event()

        @action(read_only=True)
        async def wait() -> str:
            """Wait."""
            await gate.wait()
            return "waited"

        made = Agent(StrictModel([step, "done"]), actions=[pay, wait])
        async with mock_chat(made) as mock:
            sent = mock.chat.send("go")
            await mock.clock.advance(0)
            decided = mock.chat.approve("c1")
            assert not decided.done
            assert mock.chat.pending == ()
            gate.set()
            first = await sent
            assert (first.status, first.turn) == ("awaiting", 0)
            second = await decided
            assert (second.status, second.turn) == ("completed", 1)
            assert ran == ["ann"]
            await mock.done()
            assert len(mock.requests) == 2

    async def test_client_tools(self) -> None:
        """An output of the page continues the turn; an error does too; without an id it must be the only one."""
        step = Reply(calls=[("locate", {}, "c1")])
        async with mock_chat(Agent(StrictModel([step, "there", step, "nowhere"])), client_tools=[LOCATE]) as mock:
            asked = await mock.chat.send("where am I?")
            assert [(p.kind, p.id) for p in asked.pending] == [("client-tool", "c1")]
            assert (await mock.chat.add_tool_output("c1", {"place": "here"})).text.endswith("there")
            with pytest.raises(PendingError):
                mock.chat.add_tool_output("c9", 1)


class TestInherited:
    """A continuation has the body, client tools and client data of the turn that it continues."""

    async def test_a_refused_message_between(self) -> None:
        """A message that was refused changes nothing of them, not after a restart either."""
        seen: list[Any] = []
        agent_ = agent(ONE, Reply(calls=[("locate", {}, "c2")]))

        @agent_.on_validate_messages
        def validate(event: Any) -> None:
            if event.messages[-1].text == "bad":
                raise ValueError("no")

        agent_.on_turn_start(lambda e: seen.append((e.trigger, e.body, e.client_data)))
        async with mock_chat(agent_) as mock:
            await mock.chat.send("pay", body={"x": 1}, client_data="A", client_tools=[LOCATE])
            assert (await mock.chat.send("bad", body={"x": 2}, client_data="B")).status == "error"
            assert (await mock.chat.approve()).status == "awaiting"
            assert seen[-1] == ("continuation", {"x": 1}, "A")
            assert (await mock.chat.send("bad", body={"x": 3}, client_data="C")).status == "error"
            assert [p.kind for p in mock.chat.pending] == ["client-tool"]
            await mock.restart()
            assert (await mock.chat.add_tool_output("c2", "here")).status == "completed"
            assert seen[-1] == ("continuation", {"x": 1}, "A")

    async def test_asked_for_early(self) -> None:
        """`continue_last_turn()` inherits when its slot starts: of the turn that is the last one then."""
        seen: list[Any] = []
        agent_ = agent(Reply("one", delay=1.0))
        agent_.on_turn_start(lambda e: seen.append((e.trigger, e.body, e.client_data)))
        async with mock_chat(agent_) as mock:
            mock.chat.send("1", body={"x": 1}, client_data="A")
            await mock.clock.advance(0)
            mock.chat.send("2", body={"x": 2}, client_data="B")
            last = mock.chat.continue_last_turn()
            own = mock.chat.continue_last_turn(body={})
            await mock.clock.advance(2)
            await last
            assert seen[-1] == ("continuation", {"x": 2}, "B") or seen[-2] == ("continuation", {"x": 2}, "B")
            await own
            assert seen[-1] == ("continuation", {}, "B")


class TestFirstWins:
    """A decided or settled call is not decided again."""

    async def test_twice(self) -> None:
        """C27: the same decision twice: the second is `skipped`, the stored output unchanged."""
        async with mock_chat(agent(TWO)) as mock:
            await mock.chat.send("pay both")
            await mock.chat.approve("c1")
            stored = mock.chat.messages[-1]
            assert (await mock.chat.reject("c1")).status == "skipped"
            assert mock.chat.messages[-1] is stored
            await mock.chat.reject("c2")
            assert (await mock.chat.approve("c2")).status == "skipped"
            assert ran == ["ann"]

    async def test_texts(self) -> None:
        """C27: approve() with two pending, or with an id never asked: PendingError lists both ids and names."""
        async with mock_chat(agent(TWO)) as mock:
            await mock.chat.send("pay both")
            ids = [p.id for p in mock.chat.pending]
            for given in ((), ("nope",)):
                with pytest.raises(PendingError) as caught:
                    mock.chat.approve(*given)
                assert all(id_ in str(caught.value) for id_ in ids)
                assert "pay" in str(caught.value)
            with pytest.raises(PendingError):
                mock.chat.add_tool_output("c1", "x")

    async def test_nothing_pending(self) -> None:
        """Without anything pending PendingError says so."""
        async with mock_chat(agent()) as mock:
            with pytest.raises(PendingError, match="nothing is pending"):
                mock.chat.approve()


class TestMovedOn:
    """A new turn settles what is undecided or not yet run."""

    async def test_a_send_instead(self) -> None:
        """C42: two asks, one approved, then a send: both "moved on", no handler ran, grants superseded."""
        async with mock_chat(agent(TWO)) as mock:
            await mock.chat.send("pay both")
            await mock.chat.approve("c1")
            assert (await mock.chat.send("never mind")).status == "completed"
            parts = [p for p in mock.chat.messages[1].parts if p.type == "tool-pay"]
            assert [p.state for p in parts] == ["output-error", "output-error"]
            assert {p.error_text for p in parts} == {"Not executed: the conversation moved on."}
            assert ran == []
            grants = mock.store.load_grants("chat-1", ("superseded",))
            assert {g.tool_call_id for g in grants} == {"c1", "c2"}
            assert (await mock.chat.approve("c2")).status == "skipped"

    async def test_a_rejected_one(self) -> None:
        """A call that was rejected already becomes `output-denied`."""
        async with mock_chat(agent(TWO)) as mock:
            await mock.chat.send("pay both")
            await mock.chat.reject("c1")
            await mock.chat.send("never mind")
            assert states(mock) == {"c1": "output-denied", "c2": "output-error"}

    async def test_undo_and_redo(self) -> None:
        """C49 of actions.md: ask open, undo, approve: nothing runs; after redo it is still pending and runs once."""
        async with mock_chat(agent(ONE)) as mock:
            asked = await mock.chat.send("pay")
            id_ = asked.pending[0].id
            await mock.chat.undo()
            assert (await mock.chat.approve(id_)).status == "skipped"
            await mock.chat.redo()
            assert [p.id for p in mock.chat.pending] == [id_]
            assert (await mock.chat.approve(id_)).status == "completed"
            assert ran == ["ann"]


class TestStable:
    """`stable()` and what a person has to decide."""

    async def test_parked(self) -> None:
        """C43: a call awaits approval: `stable()` without a timeout is `False` at once."""
        async with mock_chat(agent(ONE)) as mock:
            assert await mock.chat.stable()
            await mock.chat.send("pay")
            assert mock.chat.has_pending_interaction
            assert not await mock.chat.stable()
            await mock.chat.approve()
            assert await mock.chat.stable()
            assert not mock.chat.has_pending_interaction

    async def test_an_ask_further_up(self) -> None:
        """Section 2: a call anywhere on the chain waits for a person; deciding it there continues nothing."""
        note = {"id": "note", "role": "assistant", "parts": [{"type": "text", "text": "By the way."}]}
        async with mock_chat(agent(ONE)) as mock:
            await mock.chat.send("pay")
            mock.chat.persist_messages([note])
            assert mock.chat.has_pending_interaction
            assert not await mock.chat.stable()
            assert [p.tool_call_id for p in mock.chat.pending] == ["c1"]
            assert (await mock.chat.approve()).status == "applied"
            assert (states(mock), ran, len(mock.requests)) == ({"c1": "approval-responded"}, [], 1)
            assert await mock.chat.stable()
            assert (await mock.chat.send("go on")).status == "completed"
            assert states(mock) == {"c1": "output-error"}

    async def test_waits_for_what_runs(self) -> None:
        """It waits while something runs, `False` on timeout, and `clear()` wakes it."""
        import asyncio

        async with mock_chat(agent(Reply("slow words", delay=5.0))) as mock:
            mock.chat.send("hi")
            short = asyncio.ensure_future(mock.chat.stable(1.0))
            whole = asyncio.ensure_future(mock.chat.stable())
            await mock.clock.advance(1.5)
            assert await short is False
            assert not whole.done()
            await mock.chat.clear()
            assert await whole is True


class TestAnsweredInstead:
    """A chat action asks for an answer while a call waits."""

    async def test_event_turn(self) -> None:
        """`event.turn()` with a call pending at the end: it is settled as not executed, and that is answered."""

        class Go(BaseModel):
            type: Literal["go"]

        agent_ = agent(ONE, chat_actions=Go)
        agent_.on_action(lambda event: event.turn())
        async with mock_chat(agent_) as mock:
            await mock.chat.send("pay")
            outcome = await mock.chat.act({"type": "go"})
            assert (outcome.status, outcome.text) == ("completed", "done")
            assert states(mock) == {"c1": "output-error"}
            assert ran == []
            assert (await mock.chat.act({"type": "go"})).status == "error"
