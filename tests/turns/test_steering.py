"""Steering, compaction and child chats (spec/turns.md, sections 8 and 9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatnb import ActionContext, Agent, Compaction, Steering, action
from chatnb.models import Reply, ScriptedModel, Usage
from chatnb.testing import StrictModel, mock_chat


@action(read_only=True)
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


CALL = Reply("First.", calls=[("look", {"key": "k"}, "c1")], delay=1.0, usage=Usage(100, 10))


def texts(mock: Any) -> list[str]:
    return [m.text for m in mock.chat.messages]


async def run_on(mock: Any, seconds: int = 20) -> None:
    for _ in range(seconds):
        await mock.clock.advance(1.0)


class TestStopped:
    """`stop()` of a send that was taken into a turn stops that turn."""

    async def test_in_the_turn_of_a_chat_action(self) -> None:
        """A send that was steered into the turn of an edit: its `stop()` stops that turn, for both."""
        steps = ["to a", CALL, Reply("one two three", delay=1.0)]
        agent = Agent(StrictModel(steps), actions=[look], steering=Steering(lambda batch: True))
        async with mock_chat(agent) as mock:
            await mock.chat.send("a")
            edited = mock.chat.edit(mock.chat.messages[0].id, "b")
            await mock.clock.advance(0)
            steered = mock.chat.send("also")
            while mock.chat.queue:
                await mock.clock.advance(1.0)
            steered.stop()
            await mock.clock.advance(0)
            assert [(s.done and s.result().status) for s in (edited, steered)] == ["stopped", "stopped"]


class TestSteering:
    """Sends that arrive mid-turn are taken into the turn at a step boundary."""

    async def test_two_sends(self) -> None:
        """C35: one call for the list, both seen by step 2, two parts, one shared outcome and its chunks.

        C31 of messages.md: the part stands between the steps, and the next request has a user message there.
        """
        asked: list[Any] = []

        def should(batch: Any) -> bool:
            asked.append(batch)
            return True

        agent = Agent(StrictModel([CALL, "Second.", "later"]), actions=[look], steering=Steering(should))
        async with mock_chat(agent) as mock:
            first = mock.chat.send("go")
            await mock.clock.advance(0)
            second, third = mock.chat.send("also x"), mock.chat.send("and y")
            assert [w.text for w in mock.chat.queue] == ["also x", "and y"]
            await run_on(mock)
            assert first.result() is second.result() is third.result()
            assert [m.text for m in asked[0].messages] == ["also x", "and y"]
            assert (len(asked), asked[0].step) == (1, 1)
            assert [m["role"] for m in mock.requests[1].messages] == ["user", "assistant", "tool", "user", "user"]
            kinds = [p.type for p in mock.chat.messages[-1].parts]
            assert kinds == [
                "step-start",
                "text",
                "tool-look",
                "data-steering-message",
                "data-steering-message",
                "step-start",
                "text",
            ]
            assert [chunk async for chunk in third] == [chunk async for chunk in first]
            await mock.restart(kill=True)
            await mock.chat.send("next")
            roles = [m["role"] for m in mock.requests[-1].messages]
            assert roles[:6] == ["user", "assistant", "tool", "user", "user", "assistant"]

    @pytest.mark.parametrize("ending", ["no", "raises", "no boundary", "stopped"])
    async def test_left_over(self, ending: str) -> None:
        """False, raising, no boundary, stopped: they form the next turn in order, each its own message."""

        def should(batch: Any) -> bool:
            if ending == "raises":
                raise RuntimeError("no")
            return ending != "no"

        step = Reply("Alone words.", delay=1.0) if ending in ("no boundary", "stopped") else CALL
        steps = [step, "Second.", "Third."] if step is CALL else [step, "Third."]
        agent = Agent(StrictModel(steps), actions=[look], steering=Steering(should), concurrency="drop")
        async with mock_chat(agent) as mock:
            first = mock.chat.send("go")
            await mock.clock.advance(0)
            second, third = mock.chat.send("also x"), mock.chat.send("and y")
            undo = mock.chat.undo()
            if ending == "stopped":
                mock.chat.stop()
            await run_on(mock)
            assert first.result().status == ("stopped" if ending == "stopped" else "completed")
            assert second.result() is third.result()
            assert third.result().text == "Third."
            assert undo.result().status == "applied"
            await mock.chat.redo()
            assert texts(mock)[-3:] == ["also x", "and y", "Third."]

    async def test_what_is_not_steered(self) -> None:
        """A send behind another input queues, and so does one with more than text."""
        agent = Agent(
            StrictModel([CALL, "Second.", "Third.", "Fourth."]), actions=[look], steering=Steering(lambda b: True)
        )
        async with mock_chat(agent) as mock:
            mock.chat.send("go")
            await mock.clock.advance(0)
            with_file = mock.chat.send([{"type": "file", "mediaType": "text/plain", "url": "data:text/plain,x"}])
            behind = mock.chat.send("behind")
            await run_on(mock)
            assert (with_file.result().turn, behind.result().turn) == (1, 2)

    async def test_what_no_boundary_took_waits_line_by_line(self) -> None:
        """Left over messages wait as one turn, each its own message: each is a line of `chat.queue`, to be stopped."""
        gate = asyncio.Event()
        agent = Agent(ScriptedModel([Reply("one", delay=1.0), "two"]), steering=Steering(lambda batch: False))

        @agent.on_turn_complete
        async def hold(event: Any) -> None:
            if event.turn_number == 0:
                await gate.wait()

        async with mock_chat(agent) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            made = [mock.chat.send(text) for text in ("B", "C", "D", "E")]
            await mock.clock.advance(2)
            assert [w.text for w in mock.chat.queue] == ["B", "C", "D", "E"]
            made[1].stop()
            made[3].stop()
            await mock.clock.advance(0)
            assert [w.text for w in mock.chat.queue] == ["B", "D"]
            gate.set()
            await mock.done()
            assert [s.result().status for s in made] == ["completed", "skipped", "completed", "skipped"]
            assert texts(mock) == ["A", "one", "B", "D", "two"]

    @pytest.mark.parametrize("policy", ["merge", "latest"])
    async def test_a_send_behind_what_no_boundary_took(self, policy: Any) -> None:
        """Nothing that arrives mid-turn is lost, whatever is configured: left over messages, then a policy's send."""
        gate = asyncio.Event()
        agent = Agent(
            ScriptedModel([Reply("one", delay=1.0), "two"]), steering=Steering(lambda batch: False), concurrency=policy
        )

        @agent.on_turn_complete
        async def hold(event: Any) -> None:
            if event.turn_number == 0:
                await gate.wait()

        async with mock_chat(agent) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            for text in ("B", "C"):
                mock.chat.send(text)
            await mock.clock.advance(2)
            mock.chat.send("D")
            await mock.clock.advance(0)
            gate.set()
            await mock.done()
            last = ["C\n\nD"] if policy == "merge" else ["C", "D"]
            assert texts(mock) == ["A", "one", "B", *last, "two"]


