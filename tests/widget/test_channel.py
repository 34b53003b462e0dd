"""Pace, size, hello, and what is never sent twice (spec/widget.md, 3.1, 3.3, 3.4)."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

from chatnb.messages import UIMessage
from chatnb.turns.records import Update
from chatnb.widget.cutting import FRAME_BYTES

from .fakes import Rig


def wire(id: str, role: str, *parts: dict[str, Any]) -> UIMessage:
    return UIMessage.from_wire({"id": id, "role": role, "parts": list(parts)})


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def image(size: int, seed: int = 0) -> dict[str, Any]:
    data = base64.b64encode(bytes([seed % 256]) * size).decode()
    return {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{data}", "filename": "a.png"}


class TestPace:
    def test_at_most_thirty_frames_in_any_second(self) -> None:
        """C15: 5,000 tokens/s for 20 s: at most 30 frames in any second, final text complete 1 s after the end."""
        rig = Rig()
        page = rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        start = len(rig.sent)
        for _ in range(2000):
            for _ in range(50):
                rig.chat.delta("tok ")
            rig.time.run(0.01)
        rig.chat.end()
        rig.time.run(1)
        times = [at for at, frame, _ in rig.sent[start:] if frame["type"] in ("ops", "mark", "asset", "run")]
        for index, at in enumerate(times):
            assert sum(1 for other in times[index:] if other < at + 1) <= 30
        assert page.messages[-1]["parts"][-1]["text"] == "tok " * 100_000

    def test_answers_to_hello_count(self) -> None:
        """3.1: at most 30 in any second, `ack`, `reset`, `page` apart: what answers a hello too counts."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        start = len(rig.sent)
        for step in range(400):
            rig.chat.delta("tok ")
            if step % 25 == 0:
                command = {
                    "v": 1,
                    "epoch": "",
                    "view": f"v{step % 2}",
                    "id": f"h{step}",
                    "type": "hello",
                    "versions": [1],
                }
                rig.panel.desk.receive(command)
            rig.time.run(0.01)
        times = [at for at, frame, _ in rig.sent[start:] if frame["type"] not in ("ack", "reset", "page")]
        assert max(sum(at <= other < at + 1 for other in times) for at in times) <= 30
        assert len(times) > 4 * 25

    def test_first_change_after_a_pause_goes_at_once(self) -> None:
        """3.1: the first change after a pause at once, later ones gathered for 34 ms; neighbours join."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        rig.time.run(1)
        begun = len(rig.frames("ops"))
        rig.chat.delta("a")
        rig.time.run(0.001)
        assert len(rig.frames("ops")) == begun + 1
        for word in ("b", "c", "d"):
            rig.chat.delta(word)
            rig.time.run(0.005)
        assert len(rig.frames("ops")) == begun + 1
        rig.time.run(0.034)
        (op,) = rig.frames("ops")[-1]["ops"]
        assert (op["op"], op["d"]) == ("text", "bcd")

    def test_a_frame_that_is_due_goes_when_the_loop_is_awake_anyway(self) -> None:
        """3.1: gathered for 34 ms; what comes then takes the frame along, and without it the frame goes 5 ms later."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        rig.time.run(1)
        rig.chat.delta("a")
        rig.time.run(0.02)
        begun = len(rig.frames("ops"))
        rig.chat.delta("b")
        rig.time.run(0.016)
        assert len(rig.frames("ops")) == begun
        rig.chat.delta("c")
        rig.time.run(0)
        rig.chat.delta("d")
        rig.time.run(0.041)
        assert [frame["ops"][0]["d"] for frame in rig.frames("ops")[begun:]] == ["bc", "d"]

    def test_a_change_stands_behind_the_text_before_it(self) -> None:
        """3.1: within a window neighbouring `text` ops join, else order is kept."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        rig.time.run(1)
        rig.chat.delta("a")
        rig.chat.delta("b")
        rig.panel._on_update(Update(kind="change", data={"n": 1}))
        rig.chat.delta("c")
        rig.time.run(0.1)
        assert [(op["op"], op.get("d")) for op in rig.frames("ops")[-1]["ops"]] == [
            ("text", "ab"),
            ("change", None),
            ("text", "c"),
        ]

    def test_mark_follows_a_burst(self) -> None:
        """3.1: `mark` follows a burst after 0.5, 2 and 10 s."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.time.run(0.05)
        sent_at = next(at for at, frame, _ in reversed(rig.sent) if frame["type"] == "ops")
        rig.time.run(12)
        marks = [at - sent_at for at, frame, _ in rig.sent if frame["type"] == "mark" and at > sent_at]
        assert [round(at, 1) for at in marks] == [0.5, 2.0, 10.0]

    def test_one_turn_end_is_one_frame(self) -> None:
        """Section 2: every row is one atomic change; the end of a turn and its status come in one frame."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        rig.chat.delta("x")
        rig.time.run(1)
        before = len(rig.frames("ops"))
        rig.chat.end()
        rig.time.run(0.2)
        (frame,) = rig.frames("ops")[before:]
        assert frame["ops"][-1]["state"]["status"] == "ready"
        assert frame["ops"][-1]["state"]["streamingId"] is None

    def test_nobody_looks_nothing_is_sent(self) -> None:
        """Section 8: nbclient, a terminal: no view, and nothing waits for one."""
        rig = Rig()
        rig.chat.say("go")
        rig.chat.begin()
        rig.chat.delta("x")
        rig.chat.end()
        rig.time.run(20)
        assert rig.sent == []

    def test_kernel_time_is_linear(self) -> None:
        """Section 8: kernel time for frames: linear, 200,000 characters under 1 s."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        rig.time.run(1)
        change = rig.chat._fold.feed({"type": "text-delta", "id": "t", "delta": "x"})  # type: ignore[union-attr]
        update = Update(kind="chunk", message_id=rig.chat._fold.message_id, change=change)  # type: ignore[union-attr]
        begun = time.process_time()
        for number in range(200_000):
            rig.panel.channel.on_update(update)
            if number % 1000 == 0:
                rig.time.run(0.034)
        assert time.process_time() - begun < 1.0


