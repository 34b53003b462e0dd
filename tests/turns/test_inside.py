"""What user code can do inside a turn: inject, defer, data parts, client data, spans, isolation (spec/turns.md, 8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from chatnb import Agent, action
from chatnb.errors import ChatBusyError, InputError, MessageValidationError
from chatnb.models import Reply, ScriptedModel, Usage
from chatnb.testing import StrictModel, mock_chat


@action(read_only=True)
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def answers(*steps: Any, **options: Any) -> Agent:
    return Agent(StrictModel([*steps, *[f"a{n}" for n in range(1, 9)]]), **options)


def texts(mock: Any) -> list[str]:
    return [m.text for m in mock.chat.messages]


def last_texts(mock: Any) -> list[str]:
    """The texts of the newest request, in order."""
    return [
        item["text"]
        for m in mock.requests[-1].messages
        if isinstance(m["content"], list)
        for item in m["content"]
        if item["type"] == "text"
    ]


class TestInject:
    """`inject` gives the next turn's model calls context, in no history."""

    async def test_survives_a_restart(self) -> None:
        """C34: inject, restart, send: the model sees it after the chain; no history has it; the next turn does not."""
        async with mock_chat(answers()) as mock:
            mock.chat.inject("be brief")
            await mock.restart(kill=True)
            await mock.chat.send("hi")
            assert last_texts(mock) == ["hi", "be brief"]
            assert texts(mock) == ["hi", "a1"]
            assert "be brief" not in mock.chat.export("json")
            await mock.chat.send("again")
            assert "be brief" not in last_texts(mock)
            await mock.restart()
            await mock.chat.send("and again")
            assert "be brief" not in last_texts(mock)

    async def test_after_a_recovered_turn(self) -> None:
        """What a recovered turn has used and what is injected after the next restart do not collide."""
        agent = answers(Reply("slow", delay=1.0), "whole", "next")

        @agent.on_turn_start
        def start(event: Any) -> None:
            if event.trigger == "recovery":
                event.chat.inject("for the recovered turn")

        async with mock_chat(agent) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            await mock.restart(kill=True)
            await mock.clock.advance(30)
            await mock.done()
            assert "for the recovered turn" in str(mock.requests[-1].messages)
            await mock.restart()
            mock.chat.inject("for the next")
            await mock.chat.send("B")
            assert mock.requests[-1].messages[-1]["content"][0]["text"] == "for the next"

    async def test_in_every_step(self) -> None:
        """It stands after the chain in every step; injected mid-run it comes from the next step."""

        @action(read_only=True)
        async def note(key: str) -> str:
            """Inject from an action."""
            mock.chat.inject("from the action")
            return key

        step = Reply(calls=[("note", {"key": "k"}, "c1")])
        async with mock_chat(answers(step, Reply(calls=[("look", {"key": "z"}, "c2")]), actions=[note, look])) as mock:
            mock.chat.inject([("system", "sys"), ("user", "before")])
            await mock.chat.send("hi")
            assert len(mock.requests) == 3
            roles = [[m["role"] for m in r.messages] for r in mock.requests]
            assert roles[0] == ["user", "system", "user"]
            assert roles[1] == ["user", "system", "user", "assistant", "tool", "user"]
            assert roles[2] == ["user", "system", "user", "assistant", "tool", "user", "assistant", "tool"]

    async def test_a_turn_that_fails_before_the_model(self) -> None:
        """A turn that fails before its model call leaves it."""
        agent = answers()

        @agent.on_turn_start
        def fail(event: Any) -> None:
            if event.turn_number == 0:
                raise RuntimeError("no")

        async with mock_chat(agent) as mock:
            mock.chat.inject("kept")
            await mock.chat.send("one")
            await mock.chat.send("two")
            assert "kept" in last_texts(mock)

    async def test_clear_drops_it(self) -> None:
        """`clear` drops injected context."""
        async with mock_chat(answers()) as mock:
            mock.chat.inject("dropped")
            await mock.chat.clear()
            await mock.restart()
            await mock.chat.send("hi")
            assert last_texts(mock) == ["hi"]


