"""Page and kernel over a comm that delays, drops, doubles and reorders (spec/widget.md, sections 3 and 10)."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chatnb.turns.records import CallView

from .fakes import Rig
from .page import Page


class Weather:
    """What becomes of messages: fair, or bad for as long as it lasts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bad = True

    def __call__(self, way: str) -> list[float]:
        if not self.bad:
            return [0.002]
        dice = self.random.random()
        if dice < 0.2:
            return []
        copies = 2 if dice > 0.8 else 1
        return [self.random.choice([0.001, 0.01, 0.05, 0.3, 1.0]) for _ in range(copies)]


STEPS = [
    "say",
    "begin",
    "word",
    "word",
    "word",
    "tool",
    "undo",
    "ask",
    "line",
    "pause",
    "long pause",
    "send",
    "send",
    "approve",
    "take back",
    "undo by page",
    "option",
    "call",
    "notice",
    "reload",
]
SEEDS = 500


def play(rig: Rig, step: str, number: int, left: list[Page]) -> None:
    """Do one thing in the kernel or in a page."""
    chat, page = rig.chat, rig.pages[number % len(rig.pages)]
    if step == "say":
        chat.say(f"question {number}")
    elif step == "begin" and chat._fold is None:
        chat.begin()
    elif step == "word" and chat._fold is not None:
        chat.delta(f"word{number} 🙂 ")
    elif step == "tool" and chat._fold is not None:
        chat.feed({"type": "tool-input-start", "toolCallId": f"c{number}", "toolName": "add"})
        chat.feed({"type": "tool-input-delta", "toolCallId": f"c{number}", "inputTextDelta": '{"a": 1'})
        chat.feed({"type": "tool-input-available", "toolCallId": f"c{number}", "toolName": "add", "input": {"a": 1}})
        chat.feed({"type": "tool-output-available", "toolCallId": f"c{number}", "output": {"n": number}})
    elif step == "undo" and chat._fold is None and chat._chain:
        chat.set_chain(chat._chain[: -1 - number % 3])
    elif step == "ask":
        chat.ask(f"p{number}", amount=number)
    elif step == "line":
        chat.wait_in_line(f"later {number}")
    elif step == "pause":
        rig.time.run(0.05)
    elif step == "long pause":
        rig.time.run(3)
    elif step == "send" and chat._fold is None:
        page.command("send", text=f"sent {number}")
    elif step == "approve":
        items = chat._engine.now.pending
        if items and page.nonce:
            page.command("approve", approvalId=items[0].id, hash=items[0].hash, nonce=page.nonce)
    elif step == "undo by page" and chat._fold is None:
        page.command("undo")
    elif step == "take back" and chat._fold is None:
        page.command("cancel", commandId=page.command("send", text=f"taken back {number}"))
    elif step == "option":
        rig.live["title"] = f"Title {number}"
        rig.panel.refresh()
    elif step == "call":
        phase = "running" if number % 2 else "waiting"
        view = CallView(tool_call_id=f"c{number % 3}", phase=phase, progress={"done": number})
        chat._engine.update("call", calls={**chat._engine.now.calls, view.tool_call_id: view})
    elif step == "notice":
        rig.panel.deeds.notices.show({"id": f"n{number % 3}", "text": f"note {number % 4 or ''}"})
    elif step == "reload":
        rig.pages.remove(page)
        rig.page(f"view-{number + 10}", wait=False)
        left.append(page)
    if step != "begin" and number % 7 == 6 and chat._fold is not None:
        chat.end()


def assert_in_step(rig: Rig) -> None:
    for page in rig.pages:
        assert page.messages == rig.kernel_view(len(page.messages))
        assert len(page.messages) == len(rig.chat.messages) or page.has_earlier
        picture = rig.panel.channel.picture
        assert page.pending == list(picture.pending)
        assert page.queue == list(picture.queue)
        state = {name: value for name, value in page.state.items() if name != "usage"}
        assert state == {name: value for name, value in picture.state.items() if name != "usage"}
        running = {id: call for id, call in page.calls.items() if call["phase"] != "done"}
        assert {id: {**call, "op": "call"} for id, call in running.items()} == {
            id: {**call, "op": "call"} for id, call in picture.calls.items() if call["phase"] != "done"
        }
        assert {id: notice["text"] for id, notice in page.notices.items()} == {
            id: notice["text"] for id, notice in picture.notices.items()
        }


