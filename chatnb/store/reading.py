"""What is read without a lease. Each method is one statement, beside whoever writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select

from .._json import JsonValue, loads
from ..actions.ports import AuditRow, CallRow, GrantRow, GrantState
from . import tables
from .records import (
    ENDED_TURNS,
    ChatRow,
    IncidentRow,
    InjectedRow,
    InputRow,
    InputState,
    NodeRow,
    OverlayRow,
    TurnRow,
    TurnState,
)
from .rows import SELECT_CHAT, SELECT_NODES, make, make_chat, make_nodes, select_records

# SQLite takes 32,766 variables in a statement, older builds 999.
_IDS_AT_ONCE = 500


class Readings(ABC):
    """The reading half of the `Store` port."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """Lend a connection for one reading."""

    def _all(self, statement: Select[Any]) -> list[Any]:
        with self._reading() as connection:
            return list(connection.execute(statement).all())

    def find_chat(self, chat_id: str) -> ChatRow | None:
        """Return a chat's row, or None."""
        rows = self._all(SELECT_CHAT.where(tables.chats.c.id == chat_id))
        return make_chat(rows[0]) if rows else None

    def list_chats(self) -> list[ChatRow]:
        """Return all chats, newest first."""
        return [make_chat(row) for row in self._all(SELECT_CHAT.order_by(tables.chats.c.n.desc()))]

    def load_nodes(self, chat_id: str) -> list[NodeRow]:
        """Return all nodes of the tree, by ordinal, without messages."""
        c = tables.messages.c
        with self._reading() as connection:
            found = connection.execute(SELECT_NODES.where(c.chat_id == chat_id).order_by(c.ordinal))
            # The driver's own rows: no column needs a conversion, and a chat may have 50,000 nodes.
            return make_nodes(found.cursor.fetchall() if found.cursor is not None else ())

    def load_messages(self, chat_id: str, node_ids: Iterable[str]) -> dict[str, JsonValue]:
        """Return messages in wire form by node id. An unreadable row is left out."""
        m, contents = tables.messages.c, tables.contents
        statement = select(m.node_id, contents.c.payload).join_from(tables.messages, contents)
        ids = list(node_ids)
        found: dict[str, JsonValue] = {}
        with self._reading() as connection:
            for start in range(0, len(ids), _IDS_AT_ONCE):
                wanted = m.node_id.in_(ids[start : start + _IDS_AT_ONCE])
                for node_id, payload in connection.execute(statement.where(m.chat_id == chat_id, wanted)).all():
                    try:
                        found[node_id] = loads(payload)
                    except (ValueError, TypeError):
                        continue
        return found

    def load_inputs(self, chat_id: str, states: Collection[InputState]) -> list[InputRow]:
        """Return inputs in these states, by arrival."""
        c = tables.inputs.c
        statement = select_records(InputRow, tables.inputs).where(c.chat_id == chat_id, c.state.in_(list(states)))
        return [make(InputRow, row) for row in self._all(statement.order_by(c.arrival))]

    def next_arrival(self, chat_id: str) -> int:
        """Return the arrival number after the last one."""
        c = tables.inputs.c
        last = self._all(select(func.max(c.arrival)).where(c.chat_id == chat_id))[0][0]
        return 0 if last is None else int(last) + 1

    def load_turns(self, chat_id: str, states: Collection[TurnState] | None = None) -> list[TurnRow]:
        """Return turns by number; all of them for None."""
        c = tables.turns.c
        statement = select_records(TurnRow, tables.turns).where(c.chat_id == chat_id)
        if states is not None:
            statement = statement.where(c.state.in_(list(states)))
        return [make(TurnRow, row) for row in self._all(statement.order_by(c.number))]

    def load_last_turn(self, chat_id: str, before: int | None = None) -> TurnRow | None:
        """Return the turn with the highest number, below `before` if it is given; None when there is none."""
        c = tables.turns.c
        statement = select_records(TurnRow, tables.turns).where(c.chat_id == chat_id)
        if before is not None:
            statement = statement.where(c.number < before)
        rows = self._all(statement.order_by(c.number.desc()).limit(1))
        return make(TurnRow, rows[0]) if rows else None

    def load_unhooked_turns(self, chat_id: str) -> list[TurnRow]:
        """Return ended turns whose `on_turn_complete` did not return."""
        c = tables.turns.c
        statement = select_records(TurnRow, tables.turns).where(
            c.chat_id == chat_id, c.hooks_done.is_(False), c.state.in_(ENDED_TURNS)
        )
        return [make(TurnRow, row) for row in self._all(statement.order_by(c.number))]

    def load_chunks(self, turn_id: str) -> list[JsonValue]:
        """Return a turn's logged chunks in order, up to the first unreadable batch."""
        c = tables.chunks.c
        statement = select(c.first_seq, c.last_seq, c.payload).where(c.turn_id == turn_id).order_by(c.first_seq)
        found: list[JsonValue] = []
        expected: int | None = None
        for first, last, payload in self._all(statement):
            try:
                batch = loads(payload)
            except (ValueError, TypeError):
                break
            # A batch that is missing or torn ends the log: what follows it has no place.
            if not isinstance(batch, list) or len(batch) != last - first + 1 or expected not in (None, first):
                break
            found += batch
            expected = last + 1
        return found

    def load_grants(self, chat_id: str, states: Collection[GrantState]) -> list[GrantRow]:
        """Return grants in these states, oldest first."""
        c = tables.grants.c
        statement = select_records(GrantRow, tables.grants).where(c.chat_id == chat_id, c.state.in_(list(states)))
        return [make(GrantRow, row) for row in self._all(statement.order_by(c.n))]

    def find_grant(self, grant_id: str) -> GrantRow | None:
        """Return a grant, or None."""
        rows = self._all(select_records(GrantRow, tables.grants).where(tables.grants.c.id == grant_id))
        return make(GrantRow, rows[0]) if rows else None

    def load_calls(self, chat_id: str, turn_ids: Collection[str] | None = None) -> list[CallRow]:
        """Return ledger rows of these turns (all: None), oldest first."""
        c = tables.calls.c
        statement = select_records(CallRow, tables.calls).where(c.chat_id == chat_id)
        if turn_ids is not None:
            statement = statement.where(c.turn_id.in_(list(turn_ids)))
        return [make(CallRow, row) for row in self._all(statement.order_by(c.n))]

    def load_audit(self, chat_id: str | None = None) -> list[AuditRow]:
        """Return the audit log, oldest first; of one chat if it is named."""
        c = tables.audit.c
        statement = select_records(AuditRow, tables.audit)
        if chat_id is not None:
            statement = statement.where(c.chat_id == chat_id)
        return [make(AuditRow, row) for row in self._all(statement.order_by(c.n))]

    def last_injected(self, chat_id: str) -> int:
        """Return the highest number of injected context, used or not; 0 when there is none."""
        c = tables.injected.c
        return self._all(select(func.max(c.n)).where(c.chat_id == chat_id))[0][0] or 0

    def load_injected(self, chat_id: str) -> list[InjectedRow]:
        """Return injected context that no ended turn has used."""
        c, t = tables.injected.c, tables.turns.c
        ended = select(t.id).where(t.chat_id == chat_id, t.state.in_(ENDED_TURNS))
        statement = select_records(InjectedRow, tables.injected).where(
            c.chat_id == chat_id, or_(c.used_by.is_(None), c.used_by.not_in(ended))
        )
        return [make(InjectedRow, row) for row in self._all(statement.order_by(c.n))]

    def load_overlays(self, chat_id: str) -> list[OverlayRow]:
        """Return the compactions, oldest first."""
        c = tables.overlays.c
        statement = select_records(OverlayRow, tables.overlays).where(c.chat_id == chat_id)
        return [make(OverlayRow, row) for row in self._all(statement.order_by(c.position))]

    def load_incidents(self, chat_id: str) -> list[IncidentRow]:
        """Return the incidents of a chat, oldest first."""
        c, t = tables.incidents.c, tables.turns.c
        statement = select_records(IncidentRow, tables.incidents).join(tables.turns, t.id == c.turn_id)
        return [make(IncidentRow, row) for row in self._all(statement.where(t.chat_id == chat_id).order_by(c.n))]

    def load_changes(self, after: int) -> list[tuple[int, JsonValue]]:
        """Return changes with numbers above `after`."""
        c = tables.changes.c
        rows = self._all(select(c.n, c.payload).where(c.n > after).order_by(c.n))
        return [(number, payload) for number, payload in rows]

    def last_change(self) -> int:
        """Return the number of the newest change; 0 when there is none."""
        return int(self._all(select(func.max(tables.changes.c.n)))[0][0] or 0)
