"""The rows of the store as frozen records. Times are aware UTC and never used for ordering."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .._json import JsonValue
from ..history import Node

InputKind = Literal[
    "send", "regenerate", "action", "continue", "save", "decision", "continuation", "action-turn", "recovery"
]
InputState = Literal["waiting", "taken", "held", "done", "skipped"]
TurnState = Literal[
    "queued", "starting", "running", "finishing", "interrupted", "completed", "awaiting", "stopped", "error"
]
ENDED_TURNS: tuple[TurnState, ...] = ("completed", "awaiting", "stopped", "error")
NodeRow = Node
"""One node of the message tree, without its message: the tree keeps in memory what the row says."""
Trigger = Literal["submit-message", "regenerate-message", "action-turn", "continuation", "recovery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who wants to own a chat (spec/recovery.md, section 3)."""

    host: str
    pid: int
    start: str
    kernel_id: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRow:
    """One chat.

    Attributes:
        head: The chain's last node, or None.
        redo: Heads that redo goes back to, the latest last.
        usage: Totals over the chat's life, JSON.
        terminal: The terminal record of a turn that ended in error, or None.
        progress: The progress counter of spec/recovery.md, section 7.
        last_owner, heartbeat_at: Who owned it before this opening, and the last sign of life.
    """

    id: str
    agent: str
    created_at: datetime
    identity: str | None = None
    head: str | None = None
    generation: int = 0
    next_number: int = 0
    chat_started: bool = False
    redo: tuple[str | None, ...] = ()
    usage: JsonValue = None
    body: JsonValue = None
    client_tools: JsonValue = None
    terminal: JsonValue = None
    recovering: bool = False
    progress: int = 0
    last_owner: Owner | None = None
    heartbeat_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRow:
    """One input, as it came. `payload` depends on the kind and is known to `turns/` alone."""

    id: str
    arrival: int
    kind: InputKind
    payload: JsonValue
    generation: int
    state: InputState = "waiting"
    body: JsonValue = None
    client_data: JsonValue = None
    client_tools: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn.

    Attributes:
        leaf_id: The node the answer hangs below, once W3 is written.
        assistant_id: The id of the message that is being written.
        input_id: The input that it answers, or None.
        stash: What `chat.stash` keeps; `model_stash` what the model keeps.
        error: A `TurnError` as JSON.
    """

    id: str
    number: int
    trigger: Trigger
    state: TurnState
    leaf_id: str | None = None
    assistant_id: str | None = None
    input_id: str | None = None
    attempt: int = 1
    stop_requested: bool = False
    stash: JsonValue = None
    model_stash: JsonValue = None
    body: JsonValue = None
    client_data: JsonValue = None
    client_tools: JsonValue = None
    hooks_done: bool = False
    finish_reason: str | None = None
    error: JsonValue = None
    usage: JsonValue = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedRow:
    """Context for the next turn (spec/turns.md, section 8)."""

    n: int
    messages: JsonValue
    used_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayRow:
    """A compaction: a summary that stands in for the chain up to a node (and step)."""

    node_id: str
    step: int
    summary: str
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One interruption of a turn and what was done about it (spec/recovery.md, section 7)."""

    id: str
    turn_id: str
    status: str
    kind: str
    cause: str
    attempt: int = 0
    progress_at_open: int = 0
    progress_seen: int = 0
    quiet_seconds: float = 0.0
    reason: str | None = None
    created_at: datetime | None = None