class TestBytes:
    def frames_of_a_reply(self, rig: Rig) -> list[int]:
        rig.time.run(11)
        begun = len(rig.sent)
        rig.chat.begin()
        for number in range(100):
            rig.chat.delta(f"{number % 10} word ")
            rig.time.run(0.05)
        rig.chat.end()
        rig.time.run(1)
        assert not [frame for _, frame, _ in rig.sent[begun:] if frame["type"] == "asset"]
        return [len(json.dumps(frame)) for _, frame, _ in rig.sent[begun:] if frame["type"] == "ops"]

    def test_a_token_costs_the_same_at_message_2000(self) -> None:
        """C16: a reply as message 2 and as message 2,000 with 20 images before it: within 5 %, no image again."""
        short, long = Rig(), Rig()
        images = [wire(f"i{n}", "user", image(20_000, n)) for n in range(20)]
        talk = [wire(f"u{n}", "user", text(f"question {n}")) for n in range(1_979)]
        long.chat.set_chain((*talk, *images))
        for rig in (short, long):
            rig.chat._numbers = iter(range(5000, 6000))  # type: ignore[assignment]
            rig.page()
            rig.chat.say("go")
        few, many = self.frames_of_a_reply(short), self.frames_of_a_reply(long)
        assert abs(sum(many) - sum(few)) <= 0.05 * sum(few)
        assert len(long.frames("asset")) == 20

    def test_text_never_travels_twice(self) -> None:
        """3.1: a delta costs its own bytes; the ends of texts cost nothing."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        begun = len(rig.sent)
        for _ in range(200):
            rig.chat.delta("0123456789")
            rig.time.run(0.01)
        rig.chat.end()
        rig.time.run(1)
        sent = sum(len(json.dumps(frame)) for _, frame, _ in rig.sent[begun:] if frame["type"] == "ops")
        frames = len([frame for _, frame, _ in rig.sent[begun:] if frame["type"] == "ops"])
        assert sent < 2000 + frames * 220 + 600


class TestSize:
    def test_three_megabytes_of_emoji_and_an_image_of_21(self) -> None:
        """C17: frames up to 256 KiB, text intact; the image is a box with type, size and `chat.objects` name."""
        rig = Rig()
        page = rig.page()
        huge = "🙂 words " * 330_000
        call = {
            "type": "tool-plot",
            "toolCallId": "c1",
            "state": "output-available",
            "input": {},
            "output": {"object": "plot_1", "type": "Figure", "summary": "a figure"},
        }
        rig.chat.set_chain((wire("a1", "assistant", call, text(huge), image(21_000_000)),))
        rig.time.run(5)
        assert all(len(json.dumps(frame, ensure_ascii=False).encode()) <= FRAME_BYTES for _, frame, _ in rig.sent)
        parts = page.messages[0]["parts"]
        assert parts[1]["text"] == huge
        assert parts[2]["url"] == {"asset": None, "mediaType": "image/png", "bytes": 21_000_000, "object": "plot_1"}
        assert not rig.frames("asset")

    def test_a_reset_cuts_a_long_text_and_load_part_brings_it(self) -> None:
        """3.3: text parts over 100 kB are cut with "Show all" (`loadPart`)."""
        rig = Rig()
        long = "word " * 60_000
        rig.chat.set_chain((wire("a1", "assistant", text(long)),))
        page = rig.page()
        part = page.messages[0]["parts"][0]
        assert len(part["text"]) <= 100_000
        assert part["cut"] == {"after": len(long) - len(part["text"])}
        page.command("loadPart", messageId="a1", index=0)
        rig.time.run(1)
        assert page.messages[0]["parts"][0]["text"] == long

    def test_an_image_travels_once_and_whole(self) -> None:
        """3.1: binary data over 8 KiB becomes an asset, sent once per widget in buffers of at most 1 MiB."""
        rig = Rig()
        page = rig.page()
        rig.chat.set_chain((wire("u1", "user", image(2_500_000)), wire("u2", "user", image(2_500_000))))
        rig.time.run(1)
        reference = page.messages[0]["parts"][0]["url"]
        pieces = page.assets[reference["asset"]]
        assert [len(piece) for piece in pieces.values()] == [1 << 20, 1 << 20, 2_500_000 - (2 << 20)]
        assert hashlib.sha256(b"".join(pieces.values())).hexdigest() == reference["asset"]
        assert len(rig.frames("asset")) == 3
        page.command("getAsset", hash=reference["asset"])
        rig.time.run(1)
        assert len(rig.frames("asset")) == 6

    def test_small_images_stay_in_place(self) -> None:
        """3.1: binary data up to 8 KiB is no asset."""
        rig = Rig()
        page = rig.page()
        rig.chat.set_chain((wire("u1", "user", image(8 * 1024)), wire("u2", "user", image(8 * 1024 + 1))))
        rig.time.run(1)
        assert page.messages[0]["parts"][0]["url"].startswith("data:image/png;base64,")
        assert page.messages[1]["parts"][0]["url"]["bytes"] == 8 * 1024 + 1

    def test_a_large_result_is_an_asset(self) -> None:
        """3.1: no frame is larger than 256 KiB, whatever a call returns."""
        rig = Rig()
        page = rig.page()
        rows = [{"n": n, "text": "é" * 50} for n in range(20_000)]
        call = {"type": "tool-q", "toolCallId": "c", "state": "output-available", "input": {}, "output": rows}
        rig.chat.set_chain((wire("a1", "assistant", call),))
        rig.time.run(1)
        reference = page.messages[0]["parts"][0]["output"]
        data = b"".join(page.assets[reference["asset"]].values())
        assert reference["mediaType"] == "application/json"
        assert json.loads(data) == rows
        assert all(len(json.dumps(frame)) <= FRAME_BYTES for _, frame, _ in rig.sent)

    def test_halves_of_a_character_are_joined(self) -> None:
        """3.1: never inside a character: surrogate halves in two deltas become one."""
        rig = Rig()
        page = rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        rig.time.run(0.1)
        rig.chat.delta("a\ud83d")
        rig.time.run(0.1)
        rig.chat.delta("\ude42b")
        rig.time.run(0.1)
        assert page.messages[-1]["parts"][-1]["text"] == "a🙂b"

    def test_a_dear_backlog_becomes_a_reset(self) -> None:
        """3.1: a backlog dearer than a `reset` becomes one."""
        rig = Rig()
        page = rig.page()
        rig.chat.set_chain(tuple(wire(f"m{n}", "user", text(f"{n}")) for n in range(500)))
        rig.time.run(1)
        assert rig.frames("reset")[-1]["reason"] == "backlog"
        assert not rig.frames("ops")
        assert page.messages == rig.kernel_view(50)
        rig.chat.say("more")
        rig.time.run(0.1)
        assert page.messages[-1]["parts"][0]["text"] == "more"


class TestHello:
    def test_a_view_gets_the_newest_fifty(self) -> None:
        """C18: 200 messages: mount shows 50; "Load earlier" adds 50; a delta for an unloaded message does nothing."""
        rig = Rig()
        rig.chat.set_chain(tuple(wire(f"m{n}", "user", text(f"{n}")) for n in range(200)))
        page = rig.page()
        assert [m["id"] for m in page.messages] == [f"m{n}" for n in range(150, 200)]
        assert page.has_earlier
        page.command("loadEarlier", before="m150")
        rig.time.run(0.1)
        assert [m["id"] for m in page.messages] == [f"m{n}" for n in range(100, 200)]
        page._op_text({"op": "text", "m": "m3", "p": 0, "field": "text", "d": "x"})
        assert page.messages == rig.kernel_view(100)

    def test_an_edit_far_up_resets(self) -> None:
        """3.3: when most of what a view shows is gone, it gets the messages that are there now."""
        rig = Rig()
        rig.chat.set_chain(tuple(wire(f"m{n}", "user", text(f"{n}")) for n in range(200)))
        page = rig.page()
        rig.chat.set_chain(rig.chat._chain[:100])
        rig.time.run(0.1)
        assert page.messages == rig.kernel_view(50)

    def test_an_up_to_date_view_gets_a_mark(self) -> None:
        """3.3: `secret`, then `mark` if `last` is current, else `reset`."""
        rig = Rig()
        page = rig.page()
        resets = len(rig.frames("reset"))
        page.hello()
        rig.time.run(0.1)
        assert len(rig.frames("reset")) == resets
        assert rig.frames("mark")
        assert len(rig.frames("secret")) == 2

    def test_the_nonce_stays_with_the_view(self) -> None:
        """3.4: the nonce, 128 random bits per view and epoch, is in `secret` alone."""
        rig = Rig()
        first, second = rig.page("one"), rig.page("two")
        one = first.nonce
        first.hello()
        rig.time.run(0.1)
        assert first.nonce == one != second.nonce
        assert one is not None
        assert len(one) == 32
        elsewhere = [frame for _, frame, _ in rig.sent if frame["type"] != "secret"]
        assert one not in json.dumps(elsewhere)
        assert one not in json.dumps(rig.panel.snapshot())

    def test_no_common_version(self) -> None:
        """3.4: no common version with `hello`: `unsupported`."""
        rig = Rig()
        command = {"v": 9, "epoch": "", "view": "new", "id": "1", "type": "hello", "versions": [9]}
        rig.panel.desk.receive(command)
        rig.time.run(0.1)
        assert rig.frames("unsupported")[0]["versions"] == [1]
        assert not rig.frames("secret")

    def test_mid_stream(self) -> None:
        """C2: a view that comes in mid-stream has the text once, and gets what follows."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        for number in range(20):
            rig.chat.delta(f"{number} ")
            rig.time.run(0.013)
        late = rig.page("late", wait=False)
        for number in range(20, 40):
            rig.chat.delta(f"{number} ")
            rig.time.run(0.013)
        rig.chat.end()
        rig.time.run(1)
        assert late.messages == rig.kernel_view()
        assert late.messages[-1]["parts"][-1]["text"] == "".join(f"{n} " for n in range(40))

    def test_a_growing_text_is_cut_in_front(self) -> None:
        """3.3: what is appended stands where it belongs, also in a text that was cut."""
        rig = Rig()
        rig.page()
        rig.chat.say("go")
        rig.chat.begin()
        rig.chat.delta("x" * 150_000)
        late = rig.page("late")
        rig.chat.delta("end")
        rig.time.run(0.2)
        part = late.messages[-1]["parts"][-1]
        assert part["text"].endswith("xend")
        assert part["cut"]["before"] + len(part["text"]) == 150_003


class TestSaved:
    def test_snapshot_has_nothing_that_decides(self) -> None:
        """3.4: 50 messages, 1 MiB, no nonce, no pending buttons, no `js`; the same object while history is the same."""
        rig = Rig()
        rig.chat.set_chain(tuple(wire(f"m{n}", "user", text("x" * 40_000)) for n in range(200)))
        rig.chat.ask("p1", amount=3)
        saved = rig.panel.snapshot()
        assert len(json.dumps(saved)) <= 1024 * 1024
        assert "pending" not in saved
        assert 20 < len(saved["messages"]) <= 50
        assert saved["messages"][-1]["message"]["id"] == "m199"
        assert rig.panel.snapshot() is saved