class TestInjectForms:
    """What `inject` takes: text, pairs, messages."""

    async def test_all_of_them(self) -> None:
        """Each becomes a model message, its files and calls too, in the order given."""
        wire = {"id": "x", "role": "user", "parts": [{"type": "text", "text": "e"}]}
        file = {"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk="}
        async with mock_chat(answers()) as mock:
            mock.chat.inject("a")
            mock.chat.inject(("user", "b"))
            mock.chat.inject([("user", "c"), ["user", "d"]])
            mock.chat.inject(wire)
            mock.chat.inject({"role": "user", "parts": [{"type": "text", "text": "f"}, file]})
            mock.chat.inject([{"role": "user", "content": "g"}])
            mock.chat.inject({"role": "user", "content": [{"type": "text", "text": "h"}]})
            await mock.chat.send("hi")
            assert last_texts(mock) == ["hi", "a", "b", "c", "d", "e", "f", "g", "h"]
            assert any(item["type"] == "file" for item in mock.requests[-1].messages[-3]["content"])

    @pytest.mark.parametrize(
        "bad", [5, None, ("robot", "x"), [("user", 5)], {"role": "user", "content": [{"x": object()}]}]
    )
    async def test_nothing_else(self, bad: Any) -> None:
        """All else is an `InputError` at the call, and nothing is stored."""
        async with mock_chat(answers()) as mock:
            with pytest.raises(InputError):
                mock.chat.inject(bad)
            await mock.chat.send("hi")
            assert last_texts(mock) == ["hi"]


class TestDefer:
    """Deferred work starts at once; the turn waits for it, at most 5 s."""

    async def test_limits(self) -> None:
        """C33: 0.1 s in turn start is done before before_complete; never ending: 5 s of clock; raising: ignored."""
        agent = answers()
        order: list[str] = []

        @agent.on_turn_start
        async def start(event: Any) -> None:
            async def short() -> None:
                await mock.clock.sleep(0.1)
                order.append("deferred")

            async def endless() -> None:
                await asyncio.Event().wait()

            def fail() -> None:
                raise RuntimeError("no")

            event.chat.defer(short() if event.turn_number == 0 else endless)
            event.chat.defer(fail)

        agent.on_before_turn_complete(lambda event: order.append("before"))
        async with mock_chat(agent) as mock:
            first = mock.chat.send("one")
            await mock.clock.advance(0.1)
            assert (await first).status == "completed"
            assert order == ["deferred", "before"]
            second = mock.chat.send("two")
            await mock.clock.advance(4.9)
            assert not second.done
            await mock.clock.advance(0.2)
            assert (await second).status == "completed"

    async def test_in_the_background(self) -> None:
        """From `on_turn_complete` it is background work; `done()` waits for it."""
        agent = answers()
        seen: list[str] = []

        async def later() -> None:
            await asyncio.sleep(0)
            seen.append("later")

        agent.on_turn_complete(lambda event: event.chat.defer(later))
        async with mock_chat(agent) as mock:
            await mock.chat.send("hi")
            await mock.done()
            assert seen == ["later"]


