"""`ChatWidget` on the real engine: options, traits, states (spec/widget.md, 1 and 2)."""

from __future__ import annotations

import itertools
from typing import Any

import comm
import pytest
import traitlets

from chatnb import Agent, action
from chatnb.errors import ConfigError
from chatnb.models import Reply, ScriptedModel
from chatnb.testing.mock import mock_chat
from chatnb.widget import ChatWidget

from .shown import add, quiet, ran, refund, shown, still


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
            await still(view)
            changes = [op["state"]["options"] for f in view.sent if f["type"] == "ops" for op in f["ops"]]
            assert changes[-1]["theme"] == "dark"
            assert changes[-1]["suggestions"] == ["one", "two"]
            with pytest.raises(ConfigError):
                view.widget.theme = "pink"

    async def test_help_of_many_actions_names_them(self) -> None:
        """Journey A.2: what would not fit in two lines is told by name."""
        async with shown(
            actions=[add, action(name="refund", description="Refund an order " * 20)(refund.function)]
        ) as view:
            await view.hello()
            options = next(f for f in view.sent if f["type"] == "reset")["snapshot"]["options"]
            assert options["help"] == "It can use add and refund."

    async def test_help_names_what_the_agent_can_do(self) -> None:
        """Journey A.2: a title and a sentence on what this agent can do."""
        async with shown(actions=[add, refund], title="Till", suggestions=["Refund order 7"]) as view:
            await view.hello()
            options = next(f for f in view.sent if f["type"] == "reset")["snapshot"]["options"]
            assert options["title"] == "Till"
            assert options["help"] == "Add two numbers. Refund an order."
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

    async def test_a_page_sets_options_that_can_be_and_nothing_else(self) -> None:
        """Section 1: `jslink` for the options only; a bad one changes and raises nothing."""
        async with shown("hi") as view:
            widget, keys = view.widget, set(view.widget.keys)
            before = {name: value for name, value in widget.get_state().items() if name != "_snapshot"}
            told: list[str] = []
            widget.observe(lambda change: told.append(change.name), traitlets.All)
            for state in (
                *({name: value} for name in keys - {"title"} for value in (7, None, "bad", ["x"], {"a": 1})),
                {"theme": "pink", "height": "1px;position:fixed", "suggestions": ["a", 1], "title": 3},
                *({name: "x"} for name in ("status", "messages", "error", "pending", "queue", "usage", "comm", "log")),
                "text", None, 3, [1],
            ):  # fmt: skip
                if state not in ({"placeholder": "bad"}, {"placeholder": None}, {"suggestions": ["x"]}):
                    widget._handle_msg({"content": {"data": {"method": "update", "state": state}}, "buffers": []})
            after = {name: value for name, value in widget.get_state().items() if name != "_snapshot"}
            assert (after, told) == (before, [])
            assert (widget.status, widget._snapshot) == ("ready", {})
            widget.set_state({"title": "Linked", "theme": "dark", "suggestions": ["one"], "status": "x"})
            assert (widget.title, widget.theme, widget.suggestions) == ("Linked", "dark", ("one",))

    async def test_messages_that_are_none(self) -> None:
        """3.2: what a page sends never raises in the kernel, whatever it is."""
        async with shown() as view:
            for message in (None, 3, {}, {"content": {}}, {"content": {"data": 3}}, {"content": {"data": {}}},
                            {"content": {"data": {"method": "custom"}}}, {"content": {"data": {"method": 7}}},
                            {"content": {"data": {"method": "custom", "content": {"type": ["x"]}}}, "buffers": None},
                            {"content": {"data": {"method": "update", "state": {}, "buffer_paths": [["a", 1]]}},
                             "buffers": [b""]}):  # fmt: skip
                view.widget._handle_msg(message)
            assert (await view.command("stop"))["ok"]

    async def test_an_option_is_checked_when_it_is_set(self) -> None:
        """Section 1: `height`, `theme`: else `ConfigError`, and the old value stays, also while changes are held."""
        async with shown(title="Till") as view:
            for name, value in (("theme", "pink"), ("theme", None), ("height", 5), ("title", 3), ("suggestions", "x")):
                with pytest.raises(ConfigError), view.widget.hold_trait_notifications():
                    setattr(view.widget, name, value)
            kept = view.widget
            assert (kept.theme, kept.height, kept.title, kept.suggestions) == ("auto", "560px", "Till", ())

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

    async def test_a_link_that_is_told_of_an_older_value(self, caplog: pytest.LogCaptureFixture) -> None:
        """Section 1: `link` works with any traitlets object, also where the value moves on while it is told."""
        async with shown("one two three") as view:

            class Label(traitlets.HasTraits):
                value = traitlets.Unicode()

            label = Label()
            traitlets.link((view.widget, "status"), (label, "value"))
            widget: Any = view.widget
            for told in ("submitted", "streaming"):  # while it is "ready" already
                widget._tell("status", "ready", told)
                assert label.value == told
            await widget.send_message("hello")
            await quiet(view)
            widget._tell("status", "streaming", "ready")
            assert label.value == "ready"
            assert caplog.records == []

    async def test_messages_show_the_unfinished_one(self) -> None:
        """Section 1: `messages` is the chain shown, with the unfinished message."""
        async with shown(Reply("one two", hang=True)) as view:
            view.widget.send_message("hello")
            await still(view)
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
            await still(view)
            assert (view.widget.is_server_streaming, other.is_server_streaming) == (False, True)
            view.widget.stop()
            await quiet(view)
            view.mock.chat.send("from a cell")
            await still(view)
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

    async def test_the_host_gets_the_snapshot_at_the_opening(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """3.4: `_snapshot` is computed when the host asks for state, at opening too; with the options as given."""
        opened: list[Any] = []
        create = comm.create_comm
        monkeypatch.setattr(comm, "create_comm", lambda **given: opened.append(given["data"]) or create(**given))
        async with shown("an answer") as view:
            await view.mock.chat.send("question")
            second = ChatWidget(view.mock.chat, title="Till", height="auto")
            saved = opened[-1]["state"]["_snapshot"]
            assert [entry["message"]["role"] for entry in saved["messages"]] == ["user", "assistant"]
            assert (saved["options"]["title"], saved["options"]["height"]) == ("Till", "auto")
            second.close()


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
            await still(view)
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
