"""The SQL store: one writer connection per process behind a lock, readers beside it, and the leases."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update

from .. import _clock
from .._ids import this_process
from .._killpoint import kill_point
from ..errors import ChatInUseError, StoreError
from . import failures, lease, tables
from .books import SqlBooks
from .database import Database, Wait, make_database
from .failures import translated
from .location import locate
from .port import OpenedChat
from .reading import Readings
from .records import ChatRow, Owner
from .rows import SELECT_CHAT, make_chat
from .writing import SqlWriteTx

_IDENTITY_SECONDS = 1.0
_CHANGES_KEPT = timedelta(hours=1)
_INCIDENTS_KEPT = timedelta(days=7)
_ENDED_INCIDENTS = ("completed", "skipped", "failed", "exhausted")

_live: weakref.WeakSet[SqlStore] = weakref.WeakSet()


class SqlStore(Readings):
    """Implements `Store` on SQLAlchemy Core. Thread-safe; opened on first use.

    Args:
        url: A URL or a path, as `Agent(store=...)` takes it.
        wait: Waits some seconds; a test hands in its own.
        migrations: Another folder of migrations, for tests.
    """

    def __init__(self, url: str | Path, *, wait: Wait = time.sleep, migrations: Path | None = None) -> None:
        self._location = locate(url)
        self.url = self._location.url
        self.in_memory = self._location.in_memory
        self._wait = wait
        self._migrations = migrations
        self._inherited: dict[str, int] = {}
        self._tokens: dict[str, str] = {}
        self._start()
        _live.add(self)

    def _start(self) -> None:
        self._lock = threading.RLock()
        self._database = make_database(self._location, self._wait, self._migrations)
        self._engine: Engine | None = None
        self._writer: Connection | None = None
        self._finalizer: weakref.finalize[[Engine, Database], SqlStore] | None = None
        self._writing_thread: int | None = None
        self._checked = float("-inf")
        self.closed = False

    # --- connections ------------------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """How messages name the store: its file, or its address without a password."""
        return self._database.place

    @property
    def read_only(self) -> bool:
        """Whether the store can be read only. Opens it."""
        self._open()
        return self._database.read_only

    def exists(self) -> bool:
        """Whether there is a store, as far as can be told without making one."""
        return self._database.exists()

    def check_identity(self) -> None:
        """Check that the store's file is still the one that was opened.

        Raises:
            StoreMissingError: It was deleted or replaced.
        """
        self._checked = time.monotonic()
        self._database.check_identity()

    def _open(self) -> Engine:
        if self._engine is None:
            with self._lock:
                if self._engine is None:
                    if self.closed:
                        raise failures.closed(self.place)
                    engine = self._database.open()
                    self._finalizer = weakref.finalize(self, _abandon, engine, self._database)
                    # At exit nothing is closed: the system does it, also for a store that a fork left behind.
                    self._finalizer.atexit = False
                    self._engine = engine
        if time.monotonic() - self._checked >= _IDENTITY_SECONDS:
            self.check_identity()
        return self._engine

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        engine = self._open()
        if self._writing_thread == threading.get_ident():
            # Inside its own transaction a thread reads what it wrote.
            assert self._writer is not None
            yield self._writer
            return
        if self.in_memory:
            with self._lock, translated(self.place), engine.connect() as connection:
                yield connection
            return
        with translated(self.place, self._database.path), engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self, *, durable: bool) -> Iterator[Connection]:
        with self._lock:
            if self._writing_thread is not None:
                raise RuntimeError("a write transaction is open on this thread already; writes do not nest")
            engine = self._open()
            if self._database.read_only:
                raise failures.read_only(self.place)
            if durable:
                self._database.check_writable()
            with translated(self.place, self._database.path):
                if self._writer is None or self._writer.closed or self._writer.invalidated:
                    self._writer = engine.connect()
                connection = self._writer
                self._writing_thread = threading.get_ident()
                try:
                    self._database.begin(connection, durable=durable)
                    yield connection
                    connection.commit()
                except BaseException:
                    self._roll_back(connection)
                    raise
                finally:
                    self._writing_thread = None

    def _roll_back(self, connection: Connection) -> None:
        try:
            with translated(self.place):
                connection.rollback()
        except StoreError:
            # What went wrong first is what the caller hears. The next write gets a new connection.
            connection.invalidate()
            self._writer = None

    # --- leases -----------------------------------------------------------------------------------------------------

    def open_chat(
        self, chat_id: str, *, agent: str, owner: Owner, identity: str | None = None, take_over: bool = False
    ) -> OpenedChat:
        """Make or find the chat and take its lease (spec/recovery.md, section 3).

        Raises:
            ChatInUseError: Its owner is alive and `take_over` is False; or somebody else took it first.
            StoreError: The store can't be used; the subclass says why.
        """
        opened = self._take(chat_id, agent, owner, identity, take_over)
        while opened is None:
            opened = self._take(chat_id, agent, owner, identity, take_over)
        self._tokens[opened.token] = chat_id
        kill_point("lease.taken")
        return opened

    def _take(self, chat_id: str, agent: str, owner: Owner, identity: str | None, take_over: bool) -> OpenedChat | None:
        """Try once; None when the chat came, went or was given back meanwhile."""
        token = lease.new_token()
        holder = self._find_holder(chat_id)
        if holder is None:
            row = self._make_chat(chat_id, agent, owner, identity, token)
            return None if row is None else OpenedChat(chat=row, token=token, created=True)
        owner_was = self._may_take(holder, owner, take_over)
        with self._writing(durable=True) as connection:
            found = connection.execute(SELECT_CHAT.where(tables.chats.c.id == chat_id)).first()
            if lease.take(connection, holder, token, owner, forced=take_over) and found is not None:
                return OpenedChat(chat=make_chat(found), token=token, created=False, owner_was=owner_was)
            winner = lease.find_holder(connection, chat_id)
        if winner is not None and winner.token is not None:
            raise lease.in_use(winner)
        return None

    def _may_take(self, holder: lease.Holder, owner: Owner, take_over: bool) -> str:
        """Return what became of the former owner, or raise `ChatInUseError`."""
        if holder.token is None:
            return "released"
        if take_over:
            verdict = lease.judge(holder, host=owner.host, at=_clock.now())
            self._wait(lease.TAKE_OVER_PAUSE)
            return "dead" if verdict == "dead" else "taken_over"
        if lease.is_alive(holder, host=owner.host, read=self._find_holder, wait=self._wait):
            raise lease.in_use(holder)
        return "dead"

    def _find_holder(self, chat_id: str) -> lease.Holder | None:
        with self._reading() as connection:
            return lease.find_holder(connection, chat_id)

    def _make_chat(self, chat_id: str, agent: str, owner: Owner, identity: str | None, token: str) -> ChatRow | None:
        row = ChatRow(id=chat_id, agent=agent, identity=identity, created_at=_clock.now())
        values: dict[str, Any] = {
            "id": row.id,
            "agent": row.agent,
            "identity": row.identity,
            "created_at": row.created_at,
            "generation": row.generation,
            "next_number": row.next_number,
            "chat_started": row.chat_started,
            "recovering": row.recovering,
            "progress": row.progress,
            "heartbeat_seq": 1,
        }
        with self._writing(durable=True) as connection:
            if lease.find_holder(connection, chat_id) is not None:
                return None
            connection.execute(insert(tables.chats), values | lease.owner_values(token, owner))
        return row

    def release_chat(self, chat_id: str, token: str) -> None:
        """Give the lease back. Nothing happens when it is not ours any more, or was our parent process's."""
        if token in self._inherited:
            return
        self._tokens.pop(token, None)
        with self._writing(durable=True) as connection:
            lease.release(connection, chat_id, token)

    def heartbeat(self, leases: Mapping[str, str]) -> set[str]:
        """Show a sign of life for all chats (id to token) in one statement; return the ids that are no longer ours.

        Raises:
            StoreMissingError: The store's file was deleted or replaced.
            StoreError: The store does not answer.
        """
        self._open()
        self.check_identity()
        ours = {chat_id: token for chat_id, token in leases.items() if token not in self._inherited}
        if not ours:
            return set()
        with self._writing(durable=False) as connection:
            return lease.beat(connection, ours)

    def forget_owner(self, chat_id: str) -> None:
        """Make the chat's owner look dead, as if its process had been killed. For tests."""
        with self._writing(durable=True) as connection:
            connection.execute(update(tables.chats).where(tables.chats.c.id == chat_id).values(owner_start="killed"))

    # --- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, chat_id: str, token: str, *, durable: bool = True) -> Iterator[SqlWriteTx]:
        """Open a write transaction. `durable=False`: a power loss may take it (chunk batches).

        Raises:
            LeaseLostError: The lease is no longer ours; nothing was written.
            ChatInUseError: It was our parent process's, before a fork.
            StoreError: The write failed; nothing was written.
        """
        self._refuse_inherited(chat_id, token)
        with self._writing(durable=durable) as connection:
            tx = SqlWriteTx(connection, chat_id)
            try:
                tx.require(token, lock=self._database.locks_rows)
                yield tx
            finally:
                tx._end()

    @contextmanager
    def write_free(self) -> Iterator[SqlBooks]:
        """Open a write transaction for rows that belong to no chat."""
        with self._writing(durable=True) as connection:
            books = SqlBooks(connection)
            try:
                yield books
            finally:
                books._end()

    def delete_chat(self, chat_id: str, *, owner: Owner) -> bool:
        """Take the lease and delete the chat with all its rows; False if there is none.

        Raises:
            ChatInUseError: Its owner is alive.
        """
        holder = self._find_holder(chat_id)
        if holder is None:
            return False
        self._may_take(holder, owner, take_over=False)
        with self._writing(durable=True) as connection:
            if not lease.take(connection, holder, lease.new_token(), owner, forced=False):
                winner = lease.find_holder(connection, chat_id)
                if winner is None:
                    return False
                raise lease.in_use(winner)
            _delete_rows(connection, chat_id)
        self._tidy()
        return True

    def prune(self, now: datetime) -> None:
        """Drop changes older than 1 hour and incidents that ended more than 7 days ago."""
        changes, incidents = tables.changes.c, tables.incidents.c
        with self._writing(durable=False) as connection:
            connection.execute(delete(tables.changes).where(changes.at < now - _CHANGES_KEPT))
            ended = (incidents.status.in_(_ENDED_INCIDENTS), incidents.changed_at < now - _INCIDENTS_KEPT)
            connection.execute(delete(tables.incidents).where(*ended))
        self._tidy()

    def _tidy(self) -> None:
        with self._lock, translated(self.place, self._database.path):
            if self._writer is not None and self._writing_thread is None:
                self._database.tidy(self._writer)
                self._writer.rollback()

    # --- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections. Idempotent. Leases stay as they are."""
        with self._lock:
            self.closed = True
            engine, self._engine = self._engine, None
            writer, self._writer = self._writer, None
            if engine is None:
                return
            with translated(self.place):
                if writer is not None:
                    writer.close()
                engine.dispose()

    def _refuse_inherited(self, chat_id: str, token: str) -> None:
        parent = self._inherited.get(token)
        if parent is not None:
            raise ChatInUseError(
                f"Chat {chat_id!r} belongs to process {parent}, from which this one was forked. "
                "Use it there, or open another chat here.",
                chat_id=chat_id,
                host=lease.host_name(this_process().host),
                pid=parent,
            )

    def _after_fork(self, parent: int) -> None:
        self._inherited |= dict.fromkeys(self._tokens, parent)
        self._tokens = {}
        # Closing an inherited SQLite connection, also by garbage collection, may harm the parent's file. So these
        # objects are never freed in the child.
        _keep_forever((self._engine, self._writer, self._database, self._database.inherited()))
        if self._finalizer is not None:
            self._finalizer.detach()
        was_closed = self.closed
        self._start()
        self.closed = was_closed


def _abandon(engine: Engine, database: Database) -> None:
    """Close what a store that nobody holds any more has left open."""
    engine.dispose()
    for connection in database.inherited():
        connection.close()


def _keep_forever(value: object) -> None:
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _delete_rows(connection: Connection, chat_id: str) -> None:
    """Delete a chat; what has a foreign key goes with it."""
    m, contents = tables.messages.c, tables.contents
    content_ids = list(connection.scalars(select(m.content_id).where(m.chat_id == chat_id).distinct()))
    for table in (tables.calls, tables.grants, tables.audit):
        connection.execute(delete(table).where(table.c.chat_id == chat_id))
    connection.execute(delete(tables.chats).where(tables.chats.c.id == chat_id))
    for start in range(0, len(content_ids), 500):
        unused = contents.c.content_id.in_(content_ids[start : start + 500])
        used = select(m.content_id).where(m.content_id == contents.c.content_id).exists()
        connection.execute(delete(contents).where(unused, ~used))


_parent = os.getpid()


def _after_fork_in_child() -> None:
    global _parent
    parent, _parent = _parent, os.getpid()
    for store in list(_live):
        store._after_fork(parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
