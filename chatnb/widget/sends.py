"""The texts that a view sends, and takes back (spec/widget.md, 3.2 and 5.1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..turns.records import Outcome
from .attachments import file_parts
from .channel import Channel, error_ack
from .commands import Answer, Fields
from .notices import Notices
from .picture import REFUSED_STAGES
from .seam import ChatSeam
from .settings import Settings
from .view_form import ViewForm

KEPT = 1_000
"""Sent texts that can be taken back, and takings back that wait for their text."""
TAKEN_BACK = error_ack("failed", "Taken back before it was sent.")


class Sends:
    """What `WidgetDeeds` has of them. On the runtime.

    Attributes:
        command_ids: Which command made which input.
    """

    _seam: ChatSeam
    _channel: Channel
    _settings: Settings
    _form: ViewForm
    notices: Notices
    command_ids: dict[str, str]
    finish: Callable[..., None]
    _around: Callable[[str, str | None], dict[str, Any]]
    _submissions: OrderedDict[str, tuple[Any, str] | None]
    """By command; None once it was answered: the submission would keep its reply's chunks."""
    _taken_back: OrderedDict[str, None]

    def _send(self, command: Any, buffers: Sequence[bytes], answer: Answer) -> None:
        if command.id in self._taken_back:
            answer(TAKEN_BACK)
            return
        files = file_parts(
            command.files,
            buffers,
            allowed=self._settings.allow_attachments,
            max_bytes=self._settings.max_attachment_bytes,
        )
        if not command.text.strip() and not files:
            answer(error_ack("invalid", "Write something first.", "text"))
            return
        parts = [{"type": "text", "text": command.text}] if command.text.strip() else []
        submission = self._seam.do("send", [*parts, *files], **self._around("submit-message", None))
        self._submissions[command.id] = (submission, command.text)
        while len(self._submissions) > KEPT:
            self._submissions.popitem(last=False)
        input_id = self._seam.input_id(submission)
        if input_id is not None:
            self.command_ids = {**dict(list(self.command_ids.items())[-200:]), input_id: command.id}
            self._channel.refresh()
        self._seam.spawn(self._follow(command.id, submission), "outcome of a sent message")
        refused = error_ack("busy", "A reply is being written; send it again when it is done.")

        def told(fields: Fields) -> None:
            answer(TAKEN_BACK if not fields["ok"] and command.id in self._taken_back else fields)

        self.finish(submission, told, {"inputId": input_id} if input_id else None, refused)

    async def _follow(self, command_id: str, submission: Any) -> None:
        """Give a text back that was not taken after all."""
        outcome: Outcome = await submission
        if outcome.status not in ("stopped", "skipped") and command_id in self._submissions:
            self._submissions[command_id] = None
        error = outcome.error
        if outcome.status == "error" and error is not None and error.stage in REFUSED_STAGES:
            self.notices.show(
                {
                    "id": f"input-{command_id}",
                    "level": "error",
                    "text": self._form.text(error.message),
                    "actions": [{"kind": "restoreText", "commandId": command_id}],
                }
            )

    def _cancel(self, command: Any, answer: Answer) -> None:
        if command.command_id is not None:
            is_known, known = command.command_id in self._submissions, self._submissions.get(command.command_id)
            self._taken_back[command.command_id] = None
            while len(self._taken_back) > KEPT:
                self._taken_back.popitem(last=False)
            if not is_known:
                answer({"ok": True, "result": {"text": None}})
                return
            outcome = self._seam.outcome(known[0]) if known is not None else None
            # A stop that was sent after it may have come before it.
            if known is None or (outcome is not None and outcome.status not in ("stopped", "skipped")):
                answer(error_ack("not_found", "This was answered already."))
                return
            submission, text = known
            submission.stop()
            self._seam.spawn(self._take_back(submission, text, answer), "a message taken back")
            return
        found = self._seam.cancel_input(command.input_id or "")
        if found is None:
            answer(error_ack("not_found", "This does not wait any more."))
            return
        answer({"ok": True, "result": {"text": found}})

    async def _take_back(self, submission: Any, text: str, answer: Answer) -> None:
        """A text whose turn had begun is taken off the history too: the person has it back in the box."""
        outcome: Outcome = await submission
        if outcome.status != "skipped":
            state = self._seam.state()
            last = next((message for message in reversed(state.messages) if message.role == "user"), None)
            if last is not None and state.status == "ready" and self._seam.is_of(submission, last):
                self._seam.do("undo")
        answer({"ok": True, "result": {"text": text}})