class TestCompaction:
    """A durable overlay of the model's view."""

    def agent(self, *steps: Any, when: Any = lambda event: True, **options: Any) -> Agent:
        return Agent(
            StrictModel([*steps, *[Reply(f"a{n}", usage=Usage(10, 1)) for n in range(5, 12)]]),
            actions=[look],
            compaction=Compaction(when, **options),
        )

    async def test_inner(self) -> None:
        """C36: after an inner compaction, a no-op edit and a restart the model still gets the summary first."""
        told: list[Any] = []
        agent = self.agent(
            CALL,
            Reply("Second.", usage=Usage(20, 2)),
            when=lambda event: event.source == "inner",
            summarize=lambda event: f"SUMMARY of {len(event.messages)}",
        )
        agent.on_compacted(told.append)
        agent.prepare_messages(lambda event: told.append(event.reason))
        async with mock_chat(agent) as mock:
            submission = mock.chat.send("go")
            await run_on(mock)
            outcome = await submission
            assert (outcome.status, len(mock.chat.messages)) == ("completed", 2)
            assert "SUMMARY of 3" in str(mock.requests[1].messages)
            assert "go" not in str(mock.requests[1].messages)
            assert [t if isinstance(t, str) else (t.source, t.step, t.summary) for t in told] == [
                "run",
                ("inner", 1, "SUMMARY of 3"),
                "compaction",
            ]
            states = [c["data"]["status"] for c in mock.chunks if c["type"] == "data-compaction"]
            assert states == ["compacting", "complete"]
            mock.chat.history.remove("nope")
            await mock.restart(kill=True)
            await mock.chat.send("next")
            view = mock.requests[-1].messages
            assert view[0] == {"role": "user", "content": [{"type": "text", "text": "SUMMARY of 3"}]}
            assert [m["role"] for m in view][:2] == ["user", "assistant"]
            assert "value of k" not in str(view)
            assert texts(mock)[0] == "go"

    async def test_outer_on_branches(self) -> None:
        """An outer summary covers the answer; a branch that leaves before it does not get it; switching back does."""
        agent = self.agent(
            Reply("a1", usage=Usage(10, 1)),
            Reply("a2", usage=Usage(10, 1)),
            when=lambda event: event.turn_number in (0, 1),
            summarize=lambda event: f"SUMMARY {event.turn_number}",
        )
        async with mock_chat(agent) as mock:
            await mock.chat.send("one")
            await mock.chat.send("two")
            assert [m["content"][0]["text"] for m in mock.requests[1].messages] == ["SUMMARY 0", "two"]
            second_answer = mock.chat.messages[-1].id
            await mock.chat.send("three")
            assert [m["content"][0]["text"] for m in mock.requests[2].messages] == ["SUMMARY 1", "three"]
            await mock.chat.regenerate(second_answer)
            assert [m["content"][0]["text"] for m in mock.requests[3].messages] == ["SUMMARY 0", "two"]
            await mock.chat.edit(mock.chat.messages[0].id, "uno")
            assert [m["content"][0]["text"] for m in mock.requests[4].messages] == ["uno"]
            await mock.chat.switch(second_answer)
            await mock.chat.send("four")
            assert mock.requests[5].messages[0]["content"][0]["text"] == "SUMMARY 1"

    async def test_events_show_it(self) -> None:
        """`messages` of an event is the model view: the summary first; `ui_messages` is the chain."""
        agent = Agent(
            ScriptedModel([Reply("a", usage=Usage(3, 2)), Reply("b", usage=Usage(3, 2))]),
            compaction=Compaction(lambda e: e.turn_number == 0, lambda e: "SUM"),
        )
        async with mock_chat(agent) as mock:
            seen: list[Any] = []
            agent.on_turn_start(seen.append)
            agent.on_turn_complete(seen.append)
            await mock.chat.send("one")
            await mock.chat.send("two")
            await mock.chat.send("three")
            _, first, start, complete, *_ = seen
            assert [m["content"][0]["text"] for m in first.messages] == ["SUM"]
            assert [m["content"][0]["text"] for m in start.messages] == ["SUM", "two"]
            assert [m["content"][0]["text"] for m in complete.messages] == ["SUM", "two", "b"]
            assert [m.text for m in complete.ui_messages] == ["one", "a", "two", "b"]

    @pytest.mark.parametrize(("source", "rest"), [("inner", ["SUM", "b"]), ("outer", ["SUM"])])
    async def test_events_show_it_at_once(self, source: str, rest: list[str]) -> None:
        """`messages` in both completion hooks is the model view: a summary of this very turn stands in it too."""
        step = Reply("a", calls=[("look", {"key": "k"}, "c1")], usage=Usage(3, 2))
        agent = self.agent(
            step, Reply("b", usage=Usage(3, 2)), when=lambda e: e.source == source, summarize=lambda e: "SUM"
        )
        seen: list[Any] = []
        agent.on_before_turn_complete(lambda e: seen.append([m["content"][0].get("text") for m in e.messages]))
        agent.on_turn_complete(lambda e: seen.append([m["content"][0].get("text") for m in e.messages]))
        async with mock_chat(agent) as mock:
            await mock.chat.send("go")
            assert seen == [rest, rest]

    async def test_by_the_model(self) -> None:
        """The default summary is the model's; its usage counts; a failure is `chat.error` and no more."""
        agent = self.agent(
            Reply("a1", usage=Usage(10, 1)),
            Reply("The summary.", usage=Usage(100, 20)),
            Reply("a2", usage=Usage(10, 1)),
            RuntimeError("down"),
        )
        async with mock_chat(agent) as mock:
            first = await mock.chat.send("one")
            assert first.usage.input_tokens == 110
            second = await mock.chat.send("two")
            assert "The summary." in str(mock.requests[2].messages)
            assert second.status == "completed"
            assert mock.chat.error.stage == "compaction"
            assert mock.chat.status == "ready"


