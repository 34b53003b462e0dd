"""The widget site: what a person does with actions in a view (spec/widget.md, 3.4, 5.3; spec/actions.md, 4.8).

It decides nothing about a call: it proves that the view may decide, shows the decision's hash to the chat, and sends
calls down the one road of `actions/dispatch.py`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Sequence
from typing import Any

from .._ids import random_word
from .._json import JsonValue
from ..turns.records import ChatState, Pending
from . import budget
from .channel import Channel, error_ack
from .commands import Answer, Fields, field_of
from .cutting import escaped
from .protocol import CallCommand, DecisionCommand
from .seam import ChatSeam
from .view_form import Form, ViewForm

logger = logging.getLogger("chatnb.widget")

CALLS_KEPT = 50
"""Cards of "Run an action" that a panel keeps."""

INLINE = 2048
"""Bytes of JSON of arguments or results in a card; more goes beside the frames."""
SOON = 0.25
"""Seconds in which arguments that do not fit are found out; then the command is answered."""

NOT_PENDING = error_ack("not_found", "Nothing waits for this decision any more.")
DECIDED = error_ack("already_decided", "This was decided already.")

Settle = Callable[[Any, Answer, Fields | None, Fields | None], None]


class WidgetSite:
    """Decisions and calls of the views of one widget.

    Args:
        seam: The chat.
        channel: The views.
        form: How arguments and results are shown.
        finish: Answers a command when the submission of its decision is written.
        auto_continue: Whether a decision that completes its batch goes on by itself.
    """

    def __init__(
        self, seam: ChatSeam, channel: Channel, form: ViewForm, finish: Settle, *, auto_continue: bool
    ) -> None:
        self._seam = seam
        self._channel = channel
        self._form = form
        self._finish = finish
        self._auto_continue = auto_continue
        self.calls: dict[str, Form] = {}

    # --- decisions ----------------------------------------------------------------------------------------------

    def decide(self, command: DecisionCommand, answer: Answer) -> None:
        """Take a decision of a view: by its nonce, for the hash that it displayed."""
        if not self._is_proven(command.view, command.nonce):
            answer(error_ack("bad_nonce", "This panel may not decide; load the page again."))
            return
        state = self._seam.state()
        item = next((item for item in state.pending if item.id == command.approval_id), None)
        if item is None:
            answer(_not_pending(state, command.approval_id))
            return
        if item.hash != command.hash:
            answer(error_ack("approval_mismatch", "The call has changed; look at it again."))
            view = self._channel.views.get(command.view)
            if view is not None:
                self._channel.reset(view, "approval_mismatch")
            return
        self._finish(self._send_decision(command, item), answer, None, DECIDED)

    def _send_decision(self, command: DecisionCommand, item: Pending) -> Any:
        options: dict[str, Any] = {"continue_": self._auto_continue, "reason": command.reason}
        if command.type == "reject":
            return self._seam.do("reject", item.id, **options)
        return self._seam.do("approve", item.id, args=command.args, **options)

    def _is_proven(self, view_id: str, nonce: str) -> bool:
        view = self._channel.views.get(view_id)
        if view is not None and hmac.compare_digest(view.nonce.encode(), nonce.encode("utf-8", "replace")):
            return True
        logger.warning("a view of chat %s decided with a wrong nonce; nothing was changed", self._seam.chat.id)
        return False

    # --- calls --------------------------------------------------------------------------------------------------

    def call(self, command: CallCommand, answer: Answer) -> None:
        """Call an action for a person. The click with the nonce is the blessing of a gated call."""
        if not self._is_proven(command.view, command.nonce):
            answer(error_ack("bad_nonce", "This panel may not call actions; load the page again."))
            return
        action = self._seam.find_action(command.name)
        if action is None:
            answer(error_ack("not_found", "There is no such action."))
            return
        id = f"call-{random_word(16)}"
        part: Form = {
            "type": f"tool-{command.name}",
            "toolCallId": id,
            "title": action.title or command.name,
            "state": "input-available",
            "input": self._form.value(command.args, inline=INLINE),
        }
        self._seam.spawn(self._run(command, id, part, answer), f"widget call of {command.name}")

    async def _run(self, command: CallCommand, id: str, part: Form, answer: Answer) -> None:
        """Run a call. Arguments that do not fit are the command's answer; all else is told by the card."""

        def show(progress: Form | None, lines: Sequence[Form]) -> None:
            if id in self.calls:
                fields: Form = {"phase": "running", "log": budget.last_lines(lines, budget.LOGS // 4, self._form)}
                self._show(id, {**self.calls[id], **fields, **({"progress": progress} if progress else {})})

        work = asyncio.ensure_future(self._seam.call_action(command.name, command.args, show))
        await asyncio.wait({work}, timeout=SOON)
        invalid = work.result().failure if work.done() else None
        if invalid is not None and invalid.code == "invalid_arguments":
            answer(error_ack("invalid", invalid.public_text, field_of(invalid.details)))
            return
        self._show(id, {"toolCallId": id, "phase": "running", "part": part})
        answer({"ok": True, "result": {"toolCallId": id}})
        settled = await work
        if settled.failure is None:
            done: Form = {
                **part,
                "state": "output-available",
                "output": self._form.value(settled.output, inline=INLINE),
            }
        else:
            done = {**part, "state": "output-error", "errorText": self._form.text(settled.failure.text)}
        call: Form = {**self.calls.get(id, {"toolCallId": id}), "phase": "done", "part": done}
        if settled.outputs:
            call["outputs"] = self._form.value(list(settled.outputs), inline=INLINE)
        self._show(id, {**call, "durationMs": settled.duration_ms})

    def _show(self, id: str, call: Form) -> None:
        self.calls = {**self.calls, id: call}
        sizes = {known: escaped(shown) for known, shown in self.calls.items()}
        while len(self.calls) > 1 and (len(self.calls) > CALLS_KEPT or sum(sizes.values()) > budget.SITE_CALLS):
            oldest = next(iter(self.calls))
            del self.calls[oldest], sizes[oldest]
        self._channel.refresh()


def _not_pending(state: ChatState, approval_id: str) -> dict[str, JsonValue]:
    """Tell why nothing waits under this id: decided, expired, or never asked here."""
    for message in reversed(state.messages):
        for part in message.parts:
            approval = part.wire.get("approval")
            if not isinstance(approval, dict) or approval.get("id") != approval_id:
                continue
            if approval.get("reason") == "expired":
                return error_ack("expired", "This request has expired.")
            return DECIDED
    return NOT_PENDING