class TestDataParts:
    """`write` and yielded data parts."""

    async def test_hooks_write(self) -> None:
        """Parts written before the model open the response; same type and id updates; late ones are kept."""
        agent = answers()
        agent.on_chat_start(lambda e: e.write({"type": "data-note", "id": "n", "data": 1}))
        agent.on_turn_start(lambda e: e.write({"type": "data-note", "id": "n", "data": 2}))
        agent.on_before_turn_complete(lambda e: e.write({"type": "data-late", "data": None}))
        refused: list[Exception] = []

        @agent.on_turn_complete
        def after(event: Any) -> None:
            try:
                event.write({"type": "data-x", "data": 1})
            except ChatBusyError as error:
                refused.append(error)
            assert event.response_message.parts[-1].type == "data-late"

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert [(p.type, getattr(p, "data", None)) for p in outcome.message.parts] == [
                ("data-note", 2),
                ("step-start", None),
                ("text", None),
                ("data-late", None),
            ]
            assert len(refused) == 1

    async def test_alone(self) -> None:
        """A data part alone makes a message; a transient one does not; nothing at all: `message` None, no node."""
        agent = answers()

        @agent.run
        def run(turn: Any) -> None:
            if turn.number == 0:
                turn.write({"type": "data-note", "data": {"a": 1}})
            elif turn.number == 1:
                turn.write({"type": "data-note", "data": 1, "transient": True})
            for bad in ({"type": "text-delta", "id": "t", "delta": "x"}, "data-note", None):
                with pytest.raises(MessageValidationError):
                    turn.write(bad)

        async with mock_chat(agent) as mock:
            first, second, third = [await mock.chat.send(text) for text in "abc"]
            assert first.message.parts[0].data == {"a": 1}
            assert (second.status, second.message, third.message) == ("completed", None, None)
            assert [m.role for m in mock.chat.messages] == ["user", "assistant", "user", "user"]


class TestCompletion:
    """The completion hooks' edits and fields."""

    async def test_edits_of_the_response(self) -> None:
        """An edit of the response in `on_before_turn_complete` is what is stored; one in `on_turn_complete` as well."""
        agent = answers()

        @agent.on_before_turn_complete
        def before(event: Any) -> None:
            wire = event.response_message.to_wire()
            wire["metadata"] = {"seen": True}
            event.chat.history.replace(wire["id"], wire)

        @agent.on_turn_complete
        def after(event: Any) -> None:
            assert event.ui_messages[-1].metadata == {"seen": True}
            event.chat.history.remove(event.ui_messages[0].id)

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.message.metadata == {"seen": True}
            assert texts(mock) == ["a1"]
            await mock.restart(kill=True)
            assert [m.metadata for m in mock.chat.messages] == [{"seen": True}]

    async def test_usage(self) -> None:
        """Usage sums over steps, stopped and failed turns included; a step without numbers makes it incomplete."""
        step = Reply(calls=[("look", {"key": "k"}, "c1")], usage=Usage(10, 5))
        agent = answers(step, Reply("two", usage=Usage(20, 7)), Reply("x", fail=RuntimeError("down")), actions=[look])
        seen: list[Any] = []
        agent.on_turn_start(lambda e: seen.append((e.previous_turn_usage, e.total_usage.input_tokens)))
        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.steps) == (30, 12, 2)
            assert outcome.usage.complete
            failed = await mock.chat.send("again")
            assert (failed.usage.input_tokens, failed.usage.complete) == (None, False)
            assert (mock.chat.usage.total.input_tokens, mock.chat.usage.complete) == (30, False)
            await mock.chat.undo()
            assert len(mock.chat.usage.turns) == 2
            await mock.restart()
            await mock.chat.send("third")
            assert seen[1][0].input_tokens == 30
            assert seen[2][1] == 30

    async def test_raw_response(self) -> None:
        """`raw_response_message` has the calls as they were before they were settled; else it equals the response."""

        @action(read_only=True)
        async def wait() -> str:
            """Wait."""
            await asyncio.Event().wait()
            return ""

        agent = Agent(StrictModel(["fine", Reply("text", calls=[("wait", {}, "c1")]), "next"]), actions=[wait])

        @agent.run
        async def run(turn: Any) -> Any:
            if turn.number != 2:
                return turn.stream_text()
            turn.write({"type": "data-x", "data": 1})
            raise ValueError("no")

        done: list[Any] = []
        agent.on_turn_complete(done.append)
        async with mock_chat(agent) as mock:
            await mock.chat.send("one")
            assert done[0].raw_response_message == done[0].response_message
            submission = mock.chat.send("two")
            await mock.clock.advance(0)
            mock.chat.stop()
            await mock.clock.advance(3)
            assert (await submission).status == "stopped"
            assert done[1].response_message.parts[-1].state == "output-error"
            assert (await mock.chat.send("three")).status == "error"


