"""One owner per chat: who holds a lease, whether it lives, and how it changes hands (spec/recovery.md, section 3)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection, select, update

from .._clock import now
from .._ids import start_of
from ..errors import ChatInUseError, LeaseLostError
from . import tables
from .records import Owner
from .rows import make_owner

Verdict = Literal["alive", "dead", "doubtful"]

FRESH = timedelta(seconds=30)
WATCHED_SECONDS = 12
TAKE_OVER_PAUSE = 0.25
"""Seconds between reading the token and swapping it: racers that start within them read the same token."""

_c = tables.chats.c
_SELECT = select(
    _c.id,
    _c.owner_token,
    _c.heartbeat_at,
    _c.heartbeat_seq,
    _c.owner_host,
    _c.owner_pid,
    _c.owner_start,
    _c.owner_kernel,
    _c.owner_label,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The lease of one chat as a row said it. `token` None: nobody has it; `owner` is then the last one."""

    chat_id: str
    token: str | None
    owner: Owner | None
    heartbeat_at: datetime | None
    heartbeat_seq: int


_RANDOM_BYTES = 16


def new_token() -> str:
    """Return a new owner token: random, and behind it when it was made, on the clock that this host's processes share.

    The time tells racers from people who come later: who began before the token was made was in the race that it won.
    """
    return f"{secrets.token_hex(_RANDOM_BYTES)}{time.monotonic_ns():016x}"


def was_won_after(holder: Holder, began: float, *, host: str) -> bool:
    """Tell whether a lease of this host changed hands since then.

    Args:
        holder: The lease.
        began: Monotonic seconds.
        host: The host that asks.
    """
    stamp = (holder.token or "")[2 * _RANDOM_BYTES :]
    if not stamp or holder.owner is None or holder.owner.host != host:
        return False
    return int(stamp, 16) > began * 1e9


def find_holder(connection: Connection, chat_id: str) -> Holder | None:
    """Return who holds a chat; None when there is no such chat."""
    row = connection.execute(_SELECT.where(_c.id == chat_id)).first()
    return None if row is None else _make(row)


def find_holders(connection: Connection) -> list[Holder]:
    """Return all held leases, of the living and the dead."""
    return [_make(row) for row in connection.execute(_SELECT.where(_c.owner_token.is_not(None)))]


def _make(row: Sequence[Any]) -> Holder:
    return Holder(chat_id=row[0], token=row[1], heartbeat_at=row[2], heartbeat_seq=row[3], owner=make_owner(row[4:]))


def judge(holder: Holder, *, host: str, at: datetime, starts: Callable[[int], str | None] = start_of) -> Verdict:
    """Say whether a lease's owner lives.

    Args:
        holder: The lease; it is held.
        host: The host that judges.
        at: The time now.
        starts: Returns when a process of this host started, None if there is none.

    Returns:
        "doubtful" when only watching its heartbeat can tell.
    """
    owner = holder.owner
    if owner is None:
        return "dead"
    if owner.host == host:
        return "alive" if starts(owner.pid) == owner.start else "dead"
    if holder.heartbeat_at is not None and timedelta(0) <= at - holder.heartbeat_at <= FRESH:
        return "alive"
    return "doubtful"


def is_alive(holder: Holder, *, host: str, read: Callable[[str], Holder | None], wait: Callable[[float], None]) -> bool:
    """Judge a lease's owner, and where that does not tell, watch its heartbeat for 12 s."""
    verdict = judge(holder, host=host, at=now())
    if verdict != "doubtful":
        return verdict == "alive"
    for _ in range(WATCHED_SECONDS):
        wait(1.0)
        again = read(holder.chat_id)
        if again is None or again.token != holder.token:
            # It changed hands; the conditional update will find out.
            return False
        if again.heartbeat_seq != holder.heartbeat_seq:
            return True
    return False


