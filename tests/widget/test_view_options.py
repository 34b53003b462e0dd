"""`ChatWidget`'s options for data and decisions, on the real engine (spec/widget.md, sections 1 and 2)."""

from __future__ import annotations

from typing import Any

from chatnb import Agent
from chatnb.models import Reply, ScriptedModel
from chatnb.widget import ChatWidget

from .shown import quiet, ran, refund, shown, still, until


def agent_with_data() -> Agent:
    """An agent whose turns begin with transient data, and hold a data part that is sent twice."""
    agent = Agent(ScriptedModel(["hello"]))

    @agent.run
    async def run(turn: Any) -> Any:
        yield {"type": "data-progress", "data": {"done": 1}, "transient": True}
        yield {"type": "data-chart", "id": "c", "data": {"points": [1]}}
        yield {"type": "data-chart", "id": "c", "data": {"points": [1, 2]}}
        async for chunk in turn.stream_text():
            yield chunk

    return agent


class TestData:
    async def test_every_part_once(self) -> None:
        """Section 1: `on_data`: every data part, transient too, once, to each widget that asked."""
        told: list[Any] = []
        other: list[str] = []
        async with shown(agent=agent_with_data(), on_data=lambda part: told.append(part.wire)) as view:
            second = ChatWidget(view.mock.chat, on_data=lambda part: other.append(part.type))
            await view.hello("v1")
            await view.hello("v2")
            await view.widget.send_message("x")
            await quiet(view)
            assert [(wire["type"], wire["data"]) for wire in told] == [
                ("data-progress", {"done": 1}),
                ("data-chart", {"points": [1]}),
                ("data-chart", {"points": [1, 2]}),
            ]
            assert other == ["data-progress", "data-chart", "data-chart"]
            assert [part.type for part in view.widget.messages[-1].parts].count("data-chart") == 1
            second.close()

    async def test_an_async_function(self) -> None:
        """Section 1: `on_data` for every data part: an async function is awaited."""
        told: list[str] = []

        async def quick() -> None:
            pass

        async def tell(part: Any) -> None:
            await quick()
            told.append(part.type)

        async with shown(agent=agent_with_data(), on_data=tell) as view:
            await view.widget.send_message("x")
            await until(lambda: len(told) == 3)
            assert sorted(told) == ["data-chart", "data-chart", "data-progress"]

    async def test_one_that_raises_stops_nothing(self) -> None:
        """Section 1: an observer that raises is logged and stops nothing; transient data is no first chunk."""
        statuses_told: list[str] = []

        def broken(part: Any) -> None:
            raise RuntimeError("mine")

        async with shown(agent=agent_with_data(), on_data=broken) as view:
            chat = view.mock.chat
            chat._engine.subscribe(
                lambda update: statuses_told.append(chat.status) if update.kind == "chunk" and update.chunk else None
            )
            assert (await view.widget.send_message("x")).status == "completed"
            await quiet(view)
            kinds = [chunk["type"] for chunk in view.mock.chunks]
            first_data = kinds.index("data-progress")
            assert statuses_told[first_data] == "submitted"
            assert "streaming" in statuses_told[first_data + 1 :]


TWO = Reply(calls=[("refund", {"order": "1", "amount": 1.0}), ("refund", {"order": "2", "amount": 2.0})])


class TestDecisions:
    """The rows of the table in section 2 that a decision moves."""

    async def test_the_batch_is_complete(self) -> None:
        """A decision completes the batch: `is_tool_continuation` at once; `stop()` ends it at once."""
        async with shown(TWO, Reply("done", hang=True), actions=[refund]) as view:
            widget = view.widget
            await widget.send_message("go")
            first, second = widget.pending
            widget.add_tool_approval_response(first.id, True)
            assert not widget.is_tool_continuation
            widget.add_tool_approval_response(second.id, False, "no")
            assert widget.is_tool_continuation
            assert widget.pending == ()
            await still(view)
            assert (widget.status, widget.is_server_streaming) == ("streaming", False)
            widget.stop()
            assert not widget.is_tool_continuation
            await quiet(view)
            assert (widget.status, ran) == ("ready", [("1", 1.0)])

    async def test_stop_right_after_the_last_decision(self) -> None:
        """`stop()`: `is_tool_continuation` False at once, though the slot starts later; what was rejected is denied."""
        async with shown(TWO, "never", actions=[refund]) as view:
            widget = view.widget
            await widget.send_message("go")
            first, second = widget.pending
            widget.add_tool_approval_response(first.id, False, "no")
            widget.add_tool_approval_response(second.id, True)
            assert widget.is_tool_continuation
            widget.stop()
            assert not widget.is_tool_continuation
            told: list[bool] = []
            widget.observe(lambda change: told.append(change.new), "is_tool_continuation")
            await quiet(view)
            assert (widget.status, told, ran, len(view.mock.requests)) == ("ready", [], [], 1)
            states = [(part.state, part.error_text) for part in widget.messages[-1].parts if part.type == "tool-refund"]
            assert states == [("output-denied", None), ("output-error", "Not executed: stopped.")]

    async def test_decisions_from_elsewhere_continue(self) -> None:
        """Section 1: without auto-continue a decision here queues nothing; one from elsewhere continues."""
        options = {"auto_continue_after_tool_result": False}
        async with shown(TWO, "done", actions=[refund], **options) as view:
            await view.widget.send_message("go")
            first, second = view.widget.pending
            await view.widget.add_tool_approval_response(first.id, True)
            view.mock.chat.approve(second.id)
            await quiet(view)
            assert view.widget.messages[-1].text == "done"
            assert ran == [("1", 1.0), ("2", 2.0)]

    async def test_nothing_but_the_queue_changes(self) -> None:
        """Slot taken: nothing but `queue` changes; clearing empties messages and queue at once."""
        async with shown(Reply("a", hang=True), "b") as view:
            widget = view.widget
            widget.send_message("one")
            await still(view)
            before = (widget.status, widget.is_tool_continuation, widget.is_recovering, widget.error, widget.messages)
            widget.send_message("two")
            await still(view)
            after = (widget.status, widget.is_tool_continuation, widget.is_recovering, widget.error, widget.messages)
            assert before == after
            assert [waiting.text for waiting in widget.queue] == ["two"]
            clearing = widget.clear_history()
            await clearing
            assert (widget.messages, widget.queue) == ((), ())
            await quiet(view)
            assert widget.status == "ready"
