"""The store's connections: one writer per process behind a lock, readers beside it, and what a fork leaves of them."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine

from .._ids import this_process
from ..errors import ChatInUseError, StoreError
from . import failures, lease
from .database import Database, Wait, make_database
from .failures import translated
from .location import locate
from .reading import Readings

_IDENTITY_SECONDS = 1.0

_live: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections(Readings):
    """Lends connections for readings and write transactions. Opens the database on first use."""

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
        self._finalizer: weakref.finalize[[Engine, Database], Connections] | None = None
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
        self._database.check_identity()
        # Not before: whoever comes next has to hear of it as well.
        self._checked = time.monotonic()

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
                    self._database.commit(connection)
                except BaseException:
                    self._roll_back(connection)
                    raise
                finally:
                    self._writing_thread = None

    def _roll_back(self, connection: Connection) -> None:
        try:
            with translated(self.place):
                self._database.roll_back(connection)
        except StoreError:
            # What went wrong first is what the caller hears. The next write gets a new connection.
            connection.invalidate()
            self._writer = None

    # --- the end -----------------------------------------------------------------------------------------------------

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


_parent = os.getpid()


def _after_fork_in_child() -> None:
    global _parent
    parent, _parent = _parent, os.getpid()
    for store in list(_live):
        store._after_fork(parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