class TestChildren:
    """An action opens the chat `PARENT/CALL_ID` of another agent."""

    def parent(self, child: Agent) -> Agent:
        @action(read_only=True)
        async def research(topic: str, ctx: ActionContext) -> Any:
            """Ask the researcher."""
            return ctx.child(child).send(topic)

        step = Reply(calls=[("research", {"topic": "tea"}, "c1")])
        return Agent(StrictModel([step, "All I know.", step, "Again."]), actions=[research])

    async def test_output(self) -> None:
        """Snapshots stream as preliminary outputs; the last is the output; the model sees the child's text."""
        child = Agent(ScriptedModel(["Tea is a plant.", "It is green."]), name="researcher")
        async with mock_chat(self.parent(child)) as mock:
            outcome = await mock.chat.send("tell me")
            assert outcome.status == "completed"
            part = next(p for p in outcome.message.parts if p.type == "tool-research")
            assert part.state == "output-available"
            assert part.output["parts"][-1]["text"] == "Tea is a plant."
            assert any(c.get("preliminary") for c in mock.chunks if c["type"] == "tool-output-available")
            result = mock.requests[1].messages[-1]["content"][0]["output"]
            assert result == {"type": "text", "value": "Tea is a plant."}

    @pytest.mark.parametrize(
        ("own", "said"),
        [
            (lambda message: message["parts"][-1]["text"].upper(), "TEA IS A PLANT."),
            (lambda message: {message["id"]}, "Tea is a plant."),
            (lambda message: message["nothing"], "Tea is a plant."),
        ],
        ids=["text", "no JSON", "raises"],
    )
    async def test_own_words(self, own: Any, said: str) -> None:
        """9.2 of actions.md: `to_model_output` decides; when it raises or gives no JSON, the child's text stands."""

        @action(read_only=True, to_model_output=own)
        async def research(topic: str, ctx: ActionContext) -> Any:
            """Ask the researcher."""
            return ctx.child(Agent(ScriptedModel(["Tea is a plant."]), name="researcher")).send(topic)

        step = Reply(calls=[("research", {"topic": "tea"}, "c1")])
        async with mock_chat(Agent(StrictModel([step, "All I know."]), actions=[research])) as mock:
            outcome = await mock.chat.send("tell me")
            assert outcome.status == "completed"
            result = mock.requests[1].messages[-1]["content"][0]["output"]
            assert result == {"type": "text", "value": said}

    async def test_after_a_restart(self) -> None:
        """C38: the parent restarted after its end: the same call id opens the same child."""
        child = Agent(ScriptedModel(["Tea is a plant.", "It is green."]), name="researcher")
        async with mock_chat(self.parent(child)) as mock:
            await mock.chat.send("tell me")
            await mock.restart()
            again = await mock.chat.send("tell me more")
            assert again.status == "completed"
            rows = {row.id for row in mock.store.list_chats()}
            assert rows == {"chat-1", "chat-1/c1"}
            assert len(child.model.requests[-1].messages) == 3

    async def test_stop(self) -> None:
        """C38: parent stop mid-child: the child's turn is `stopped`, the call is output-error."""
        child = Agent(ScriptedModel([Reply("some words", hang=True)]), name="researcher")
        async with mock_chat(self.parent(child)) as mock:
            submission = mock.chat.send("tell me")
            await mock.clock.advance(0)
            mock.chat.stop()
            await run_on(mock, 6)
            assert (await submission).status == "stopped"
            turns = mock.store.load_turns("chat-1/c1")
            assert [t.state for t in turns] == ["stopped"]
            part = next(p for p in mock.chat.messages[-1].parts if p.type == "tool-research")
            assert part.state == "output-error"

    async def test_a_child_that_fails(self) -> None:
        """A child's `error` is the call's output-error; the parent goes on."""
        child = Agent(ScriptedModel([RuntimeError("down")]), name="researcher")
        async with mock_chat(self.parent(child)) as mock:
            outcome = await mock.chat.send("tell me")
            assert outcome.status == "completed"
            part = next(p for p in outcome.message.parts if p.type == "tool-research")
            assert part.state == "output-error"


class TestSteeringAndClear:
    """`clear()` while messages wait to be steered."""

    async def test_clear(self) -> None:
        """The turn is stopped, the steering message skipped; the send behind the clear is a turn of its own."""
        model = StrictModel([Reply("a b c", delay=1.0), "second"])
        async with mock_chat(Agent(model, steering=Steering(lambda batch: True))) as mock:
            first = mock.chat.send("a")
            await mock.clock.advance(0)
            steered, _, after = mock.chat.send("steer"), mock.chat.clear(), mock.chat.send("new")
            await run_on(mock)
            assert [s.result().status for s in (first, steered, after)] == ["stopped", "skipped", "completed"]
            assert texts(mock) == ["new", "second"]
