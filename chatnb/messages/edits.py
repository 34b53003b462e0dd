"""Edits of calls that are no chunks: a decision, and a call that will not finish (spec/messages.md, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chatnb.errors import MessageValidationError
from chatnb.messages.json_value import ABSENT, Absent, FrozenDict, JsonValue, freeze
from chatnb.messages.message import UIMessage, as_message, with_part
from chatnb.messages.part_schema import FINISHED_STATES
from chatnb.messages.parts import ToolPart
from chatnb.messages.refusal import Refused

_SETTLED_AWAY: Final = frozenset({"output", "preliminary", "inputEncoding"})


def decide_call(
    message: UIMessage | Mapping[str, Any],
    approval_id: str,
    approved: bool,
    reason: str | None = None,
    *,
    input: JsonValue | Absent = ABSENT,
) -> UIMessage:
    """Return the message with one approval answered; the other parts are the same objects.

    Args:
        message: The message.
        approval_id: The id of an approval that waits.
        approved: The decision.
        reason: Why, or None.
        input: Replaces the call's input, when given.

    Raises:
        MessageValidationError: The message has no such approval, or it is answered.
    """
    known = as_message(message)
    for index, part in enumerate(known.parts):
        if isinstance(part, ToolPart) and part.approval is not None and part.approval.id == approval_id:
            if part.state != "approval-requested":
                raise MessageValidationError("the approval is answered already", path=("parts", index, "approval"))
            answer: dict[str, JsonValue] = {"approved": bool(approved)}
            if reason is not None:
                answer["reason"] = reason
            changes: dict[str, JsonValue] = {
                "state": "approval-responded",
                "approval": FrozenDict({**part.approval.wire, **answer}),
            }
            if input is not ABSENT:
                changes["input"] = _input(input, index)
            return with_part(known, index, ToolPart(FrozenDict({**part.wire, **changes})))
    raise MessageValidationError("the message has no approval with this id", path=("parts",))


def _input(value: JsonValue, index: int) -> JsonValue:
    try:
        return freeze(value, ("parts", index, "input"))
    except Refused as refusal:
        raise refusal.to_error("message") from None


def settle_call(message: UIMessage | Mapping[str, Any], tool_call_id: str, text: str) -> UIMessage:
    """Return the message with one call ended as an error; the other parts are the same objects.

    The input stays. The approval stays only when it was given. Of several calls with the id, the last one that is not
    finished is taken, else the last one.

    Raises:
        MessageValidationError: The message has no such call.
    """
    known = as_message(message)
    found: int | None = None
    found_open = False
    for index, part in enumerate(known.parts):
        if isinstance(part, ToolPart) and part.tool_call_id == tool_call_id:
            is_open = part.state not in FINISHED_STATES or bool(part.preliminary)
            if is_open or not found_open:
                found, found_open = index, is_open
    if found is None:
        raise MessageValidationError("the message has no call with this id", path=("parts",))
    call = known.parts[found]
    assert isinstance(call, ToolPart)
    wire = {key: value for key, value in call.wire.items() if key not in _SETTLED_AWAY}
    if "input" in wire:
        wire.pop("rawInput", None)
    if call.approval is not None and call.approval.approved is not True:
        del wire["approval"]
    wire.update(state="output-error", errorText=text)
    return with_part(known, found, ToolPart(FrozenDict(wire)))
