"""Who works on a client-side call, and until when (spec/widget.md, sections 1, 2 and 5.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatnb.models import Reply
from chatnb.widget import ChatWidget

from .shown import PICK, Shown, quiet, shown, until

PICKS = Reply(calls=[("pick", {})])
SCRIPT = PICK.__class__("pick", "Pick a colour", PICK.parameters, js="export default () => 1")


class Slow:
    """A function that works until it is let go."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.gate = asyncio.Event()
        self.ended: list[str] = []

    async def __call__(self, call: Any) -> Any:
        self.began.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        return 1


def phases(view: Shown) -> tuple[bool, bool]:
    """Whether the widget and the chat say that something streams."""
    return view.widget.is_server_streaming, view.mock.chat.is_server_streaming


class TestToolPhase:
    async def test_ends_when_the_conversation_is_cleared(self) -> None:
        """Section 2: active while a call of the newest assistant message is worked on, and that message is gone."""
        work = Slow()
        async with shown(PICKS, "done", client_tools=[PICK], on_tool_call=work) as view:
            await view.widget.send_message("x")
            await asyncio.wait_for(work.began.wait(), 3)
            assert phases(view) == (True, True)
            await view.widget.clear_history()
            assert phases(view) == (False, False)
            await quiet(view)
            assert (view.widget.messages, view.widget.status, work.ended) == ((), "ready", ["cancelled"])

    async def test_ends_when_somebody_else_answers(self) -> None:
        """Section 2: a call that is settled is not worked on any more; what the function gives then is nothing."""
        work = Slow()
        async with shown(PICKS, "done", client_tools=[PICK], on_tool_call=work) as view:
            await view.widget.send_message("x")
            await asyncio.wait_for(work.began.wait(), 3)
            await view.mock.chat.add_tool_output(view.widget.pending[0].tool_call_id, 5)
            assert phases(view) == (False, False)
            await quiet(view)
            parts = view.widget.messages[-1].parts
            assert [part.output for part in parts if part.type == "tool-pick"] == [5]

    async def test_stop_ends_the_function(self) -> None:
        """Section 2: `stop()`: ready; what works on the call is stopped, and no continuation answers after it."""
        work = Slow()
        async with shown(PICKS, "never", client_tools=[PICK], on_tool_call=work) as view:
            await view.widget.send_message("x")
            await asyncio.wait_for(work.began.wait(), 3)
            await view.hello()
            assert (await view.command("stop"))["ok"]
            await quiet(view)
            part = view.widget.messages[-1].parts[-1]
            assert (part.state, part.error_text[:7]) == ("output-error", "Stopped")
            assert (view.widget.status, view.widget.is_streaming, view.widget.pending) == ("ready", False, ())
            assert work.ended == ["cancelled"]
            assert len(view.mock.requests) == 1

    async def test_stop_ends_a_script(self) -> None:
        """5.5: stop aborts its signal: the call fails, no continuation answers, and what it gives later is too late."""
        async with shown(PICKS, "never", client_tools=[SCRIPT]) as view:
            await view.hello()
            await view.widget.send_message("x")
            call = view.widget.pending[0].tool_call_id
            assert (await view.command("toolStarted", toolCallId=call))["ok"]
            assert view.widget.is_server_streaming
            view.widget.stop()
            await quiet(view)
            assert (view.widget.is_streaming, view.widget.pending) == (False, ())
            late = await view.command("toolError", toolCallId=call, text="aborted")
            assert late["error"]["code"] == "already_decided"
            await quiet(view)
            assert len(view.mock.requests) == 1

    async def test_a_form_is_nobodys_work(self) -> None:
        """Section 2: a form waiting for a person is not a tool phase, and stop leaves it."""
        form = PICK.__class__("pick", "Pick a colour", PICK.parameters, form=True)
        async with shown(PICKS, client_tools=[form]) as view:
            await view.widget.send_message("x")
            view.widget.stop()
            await quiet(view)
            assert (phases(view), len(view.widget.pending)) == ((False, False), 1)

    async def test_two_widgets(self) -> None:
        """Section 2: a tool phase shows in every widget of the chat."""
        work = Slow()
        async with shown(PICKS, "done", client_tools=[PICK], on_tool_call=work) as view:
            other = ChatWidget(view.mock.chat)
            await view.widget.send_message("x")
            await asyncio.wait_for(work.began.wait(), 3)
            assert (other.is_server_streaming, other.is_streaming, other.status) == (True, True, "ready")
            work.gate.set()
            await quiet(view)
            assert (other.is_streaming, other.messages[-1].text) == (False, "done")
            other.close()


class TestTheFunction:
    async def test_is_asked_in_the_order_of_the_calls(self) -> None:
        """Section 1: for each client-side call, however many widgets and views; in the order of the model."""
        asked: list[Any] = []

        async def answer(call: Any) -> Any:
            asked.append(call.input)
            return call.input

        picks = Reply(calls=[("pick", {"n": n}) for n in range(3)])
        async with shown(picks, "done", client_tools=[PICK], on_tool_call=answer) as view:
            others = [ChatWidget(view.mock.chat, client_tools=[PICK], on_tool_call=answer) for _ in range(2)]
            await view.hello("v1")
            await view.hello("v2")
            await view.widget.send_message("x")
            await quiet(view)
            assert asked == [{"n": 0}, {"n": 1}, {"n": 2}]
            assert view.widget.messages[-1].text == "done"
            for other in others:
                other.close()

    @pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt(), SystemExit(3)])
    async def test_whatever_it_raises(self, error: BaseException) -> None:
        """Section 1: raising gives `add_tool_error`, whatever is raised; nothing waits for ever."""

        def answer(call: Any) -> Any:
            raise error

        async with shown(PICKS, "done", client_tools=[PICK], on_tool_call=answer) as view:
            await view.widget.send_message("x")
            await quiet(view)
            part = next(part for part in view.widget.messages[-1].parts if part.type == "tool-pick")
            assert part.state == "output-error"
            assert type(error).__name__ in part.error_text
            assert not view.widget.is_streaming


class TestTheLastView:
    @pytest.mark.parametrize("way", ["bye", "close", "unsupported"])
    async def test_is_gone(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 1: closed, output cleared, page left: the turn is stopped; a page of no common version is no view."""
        monkeypatch.setattr("chatnb.widget.panel.RETURN_WITHIN", 0.05)
        async with shown(Reply("a", hang=True), cancel_on_client_abort=True) as view:
            await view.hello()
            sent = view.widget.send_message("x")
            await until(lambda: view.widget.status == "streaming")
            if way == "close":
                view.widget.close()
            else:
                await view.command("bye")
            if way == "unsupported":
                await view.command("hello", "v2", versions=[99])
            assert (await asyncio.wait_for(_outcome(sent), 3)).status == "stopped"


async def _outcome(sent: Any) -> Any:
    return await sent
