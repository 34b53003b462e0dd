"""A cell that runs again makes a new widget; the ones before it go to rest, and wake when they are wanted."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances

from chatnb import Agent
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import mock_chat
from chatnb.testing.clock import settle
from chatnb.widget import ChatWidget

from .shown import PICK, quiet, shown, until

AWAKE = 3
"""The widget of a cell's last run, and those of the two before it."""


class Cells:
    """A shell whose cells are run by the test."""

    def __init__(self) -> None:
        self.events = self
        self.request = 0
        self.cell = ""
        self.ended: list[Callable[[], None]] = []
        self.published: list[str] = []

    def register(self, event: str, function: Callable[[], None]) -> None:
        assert event == "post_run_cell"
        self.ended.append(function)

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {"cellId": self.cell}, "header": {"msg_id": f"r{self.request}"}}

    def run(self, cell: str, function: Callable[[], Any] = lambda: None) -> Any:
        self.cell, self.request = cell, self.request + 1
        value = function()
        for ended in self.ended:
            ended()
        return value


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Cells:
    shell = Cells()
    monkeypatch.setattr("chatnb.widget.displays.current_shell", lambda: shell)
    monkeypatch.setattr(
        "chatnb.widget.displays.publish_output", lambda bundle, id, update: shell.published.append(bundle["text/plain"])
    )
    return shell


def show(chat: Any, **options: Any) -> ChatWidget:
    widget = chat.view(**options)
    widget._ipython_display_()
    return widget  # type: ignore[no-any-return]


def hello(widget: ChatWidget, view: str = "v1", type: str = "hello") -> None:
    assert widget._panel is not None
    stamp = {"v": 1, "epoch": widget._panel.channel.epoch, "view": view, "id": f"{view}-{type}"}
    widget._handle_custom_msg({**stamp, "type": type, **({"versions": [1]} if type == "hello" else {})}, [])


def is_awake(widget: ChatWidget) -> bool:
    return widget.comm is not None and any(widget is known for known in _instances.values())


