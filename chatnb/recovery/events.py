"""What the hooks and callbacks of recovery get (spec/recovery.md, sections 5, 7 and 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .._json import JsonValue
from ..messages import Part, UIMessage
from ..turns.events import HookEvent
from .records import Cause

Kind = Literal["retry", "continue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingToolCall:
    """A call of the partial that has no result.

    Attributes:
        part_index: Its place in `partial_parts`.
        ledger: `"none"`: it was not entered, as far as the ledger knows; `"unknown"`: it was, and no result is known.
    """

    tool_call_id: str
    tool_name: str
    input: JsonValue
    part_index: int
    ledger: Literal["none", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightInput:
    """An input that was admitted and never answered.

    Attributes:
        id: The input's id.
        kind: `"send"`, `"action"`, `"regenerate"` and so on.
        text: The text of a send, the type of a chat action.
        message: The message of a send, else None.
        action: The payload of a chat action, else None.
        body: Its extra request fields.
    """

    id: str
    kind: str
    arrival: int
    text: str
    message: UIMessage | None = None
    action: Mapping[str, JsonValue] | None = None
    body: JsonValue = None


@dataclass(frozen=True, kw_only=True)
class RecoveryEvent(HookEvent):
    """`on_chat_recovery`: an interrupted turn is about to be taken up, or to be offered.

    Attributes:
        trigger: Why the turn ran first.
        attempt: The number of the attempt about to be made, from 1.
        kind: `"retry"` (nothing was produced) or `"continue"`.
        offered: The default would only offer it.
        created_at: When the turn started.
        interrupted_at: The last sign of life.
        partial_parts: Copies of all parts of the partial answer, unfinished ones included.
        settled_parts: Those that are calls in a terminal state.
        messages: The history without the partial.
        in_flight_inputs: What was admitted and never answered, in order; not the turn's own input.
        recovery_data: What `chat.stash` kept last, or None.
    """

    incident_id: str
    turn_id: str
    attempt: int
    max_attempts: int
    kind: Kind
    cause: Cause
    offered: bool
    created_at: datetime | None
    interrupted_at: datetime
    partial_text: str
    partial_parts: tuple[Part, ...]
    settled_parts: tuple[Part, ...]
    pending_tool_calls: tuple[PendingToolCall, ...]
    messages: tuple[UIMessage, ...]
    in_flight_inputs: tuple[InFlightInput, ...]
    recovery_data: JsonValue
    client_tools: JsonValue


@dataclass(frozen=True, kw_only=True)
class KeepRecoveringEvent:
    """`Recovery.should_keep_recovering`: from the second attempt over all.

    Attributes:
        work: Progress since the incident opened.
        age: Seconds since the turn was first interrupted.
    """

    incident_id: str
    turn_id: str
    chat_id: str
    trigger: str
    attempt: int
    max_attempts: int
    kind: Kind
    cause: Cause
    work: int
    age: float


@dataclass(frozen=True, kw_only=True)
class ExhaustedEvent(KeepRecoveringEvent):
    """`Recovery.on_exhausted`: the budget is used up, the partial has been stored."""

    reason: str
    partial_text: str
    partial_parts: tuple[Part, ...]
    terminal_message: str
