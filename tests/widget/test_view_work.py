"""`ChatWidget` on the real engine: client tools, inputs, views, site, secrets (spec/widget.md, 1, 5, 7)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from chatnb import Agent, ClientTool
from chatnb.errors import ChatClosedError, ConfigError, PendingError
from chatnb.models import Reply, ScriptedModel
from chatnb.widget import ChatWidget, tool_part_state

from .shown import PICK, add, quiet, ran, refund, shown, still, until


class TestCutOff:
    async def test_an_answer_without_its_end_is_told_of(self) -> None:
        """turns.md, section 6: "length" and "content-filter" are told of, until the next answer begins."""
        steps = [Reply("Half of", finish_reason="length"), Reply("No.", finish_reason="content-filter"), "Whole."]
        async with shown(*steps) as view:
            said = []
            for _ in steps:
                await view.widget.send_message("x")
                await quiet(view)
                said.append(view.widget._panel.deeds.notices.shown.get("finish", {}).get("text", ""))
        assert "cut off" in said[0]
        assert "declined" in said[1]
        assert said[2] == ""


class TestClientTools:
    def steps(self) -> list[Any]:
        return [Reply(calls=[("pick", {})]), "thanks"]

    async def test_on_tool_call_gives_the_output_once(self) -> None:
        """Section 1: once per call id and kernel, however many views and widgets; not None is the output."""
        asked: list[Any] = []

        async def pick(call: Any) -> str:
            asked.append((call.tool_name, call.input))
            return "red"

        async with shown(*self.steps(), client_tools=[PICK], on_tool_call=pick) as view:
            other = ChatWidget(view.mock.chat, client_tools=[PICK], on_tool_call=pick)
            await view.widget.send_message("x")
            await quiet(view)
            await quiet(view)
            assert asked == [("pick", {})]
            assert view.widget.messages[-1].text == "thanks"
            other.close()

    async def test_none_leaves_it_pending_and_raising_is_an_error(self) -> None:
        """Section 1: None leaves it pending, raising gives `add_tool_error`."""
        answers: list[Any] = [None]

        def pick(call: Any) -> Any:
            if answers:
                return answers.pop()
            raise ValueError("no colours")

        async with shown(*self.steps(), *self.steps(), client_tools=[PICK], on_tool_call=pick) as view:
            await view.widget.send_message("x")
            await quiet(view)
            (item,) = view.widget.pending
            assert item.kind == "client-tool"
            await view.widget.add_tool_output(item.tool_call_id, {"colour": "blue"})
            await quiet(view)
            await view.widget.send_message("again")
            await quiet(view)
            await quiet(view)
            parts = [p for m in view.widget.messages for p in m.parts if p.type.startswith("tool-")]
            assert [tool_part_state(part) for part in parts] == ["complete", "error"]
            assert "no colours" in parts[1].error_text

    async def test_scripts_use_the_ids_of_their_calls_again(self) -> None:
        """Section 1: once per call: a call of another chat, store or message is another, whatever its id is."""
        asked: list[str] = []

        def pick(call: Any) -> str:
            asked.append(call.tool_call_id)
            return "red"

        for _ in range(2):
            async with shown(*self.steps(), client_tools=[PICK], on_tool_call=pick) as view:
                await view.widget.send_message("x")
                await quiet(view)
                assert view.widget.messages[-1].text == "thanks"
        assert asked == ["call-1", "call-1"]

    async def test_a_page_runs_the_script(self) -> None:
        """5.5: the last used view is asked; `toolStarted`, `toolOutput`; a tool phase meanwhile."""
        tool = ClientTool("pick", "Pick", {"type": "object"}, js="export default async () => 1")
        async with shown(*self.steps(), client_tools=[tool]) as view:
            await view.hello("v1")
            await view.hello("v2")
            await view.command("send", "v2", text="x")
            await quiet(view)
            (run,) = [frame for frame in view.sent if frame["type"] == "run"]
            assert (run["to"], run["name"], run["input"]) == ("v2", "pick", {})
            id = run["toolCallId"]
            assert (await view.command("toolStarted", "v2", toolCallId=id))["ok"]
            assert view.widget.is_server_streaming
            assert (await view.command("toolOutput", "v2", toolCallId=id, output="red"))["ok"]
            await quiet(view)
            assert not view.widget.is_server_streaming
            assert view.widget.messages[-1].text == "thanks"

    async def test_unknown_ids_raise(self) -> None:
        """Section 1: an unknown id raises `PendingError`."""
        async with shown() as view:
            with pytest.raises(PendingError):
                view.widget.add_tool_approval_response("nobody", True)
            with pytest.raises(PendingError):
                view.widget.add_tool_output("nobody", 1)


class TestInputs:
    async def test_bodies_are_laid_over_each_other(self) -> None:
        """Section 1: later wins, key by key: `body`, the prepare function, the call's own `body`."""
        bodies: list[Any] = []
        agent = Agent(ScriptedModel(["a", "b"]))

        @agent.on_turn_start
        def note(event: Any) -> None:
            bodies.append(dict(event.body))

        async def body() -> dict[str, Any]:
            return {"a": 1, "b": 1, "c": 1}

        def prepare(request: Any) -> dict[str, Any]:
            assert request.trigger == "submit-message"
            return {"body": {"b": request.body["b"] + 1, "c": 2}}

        async with shown(agent=agent, body=body, prepare_send_messages_request=prepare) as view:
            outcome = await view.widget.send_message("x", body={"c": 3})
            assert outcome.status == "completed"
            assert bodies == [{"a": 1, "b": 2, "c": 3}]

    @pytest.mark.parametrize("answer", [{"other": 1}, {"body": 3}, "x"])
    async def test_a_wrong_answer_fails_the_input(self, answer: Any) -> None:
        """Section 1: another key raises `ConfigError`; outcome `error`, stage `input`."""
        async with shown("a", prepare_send_messages_request=lambda request: answer) as view:
            await view.hello()
            outcome = await view.widget.send_message("x")
            assert (outcome.status, outcome.error.stage) == ("error", "input")
            assert isinstance(outcome.error.cause, ConfigError)
            assert view.widget.messages == ()
            refused = await view.command("send", text="y")
            assert not refused["ok"]

    async def test_first_messages(self) -> None:
        """Section 1: `get_initial_messages`, once, only if the chat has never held a node."""
        made: list[int] = []
        first = [{"id": "m", "role": "assistant", "parts": [{"type": "text", "text": "Welcome"}]}]

        async def make() -> Any:
            made.append(1)
            return first

        async with shown(get_initial_messages=make) as view:
            await quiet(view)
            assert view.widget.messages[0].text == "Welcome"
            ChatWidget(view.mock.chat, get_initial_messages=make).close()
            await quiet(view)
            assert made == [1]

    async def test_first_messages_come_before_the_first_view(self) -> None:
        """Section 1: called once, before the first view is filled: no view is empty first."""
        gate = asyncio.Event()

        async def make() -> Any:
            await gate.wait()
            return [{"id": "m", "role": "assistant", "parts": [{"type": "text", "text": "Welcome"}]}]

        async with shown(get_initial_messages=make) as view:
            panel = view.widget._panel
            assert panel is not None
            for number in range(3):
                hello = {"view": "v1", "id": f"h{number}", "type": "hello", "versions": [1]}
                view.widget._handle_custom_msg({"v": 1, "epoch": "", **hello}, [])
            await still(view)
            assert view.sent == []
            gate.set()
            await quiet(view)
            (reset,) = [frame for frame in view.sent if frame["type"] == "reset"]
            assert reset["snapshot"]["messages"][0]["message"]["parts"][0]["text"] == "Welcome"

    async def test_first_messages_that_fail(self) -> None:
        """Section 1: raising or invalid: the chat is empty, the view shows the error, nothing is stored."""
        async with shown(get_initial_messages=lambda: [{"id": "m"}]) as view:
            await quiet(view)
            await view.hello()
            assert view.widget.messages == ()
            notices = next(f for f in view.sent if f["type"] == "reset")["snapshot"]["notices"]
            assert "could not be made" in notices[0]["text"]

    async def test_set_messages_shows_and_stores(self) -> None:
        """Section 1: `sync_messages`: False changes what this widget shows, until the history next changes."""
        async with shown("a", "b") as view:
            await view.hello()
            await view.mock.chat.send("x")
            view.widget.set_messages(lambda messages: messages[:1])
            assert len(view.widget.messages) == 1
            assert len(view.mock.chat.messages) == 2
            await still(view)
            await view.mock.chat.send("y")
            assert len(view.widget.messages) == 4
        async with shown("a", sync_messages=True) as view:
            await view.mock.chat.send("x")
            view.widget.set_messages([])
            await quiet(view)
            assert view.mock.chat.messages == ()


