"""One write transaction on one chat: the rows of `spec/recovery.md`, section 2, by conditional updates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from .._clock import now
from .._ids import new_id
from .._json import JsonValue
from . import lease, tables
from .books import SqlBooks
from .database import Database, Prepared
from .records import (
    ENDED_TURNS,
    IncidentRow,
    InjectedRow,
    InputRow,
    InputState,
    NodeRow,
    OverlayRow,
    TurnRow,
    TurnState,
)
from .rows import CHAT_SETTABLE, check_names, names_of, values_of

_TURN_SETTABLE = frozenset(names_of(TurnRow)) - {"id", "number", "state"}
_chats, _messages, _contents = tables.chats, tables.messages, tables.contents
_turns, _chunks, _injected, _incidents = tables.turns, tables.chunks, tables.injected, tables.incidents


_select_token = select(_chats.c.owner_token).where(_chats.c.id == bindparam("chat_id"))
_FIND_TOKEN = Prepared(_select_token)
_LOCK_TOKEN = Prepared(_select_token.with_for_update())
_ADD_CHUNKS = Prepared(insert(_chunks))


class SqlWriteTx(SqlBooks):
    """Implements `WriteTx`. Usable inside its `with` block only."""

    def __init__(self, connection: Connection, database: Database, chat_id: str) -> None:
        super().__init__(connection)
        self._database = database
        self._chat_id = chat_id

    def require(self, token: str) -> None:
        """Check that the lease is ours. Where a transaction does not lock the whole database, the chat's row is locked.

        Args:
            token: Our owner token.

        Raises:
            LeaseLostError: It is not.
        """
        row = self._run_prepared(_LOCK_TOKEN if self._database.locks_rows else _FIND_TOKEN, {"chat_id": self._chat_id})
        if row is None or row[0] != token:
            raise lease.lost(self._chat_id, lease.find_holder(self._open_connection(), self._chat_id))

    def _run_prepared(self, prepared: Prepared, values: Mapping[str, object]) -> Sequence[Any] | None:
        return self._database.run(self._open_connection(), prepared, values)

    # --- the chat and its tree --------------------------------------------------------------------------------------

    def set_chat(self, **fields: Any) -> None:
        """Set columns of the chat's row (names of `ChatRow`)."""
        check_names(fields, CHAT_SETTABLE, "chat")
        if "redo" in fields:
            fields["redo"] = list(fields["redo"])
        self._run(update(_chats).where(_chats.c.id == self._chat_id).values(**fields))

    def move_head(self, expect: str | None, head: str | None) -> bool:
        """Move the head from the expected node to another."""
        found = (_chats.c.id == self._chat_id, _chats.c.head.is_not_distinct_from(expect))
        return self._run(update(_chats).where(*found).values(head=head)).rowcount == 1

    def add_nodes(self, nodes: Sequence[tuple[NodeRow, JsonValue | None]]) -> None:
        """Add nodes with their messages in wire form; None where the content id is stored already."""
        contents = [_content(node.content_id, message) for node, message in nodes if message is not None]
        if contents:
            self._run(insert(_contents), contents)
        if nodes:
            self._run(insert(_messages), [values_of(node) | {"chat_id": self._chat_id} for node, _ in nodes])

    def set_message(self, node_id: str, message: JsonValue) -> str:
        """Replace a node's message. Other nodes that shared the content keep theirs.

        Returns:
            The content id that the node has now: a new one when it shared its content.
        """
        here = (_messages.c.chat_id == self._chat_id, _messages.c.node_id == node_id)
        content_id = self._run(select(_messages.c.content_id).where(*here)).scalar_one_or_none()
        if content_id is None:
            raise KeyError(f"chat {self._chat_id!r} has no node {node_id!r}")
        shared = select(func.count()).select_from(_messages).where(_messages.c.content_id == content_id)
        if self._run(shared).scalar_one() == 1:
            content = _content(content_id, message)
            self._run(update(_contents).where(_contents.c.content_id == content_id).values(content))
            return str(content_id)
        own = new_id("row")
        self._run(insert(_contents), _content(own, message))
        self._run(update(_messages).where(*here).values(content_id=own))
        return own

    def set_shown(self, shown: Mapping[str, str | None]) -> None:
        """Set the shown child of nodes."""
        for node_id, child in shown.items():
            here = (_messages.c.chat_id == self._chat_id, _messages.c.node_id == node_id)
            self._run(update(_messages).where(*here).values(shown_child=child))

    # --- inputs and turns -------------------------------------------------------------------------------------------

    def add_input(self, row: InputRow) -> None:
        """Add an input."""
        self._run(insert(tables.inputs), values_of(row) | {"chat_id": self._chat_id})

    def move_input(self, input_id: str, expect: Collection[InputState], to: InputState) -> bool:
        """Move an input between states."""
        c = tables.inputs.c
        found = (c.id == input_id, c.chat_id == self._chat_id, c.state.in_(list(expect)))
        return self._run(update(tables.inputs).where(*found).values(state=to)).rowcount == 1

    def add_turn(self, row: TurnRow) -> None:
        """Add a turn."""
        self._run(insert(_turns), values_of(row) | {"chat_id": self._chat_id})

    def move_turn(self, turn_id: str, expect: Collection[TurnState], to: TurnState, **fields: Any) -> bool:
        """Move a turn between states, and set further columns."""
        check_names(fields, _TURN_SETTABLE, "turn")
        found = (_turns.c.id == turn_id, _turns.c.chat_id == self._chat_id, _turns.c.state.in_(list(expect)))
        return self._run(update(_turns).where(*found).values(state=to, **fields)).rowcount == 1

    def set_turn(self, turn_id: str, **fields: Any) -> None:
        """Set columns of a turn's row."""
        check_names(fields, _TURN_SETTABLE, "turn")
        self._run(update(_turns).where(_turns.c.id == turn_id, _turns.c.chat_id == self._chat_id).values(**fields))

    def add_chunks(self, turn_id: str, first_seq: int, chunks: Sequence[JsonValue]) -> None:
        """Append one batch to a turn's chunk log; numbers go up by one from `first_seq`."""
        if not chunks:
            return
        payload = tables.encode(list(chunks))
        values = {
            "turn_id": turn_id,
            "first_seq": first_seq,
            "last_seq": first_seq + len(chunks) - 1,
            "payload": payload,
            "bytes": len(payload.encode()),
        }
        self._run_prepared(_ADD_CHUNKS, values)

    def drop_chunks(self, turn_ids: Collection[str]) -> None:
        """Forget the chunk logs of these turns."""
        self._run(delete(_chunks).where(_chunks.c.turn_id.in_(list(turn_ids))))

    def drop_ended_chunks(self) -> None:
        """Forget the chunk logs of the chat's turns that have ended."""
        ended = select(_turns.c.id).where(_turns.c.chat_id == self._chat_id, _turns.c.state.in_(ENDED_TURNS))
        self._run(delete(_chunks).where(_chunks.c.turn_id.in_(ended)))

    # --- injected context, compactions, incidents -------------------------------------------------------------------

    def add_injected(self, row: InjectedRow) -> None:
        """Keep injected context."""
        self._run(insert(_injected), values_of(row) | {"chat_id": self._chat_id})

    def use_injected(self, numbers: Collection[int], turn_id: str) -> None:
        """Mark injected context as used by a turn."""
        found = (_injected.c.chat_id == self._chat_id, _injected.c.n.in_(list(numbers)))
        self._run(update(_injected).where(*found).values(used_by=turn_id))

    def drop_injected(self) -> None:
        """Drop the injected context that no turn has used."""
        self._run(delete(_injected).where(_injected.c.chat_id == self._chat_id, _injected.c.used_by.is_(None)))

    def add_overlay(self, row: OverlayRow) -> None:
        """Store a compaction; one of the same node and step is replaced."""
        c = tables.overlays.c
        self._run(
            delete(tables.overlays).where(c.chat_id == self._chat_id, c.node_id == row.node_id, c.step == row.step)
        )
        last = self._run(select(func.max(c.position)).where(c.chat_id == self._chat_id)).scalar_one()
        values = values_of(row) | {"chat_id": self._chat_id, "position": (last or 0) + 1}
        self._run(insert(tables.overlays), values)

    def put_incident(self, row: IncidentRow, expect: Collection[str] | None) -> bool:
        """Add an incident (`expect` None: there must be none of its turn), or replace one in these statuses."""
        c = _incidents.c
        values = values_of(row) | {"changed_at": now()}
        if expect is None:
            if self._run(select(c.n).where(c.turn_id == row.turn_id)).first() is not None:
                return False
            self._run(insert(_incidents), values)
            return True
        found = (c.id == row.id, c.turn_id == row.turn_id, c.status.in_(list(expect)))
        return self._run(update(_incidents).where(*found).values(values)).rowcount == 1


def _content(content_id: str, message: JsonValue) -> dict[str, Any]:
    payload = tables.encode(message)
    return {"content_id": content_id, "payload": payload, "bytes": len(payload.encode())}
