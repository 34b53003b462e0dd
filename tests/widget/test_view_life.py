"""What a widget is before, beside and after its views (spec/widget.md, sections 1, 3.3 and 3.4)."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from typing import Any

import pytest
import traitlets
from ipywidgets.embed import embed_data, embed_minimal_html

from chatnb import Agent, ClientTool
from chatnb.errors import ConfigError
from chatnb.models import Reply, ScriptedModel, Usage
from chatnb.widget import ChatWidget
from chatnb.widget.settings import check_height

from .shown import PICK, Shown, quiet, refund, shown, still, until


def say(view: Shown, type: str, id: str, **fields: Any) -> None:
    """A command with an id of the test's choice."""
    assert view.widget._panel is not None
    epoch = view.widget._panel.channel.epoch
    view.widget._handle_custom_msg({"v": 1, "epoch": epoch, "view": "v1", "id": id, "type": type, **fields}, [])


def answers(view: Shown, id: str) -> list[Any]:
    return [(f["ok"], f.get("error", {}).get("code")) for f in view.sent if f["type"] == "ack" and f["id"] == id]


class TestTraits:
    async def test_nobody_hears_of_an_equal_value(self) -> None:
        """Section 1: never for an equal value: `usage` too, which is the same until a turn has used something."""
        told: list[Any] = []
        async with shown(Reply("a", usage=Usage(input_tokens=5, output_tokens=7))) as view:
            view.widget.observe(lambda change: told.append((change.old, change.new)), ["usage", "queue", "pending"])
            await view.widget.send_message("x")
            await quiet(view)
            await until(lambda: bool(told))
            assert [new.total.output_tokens for _, new in told if hasattr(new, "total")] == [7]
            assert all(old != new for old, new in told)

    async def test_methods_of_a_subclass(self) -> None:
        """Section 1: `observe` works as with any traitlets object: a method with `@observe` too."""
        told: list[Any] = []

        class Mine(ChatWidget):
            @traitlets.observe("status", "height")
            def _changed(self, change: Any) -> None:
                told.append((self, change.name, change.new))

        async with shown("a") as view:
            mine = Mine(view.mock.chat)
            await mine.send_message("x")
            await until(lambda: (mine, "status", "ready") in told)
            mine.height = "9px"
            assert told[-2:] == [(mine, "status", "ready"), (mine, "height", "9px")]
            mine.close()

    @pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt])
    async def test_an_observer_stops_nothing(
        self, raised: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Section 1: an observer that raises is logged and stops nothing: not the others, nor the other traits."""
        told: list[str] = []

        def leave(change: Any) -> None:
            raise raised("out")

        async with shown("a") as view:
            view.widget.observe(leave, ["messages", "status"])
            view.widget.observe(lambda change: told.append(change.name), ["messages", "status", "usage"])
            await view.widget.send_message("x")
            await quiet(view)
            assert {"messages", "status", "usage"} <= set(told)
        assert any("observer of 'status' failed" in record.getMessage() for record in caplog.records)

    async def test_pending_is_a_table(self) -> None:
        """Section 1: `pending` as on the chat: a table in a notebook."""
        async with shown(Reply(calls=[("refund", {"order": "1", "amount": 1.0})]), actions=[refund]) as view:
            await view.widget.send_message("x")
            assert view.widget.pending == view.mock.chat.pending
            assert "refund" in view.widget.pending._repr_html_()

    async def test_reading_a_closed_widget(self) -> None:
        """Section 1: reading gives the newest value; the chat goes on when a widget is closed."""
        async with shown(Reply("a b", hang=True)) as view:
            sent = view.widget.send_message("x")
            await still(view)
            assert view.widget.status == "streaming"
            view.widget.close()
            view.mock.chat.stop()
            await sent
            assert (view.widget.status, view.widget.is_streaming) == ("ready", False)


class TestOptions:
    async def test_halves_of_characters(self) -> None:
        """Section 1: options take effect in open views: what no frame can hold is what can be told of it."""
        async with shown(title="a \ud83d b", suggestions=["\ude00"]) as view:
            view.widget.placeholder = "\ud83d\ude00"
            values = (view.widget.title, view.widget.suggestions, view.widget.placeholder)
            assert values == ("a \ufffd b", ("\ufffd",), "\U0001f600")


class TestDoubles:
    async def test_an_id_that_was_refused_stays_refused(self) -> None:
        """3.2: a repeated id gets the same answer and does nothing, also where the first was no valid command."""
        async with shown("never") as view:
            await view.hello()
            say(view, "send", "z")
            say(view, "send", "z", text="hello")
            say(view, "nonsense", "z")
            await quiet(view)
            assert answers(view, "z") == [(False, "invalid")] * 3
            assert view.widget.messages == ()

    async def test_a_valid_id_is_not_refused_later(self) -> None:
        """3.2: nor is what was done under an id told otherwise by a broken double."""
        async with shown("done") as view:
            await view.hello()
            say(view, "send", "z", text="hello")
            await quiet(view)
            say(view, "send", "z")
            await quiet(view)
            assert answers(view, "z") == [(True, None)] * 2

    async def test_a_doubled_bye_ends_no_view_that_came_back(self) -> None:
        """3.2: delivery may be doubled and late; a repeated id does nothing: the view may go on deciding."""
        async with shown(Reply(calls=[("refund", {"order": "1", "amount": 1.0})]), "x", actions=[refund]) as view:
            await view.hello()
            await view.widget.send_message("x")
            say(view, "bye", "b")
            nonce = await view.hello()
            say(view, "bye", "b")
            item = view.widget.pending[0]
            assert (await view.command("approve", approvalId=item.id, hash=item.hash, nonce=nonce))["ok"]

    async def test_a_doubled_hello_brings_no_view_back(self) -> None:
        """3.2: a view that has said bye stays gone, so that `cancel_on_client_abort` counts from there."""
        async with shown("x") as view:
            say(view, "hello", "h", versions=[1])
            say(view, "bye", "b")
            say(view, "hello", "h", versions=[1])
            await quiet(view)
            assert answers(view, "h") == [(True, None)] * 2
            assert len([f for f in view.sent if f["type"] == "secret"]) == 1


class TestRefusals:
    async def test_a_file_that_is_too_large_is_named(self) -> None:
        """5.1: the error names file and limit."""
        async with shown(max_attachment_bytes=10) as view:
            assert view.widget._panel is not None
            file = {"name": "a.txt", "mediaType": "text/plain", "size": 11}
            command = {"view": "v1", "id": "f", "type": "send", "text": "x", "files": [file]}
            epoch = view.widget._panel.channel.epoch
            view.widget._handle_custom_msg({"v": 1, "epoch": epoch, **command}, [b"x" * 11])
            await quiet(view)
            answer = next(frame for frame in view.sent if frame["type"] == "ack")
            assert answer["error"] == {"code": "too_large", "message": "a.txt is larger than 10 bytes."}

    async def test_a_call_that_nobody_made(self) -> None:
        """3.2: what is not there is not found; it does not run elsewhere."""
        async with shown() as view:
            await view.hello()
            assert (await view.command("toolStarted", toolCallId="none"))["error"]["code"] == "not_found"


class TestTakenBack:
    @pytest.mark.parametrize("late", [False, True])
    @pytest.mark.parametrize("order", list(itertools.permutations(["send", "cancel", "stop"])), ids="-".join)
    async def test_in_whatever_order(self, order: tuple[str, ...], late: bool) -> None:
        """3.2: `stop` preceded by `cancel`: in whichever order, that text is not answered, and given back."""
        async with shown("earlier", Reply("a b c", hang=True)) as view:
            await view.hello()
            await view.widget.send_message("hello")
            for kind in order:
                fields = {"send": {"text": "hello"}, "cancel": {"commandId": "send"}, "stop": {}}[kind]
                say(view, kind, kind, **fields)
                if late:
                    await still(view)
            await quiet(view)
            assert [m.text for m in view.widget.messages] == ["hello", "earlier"]
            assert (view.widget.status, answers(view, "cancel"), answers(view, "stop")) == (
                "ready",
                [(True, None)],
                [(True, None)],
            )

    async def test_what_was_answered_stays(self) -> None:
        """3.2: an answered text is not taken back, nor is another's one that reads the same."""
        async with shown("one", Reply("a b c", hang=True), "two") as view:
            await view.hello()
            say(view, "send", "s1", text="hello")
            await quiet(view)
            say(view, "cancel", "c1", commandId="s1")
            say(view, "send", "s2", text="hello")
            await still(view)
            view.widget.stop()
            await quiet(view)
            await view.mock.chat.send("hello")
            say(view, "cancel", "c2", commandId="s2")
            await quiet(view)
            assert answers(view, "c1") == [(False, "not_found")]
            assert [m.text for m in view.widget.messages][-2:] == ["hello", "two"]

    async def test_while_its_body_is_made(self) -> None:
        """3.2: a text that is taken back before it was sent was not refused because something runs."""
        gate = asyncio.Event()

        async def body() -> dict[str, int]:
            await gate.wait()
            return {}

        async with shown("never", body=body) as view:
            await view.hello()
            say(view, "send", "s", text="hello")
            await still(view)
            say(view, "cancel", "c", commandId="s")
            gate.set()
            await quiet(view)
            assert (answers(view, "s"), answers(view, "c")) == ([(False, "failed")], [(True, None)])
            assert view.widget.messages == ()


class TestFirstMessages:
    async def test_are_made_once_for_a_chat(self) -> None:
        """Section 1: called once, only if the chat has never held a node: two widgets made at once, and a re-run."""
        made: list[int] = []

        async def make() -> list[Any]:
            made.append(1)
            await asyncio.sleep(0)
            return [{"id": "a", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]

        async with shown("x", get_initial_messages=make) as view:
            others = [ChatWidget(view.mock.chat, get_initial_messages=make) for _ in range(2)]
            await view.hello()
            await still(view)
            others.append(ChatWidget(view.mock.chat, get_initial_messages=make))
            assert [[m.text for m in widget.messages] for widget in others] == [["hi"]] * 3
            assert made == [1]
            for widget in others:
                widget.close()


class TestLocalMessages:
    async def test_stay_until_the_history_changes(self) -> None:
        """Section 1: `sync_messages=False`: until the history next changes; a refused input changes none."""
        agent = Agent(ScriptedModel(["a"]))

        @agent.on_validate_messages
        def refuse(event: Any) -> None:
            raise ValueError("no")

        async with shown(agent=agent) as view:
            view.widget.set_messages([{"id": "q", "role": "user", "parts": [{"type": "text", "text": "mine"}]}])
            assert (await view.widget.send_message("x")).status == "error"
            await quiet(view)
            assert [m.text for m in view.widget.messages] == ["mine"]
            assert view.mock.chat.messages == ()


class TestHeldBack:
    async def test_a_turn_that_has_said_nothing_yet(self) -> None:
        """Section 1: `resume=False`: a view opened while a turn runs shows settled history, from the first word on."""
        begun, gate = asyncio.Event(), asyncio.Event()
        agent = Agent(ScriptedModel([Reply("a b", hang=True)]))

        @agent.on_turn_start
        async def start(event: Any) -> None:
            begun.set()
            await gate.wait()

        async with shown(agent=agent, resume=False) as view:
            view.widget.send_message("x")
            await asyncio.wait_for(begun.wait(), 3)
            assert view.widget.status == "submitted"
            await view.hello()
            reset = next(f for f in view.sent if f["type"] == "reset")
            assert reset["snapshot"]["state"]["held"]
            gate.set()
            await still(view)
            assert (view.widget.status, [m.text for m in view.widget.messages]) == ("streaming", ["x"])
            view.widget.resume_stream()
            assert [m.text for m in view.widget.messages][1:] != []
            view.widget.stop()
            await quiet(view)


class TestSavedState:
    async def test_as_of_now_though_nobody_looked(self) -> None:
        """3.4: `_snapshot` is computed when asked for: usage, branches and options as they are, without any view."""
        async with shown(Reply("a", usage=Usage(input_tokens=5, output_tokens=7)), "again") as view:
            view.widget.get_state()
            await view.widget.send_message("q")
            await view.widget.regenerate()
            saved = view.widget.get_state()["_snapshot"]
            assert saved["state"]["usage"]["total"]["outputTokens"] == 7
            assert saved["messages"][-1]["branch"] == {"index": 1, "count": 2}
            assert view.widget.get_state()["_snapshot"] is saved
            view.widget.title = "Another"
            assert view.widget.get_state()["_snapshot"]["options"]["title"] == "Another"

    async def test_a_page_of_the_state_alone(self) -> None:
        """3.4: what is drawn without kernel needs bundle, options and snapshot: also where defaults are dropped."""
        async with shown("the answer") as view:
            await view.widget.send_message("the question")
            states = embed_data(views=[view.widget])["manager_state"]["state"]
            state = states[view.widget.model_id]["state"]
            assert {"_esm", "_css", "_snapshot", "height", "theme", "suggestions"} <= state.keys()
            assert "the answer" in json.dumps(state["_snapshot"])
            page = io.StringIO()
            embed_minimal_html(page, views=[view.widget], title="Chat")
            assert "the question" in page.getvalue()
            assert view.widget.get_state(["title"], drop_defaults=True).keys() <= {"title"}


class TestBodies:
    async def test_a_sync_function_is_called_off_the_loop(self) -> None:
        """Section 1: evaluated where a person's functions run; an awaitable that a sync one returns is awaited."""

        async def made() -> dict[str, int]:
            return {"a": 1}

        async with shown("a", body=lambda: made(), prepare_send_messages_request=lambda request: None) as view:
            assert (await view.widget.send_message("x")).status == "completed"
            assert view.mock.chat._engine.last_body == {"a": 1}

    async def test_of_whatever_is_answered(self) -> None:
        """Section 1: `body` for each input, client tools with the inputs: an edit in a view too, and a chat action."""
        bodies: list[Any] = []
        asked: list[Any] = []
        agent = Agent(ScriptedModel(["a", "b", "c", "d"]))

        @agent.on_turn_start
        def start(event: Any) -> None:
            bodies.append(event.body)

        def prepare(request: Any) -> None:
            asked.append((request.trigger, request.message_id))

        options = {"body": lambda: {"n": 1}, "prepare_send_messages_request": prepare, "client_tools": [PICK]}
        async with shown(agent=agent, **options) as view:
            await view.hello()
            await view.command("send", text="x")
            await quiet(view)
            first = view.widget.messages[0].id
            assert (await view.command("edit", messageId=first, text="y"))["ok"]
            await quiet(view)
            edited = view.widget.messages[0].id
            assert (await view.command("act", action={"type": "edit", "messageId": edited, "text": "z"}))["ok"]
            await quiet(view)
            await view.command("regenerate")
            await quiet(view)
            assert bodies == [{"n": 1}] * 4
            assert [[tool.name for tool in request.actions] for request in view.mock.requests] == [["pick"]] * 4
            assert asked == [
                ("submit-message", None),
                ("action-turn", first),
                ("action-turn", None),
                ("regenerate-message", None),
            ]


class TestNamesOfTools:
    async def test_of_an_action(self) -> None:
        """5.5: the schemas are sent with the inputs: a client tool of an action's name would be there twice."""
        tool = ClientTool("refund", "Mine", {"type": "object"})
        with pytest.raises(ConfigError, match="'refund' has the name of an action"):
            async with shown("a", actions=[refund], client_tools=[tool]):
                pass
        async with shown(Reply(calls=[("refund", {"order": "1", "amount": 1.0})]), actions=[refund]) as view:
            await view.mock.chat.send("x", client_tools=[tool])
            assert [asked.name for asked in view.mock.requests[0].actions] == ["refund"]
            assert [item.kind for item in view.widget.pending] == ["approval"]

    @pytest.mark.parametrize("tool", [{"parameters": {"default": object()}}, {"form": {"default": object()}}])
    async def test_that_are_no_json(self, tool: dict[str, Any]) -> None:
        """5.5: `parameters` is a JSON Schema object; else `ConfigError`."""
        with pytest.raises(ConfigError, match="JSON"):
            async with shown("a", client_tools=[ClientTool("pick", "P", **{"parameters": {}, **tool})]):
                pass


class TestHeights:
    @pytest.mark.parametrize(
        "height", [".5em", "1e2px", "+5px", "10lh", "50cqh", "40dvw", "calc(100% - 2em)", "auto", "0"]
    )
    def test_a_css_length(self, height: str) -> None:
        """Section 1: `height` is a CSS length or "auto"."""
        assert check_height(height) == height

    @pytest.mark.parametrize(
        "height", ["-5px", "5", "px", "fit-content", "inherit", "1px;x:y", "5px 6px", "", "1e9999px"]
    )
    def test_none(self, height: str) -> None:
        """Section 1: else `ConfigError`."""
        with pytest.raises(ConfigError):
            check_height(height)
