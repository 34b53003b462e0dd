"""All that a frame holds besides messages has a share, so that no frame is over 256 KiB (spec/widget.md, 3.1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from chatnb import ClientTool
from chatnb.messages import UIMessage
from chatnb.turns.records import CallView, Pending, TurnError
from chatnb.widget.budget import shortened
from chatnb.widget.cutting import cut_ops

from .fakes import Rig
from .page import Page

LIMIT = 256 * 1024
LONG = "x" * 400_000
WIDE = "\U0001f427" * 40_000  # 12 bytes each in JSON


def say_options(rig: Rig) -> None:
    rig.live |= {"title": LONG, "placeholder": WIDE, "suggestions": ("é" * 2000,) * 200}
    rig.panel.refresh()


def say_notices(rig: Rig) -> None:
    copy = [{"kind": "copy", "label": "Copy", "text": LONG}]
    for number in range(20):
        notice = {"id": f"n{number}", "text": "\x01中" * 4000, "actions": copy}
        rig.panel.deeds.notices.show(notice)


def say_calls(rig: Rig) -> None:
    log = tuple({"text": WIDE} for _ in range(300))
    calls = {
        f"c{n}": CallView(tool_call_id=f"c{n}", phase="running", log=log, progress={"done": 1, "text": LONG})
        for n in range(40)
    }
    rig.chat._engine.update("call", calls=calls)


def say_pending(rig: Rig) -> None:
    for number in range(60):
        rig.chat.ask(f"p{number}", text="x" * 20_000)


def say_everything(rig: Rig) -> None:
    for say in (say_options, say_notices, say_calls, say_pending, say_usage, say_error, say_queue, say_restorable):
        say(rig)


def say_queue(rig: Rig) -> None:
    rig.chat.wait_in_line(*["中" * 80] * 2000)


def say_usage(rig: Rig) -> None:
    by_message = {f"m{n}": {"totalTokens": n, "cost": 0.1} for n in range(20_000)}
    rig.chat._engine.update("state", usage={"total": {"totalTokens": 1}, "messages": by_message})


def say_error(rig: Rig) -> None:
    rig.chat._engine.update("state", error=TurnError(stage="model", message=WIDE))


def say_restorable(rig: Rig) -> None:
    items = tuple(SimpleNamespace(tool_call_id=f"c{n}", names=[f"name_{n}_{m}" for m in range(300)]) for n in range(99))
    rig.chat._engine.update("state", restorable=items)


def say_interruption(rig: Rig) -> None:
    rig.chat._engine.update("state", interruption=SimpleNamespace(message_id="m", cause=WIDE, offered=True))


class TestFrames:
    @pytest.mark.parametrize(
        "say",
        [
            say_options,
            say_notices,
            say_calls,
            say_pending,
            say_queue,
            say_usage,
            say_error,
            say_restorable,
            say_interruption,
            say_everything,
        ],
    )
    def test_none_is_too_large(self, say: Callable[[Rig], None]) -> None:
        """3.1: a frame's JSON is at most 256 KiB, whatever is told beside the messages; the view is in step."""
        rig = Rig()
        page = rig.page()
        say(rig)
        rig.time.run(3)
        rig.page("view-2")
        rig.time.run(1)
        assert max(len(json.dumps(frame).encode()) for _, frame, _ in rig.sent) <= LIMIT
        picture = rig.panel.channel.picture
        for shown in rig.pages:
            assert shown.pending == list(picture.pending)
            assert shown.queue == list(picture.queue)
            assert shown.state["status"] == "ready"
        assert page.state["options"] == rig.pages[1].state["options"]

    def test_many_that_go_at_once(self) -> None:
        """3.1: more is cut into several frames: also the ids of 12,000 messages that are dropped."""
        rig = Rig()
        wires = (
            {"id": f"msg-{n:020d}", "role": "user", "parts": [{"type": "text", "text": "x"}]} for n in range(12_000)
        )
        rig.chat.set_chain(tuple(UIMessage.from_wire(wire) for wire in wires))
        page = rig.page()
        rig.panel.channel.views[page.id].hidden = 0  # it has loaded all of them
        rig.chat.set_chain(())
        rig.time.run(2)
        assert max(len(json.dumps(frame).encode()) for _, frame, _ in rig.sent) <= LIMIT
        assert page.messages == []
        cut = cut_ops([{"op": "drop", "ids": [f"msg-{n:020d}" for n in range(12_000)]}])
        assert [id for op in cut for id in op["ids"]] == [f"msg-{n:020d}" for n in range(12_000)]
        assert len(cut) > 1

    def test_a_form_that_is_too_large_is_a_box_for_json(self) -> None:
        """5.5: the schema of an answer that fits no frame is not sent; the kernel goes on checking by it."""
        form = {"type": "object", "properties": {"a": {"enum": [f"value {n}" for n in range(30_000)]}}}
        rig = Rig(client_tools=(ClientTool("pick", "Pick", {"type": "object"}, form=form),))
        page = rig.page()
        asked = {"id": "c", "tool_call_id": "c", "title": "Pick", "args": {}, "hash": None, "message_id": "m"}
        rig.chat._engine.update("pending", pending=(Pending(kind="client-tool", action="pick", **asked),))
        rig.time.run(1)
        assert max(len(json.dumps(frame).encode()) for _, frame, _ in rig.sent) <= LIMIT
        assert page.pending[0]["form"] == {"type": "object"}

    def test_long_scripts_go_beside_the_frames(self) -> None:
        """5.5: a client tool's script may be long: then the options hold a reference, and the page gets it all."""
        source = "export default async () => '" + LONG + "'"
        tools = (
            ClientTool("long", "Long", {"type": "object"}, js=source),
            ClientTool("short", "Short", {"type": "object"}, js="export default async () => 1"),
        )
        rig = Rig(client_tools=tools)
        page = rig.page()
        long, short = page.state["options"]["clientTools"]
        assert short["js"] == "export default async () => 1"
        reference = long["js"]["asset"]
        page.command("getAsset", hash=reference)
        rig.time.run(2)
        pieces = page.assets[reference]
        assert b"".join(pieces[index] for index in sorted(pieces)).decode() == source

    def test_what_fits_is_told_in_full(self) -> None:
        """Ordinary talks lose nothing: title, suggestions, a log, a notice, arguments."""
        rig = Rig()
        page: Page = rig.page()
        rig.live |= {"title": "Till", "suggestions": ("one", "two")}
        log = tuple({"text": f"line {n}"} for n in range(200))
        rig.chat._engine.update("call", calls={"c": CallView(tool_call_id="c", phase="running", log=log)})
        rig.panel.deeds.notices.show({"id": "n", "text": "note " * 700})
        rig.chat.ask("p", amount=3)
        rig.time.run(1)
        assert page.state["options"]["suggestions"] == ["one", "two"]
        assert len(page.calls["c"]["log"]) == 200
        assert page.notices["n"]["text"] == "note " * 700
        assert page.pending[0]["args"] == {"amount": 3}

    @pytest.mark.parametrize("text", ["", "short", LONG, WIDE, "\x00" * 5000, "é" * 5000])
    def test_shortened(self, text: str) -> None:
        """A text that does not fit is cut, and ends with an ellipsis."""
        small = shortened(text, 2048)
        assert len(json.dumps(small)) <= 2048 or small == text
        assert small == text or (small.endswith("…") and text.startswith(small[:-1]))
