"""Records to rows and back. A record's fields and a table's columns have the same names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Select, Table, select

from . import tables
from .records import ChatRow, NodeRow, Owner

R = TypeVar("R")

_CHAT_FIELDS = tuple(field.name for field in fields(ChatRow) if field.name != "last_owner")
CHAT_SETTABLE = frozenset(_CHAT_FIELDS) - {"id", "agent", "created_at", "heartbeat_at"}


_names: dict[type, tuple[str, ...]] = {}


def names_of(record: type[Any]) -> tuple[str, ...]:
    """Return the names of a record's fields."""
    if record not in _names:
        _names[record] = tuple(field.name for field in fields(record))
    return _names[record]


def values_of(record: Any) -> dict[str, Any]:
    """Return a record's fields by name, uncopied."""
    return {name: getattr(record, name) for name in names_of(type(record))}


@cache
def select_records(record: type, table: Table) -> Select[Any]:
    """Return the statement that reads whole records; `make` reads its rows."""
    return select(*(table.c[name] for name in names_of(record)))


def make(record: type[R], row: Sequence[Any]) -> R:
    """Make a record of a row that `select_records` has read."""
    return record(**dict(zip(names_of(record), row, strict=True)))


def check_names(given: Mapping[str, Any], allowed: Collection[str], what: str) -> None:
    """Refuse columns that can't be set.

    Raises:
        TypeError: A name is not among the allowed ones.
    """
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise TypeError(f"can't set {', '.join(unknown)} of a {what}; known are {', '.join(sorted(allowed))}")


_c = tables.chats.c
SELECT_CHAT = select(
    *(_c[name] for name in _CHAT_FIELDS), _c.owner_host, _c.owner_pid, _c.owner_start, _c.owner_kernel, _c.owner_label
)


def make_chat(row: Sequence[Any]) -> ChatRow:
    """Make a chat's record of a row that `SELECT_CHAT` has read."""
    count = len(_CHAT_FIELDS)
    values = dict(zip(_CHAT_FIELDS, row[:count], strict=True))
    values["redo"] = tuple(values["redo"] or ())
    return ChatRow(**values, last_owner=make_owner(row[count:]))


def make_owner(row: Sequence[Any]) -> Owner | None:
    """Make an owner of its five columns; None when there never was one."""
    host, pid, start, kernel_id, label = row
    return None if host is None else Owner(host=host, pid=pid, start=start, kernel_id=kernel_id, label=label)


_m = tables.messages.c
SELECT_NODES = select(
    _m.node_id,
    _m.message_id,
    _m.parent,
    _m.ordinal,
    _m.content_id,
    _m.role,
    _m.shown_child,
    _m.turn_id,
    _m.kernel_id,
)


def make_nodes(rows: Iterable[Sequence[Any]]) -> list[NodeRow]:
    """Make nodes of rows that `SELECT_NODES` has read. Spelled out, since a chat may have 50,000."""
    return [
        NodeRow(
            node_id=node_id,
            message_id=message_id,
            parent=parent,
            ordinal=ordinal,
            content_id=content_id,
            role=role,
            shown_child=shown_child,
            turn_id=turn_id,
            kernel_id=kernel_id,
        )
        for node_id, message_id, parent, ordinal, content_id, role, shown_child, turn_id, kernel_id in rows
    ]
