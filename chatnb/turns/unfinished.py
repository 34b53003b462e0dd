"""What a turn leaves undone at its end: calls that did not finish are settled, never deleted (spec/turns.md, 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..history import is_settled
from ..history.repair import IDEMPOTENT, READ, UNKNOWN
from ..messages import is_tool_part
from .wire import WireChunk

if TYPE_CHECKING:
    from .turn_run import TurnRun

STOPPED = "Not executed: stopped."
FAILED = "Not executed: the turn failed."
ENDED = "Not executed: the turn ended without its result."


def settle_unfinished(run: TurnRun, text: str) -> None:
    """Settle the calls that did not finish, and end the step.

    A call that waits for a person is left as it is; one that was rejected is denied, as it would have been. A call that
    the model began and did not finish saying becomes an input error with the text so far. Of one that was entered, and
    whose result could not be written down, nobody knows whether it took effect.
    """
    live = run.live
    for part in live.message.parts:
        if not is_tool_part(part) or is_settled(part) or not part.tool_call_id:
            continue
        if part.provider_executed and text == ENDED:
            continue  # a provider may give its result in a later turn
        if part.state == "approval-requested":
            continue
        if part.state == "input-available" and part.tool_name in run.client_tool_names:
            continue
        if part.state == "approval-responded" and part.approval is not None and not part.approval.approved:
            live.emit({"type": "tool-output-denied", "toolCallId": part.tool_call_id})
            continue
        shown = run.engine.calls.get(part.tool_call_id)
        if shown is not None and shown.phase == "running":
            known = _unknown(run, part.tool_name)
            live.emit({"type": "tool-output-error", "toolCallId": part.tool_call_id, "errorText": known})
            continue
        if part.state == "input-streaming":
            chunk: WireChunk = {
                "type": "tool-input-error",
                "toolCallId": part.tool_call_id,
                "toolName": part.tool_name,
                "input": part.raw_input or "",
                "errorText": text,
            }
        else:
            chunk = {"type": "tool-output-error", "toolCallId": part.tool_call_id, "errorText": text}
        live.emit(chunk)
    live.end_step()


def _unknown(run: TurnRun, name: str) -> str:
    action = run.engine.definition.catalog.find(name)
    if action is not None and action.fixed_read is True:
        return READ
    return UNKNOWN + (IDEMPOTENT if action is not None and action.idempotent else "")
