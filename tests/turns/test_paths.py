"""The paths beside the plain message turn: failures, hydration, stops, the store (spec/turns.md, 3 and 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from chatnb import Agent, ClientTool, action
from chatnb.errors import ChatBusyError, StoreError, StoreFullError, StoreUnavailableError
from chatnb.models import Reply
from chatnb.testing import StrictModel, mock_chat


@action(needs_approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@action(read_only=True)
async def look(key: str) -> str:
    """Look something up."""
    return key


def texts(mock: Any) -> list[str]:
    return [m.text for m in mock.chat.messages]


class TestFailures:
    """A failure before the model call."""

    @pytest.mark.parametrize(
        "name", ["on_boot", "hydrate_messages", "on_chat_start", "on_turn_start", "prepare_messages", "instructions"]
    )
    async def test_before_the_model(self, name: str) -> None:
        """`error`, that name; the message stays, no model call, one error chunk, one completion; the next works."""
        calls: list[Any] = []

        def fail(event: Any) -> Any:
            calls.append(event)
            if len(calls) == 1:
                if name != "instructions":
                    event.chat.history.set([])
                    event.chat.inject("never")
                raise ValueError("no")
            return [*event.previous_messages, *event.incoming_messages] if name == "hydrate_messages" else None

        agent = Agent(StrictModel(["a1", "a2"]), instructions=fail if name == "instructions" else None)
        if name != "instructions":
            getattr(agent, name)(fail)
        done: list[Any] = []
        agent.on_turn_complete(done.append)
        agent.on_before_turn_complete(done.append)
        async with mock_chat(agent) as mock:
            failed = await mock.chat.send("u1")
            assert (failed.status, failed.error.stage, failed.turn) == ("error", name, 0)
            assert (texts(mock), mock.requests) == (["u1"], [])
            assert (mock.chat.status, mock.chat.error.stage) == ("error", name)
            assert len(done) == 1
            assert done[0].error is not None
            assert [c["type"] for c in mock.chunks] == ["start", "error"]
            assert (await mock.chat.send("u2")).status == "completed"
            assert mock.chat.error is None
            assert "never" not in str(mock.requests)
            assert len(calls) == (1 if name == "on_chat_start" else 2)

    @pytest.mark.parametrize("failure", [StoreFullError("full"), StoreUnavailableError("gone")])
    async def test_the_store_at_the_end(self, failure: StoreError) -> None:
        """The store at the final write: `error`, stage store; the message stays shown; the next input works.

        One that does not answer is waited for: 30 s (spec/recovery.md, section 9).
        """
        agent = Agent(StrictModel(["y", "z"]))
        done: list[Any] = []
        async with mock_chat(agent) as mock:
            store = Breakable(mock.store)

            @agent.on_before_turn_complete
            def before(event: Any) -> None:
                store.error = failure if event.turn_number == 0 else None

            @agent.on_turn_complete
            def after(event: Any) -> None:
                store.error = None
                done.append(event)

            submission = mock.chat.send("a")
            if isinstance(failure, StoreUnavailableError):
                await mock.clock.advance(29)
                assert not submission.done
                await mock.clock.advance(2)
            failed = await submission
            assert (failed.status, failed.error.stage) == ("error", "store")
            assert texts(mock) == ["a", "y"]
            assert len(done) == 1
            assert (await mock.chat.send("b")).status == "completed"

    async def test_the_store_at_admission(self) -> None:
        """An input row that can't be written: `error`, stage input, and nothing else is touched."""
        async with mock_chat(Agent(StrictModel(["y"]))) as mock:
            store = Breakable(mock.store)
            store.error = StoreFullError("full")
            submission = mock.chat.send("a")
            failed = await submission
            assert (failed.status, failed.error.stage, submission.admitted) == ("error", "input", False)
            store.error = None
            assert (await mock.chat.send("b")).turn == 0
            assert texts(mock) == ["b", "y"]

    async def test_regenerate(self) -> None:
        """An unknown id is found out without a turn; a known one answers the message before it."""
        async with mock_chat(Agent(StrictModel(["a1", "a2", "a3"]))) as mock:
            await mock.chat.send("u1")
            await mock.chat.send("u2")
            unknown = await mock.chat.regenerate("zzz")
            assert (type(unknown.error.cause).__name__, unknown.turn) == ("UnknownMessageError", None)
            await mock.chat.regenerate(mock.chat.messages[1].id)
            assert texts(mock) == ["u1", "a3"]


class Breakable:
    """Makes a store's writes fail while `error` is set."""

    def __init__(self, store: Any) -> None:
        self.error: Exception | None = None
        self._write = store.write
        store.write = self.write

    @contextmanager
    def write(self, *args: Any, **options: Any) -> Iterator[Any]:
        with self._write(*args, **options) as tx:
            if self.error is not None:
                raise self.error
            yield tx


