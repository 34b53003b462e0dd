"""What state a call is in, in the words of the front ends (spec/widget.md, section 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from .._json import JsonValue
from ..messages import is_tool_part

ToolPartState = Literal["streaming", "loading", "waiting-approval", "approved", "complete", "error", "denied"]
_STATES: dict[str, ToolPartState] = {
    "input-streaming": "streaming",
    "input-available": "loading",
    "approval-requested": "waiting-approval",
    "output-available": "complete",
    "output-error": "error",
    "output-denied": "denied",
}


def tool_part_state(part: Any) -> ToolPartState:
    """Return the state of a call's part: an object, or its wire dict.

    Raises:
        TypeError: The part is no call.
    """
    wire: Mapping[str, JsonValue] = part if isinstance(part, Mapping) else part.wire
    kind = str(wire.get("type"))
    if kind != "dynamic-tool" and not kind.startswith("tool-") and not (hasattr(part, "wire") and is_tool_part(part)):
        raise TypeError(f"a part of type {kind!r} is no call of an action")
    state = str(wire.get("state"))
    if state == "approval-responded":
        approval = wire.get("approval")
        return "approved" if isinstance(approval, Mapping) and approval.get("approved") is True else "denied"
    if state == "output-available" and wire.get("preliminary") is True:
        return "loading"
    return _STATES[state]