class TestClientData:
    """Client data is parsed by the agent's schema for every turn and chat action."""

    async def test_schema(self) -> None:
        """The chat's, or the input's own; bad data: `error`, stage client_data, the message stays."""

        class Data(BaseModel):
            user: str

        agent = answers(client_data=Data)
        seen: list[Any] = []
        agent.on_turn_start(lambda event: seen.append(event.client_data))
        async with mock_chat(agent) as mock:
            await mock.chat.send("hi", client_data={"user": "ann"})
            assert seen == [Data(user="ann")]
            bad = await mock.chat.send("no", client_data={"user": 3})
            assert (bad.status, bad.error.stage) == ("error", "client_data")
            assert len(mock.requests) == 1
            assert texts(mock) == ["hi", "a1", "no"]


class TestSpans:
    """Spans of the work."""

    async def test_of_a_turn(self) -> None:
        """`chat turn N` holds `step K`, `action NAME` and `hook NAME`; a failure marks it once."""
        step = Reply(calls=[("look", {"key": "k"}, "c1")])
        agent = answers(step, actions=[look])
        agent.on_turn_start(lambda event: None)
        agent.run(lambda turn: turn.stream_text())
        async with mock_chat(agent) as mock:
            await mock.chat.send("hi")
            turn, *inner = mock.spans
            assert (turn.name, turn.parent, turn.error) == ("chat turn 0", None, None)
            assert turn.attributes["chat.status"] == "completed"
            parents = {span.name: span.parent for span in inner}
            assert parents["hook on_turn_start"] == parents["hook run"] == "chat turn 0"
            assert {"step 1", "step 2", "action look"} <= set(parents)

    async def test_of_a_failure(self) -> None:
        """A failed turn's span has the error."""
        async with mock_chat(Agent(ScriptedModel([RuntimeError("down")]))) as mock:
            await mock.chat.send("hi")
            assert mock.spans[0].error is not None
            assert [s.name for s in mock.spans if s.error] == ["chat turn 0", "step 1"]


class TestReaders:
    """A submission may be awaited and iterated by many, early and late."""

    async def test_many_readers(self) -> None:
        """A late reader gets the same outcome and the same chunks; iterating ends before `on_turn_complete`."""
        agent = answers(Reply("some words here", delay=1.0))
        ended: list[str] = []

        @agent.on_turn_complete
        async def complete(event: Any) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ended.append("hook")

        async def read(submission: Any) -> list[Any]:
            chunks = [chunk async for chunk in submission]
            ended.append("read")
            return chunks

        async with mock_chat(agent) as mock:
            submission = mock.chat.send("hi")
            early = asyncio.ensure_future(read(submission))
            await mock.clock.advance(1.0)
            middle = asyncio.ensure_future(read(submission))
            await mock.clock.advance(1.0)
            await mock.clock.advance(1.0)
            outcome = await submission
            assert await submission is outcome
            assert submission.result() is outcome
            assert ended[0] == "read"
            assert await early == await middle == await read(submission) == mock.chunks


class TestPersist:
    """Editing from cells."""

    async def test_persist_messages(self) -> None:
        """Known ids are updated, unknown ones appended, nothing removed, no turn run; busy: ChatBusyError."""
        async with mock_chat(answers(Reply("slow", delay=1.0))) as mock:
            mock.chat.send("hi")
            with pytest.raises(ChatBusyError):
                mock.chat.set_messages([])
            await mock.clock.advance(1.0)
            await mock.done()
            user, answer = mock.chat.messages
            changed = user.to_wire() | {"metadata": {"n": 1}}
            extra = {"id": "x", "role": "user", "parts": [{"type": "text", "text": "more"}]}
            mock.chat.persist_messages([changed, extra])
            assert [m.id for m in mock.chat.messages] == [user.id, answer.id, "x"]
            assert mock.chat.messages[0].metadata == {"n": 1}
            assert len(mock.requests) == 1
