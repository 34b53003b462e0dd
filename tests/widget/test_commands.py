"""Commands: once, answered, refused with a reason (spec/widget.md, 3.2 and 3.4)."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from chatnb.actions import Catalog, action
from chatnb.errors import InvalidArgumentsError, StoreReadOnlyError
from chatnb.turns.records import Outcome, TurnError
from chatnb.widget.commands import refusal

from .fakes import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def receive(rig: Rig, **fields: Any) -> dict[str, Any]:
    """Send one raw command and return its answer."""
    command = {"v": 1, "epoch": rig.panel.channel.epoch, "view": "view-1", "id": "c1", **fields}
    rig.panel.desk.receive(command)
    rig.time.run(0.1)
    answers = [frame for frame in rig.frames("ack") if frame["id"] == command["id"]]
    return answers[-1] if answers else {}


class TestOnce:
    def test_a_doubled_command_is_done_once(self, rig: Rig) -> None:
        """C10: a repeated id gets the same answer and does nothing."""
        rig.page()
        first = receive(rig, type="send", text="hello")
        again = receive(rig, type="send", text="hello")
        assert first == again
        assert [name for name, *_ in rig.chat.done] == ["send"]

    def test_the_last_thousand_ids_are_kept(self, rig: Rig) -> None:
        """3.2: the last 1,000 ids of a widget are kept with their answers."""
        rig.page()
        for number in range(1000):
            rig.panel.desk.receive(
                {"v": 1, "epoch": rig.panel.channel.epoch, "view": "v", "id": f"n{number}", "type": "stop"}
            )
        rig.time.run(0.1)
        receive(rig, type="stop", id="n0")
        assert len([1 for name, *_ in rig.chat.done if name == "stop"]) == 1000

    def test_an_old_epoch_does_nothing(self, rig: Rig) -> None:
        """C11: a command with an old epoch: `stale_epoch`, nothing done; the page says hello and is up to date."""
        for number in range(10):
            rig.chat.say(f"m{number}")
        answer = receive(rig, type="clear", epoch="before")
        assert answer["error"]["code"] == "stale_epoch"
        assert rig.chat.done == []
        page = rig.page()
        assert len(page.messages) == 10

    def test_an_old_epoch_is_the_answer_for_good(self, rig: Rig) -> None:
        """3.2: a repeated id gets the same answer and does nothing, also if it names the right epoch then."""
        first = receive(rig, type="send", id="m1", text="hello", epoch="")
        again = receive(rig, type="send", id="m1", text="hello")
        assert first == again
        assert first["error"]["code"] == "stale_epoch"
        assert receive(rig, type="send", id="m2", text="hello")["ok"]
        assert receive(rig, type="send", id="m2", text="hello", epoch="before")["ok"]
        assert [name for name, *_ in rig.chat.done] == ["send"]

    def test_cancel_before_its_send(self, rig: Rig) -> None:
        """C8: stop before the `send` is acked, delivered in reverse: not answered, the text goes back, status ready."""
        page = rig.page()
        receive(rig, type="stop", id="s")
        cancelled = receive(rig, type="cancel", id="c", commandId="m1")
        refused = receive(rig, type="send", id="m1", text="never mind")
        assert cancelled["ok"]
        assert not refused["ok"]
        assert [name for name, *_ in rig.chat.done] == ["stop"]
        assert page.state["status"] == "ready"

    def test_cancel_after_its_send_began(self, rig: Rig) -> None:
        """3.2: whichever order they arrive in, that text is not answered and returns to the box."""
        rig.page()

        def say(submission: Any, origin: str, parts: Any) -> None:
            rig.chat.say(parts[0]["text"])
            submission._input = SimpleNamespace(row=SimpleNamespace(id="i1"), message=rig.chat._chain[-1])

        rig.chat._do_send = say  # type: ignore[method-assign]
        receive(rig, type="send", id="m1", text="never mind")
        rig.panel.desk.receive(
            {"v": 1, "epoch": rig.panel.channel.epoch, "view": "v", "id": "c", "type": "cancel", "commandId": "m1"}
        )
        rig.time.run(0.1)
        assert rig.chat.submissions[0].stopped
        rig.chat.submissions[0].settle(Outcome(status="stopped", turn=1))
        rig.time.run(0.1)
        assert next(frame for frame in rig.frames("ack") if frame["id"] == "c")["result"] == {"text": "never mind"}
        assert [name for name, *_ in rig.chat.done] == ["send", "undo"]


class TestRefusals:
    def test_unknown_command(self, rig: Rig) -> None:
        """3.4: an unknown command gets `unknown_command`."""
        assert receive(rig, type="dance")["error"]["code"] == "unknown_command"

    def test_invalid_command_names_the_field(self, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
        """3.2: invalid commands are answered and logged once, and never raise."""
        with caplog.at_level(logging.WARNING, "chatnb.widget"):
            answer = receive(rig, type="edit", messageId=3, text="x")
            receive(rig, type="edit", messageId=3, text="x")
        assert answer["error"]["code"] == "invalid"
        assert answer["error"]["field"] == "messageId"
        assert len(caplog.records) == 1

    @pytest.mark.parametrize("content", [None, 3, "x", [], {}, {"view": "v"}, {"view": 1, "id": 2, "type": "send"}])
    def test_rubbish_is_dropped(self, rig: Rig, content: object) -> None:
        """3.2: whatever a page sends, nothing is raised in the kernel."""
        rig.panel.desk.receive(content)
        rig.time.run(0.1)
        assert rig.frames("ack") == []

    def test_too_large(self, rig: Rig) -> None:
        """3.2: JSON or buffers over 8 MiB are refused."""
        assert receive(rig, type="send", text="x" * (9 << 20))["error"]["code"] == "too_large"
        command = {"v": 1, "epoch": rig.panel.channel.epoch, "view": "v", "id": "b", "type": "send", "text": "x"}
        rig.panel.desk.receive(command, [b"x" * (9 << 20)])
        rig.time.run(0.1)
        assert rig.frames("ack")[-1]["error"]["code"] == "too_large"

    def test_closed_chat(self, rig: Rig) -> None:
        """3.3: lease lost, chat closed: commands but `takeOver` get `closed`; the view is told who took over."""
        page = rig.page()
        rig.chat._engine.update("closed", closed="taken over: b.ipynb (process 7 on box)")
        assert receive(rig, type="send", text="x")["error"]["code"] == "closed"
        assert page.state["closed"] == {"reason": "lease-lost", "by": "b.ipynb (process 7 on box)"}

    def test_blank_text(self, rig: Rig) -> None:
        """5.1: blank text without files does nothing."""
        assert receive(rig, type="send", text="  \n")["error"]["code"] == "invalid"
        assert rig.chat.done == []

    def test_no_values_in_texts(self) -> None:
        """3.2: `message` is one sentence for people, without argument values."""
        answer = refusal(ValueError("secret value 42"))
        assert "42" not in json.dumps(answer)
        answer = refusal(
            InvalidArgumentsError("Invalid arguments for f", details={"missing": ["amount"], "issues": []})
        )
        assert answer["error"]["field"] == "amount"

    def test_a_failed_write_is_told_and_may_be_tried_again(self, rig: Rig) -> None:
        """3.2: an ack is given when a command is written down; one that could not be is refused."""
        rig.chat._do_send = lambda submission, origin, parts: submission.settle(  # type: ignore[method-assign]
            Outcome(status="error", error=TurnError.of("input", StoreReadOnlyError("read only")))
        )
        answer = receive(rig, type="send", text="x")
        assert answer["error"]["code"] == "store"

    def test_a_refused_message_goes_back_to_the_box(self, rig: Rig) -> None:
        """C38: refused by `on_validate_messages`: no Retry, text in the box."""
        page = rig.page()
        rig.chat._do_send = lambda submission, origin, parts: None  # type: ignore[method-assign]
        receive(rig, type="send", id="m1", text="x")
        error = TurnError("on_validate_messages", "ValueError: not that")
        rig.chat.submissions[0].settle(Outcome(status="error", error=error, turn=1))
        rig.chat._engine.update("state", status="error", error=error)
        rig.time.run(0.2)
        notice = page.notices["input-m1"]
        assert notice["actions"] == [{"kind": "restoreText", "commandId": "m1"}]
        assert page.state["error"]["retry"] is False


class TestDecisions:
    def ask(self, rig: Rig) -> Any:
        page = rig.page()
        rig.chat.ask("p1", amount=250)
        rig.time.run(0.1)
        return page

    def test_approve_once_from_two_views(self, rig: Rig) -> None:
        """C4: Approve in both views within 50 ms: one run; the other card shows "already decided"."""
        page = self.ask(rig)
        other = rig.page("view-2")
        first = page.command("approve", approvalId="p1", hash="h" * 64, nonce=page.nonce)
        second = other.command("approve", approvalId="p1", hash="h" * 64, nonce=other.nonce)
        rig.time.run(0.2)
        assert page.acks[first]["ok"]
        assert other.acks[second]["error"]["code"] in ("already_decided", "not_found")
        assert [name for name, *_ in rig.chat.done] == ["approve"]
        assert page.pending == other.pending == []

    def test_a_wrong_nonce_changes_nothing(self, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
        """3.4: wrong: `bad_nonce`, logged, nothing changes; that of another view is wrong too."""
        self.ask(rig)
        other = rig.page("view-2")
        answer = receive(rig, type="approve", approvalId="p1", hash="h" * 64, nonce=other.nonce)
        assert answer["error"]["code"] == "bad_nonce"
        assert rig.chat.done == []
        assert "nonce" in caplog.text

    def test_another_hash_draws_the_card_anew(self, rig: Rig) -> None:
        """3.4: other hash: `approval_mismatch`, the card is drawn anew."""
        page = self.ask(rig)
        answer = receive(rig, type="approve", approvalId="p1", hash="0" * 64, nonce=page.nonce)
        assert answer["error"]["code"] == "approval_mismatch"
        assert rig.frames("reset")[-1]["reason"] == "approval_mismatch"

    def test_a_failure_is_told_at_the_card(self, rig: Rig) -> None:
        """C5: Approve fails in the kernel (store read-only): error text on that card, call still pending."""
        page = self.ask(rig)
        rig.chat.raises = StoreReadOnlyError("the store can't be written")
        answer = receive(rig, type="approve", approvalId="p1", hash="h" * 64, nonce=page.nonce)
        assert answer["error"]["code"] == "store"
        assert [item["id"] for item in page.pending] == ["p1"]

    def test_hello_handled_late_changes_nothing(self, rig: Rig) -> None:
        """C14: approve applies before the first hello is handled; the later hello changes nothing."""
        page = self.ask(rig)
        nonce = page.nonce
        assert receive(rig, type="approve", approvalId="p1", hash="h" * 64, nonce=nonce)["ok"]
        receive(rig, type="hello", id="the first one", versions=[1], epoch="")
        assert page.nonce == nonce
        assert [name for name, *_ in rig.chat.done] == ["approve"]

    def test_pending_shows_arguments_and_schema(self, rig: Rig) -> None:
        """5.4: title, every argument in full, the schema for the form."""

        @action(needs_approval=True)
        def refund(amount: float) -> float:
            """Refund."""
            return amount

        rig.chat._engine.definition.catalog = Catalog([refund])
        page = self.ask(rig)
        (item,) = page.pending
        assert item["args"] == {"amount": 250}
        assert item["schema"]["properties"]["amount"]["type"] == "number"


class TestFiles:
    PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 100

    def send(self, rig: Rig, name: str, kind: str, data: bytes) -> dict[str, Any]:
        command = {
            "v": 1,
            "epoch": rig.panel.channel.epoch,
            "view": "v",
            "id": name,
            "type": "send",
            "text": "look",
            "files": [{"name": name, "mediaType": kind, "size": len(data)}],
        }
        rig.panel.desk.receive(command, [data])
        rig.time.run(0.1)
        return next(frame for frame in rig.frames("ack") if frame["id"] == name)

    def test_content_goes_as_a_data_url_and_the_name_is_cleaned(self, rig: Rig) -> None:
        """5.1: names lose paths and control characters."""
        assert self.send(rig, "../../etc/a\u202egnp.png", "image/png", self.PNG)["ok"]
        file = rig.chat.done[0][1][1]
        assert file["filename"] == "agnp.png"
        assert file["url"].startswith("data:image/png;base64,")

    def test_content_must_be_what_it_says(self, rig: Rig) -> None:
        """5.1: the kernel checks content type, size and name again."""
        assert self.send(rig, "a.png", "image/png", b"<script>")["error"]["code"] == "invalid"
        assert self.send(rig, "a.exe", "application/x-msdownload", b"MZ")["error"]["code"] == "invalid"
        assert self.send(rig, "a.csv", "text/csv", b"\xff\xfe\x00")["error"]["code"] == "invalid"
        assert self.send(rig, "b.png", "image/png", self.PNG + b"0" * 5_000_000)["error"]["code"] == "too_large"
        assert rig.chat.done == []

    def test_not_allowed(self) -> None:
        """Section 1: `allow_attachments=False`."""
        rig = Rig(allow_attachments=False)
        assert not self.send(rig, "a.png", "image/png", self.PNG)["ok"]


class TestCells:
    def test_a_page_inserts_a_cell_for_the_kernel(self, rig: Rig) -> None:
        """3.1 `insertCell`, 3.2 `cellInserted`: the page that was used last is asked, if its host can."""
        rig.page()
        assert receive(rig, type="cellInserted", id="unknown", ok=True)["ok"]