class TestViews:
    async def test_resume_false(self) -> None:
        """Section 1: a view opened while a turn runs shows settled history, and attaches by `resume_stream()`."""
        async with shown(Reply("one two", hang=True), resume=False) as view:
            view.mock.chat.send("x")
            await still(view)
            await view.hello()
            reset = next(f for f in view.sent if f["type"] == "reset")["snapshot"]
            assert [entry["message"]["role"] for entry in reset["messages"]] == ["user"]
            assert reset["state"]["held"] is True
            view.widget.resume_stream()
            await still(view)
            ops = [op for f in view.sent if f["type"] == "ops" for op in f["ops"]]
            assert any(op["op"] == "msg" and op["message"]["role"] == "assistant" for op in ops)
            view.widget.stop()
            await quiet(view)

    async def test_the_last_view_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 1: `cancel_on_client_abort=True`: the turn this widget started is stopped when nobody returns."""
        monkeypatch.setattr("chatnb.widget.panel.RETURN_WITHIN", 0.05)
        async with shown(Reply("a", hang=True), cancel_on_client_abort=True) as view:
            await view.hello()
            await view.command("send", text="x")
            await still(view)
            await view.command("bye")
            await quiet(view)
            assert view.mock.chat.status == "ready"

    async def test_a_view_that_comes_back_begins_the_wait_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 1: none returns within 10 s: counted from when the last one went."""
        monkeypatch.setattr("chatnb.widget.panel.RETURN_WITHIN", 0.4)
        async with shown(Reply("a", hang=True), cancel_on_client_abort=True) as view:
            await view.hello()
            await view.command("send", text="x")
            await still(view)
            await view.command("bye")
            await asyncio.sleep(0.3)
            await view.hello("v2")
            await view.command("bye", "v2")
            await asyncio.sleep(0.25)
            assert view.mock.chat.status == "streaming"
            await asyncio.sleep(0.3)
            await quiet(view)
            assert view.mock.chat.status == "ready"

    async def test_close(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 1: `close()` ends views and comm, keeps the chat; idempotent; later methods raise."""
        async with shown("a") as view:
            view.widget.close()
            view.widget.close()
            calls: list[Any] = [
                lambda: view.widget.send_message("x"),
                lambda: view.widget.regenerate(),
                lambda: view.widget.stop(),
                lambda: view.widget.clear_history(),
                lambda: view.widget.add_tool_output("x", 1),
                lambda: view.widget.add_tool_approval_response("x", True),
                lambda: view.widget.set_messages([]),
                lambda: view.widget.resume_stream(),
            ]
            for call in calls:
                with pytest.raises(ChatClosedError):
                    call()
            # What is shown of it says so; traits can still be read, and options set.
            published: list[Any] = []
            monkeypatch.setattr("chatnb.widget.displays.publish_output", lambda *args: published.append(args))
            view.widget._ipython_display_()
            ((bundle, *_),) = published
            assert "closed" in bundle["text/html"]
            assert view.widget.status == "ready"
            view.widget.title = "late"
            assert (await view.mock.chat.send("x")).status == "completed"

    async def test_transcripts_are_updated_when_a_turn_settles(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 9: two outputs; the transcript is updated when a turn settles, at most once a second."""
        published: list[Any] = []
        monkeypatch.setattr("chatnb.widget.displays.publish_output", lambda *args: published.append(args))
        monkeypatch.setattr("chatnb.widget.outputs.GAP", 0.05)
        async with shown("a", "b") as view:
            view.widget._outputs._publish = lambda *args: published.append(args)
            view.widget._ipython_display_()
            assert [bundle["text/plain"] for bundle, _, _ in published] == ["ChatWidget", "chat transcript"]
            assert "No messages yet." in published[1][0]["text/html"]
            await view.widget.send_message("question")
            await until(lambda: "question" in published[-1][0]["text/html"])
            bundle, display_id, update = published[-1]
            assert update
            assert display_id == published[1][1]
            assert "question" in bundle["text/html"]
            assert len(published) <= 4

    async def test_no_transcript(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 9: none with `transcript=False`."""
        published: list[Any] = []
        monkeypatch.setattr("chatnb.widget.displays.publish_output", lambda *args: published.append(args))
        async with shown(transcript=False) as view:
            view.widget._ipython_display_()
            assert len(published) == 1


class TestSite:
    async def test_a_gated_action_runs_by_a_click(self) -> None:
        """5.3 and actions.md 11: a click with the nonce runs it; its card is in the panel, not in the history."""
        async with shown(actions=[add, refund]) as view:
            nonce = await view.hello()
            refused = await view.command("call", name="refund", args={"order": "1", "amount": 2}, nonce="0" * 32)
            assert refused["error"]["code"] == "bad_nonce"
            assert ran == []
            done = await view.command("call", name="refund", args={"order": "1", "amount": 2}, nonce=nonce)
            assert done["ok"]
            await quiet(view)
            assert ran == [("1", 2.0)]
            calls = [op for f in view.sent if f["type"] == "ops" for op in f["ops"] if op["op"] == "call"]
            assert calls[-1]["part"]["output"] == "refunded 2.0"
            assert view.widget.messages == ()

    async def test_invalid_arguments_name_the_field(self) -> None:
        """3.2: `error.field` of an invalid call."""
        async with shown(actions=[add]) as view:
            nonce = await view.hello()
            answer = await view.command("call", name="add", args={"b": 1}, nonce=nonce)
            assert (answer["error"]["code"], answer["error"]["field"]) == ("invalid", "a")


class TestThreads:
    def test_observers_run_off_the_runtime(self) -> None:
        """Section 1: without a kernel observers run on one notifier thread, never on the agent's loop."""
        chat = Agent(ScriptedModel(["hi"])).chat()
        widget = ChatWidget(chat)
        names: list[str] = []
        done = threading.Event()

        def note(change: Any) -> None:
            names.append(threading.current_thread().name)
            if change.new == "ready":
                done.set()

        widget.observe(note, "status")
        widget.send_message("x").result()
        assert done.wait(5)
        assert set(names) == {names[0]}
        assert "runtime" not in names[0]
        widget.close()
        chat.close()
