"""What actions need to be written down: the calls ledger, the grants, the audit log, the changes.

`store/` implements these ports; a site binds them. All rows are plain data. Every method that names an expected state
is a conditional update: it returns False when the row is no longer in that state, and then nothing was written.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from .._json import JsonValue

Site = Literal["agent", "widget", "http", "mcp", "a2a", "cli", "python"]
CallState = Literal["entered", "done", "failed", "unknown"]
GrantState = Literal["pending", "approved", "rejected", "superseded", "expired", "consumed"]
Effect = Literal["committed", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One dispatched write in the calls ledger (spec/actions.md, section 7)."""

    id: str
    site: Site
    action: str
    hash: str
    state: CallState
    effect: Effect = "committed"
    chat_id: str | None = None
    turn_id: str | None = None
    message_id: str | None = None
    step: int | None = None
    tool_call_id: str | None = None
    attempt: int = 1
    model_text: str | None = None
    output: JsonValue = None
    error: JsonValue = None
    entered_at: datetime | None = None
    ended_at: datetime | None = None
    reused_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """One approval: a person's blessing of one prepared call (spec/actions.md, section 4). `id` is the approval id."""

    id: str
    site: Site
    action: str
    hash: str
    arguments: JsonValue
    asked_at: datetime
    state: GrantState = "pending"
    chat_id: str | None = None
    turn_id: str | None = None
    message_id: str | None = None
    tool_call_id: str | None = None
    identity: str | None = None
    expires_at: datetime | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One line of the audit log (spec/actions.md, section 12)."""

    id: str
    at: datetime
    action: str
    site: Site
    actor_kind: Literal["agent", "user", "service", "system"]
    status: Literal["success", "error", "denied"]
    actor_id: str | None = None
    chat_id: str | None = None
    turn_id: str | None = None
    tool_call_id: str | None = None
    hash: str | None = None
    effect_class: Literal["read", "write"] = "write"
    effect: Effect = "none"
    error_code: str | None = None
    duration_ms: int | None = None
    summary: str | None = None
    target: str | None = None
    input: JsonValue = None


class Ledger(Protocol):
    """The calls ledger. Inside one transaction."""

    def add_call(self, row: CallRow) -> bool:
        """Add a row; False when its (message, step, tool call) is there already."""

    def settle_call(self, call_id: str, expect: Collection[CallState], row: CallRow) -> bool:
        """Replace a row that is in one of the expected states by `row` (same id)."""

    def reuse_call(self, call_id: str, by: str) -> bool:
        """Mark a row as reused by a later call; False when another call has it already."""

    def find_calls(self, *, chat_id: str, turn_ids: Collection[str], hash: str | None = None) -> list[CallRow]:
        """Return rows of these turns, oldest first."""


class Grants(Protocol):
    """The grants. Inside one transaction."""

    def add_grant(self, row: GrantRow) -> None:
        """Add a pending grant."""

    def move_grant(self, grant_id: str, expect: Collection[GrantState], to: GrantState, **fields: Any) -> bool:
        """Move a grant, and set further columns (`hash`, `arguments`, `decided_at`, `decided_by`, `reason`)."""

    def find_grant(self, grant_id: str) -> GrantRow | None:
        """Return a grant, or None."""


class AuditLog(Protocol):
    """The audit log. Inside one transaction."""

    def add_audit(self, row: AuditRow) -> None:
        """Add a line."""


class Changes(Protocol):
    """The changes that other processes may want to hear of. Inside one transaction."""

    def add_change(self, payload: JsonValue) -> None:
        """Add one change."""


class Books(Ledger, Grants, AuditLog, Changes, Protocol):
    """All of it, in one open transaction."""


class Bookkeeper(Protocol):
    """Opens transactions. At the agent site each also carries the turn's open batch of chunks (W5)."""

    def write(self) -> AbstractContextManager[Books]:
        """Open a durable transaction; it commits at the end of the block and rolls back on an exception."""