class TestFields:
    """What events and continuations carry."""

    async def test_replaced_by_validation(self) -> None:
        """What `on_validate_messages` returns is what enters the history, and what the completion names as new."""
        agent = Agent(StrictModel(["a"]))
        clean = {"id": "c", "role": "user", "parts": [{"type": "text", "text": "clean"}]}
        agent.on_validate_messages(lambda event: [clean])
        done: list[Any] = []
        agent.on_turn_complete(done.append)
        async with mock_chat(agent) as mock:
            await mock.chat.send("dirty")
            assert texts(mock) == ["clean", "a"]
            assert [m.text for m in done[0].new_ui_messages] == ["clean", "a"]

    async def test_body(self) -> None:
        """A continuation inherits body and client tools; a body of its own replaces it whole."""
        tool = ClientTool("f", "Does it in the page.", {"type": "object"})
        call = [Reply(calls=[("f", {}, f"c{n}")]) for n in (1, 2)]
        agent = Agent(StrictModel([call[0], "x", call[1], "y"]))
        seen: list[Any] = []
        agent.on_turn_start(lambda event: seen.append(event.body))
        async with mock_chat(agent) as mock:
            await mock.chat.send("a", body={"k": 1}, client_tools=[tool])
            await mock.chat.add_tool_output("c1", 1)
            await mock.chat.send("b", client_tools=[tool])
            await mock.chat.add_tool_output("c2", 1, continue_=False)
            await mock.chat.continue_last_turn(body={"z": 2})
            assert seen == [{"k": 1}, {"k": 1}, None, {"z": 2}]
            assert [spec.name for spec in mock.requests[1].actions] == ["f"]


class TestHydration:
    """`hydrate_messages` on the other paths."""

    async def test_a_continuation(self) -> None:
        """A decided call is laid over hydrate's result; the response extends the same node."""
        stored: list[Any] = []
        agent = Agent(StrictModel([Reply("ask", calls=[("pay", {"to": "ann"}, "c1")]), "done", "more"]), actions=[pay])
        triggers: list[str] = []

        @agent.hydrate_messages
        def hydrate(event: Any) -> list[Any]:
            triggers.append(event.trigger)
            stored.extend(event.incoming_messages)
            return list(stored)

        @agent.on_turn_complete
        def keep(event: Any) -> None:
            stored[:] = [m for m in stored if m.id != event.response_message.id] + [event.response_message]

        async with mock_chat(agent) as mock:
            assert (await mock.chat.send("pay")).status == "awaiting"
            assert (await mock.chat.approve()).status == "completed"
            assert texts(mock)[1].endswith("done")
            assert triggers == ["submit-message", "continuation"]
            assert len(mock.store.load_nodes("chat-1")) == 2
            await mock.chat.regenerate()
            event = [e for name, e in mock.hooks if name == "hydrate_messages"][-1]
            assert (event.trigger, event.incoming_messages) == ("regenerate-message", ())


class TestChatActions:
    """More of the app's own chat actions."""

    async def test_shadowing(self) -> None:
        """A type in the schema shadows the built-in of that name, sugar included; then only `on_action` acts."""

        class Own(BaseModel):
            type: Literal["undo", "clear"]

        agent = Agent(StrictModel(["a1"]), chat_actions=Own)
        seen: list[str] = []
        agent.on_action(lambda event: seen.append(event.action.type))
        async with mock_chat(agent) as mock:
            await mock.chat.send("u1")
            assert (await mock.chat.undo()).status == "applied"
            assert (await mock.chat.clear()).status == "applied"
            assert (texts(mock), seen) == (["u1", "a1"], ["undo", "clear"])

    async def test_pending_calls(self) -> None:
        """`event.turn()` with calls pending: they are settled as not executed, then the turn runs."""

        class Go(BaseModel):
            type: Literal["go"]

        model = StrictModel([Reply("ask", calls=[("pay", {"to": "ann"}, "c1")]), "done"])
        agent = Agent(model, actions=[pay], chat_actions=Go)

        @agent.on_action
        def act(event: Any) -> Any:
            user = {"id": "x", "role": "user", "parts": [{"type": "text", "text": "go"}]}
            event.chat.history.set([*event.chat.history.all(), user])
            return event.turn()

        async with mock_chat(agent) as mock:
            await mock.chat.send("pay")
            assert (await mock.chat.act({"type": "go"})).status == "completed"
            part = next(p for m in mock.chat.messages for p in m.parts if p.type == "tool-pay")
            assert (part.state, part.error_text) == ("output-error", "Not executed: the conversation moved on.")


