"""`ChatWidget` on the real engine: options, traits, states, client tools, the site (spec/widget.md, 1, 2, 5)."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import traitlets

from chatnb import Agent, ClientTool, action
from chatnb.errors import ChatClosedError, ConfigError, PendingError
from chatnb.models import Reply, ScriptedModel
from chatnb.testing.mock import MockChat, mock_chat
from chatnb.widget import ChatWidget, tool_part_state
from chatnb.widget.client_tools import _taken


@action
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@action(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    ran.append((order, amount))
    return f"refunded {amount}"


ran: list[Any] = []
PICK = ClientTool("pick", "Pick a colour", {"type": "object", "properties": {}})


class Shown:
    """A widget and what it sent."""

    def __init__(self, mock: MockChat, **options: Any) -> None:
        self.mock = mock
        self.sent: list[dict[str, Any]] = []
        self.widget = ChatWidget(mock.chat, **options)
        self.widget._send_frame = lambda frame, buffers: self.sent.append(frame)  # type: ignore[method-assign]
        self.widget._panel.channel._send_raw = self.widget._send_frame  # type: ignore[union-attr]
        self.number = 0

    async def command(self, type: str, view: str = "v1", **fields: Any) -> dict[str, Any]:
        self.number += 1
        id = f"{view}-{self.number}"
        panel = self.widget._panel
        assert panel is not None
        self.widget._handle_custom_msg(
            {"v": 1, "epoch": panel.channel.epoch, "view": view, "id": id, "type": type, **fields}, []
        )
        for _ in range(200):
            await asyncio.sleep(0.005)
            answers = [frame for frame in self.sent if frame["type"] == "ack" and frame["id"] == id]
            if answers:
                return answers[0]
        raise AssertionError(f"no answer to {type}")

    async def hello(self, view: str = "v1", **fields: Any) -> str:
        await self.command("hello", view, versions=[1], **fields)
        return next(str(f["nonce"]) for f in reversed(self.sent) if f["type"] == "secret" and f["to"] == view)


@asynccontextmanager
async def shown(*steps: Any, actions: Any = (), agent: Agent | None = None, **options: Any) -> AsyncIterator[Shown]:
    ran.clear()
    used = agent or Agent(ScriptedModel(list(steps)), actions=list(actions))
    async with mock_chat(used) as mock:
        view = Shown(mock, **options)
        yield view
        view.widget.close()


async def quiet(view: Shown) -> None:
    await view.mock.done()
    await asyncio.sleep(0.08)


class TestOptions:
    async def test_unknown_option_names_the_nearest(self) -> None:
        """Section 1: an unknown keyword (its nearest known one is named) raises `TypeError`."""
        async with mock_chat(Agent(ScriptedModel([]))) as mock:
            with pytest.raises(TypeError, match="suggestions"):
                ChatWidget(mock.chat, sugestions=["a"])

    def test_neither_chat_nor_agent(self) -> None:
        """Section 1: anything else than a chat or an agent raises `TypeError`."""
        with pytest.raises(TypeError, match="Chat or an Agent"):
            ChatWidget(3)

    @pytest.mark.parametrize(
        "options",
        [
            {"height": "tall"},
            {"height": 560},
            {"height": "1px;position:fixed"},
            {"theme": "pink"},
            {"suggestions": "one"},
            {"body": 3},
            {"on_tool_call": "x"},
            {"client_tools": [{"name": "x"}]},
            {"max_attachment_bytes": 0},
            {"locale": "<b>"},
        ],
    )
    async def test_options_that_cannot_be(self, options: dict[str, Any]) -> None:
        """Section 1: else `ConfigError`."""
        async with mock_chat(Agent(ScriptedModel([]))) as mock:
            with pytest.raises(ConfigError):
                ChatWidget(mock.chat, **options)

    async def test_writable_options_reach_open_views(self) -> None:
        """Section 1: the options are writable and take effect in open views."""
        async with shown() as view:
            await view.hello()
            view.widget.theme = "dark"
            view.widget.suggestions = ["one", "two"]
            await asyncio.sleep(0.1)
            changes = [op["state"]["options"] for f in view.sent if f["type"] == "ops" for op in f["ops"]]
            assert changes[-1]["theme"] == "dark"
            assert changes[-1]["suggestions"] == ["one", "two"]
            with pytest.raises(ConfigError):
                view.widget.theme = "pink"

    async def test_help_names_what_the_agent_can_do(self) -> None:
        """Journey A.2: a title and a sentence on what this agent can do."""
        async with shown(actions=[add, refund], title="Till", suggestions=["Refund order 7"]) as view:
            await view.hello()
            options = next(f for f in view.sent if f["type"] == "reset")["snapshot"]["options"]
            assert options["title"] == "Till"
            assert options["help"] == "It can use add and refund."
            assert [(a["name"], a["gated"]) for a in options["actions"]] == [("add", False), ("refund", True)]


class TestTraits:
    async def test_state_traits_are_read_only(self) -> None:
        """C33: append raises and names `set_messages`; setting raises `TraitError`; a page moves no trait."""
        async with shown("hi") as view:
            widget = view.widget
            with pytest.raises(TypeError, match="set_messages"):
                widget.messages.append("x")
            for name in ("status", "messages", "error", "pending", "is_streaming", "queue", "usage"):
                with pytest.raises(traitlets.TraitError):
                    setattr(widget, name, "x")
            widget.set_state({"status": "x", "_snapshot": {"a": 1}, "_esm": "alert(1)", "messages": []})
            assert widget.status == "ready"
            assert "alert(1)" not in widget._esm
            assert widget._trait_values.get("_snapshot", {}) == {}
            assert not {"messages", "status", "pending", "error", "queue", "usage"} & set(widget.keys)

    async def test_observers_are_told_and_one_that_raises_stops_nothing(self) -> None:
        """C32: an observer on `status` that raises, another linked: the last value arrives; never an equal one."""
        async with shown("one two three") as view:
            told: list[str] = []

            class Label(traitlets.HasTraits):
                value = traitlets.Unicode()

            def broken(change: Any) -> None:
                raise RuntimeError("mine")

            label = Label()
            view.widget.observe(broken, "status")
            view.widget.observe(lambda change: told.append(change.new), "status")
            traitlets.dlink((view.widget, "status"), (label, "value"))
            await view.widget.send_message("hello")
            await quiet(view)
            assert told[-1] == label.value == "ready"
            assert all(before != after for before, after in itertools.pairwise(told))

    async def test_messages_show_the_unfinished_one(self) -> None:
        """Section 1: `messages` is the chain shown, with the unfinished message."""
        async with shown(Reply("one two", hang=True)) as view:
            view.widget.send_message("hello")
            await asyncio.sleep(0.1)
            assert view.widget.messages[-1].text == "one two"
            assert view.widget.is_streaming
            view.widget.stop()
            await quiet(view)
            assert view.widget.status == "ready"

    async def test_foreign_turns(self) -> None:
        """Section 2: `is_server_streaming` while a foreign turn streams; an own one is not."""
        async with shown(Reply("a", hang=True), Reply("b", hang=True)) as view:
            other = ChatWidget(view.mock.chat)
            view.widget.send_message("mine")
            await asyncio.sleep(0.05)
            assert (view.widget.is_server_streaming, other.is_server_streaming) == (False, True)
            view.widget.stop()
            await quiet(view)
            view.mock.chat.send("from a cell")
            await asyncio.sleep(0.05)
            assert view.widget.is_server_streaming
            assert view.widget.is_streaming
            view.widget.stop()
            await quiet(view)
            other.close()

    async def test_repr_and_outputs(self) -> None:
        """Section 9: `text/plain` is always `ChatWidget`; state has the options, the bundle and `_snapshot`."""
        async with shown("hi") as view:
            assert repr(view.widget) == "ChatWidget"
            assert view.widget._repr_mimebundle_()[0]["text/plain"] == "ChatWidget"
            await view.mock.chat.send("question")
            own = set(view.widget.get_state()) & {"height", "theme", "placeholder", "title", "suggestions", "_snapshot"}
            assert len(own) == 6
            saved = view.widget.get_state("_snapshot")["_snapshot"]
            assert [entry["message"]["role"] for entry in saved["messages"]] == ["user", "assistant"]
            assert view.widget._snapshot == {}


class TestStates:
    """The table of section 2."""

    async def test_a_turn(self) -> None:
        """submitted when its slot starts, streaming with the first chunk, ready at its end."""
        async with shown(Reply("one two", hang=True)) as view:
            seen: list[Any] = []
            view.mock.chat._engine.subscribe(
                lambda update: seen.append((view.mock.chat.status, view.widget.is_tool_continuation))
            )
            view.widget.send_message("x")
            await asyncio.sleep(0.05)
            view.widget.stop()
            await quiet(view)
            order = [status for status, _ in seen]
            assert order.index("submitted") < order.index("streaming") < len(order) - 1 - order[::-1].index("ready")

    async def test_a_failed_turn_and_retry(self) -> None:
        """C38: the turn fails before its first part, Retry: the question is answered; one user message."""
        async with shown(RuntimeError("broken"), "fine") as view:
            await view.hello()
            await view.widget.send_message("x")
            await quiet(view)
            assert view.widget.status == "error"
            assert view.widget.error is not None
            state = [op["state"] for f in view.sent if f["type"] == "ops" for op in f["ops"] if op["op"] == "state"]
            assert [s["error"]["retry"] for s in state if s.get("error")] == [True]
            assert (await view.command("regenerate"))["ok"]
            await quiet(view)
            assert [m.role for m in view.widget.messages] == ["user", "assistant"]
            assert (view.widget.status, view.widget.error) == ("ready", None)

    async def test_approval(self) -> None:
        """A decision that completes the batch: continuation at once; C6: edited arguments; already decided after."""
        steps = [Reply(calls=[("refund", {"order": "7", "amount": 250.0})]), "done"]
        async with shown(*steps, actions=[refund]) as view:
            nonce = await view.hello()
            await view.widget.send_message("refund order 7")
            await quiet(view)
            (item,) = view.widget.pending
            assert view.widget.status == "ready"
            wrong = await view.command(
                "approve", approvalId=item.id, hash=item.hash, nonce=nonce, args={"amount": None}
            )
            assert wrong["error"]["code"] == "invalid"
            assert wrong["error"]["field"] == "amount"
            assert len(view.widget.pending) == 1
            right = await view.command("approve", approvalId=item.id, hash=item.hash, nonce=nonce, args={"amount": 50})
            assert right["ok"]
            again = await view.command("approve", "v1", approvalId=item.id, hash=item.hash, nonce=nonce)
            assert again["error"]["code"] == "already_decided"
            await quiet(view)
            assert ran == [("7", 50.0)]
            assert view.widget.pending == ()
            assert view.widget.messages[-1].text == "done"

    async def test_no_auto_continue(self) -> None:
        """Section 1: `auto_continue_after_tool_result=False`: settles its call, queues nothing, shows "Continue"."""
        steps = [Reply(calls=[("refund", {"order": "7", "amount": 250.0})]), "done"]
        async with shown(*steps, actions=[refund], auto_continue_after_tool_result=False) as view:
            nonce = await view.hello()
            await view.widget.send_message("refund order 7")
            (item,) = view.widget.pending
            assert (await view.command("approve", approvalId=item.id, hash=item.hash, nonce=nonce))["ok"]
            await quiet(view)
            assert ran == []
            states = [op["state"] for f in view.sent if f["type"] == "ops" for op in f["ops"] if op["op"] == "state"]
            assert [s["readyToContinue"] for s in states if "readyToContinue" in s][-1] is True
            assert (await view.command("continue"))["ok"]
            await quiet(view)
            assert ran == [("7", 250.0)]

    async def test_clear_empties_every_view(self) -> None:
        """Section 1: clearing empties every view at once."""
        async with shown("hi") as view:
            await view.hello()
            await view.widget.send_message("x")
            await quiet(view)
            await view.widget.clear_history()
            await quiet(view)
            assert view.widget.messages == ()
            drops = [op for f in view.sent if f["type"] == "ops" for op in f["ops"] if op["op"] == "drop"]
            assert len(drops[-1]["ids"]) == 2


class TestClientTools:
    def steps(self) -> list[Any]:
        return [Reply(calls=[("pick", {})]), "thanks"]

    async def test_on_tool_call_gives_the_output_once(self) -> None:
        """Section 1: once per call id and kernel, however many views and widgets; not None is the output."""
        _taken.clear()
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
        _taken.clear()
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

    async def test_a_page_runs_the_script(self) -> None:
        """5.5: the last used view is asked; `toolStarted`, `toolOutput`; a tool phase meanwhile."""
        _taken.clear()
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
            await asyncio.sleep(0.05)
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
            await asyncio.sleep(0.05)
            await view.hello()
            reset = next(f for f in view.sent if f["type"] == "reset")["snapshot"]
            assert [entry["message"]["role"] for entry in reset["messages"]] == ["user"]
            assert reset["state"]["held"] is True
            view.widget.resume_stream()
            await asyncio.sleep(0.05)
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
            await asyncio.sleep(0.05)
            await view.command("bye")
            await quiet(view)
            assert view.mock.chat.status == "ready"

    async def test_close(self) -> None:
        """Section 1: `close()` ends views and comm, keeps the chat; idempotent; later methods raise."""
        async with shown("a") as view:
            view.widget.close()
            view.widget.close()
            with pytest.raises(ChatClosedError):
                view.widget.send_message("x")
            assert (await view.mock.chat.send("x")).status == "completed"

    async def test_transcripts_are_updated_when_a_turn_settles(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 9: two outputs; the transcript is updated when a turn settles, at most once a second."""
        published: list[Any] = []
        monkeypatch.setattr("chatnb.widget.view.publish_output", lambda *args: published.append(args))
        monkeypatch.setattr("chatnb.widget.outputs.GAP", 0.05)
        async with shown("a", "b") as view:
            view.widget._outputs._publish = lambda *args: published.append(args)
            view.widget._ipython_display_()
            assert [bundle["text/plain"] for bundle, _, _ in published] == ["ChatWidget", "chat transcript"]
            assert "No messages yet." in published[1][0]["text/html"]
            await view.widget.send_message("question")
            await asyncio.sleep(0.15)
            bundle, display_id, update = published[-1]
            assert update
            assert display_id == published[1][1]
            assert "question" in bundle["text/html"]
            assert len(published) <= 4

    async def test_no_transcript(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 9: none with `transcript=False`."""
        published: list[Any] = []
        monkeypatch.setattr("chatnb.widget.view.publish_output", lambda *args: published.append(args))
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


class TestSecrets:
    async def test_no_key_anywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """C36: a key by environment and inside an error text is in no frame, trait, state, transcript."""
        key = "sk-ant-secret-0123456789"
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
        async with shown(RuntimeError(f"bad key {key}"), f"your key is {key}") as view:
            await view.hello()
            await view.widget.send_message("x")
            await view.widget.send_message("y")
            await quiet(view)
            assert key not in json.dumps(view.sent)
            assert "[redacted]" in json.dumps(view.sent)
            assert key not in json.dumps(view.widget.get_state("_snapshot"))
            assert key not in json.dumps(view.widget._render_transcript())


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
