"""The calls ledger, the grants, the audit log and the changes inside one transaction (the ports of `actions/`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, insert, select, update

from .._clock import now
from .._json import JsonValue
from ..actions.ports import AuditRow, CallRow, CallState, GrantRow, GrantState
from . import tables
from .rows import check_names, make, select_records, values_of

_GRANT_SETTABLE = ("arguments", "decided_at", "decided_by", "expires_at", "hash", "reason")


class SqlBooks:
    """Implements `actions.ports.Books`. Usable inside its `with` block only."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

    def _end(self) -> None:
        self._connection = None

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("this transaction has ended; use it inside its `with` block")
        return self._connection

    def _run(self, statement: Executable, values: Any = None) -> CursorResult[Any]:
        return self._open_connection().execute(statement, values)

    def add_call(self, row: CallRow) -> bool:
        """Add a row; False when its (message, step, tool call) is there already."""
        c = tables.calls.c
        if row.message_id is not None and row.step is not None and row.tool_call_id is not None:
            place = (c.message_id == row.message_id, c.step == row.step, c.tool_call_id == row.tool_call_id)
            if self._run(select(c.n).where(*place)).first() is not None:
                return False
        self._run(insert(tables.calls), values_of(row))
        return True

    def settle_call(self, call_id: str, expect: Collection[CallState], row: CallRow) -> bool:
        """Replace a row that is in one of the expected states by `row` (same id)."""
        c = tables.calls.c
        values = values_of(row)
        if values.pop("id") != call_id:
            raise ValueError("the row that settles a call has the call's id")
        statement = update(tables.calls).where(c.id == call_id, c.state.in_(list(expect))).values(values)
        return self._run(statement).rowcount == 1

    def reuse_call(self, call_id: str, by: str) -> bool:
        """Mark a row as reused by a later call; False when another call has it already."""
        c = tables.calls.c
        statement = update(tables.calls).where(c.id == call_id, c.reused_by.is_(None)).values(reused_by=by)
        return self._run(statement).rowcount == 1

    def find_calls(self, *, chat_id: str, turn_ids: Collection[str], hash: str | None = None) -> list[CallRow]:
        """Return rows of these turns, oldest first."""
        c = tables.calls.c
        statement = select_records(CallRow, tables.calls).where(c.chat_id == chat_id, c.turn_id.in_(list(turn_ids)))
        if hash is not None:
            statement = statement.where(c.hash == hash)
        return [make(CallRow, row) for row in self._run(statement.order_by(c.n))]

    def add_grant(self, row: GrantRow) -> None:
        """Add a pending grant."""
        self._run(insert(tables.grants), values_of(row))

    def move_grant(self, grant_id: str, expect: Collection[GrantState], to: GrantState, **fields: Any) -> bool:
        """Move a grant, and set further columns (`hash`, `arguments`, `decided_at`, `decided_by`, `reason`)."""
        check_names(fields, _GRANT_SETTABLE, "grant")
        c = tables.grants.c
        statement = update(tables.grants).where(c.id == grant_id, c.state.in_(list(expect)))
        return self._run(statement.values(state=to, **fields)).rowcount == 1

    def find_grant(self, grant_id: str) -> GrantRow | None:
        """Return a grant, or None."""
        row = self._run(select_records(GrantRow, tables.grants).where(tables.grants.c.id == grant_id)).first()
        return None if row is None else make(GrantRow, row)

    def add_audit(self, row: AuditRow) -> None:
        """Add a line."""
        self._run(insert(tables.audit), values_of(row))

    def add_change(self, payload: JsonValue) -> None:
        """Add one change."""
        self._run(insert(tables.changes), {"payload": payload, "at": now()})