def owner_values(token: str, owner: Owner) -> dict[str, Any]:
    """Return the columns of a lease that starts now."""
    return {
        "owner_token": token,
        "owner_host": owner.host,
        "owner_pid": owner.pid,
        "owner_start": owner.start,
        "owner_kernel": owner.kernel_id,
        "owner_label": owner.label,
        "heartbeat_at": now(),
    }


def take(connection: Connection, holder: Holder, token: str, owner: Owner, *, forced: bool) -> bool:
    """Take a lease as it was read; False when it changed meanwhile, or its dead owner gave a sign of life."""
    statement = update(tables.chats).where(_c.id == holder.chat_id, _c.owner_token.is_not_distinct_from(holder.token))
    if not forced:
        statement = statement.where(_c.heartbeat_seq == holder.heartbeat_seq)
    values = owner_values(token, owner) | {"heartbeat_seq": holder.heartbeat_seq + 1}
    return connection.execute(statement.values(values)).rowcount == 1


def release(connection: Connection, chat_id: str, token: str) -> bool:
    """Give a lease back. The owner's columns stay: they name the last owner."""
    statement = update(tables.chats).where(_c.id == chat_id, _c.owner_token == token)
    return connection.execute(statement.values(owner_token=None, heartbeat_at=now())).rowcount == 1


def beat(connection: Connection, leases: Mapping[str, str]) -> set[str]:
    """Raise the heartbeat of all leases in one statement; return the chats that are no longer ours."""
    tokens = list(leases.values())
    statement = update(tables.chats).where(_c.id.in_(list(leases)), _c.owner_token.in_(tokens))
    values = {"heartbeat_at": now(), "heartbeat_seq": _c.heartbeat_seq + 1}
    if connection.execute(statement.values(values)).rowcount == len(leases):
        return set()
    kept = select(_c.id).where(_c.id.in_(list(leases)), _c.owner_token.in_(tokens))
    return set(leases) - set(connection.scalars(kept))


def host_name(host: str) -> str:
    """Return the part of a host's identity that people know."""
    return host.partition("/")[0]


def describe(holder: Holder) -> str:
    """Say in words who holds a lease."""
    owner = holder.owner
    if owner is None:
        return "another process"
    text = f"process {owner.pid} on {host_name(owner.host)}"
    if owner.kernel_id:
        text += f", kernel {owner.kernel_id}"
    if owner.label:
        text += f", {owner.label}"
    if holder.heartbeat_at is not None:
        text += f", last sign of life {holder.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC"
    return text


def in_use(holder: Holder) -> ChatInUseError:
    """Return the error of a chat that a living process owns."""
    owner = holder.owner
    return ChatInUseError(
        f"Chat {holder.chat_id!r} is in use by {describe(holder)}. "
        f"Close it there, or take it over with agent.chat({holder.chat_id!r}, take_over=True).",
        chat_id=holder.chat_id,
        host=host_name(owner.host) if owner else None,
        pid=owner.pid if owner else None,
        kernel_id=owner.kernel_id if owner else None,
        label=owner.label if owner else None,
        heartbeat_at=holder.heartbeat_at,
    )


def lost(chat_id: str, holder: Holder | None) -> LeaseLostError:
    """Return the error of a write whose lease is gone."""
    if holder is None:
        return LeaseLostError(f"Chat {chat_id!r} was deleted. Nothing was written.", by=None)
    by = name_owner(holder.owner)
    if holder.token is None:
        text = f"Chat {chat_id!r} was taken over, and given back. Open it again with agent.chat({chat_id!r})."
        return LeaseLostError(text, by=by)
    return LeaseLostError(
        f"Chat {chat_id!r} was taken over by {describe(holder)}. Nothing was written. "
        f"To have it back: agent.chat({chat_id!r}, take_over=True).",
        by=by,
    )


def name_owner(owner: Owner | None) -> str:
    """Return in a few words who owns a chat: its notebook, process and host."""
    if owner is None:
        return "another process"
    process = f"process {owner.pid} on {host_name(owner.host)}"
    return f"{owner.label} ({process})" if owner.label else process