class TestReplaced:
    """spec/widget.md, section 1: a new widget each time; what no output shows any more costs nothing."""

    async def test_thirty_runs_of_one_cell(self, cells: Cells) -> None:
        """However often a cell has run, three of its widgets are awake; the others go with their last holder."""
        async with mock_chat(Agent(ScriptedModel(["a"]))) as mock:
            chat, before = mock.chat, len(_instances)
            refs = [weakref.ref(cells.run("one", lambda: show(chat))) for _ in range(30)]
            assert len(_instances) - before == 2 * AWAKE  # each has a layout, which is a widget too
            assert len(chat._engine._listeners) == AWAKE + 1  # the mock's own
            await asyncio.sleep(0)
            gc.collect()
            assert sum(ref() is not None for ref in refs) == AWAKE
            for ref in refs[-AWAKE:]:
                widget = ref()
                assert widget is not None
                widget.close()

    async def test_another_cell_and_another_output(self, cells: Cells) -> None:
        """What another cell shows stays awake, and so does what the same run shows twice."""
        async with mock_chat(Agent(ScriptedModel(["a"]))) as mock:
            kept = cells.run("one", lambda: show(mock.chat))
            cells.run("two", kept._ipython_display_)
            pair = cells.run("three", lambda: (show(mock.chat), show(mock.chat)))
            for _ in range(10):
                cells.run("one")
            assert is_awake(kept)
            assert all(map(is_awake, pair))
            for _ in range(AWAKE):
                cells.run("two")
            assert not is_awake(kept)

    async def test_a_cell_that_shows_it_no_more(self, cells: Cells) -> None:
        """The cell was written anew."""
        async with mock_chat(Agent(ScriptedModel(["a"]))) as mock:
            widget = cells.run("one", lambda: show(mock.chat))
            cells.run("one")
            cells.run("one")
            assert is_awake(widget)  # a page that was not saved since shows it again
            cells.run("one")
            assert not is_awake(widget)

    async def test_after_a_while(self, cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
        """The page has been saved since, whichever cell runs then: it will never show the former ones again."""
        now = 0.0
        monkeypatch.setattr("chatnb.widget.displays.monotonic", lambda: now)
        async with mock_chat(Agent(ScriptedModel(["a"]))) as mock:
            former = cells.run("one", lambda: show(mock.chat))
            now = 100.0
            last = cells.run("one", lambda: show(mock.chat))
            now = 390.0
            cells.run("other")
            assert is_awake(former)
            now = 401.0
            cells.run("other")
            assert not is_awake(former)
            assert is_awake(last)

    async def test_a_view_keeps_it_awake(self, cells: Cells) -> None:
        """As long as a view shows it, wherever that is."""
        async with mock_chat(Agent(ScriptedModel(["a"]))) as mock:
            widget = cells.run("one", lambda: show(mock.chat))
            hello(widget)
            await settle()
            for _ in range(5):
                cells.run("one")
            assert is_awake(widget)
            hello(widget, type="bye")
            await until(lambda: not is_awake(widget))

    async def test_a_box_keeps_it_awake(self, cells: Cells) -> None:
        """A box that holds it may be shown anywhere."""
        async with mock_chat(Agent(ScriptedModel(["a"]))) as mock:
            widget = cells.run("one", lambda: show(mock.chat))
            box = ipywidgets.VBox([widget])
            for _ in range(5):
                cells.run("one")
            assert is_awake(widget)
            box.close()

    async def test_transcripts_of_replaced_outputs_are_not_updated(self, cells: Cells) -> None:
        """Section 9: a turn renews the transcripts that there are."""
        async with mock_chat(Agent(ScriptedModel(["a"], loop=True))) as mock:
            widget = mock.chat.view()
            for _ in range(5):
                cells.run("one", widget._ipython_display_)
            assert widget._outputs is not None
            assert len(widget._outputs._ids) == 1

    async def test_functions_of_replaced_widgets(self, cells: Cells) -> None:
        """Of a cell that was mended and runs again, the new function is asked, not the first."""
        asked: list[int] = []

        def show_with(chat: Any, number: int) -> ChatWidget:
            def on_tool_call(call: Any) -> str:
                asked.append(number)
                return "red"

            return show(chat, client_tools=[PICK], on_tool_call=on_tool_call)

        async with mock_chat(Agent(ScriptedModel([Reply(calls=[("pick", {})]), "Red."]))) as mock:
            for number in range(5):
                widget = cells.run("one", partial(show_with, mock.chat, number))
            await widget.send_message("x")
            await mock.done()
            assert asked == [4]


class TestRest:
    """Whoever holds a widget at rest loses nothing."""

    async def rested(self, cells: Cells, chat: Any, **options: Any) -> ChatWidget:
        widget: ChatWidget = cells.run("one", lambda: show(chat, **options))
        for _ in range(AWAKE):
            cells.run("one")
        assert not is_awake(widget)
        return widget

    async def test_methods_and_traits(self, cells: Cells) -> None:
        async with mock_chat(Agent(ScriptedModel(["one", "two"]))) as mock:
            widget = await self.rested(cells, mock.chat)
            assert (await widget.send_message("x")).text == "one"
            assert [message.text for message in widget.messages] == ["x", "one"]
            assert widget.status == "ready"
            assert not is_awake(widget)
            widget.close()
            widget.close()

    async def test_shown_again(self, cells: Cells) -> None:
        """It is the same model for a page, and its views work."""
        async with mock_chat(Agent(ScriptedModel(["one", "two"]))) as mock:
            widget: ChatWidget = cells.run("one", lambda: show(mock.chat))
            id = widget.model_id
            for _ in range(AWAKE):
                cells.run("one")
            assert not is_awake(widget)
            cells.run("two", widget._ipython_display_)
            assert is_awake(widget)
            assert widget.model_id == id
            sent: list[Any] = []
            assert widget._panel is not None
            widget._panel.channel._send_raw = lambda frame, buffers: sent.append(frame)
            hello(widget)
            await widget.send_message("x")
            await until(lambda: any(frame["type"] == "ops" for frame in sent))
            assert [frame["type"] for frame in sent][:3] == ["secret", "reset", "ack"]
            assert any(frame["type"] == "ops" for frame in sent)
            assert widget.get_state()["_snapshot"]["messages"]
            widget.close()

    async def test_closed_at_rest(self, cells: Cells) -> None:
        """It stays closed, and says so where it is shown."""
        async with mock_chat(Agent(ScriptedModel(["one"]))) as mock:
            widget = await self.rested(cells, mock.chat)
            widget.close()
            assert "closed" in widget._bundle()["text/html"]
            with pytest.raises(AttributeError):
                widget.model_id  # noqa: B018
            assert not is_awake(widget)

    async def test_in_a_box(self, cells: Cells) -> None:
        async with mock_chat(Agent(ScriptedModel(["one"]))) as mock:
            widget = await self.rested(cells, mock.chat)
            box = ipywidgets.VBox([widget])
            assert box.get_state()["children"] == [f"IPY_MODEL_{widget.model_id}"]
            assert is_awake(widget)
            box.close()
            widget.close()

    async def test_observers(self, cells: Cells) -> None:
        """Observers go on hearing of the chat, those that come later too; there is no comm for it."""
        told: list[str] = []
        async with mock_chat(Agent(ScriptedModel(["one", "two"]))) as mock:
            widget: ChatWidget = cells.run("one", lambda: show(mock.chat))
            widget.observe(lambda change: told.append(change.new), "status")
            for _ in range(AWAKE):
                cells.run("one")
            assert not is_awake(widget)
            await mock.chat.send("x")
            await mock.clock.advance(1)
            await until(lambda: told[-1:] == ["ready"])
            widget.close()

    async def test_observed_later(self, cells: Cells) -> None:
        told: list[str] = []
        async with mock_chat(Agent(ScriptedModel(["one"]))) as mock:
            widget = await self.rested(cells, mock.chat)
            widget.observe(lambda change: told.append(change.new), "status")
            await mock.chat.send("x")
            await until(lambda: told[-1:] == ["ready"])
            widget.close()


class TestMemory:
    """What is over does not keep what it was about."""

    async def test_answered_messages(self) -> None:
        """A message that a view sent and that was answered keeps no chunks; it can't be taken back any more."""
        async with shown("one", "two") as view:
            await view.command("send", text="first")
            await quiet(view)
            deeds = view.widget._panel.deeds  # type: ignore[union-attr]
            assert list(deeds._submissions.values()) == [None]
            sent = next(iter(deeds._submissions))
            assert (await view.command("cancel", commandId=sent))["error"]["code"] == "not_found"

    async def test_a_widget_at_rest_that_is_observed(self, cells: Cells) -> None:
        async with mock_chat(Agent(ScriptedModel(["one"]))) as mock:
            widget: ChatWidget = cells.run("one", lambda: show(mock.chat))
            widget.observe(lambda change: None, "status")
            hello(widget)
            await mock.chat.send("x")
            hello(widget, type="bye")
            panel = widget._panel
            assert panel is not None
            await until(lambda: not panel.channel.views)
            for _ in range(AWAKE):
                cells.run("one")
            assert not is_awake(widget)
            assert panel.channel._builder._shown == {}
            widget.close()


class TestWithinOthers:
    async def test_no_transcript_in_an_output_widget(self, cells: Cells) -> None:
        """Section 9: two outputs at top level; none of them a transcript inside another widget, as in `interact`."""
        async with shown("a") as view:
            out = ipywidgets.Output()
            cells.run("one", view.widget._ipython_display_)
            assert cells.published == ["ChatWidget"]
            assert len(view.widget._outputs._ids) == 1  # type: ignore[union-attr]
            out.msg_id = "r2"  # what entering it does in a kernel
            cells.run("two", view.widget._ipython_display_)
            assert cells.published == ["ChatWidget", "ChatWidget"]
            assert len(view.widget._outputs._ids) == 1  # type: ignore[union-attr]
            out.close()

    async def test_as_data(self, cells: Cells) -> None:
        """Section 1: a view wherever a widget may be shown: `Output.append_display_data` keeps what it is given."""
        pytest.importorskip("IPython")
        from IPython.core.interactiveshell import InteractiveShell

        async with shown("a") as view:
            before = InteractiveShell._instance
            try:
                out = ipywidgets.Output()
                out.append_display_data(view.widget)
            finally:
                InteractiveShell._instance = before
            assert out.outputs[0]["data"]["text/plain"] == "ChatWidget"
            assert "application/vnd.jupyter.widget-view+json" in out.outputs[0]["data"]
            assert cells.published == []

    async def test_neither_copied_nor_pickled(self) -> None:
        """Section 1: a widget is one comm, a chat one conversation; the error says what to do instead."""
        async with shown("a") as view:
            with pytest.raises(TypeError, match=r"chat\.export"):
                pickle.dumps(view.widget)
            for function in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=r"chat\.fork"):
                    function(view.mock.chat)  # type: ignore[operator]