class TestABadComm:
    """Section 10: after quiet the view equals the kernel, and each command took effect at most once."""

    @given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=10, max_size=40))
    @settings(max_examples=SEEDS, deadline=None)
    def test_view_equals_kernel_after_quiet(self, seed: int, steps: list[str]) -> None:
        """C9, C10: frames and commands that are late, doubled, lost or out of order change nothing in the end."""
        weather = Weather(seed)
        rig = Rig(weather)
        rig.page("view-1", wait=False)
        rig.page("view-2", wait=False)
        left: list[Page] = []
        for number, step in enumerate(steps):
            play(rig, step, number, left)
            rig.time.run(0.01)
        if rig.chat._fold is not None:
            rig.chat.end()
        weather.bad = False
        rig.time.run(60)
        assert_in_step(rig)
        assert all(not page._open and not page._waiting for page in rig.pages)
        self.assert_at_most_once(rig, left)

    def assert_at_most_once(self, rig: Rig, left: list[Page]) -> None:
        """Each command took effect once if it was acknowledged, and else at most once."""
        done = [f"{name} {args[0][0]['text']}" if name == "send" else name for name, *args in rig.chat.done]
        for page in [*rig.pages, *left]:
            for id, command in page.commanded.items():
                if command["type"] != "send":
                    continue
                ack, times = page.acks.get(id), done.count(f"send {command['text']}")
                assert times == 1 if ack is not None and ack["ok"] else times <= 1, (id, ack, times)
        undone = self.acks_of(rig, left, "undo")
        commanded = sum(c["type"] == "undo" for page in [*rig.pages, *left] for c in page.commanded.values())
        assert sum(ack["ok"] for ack in undone) <= done.count("undo") <= commanded
        for page in [*rig.pages, *left]:
            for id, command in page.commanded.items():
                if command["type"] == "cancel" and id in page.acks and command["commandId"] in page.acks:
                    # Whichever came first: the text was answered, or is back in the box; unless the page had no epoch.
                    taken_back, sent = page.acks[id], page.acks[command["commandId"]]
                    early = all(not ack["ok"] and ack["error"]["code"] == "stale_epoch" for ack in (taken_back, sent))
                    assert early or taken_back["ok"] != sent["ok"]
        approved = [ack for ack in self.acks_of(rig, left, "approve") if ack["ok"]]
        assert len(approved) <= len(rig.chat.approved) == len(set(rig.chat.approved))

    @staticmethod
    def acks_of(rig: Rig, left: list[Page], type: str) -> list[dict[str, Any]]:
        pages = [*rig.pages, *left]
        return [
            page.acks[id] for page in pages for id, c in page.commanded.items() if c["type"] == type and id in page.acks
        ]


class TestLoss:
    def test_every_seventh_frame_and_the_last_is_lost(self) -> None:
        """C9: every frame with `seq` divisible by 7 dropped, the last of the turn too: equal within 3 s of the end."""
        rig = Rig()
        page = rig.page()
        lost: list[int] = []

        def receive(frame: dict[str, Any], buffers: list[bytes], keep: Any = page.receive) -> None:
            last = rig.chat._fold is None and not lost_last
            if frame["type"] == "ops" and (frame["seq"] % 7 == 0 or last):
                lost.append(frame["seq"])
                if last:
                    lost_last.append(frame["seq"])
                return
            keep(frame, buffers)

        lost_last: list[int] = []
        rig.chat.say("hello")
        rig.chat.begin()
        page.receive = receive  # type: ignore[method-assign]
        for number in range(300):
            rig.chat.delta(f"w{number} ")
            rig.time.run(0.02)
        rig.chat.end()
        rig.time.run(3)
        assert lost_last
        assert_in_step(rig)

    def test_a_lost_piece_of_a_reset_is_asked_for_again(self) -> None:
        """C37: 50 messages of 10 kB: several frames of one `seq`; ops between count; one lost: hello again."""
        rig = Rig()
        for number in range(50):
            rig.chat.say(f"{number} " + "x" * 10_000)
        dropped: list[int] = []
        page = rig.page(wait=False)
        keep = page.receive

        def receive(frame: dict[str, Any], buffers: list[bytes]) -> None:
            if frame["type"] == "reset" and frame["index"] == 1 and not dropped:
                dropped.append(frame["seq"])
                return
            keep(frame, buffers)

        page.receive = receive  # type: ignore[method-assign]
        rig.time.run(0.0005)
        rig.chat.say("between")
        rig.time.run(5)
        resets = rig.frames("reset")
        assert dropped
        assert resets[0]["count"] >= 2
        assert len({frame["seq"] for frame in resets[: resets[0]["count"]]}) == 1
        assert_in_step(rig)

    def test_a_gap_says_hello_once_in_half_a_second(self) -> None:
        """3.1: a higher number makes the view send `hello`, once per 500 ms."""
        rig = Rig()
        page = rig.page()
        rig.fate = lambda way: [] if way == "to-kernel" else [0.001]
        before = len(page._kept)
        page.seq = -10
        for _ in range(20):
            rig.chat.say("x")
            rig.time.run(0.05)
        assert len(page._kept) > before


class TestTwoViews:
    def test_both_stay_in_step(self) -> None:
        """C1: six messages, then two views, a seventh sent: both show seven in the same order."""
        rig = Rig()
        for number in range(6):
            rig.chat.say(f"m{number}")
        first, second = rig.page("view-1"), rig.page("view-2")
        first.command("send", text="seven")
        rig.time.run(1)
        assert [m["id"] for m in first.messages] == [m["id"] for m in second.messages]
        assert len(first.messages) == 8
        assert_in_step(rig)

    def test_a_widget_of_the_same_chat_has_numbers_of_its_own(self) -> None:
        """Section 1: widgets of one chat do not disturb each other."""
        rig, other = Rig(), Rig()
        assert rig.panel.channel.epoch != other.panel.channel.epoch