class TestRun:
    """More of a custom `run`."""

    async def test_twice(self) -> None:
        """`stream_text` called twice: both land in the one response."""
        agent = Agent(StrictModel(["one", "two"]))

        @agent.run
        async def run(turn: Any) -> Any:
            async for chunk in turn.stream_text():
                yield chunk
            view = [{"role": "user", "content": [{"type": "text", "text": "q"}]}]
            async for chunk in turn.stream_text(messages=view):
                yield chunk

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.text, outcome.steps) == ("one\n\ntwo", 2)
            assert mock.requests[1].messages[0]["content"][0]["text"] == "q"

    async def test_copies_passed_on_late(self) -> None:
        """Copies of chunks that were sent, passed on late, do no harm: each call is there once, with its result."""
        agent = Agent(StrictModel([Reply("one", calls=[("look", {"key": "k"}, "c1")]), "two"]), actions=[look])

        @agent.run
        async def run(turn: Any) -> Any:
            chunks = [{**chunk} async for chunk in turn.stream_text()]
            for chunk in chunks:
                yield chunk

        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "completed"
            calls = [p for p in outcome.message.parts if p.type == "tool-look"]
            assert [(p.state, p.output) for p in calls] == [("output-available", "k")]

    async def test_waiting_in_an_action(self) -> None:
        """C32: an action that awaits its own chat gets ChatBusyError; the submission runs as the next turn."""
        caught: list[Exception] = []

        @action(read_only=True)
        async def inner() -> str:
            """Await inside."""
            submission = mock.chat.send("again")
            try:
                await submission
            except ChatBusyError as error:
                caught.append(error)
            return "ok"

        agent = Agent(StrictModel([Reply(calls=[("inner", {}, "c1")]), "y", "z"]), actions=[inner])
        async with mock_chat(agent) as mock:
            await mock.chat.send("a")
            await mock.done()
            assert len(caught) == 1
            assert texts(mock) == ["a", "y", "again", "z"]

    async def test_edits_in_an_action(self) -> None:
        """An action's edits apply at the next step boundary; the message being written is appended on top."""

        @action(read_only=True)
        async def wipe() -> str:
            """Edit."""
            mock.chat.history.set([{"id": "n", "role": "user", "parts": [{"type": "text", "text": "new"}]}])
            return "ok"

        agent = Agent(StrictModel([Reply(calls=[("wipe", {}, "c1")]), "y"]), actions=[wipe])
        async with mock_chat(agent) as mock:
            await mock.chat.send("a")
            assert texts(mock) == ["new", "y"]


class TestStops:
    """Stops at odd moments."""

    async def test_in_a_hook(self) -> None:
        """Hooks are not cancelled; the turn stops after; both completion hooks fire."""
        agent = Agent(StrictModel(["x"]))
        seen: list[bool] = []

        @agent.on_turn_start
        async def start(event: Any) -> None:
            event.chat.stop()
            await asyncio.sleep(0)
            seen.append(event.stop_requested)

        agent.on_before_turn_complete(lambda event: seen.append(event.stopped))
        agent.on_turn_complete(lambda event: seen.append(event.stopped))
        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert (outcome.status, outcome.message, texts(mock)) == ("stopped", None, ["hi"])
            assert seen == [True, True, True]

    async def test_a_waiting_input(self) -> None:
        """`submission.stop()`: waiting `skipped`, done nothing; after a restart nothing is run again."""
        agent = Agent(StrictModel([Reply("x", delay=1.0), "y"]))
        async with mock_chat(agent) as mock:
            a, b, c = [mock.chat.send(text) for text in "abc"]
            b.stop()
            await mock.clock.advance(1.0)
            assert [(await s).status for s in (a, b, c)] == ["completed", "skipped", "completed"]
            a.stop()
            await mock.restart(kill=True)
            await mock.clock.advance(5.0)
            assert texts(mock) == ["a", "x", "c", "y"]

    async def test_an_approved_call(self) -> None:
        """A turn stopped after a person has approved a call: the call does not run by itself."""
        ran: list[str] = []

        @action(needs_approval=True)
        async def spend(to: str) -> str:
            """Spend."""
            ran.append(to)
            return to

        @action(read_only=True)
        async def wait() -> str:
            """Wait."""
            await asyncio.Event().wait()
            return "x"

        calls = [("spend", {"to": "x"}, "c1"), ("wait", {}, "c2")]
        agent = Agent(StrictModel([Reply(calls=calls), "next"]), actions=[spend, wait])
        async with mock_chat(agent) as mock:
            submission = mock.chat.send("u")
            await mock.clock.advance(0)
            decided = mock.chat.approve("c1")
            mock.chat.stop()
            await mock.clock.advance(3.0)
            assert (await submission).status == "stopped"
            assert (await decided).status == "applied"
            await mock.done()
            assert ran == []
            assert (await mock.chat.send("on")).status == "completed"

    async def test_merged_sends_are_not_sent_again(self) -> None:
        """Rows that were merged or superseded are done with their turn: a restart does not answer them again."""
        for policy in ("merge", "latest"):
            agent = Agent(StrictModel([Reply("x", delay=1.0), "y", "never"]), concurrency=policy)  # type: ignore[arg-type]
            async with mock_chat(agent) as mock:
                mock.chat.send("a")
                await mock.clock.advance(0)
                mock.chat.send("b")
                mock.chat.send("c")
                await mock.clock.advance(1.0)
                await mock.done()
                before = texts(mock)
                await mock.restart(kill=True)
                await mock.clock.advance(5.0)
                assert texts(mock) == before
