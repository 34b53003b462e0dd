"""A store in SQLite: the file, its connections and pragmas (spec/recovery.md, section 2)."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, StaticPool, create_engine, event
from sqlalchemy.exc import OperationalError

from . import failures, migrate, tables
from .database import Database, Prepared, Wait
from .location import Location, make_folder

logger = logging.getLogger("chatnb.store")

APPLICATION_ID = 0x63686E62
"""In the file's header: "chnb" in ASCII. A file with another one is not ours and is not touched."""

_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 5
_MIGRATION_SECONDS = 30
_PAGES_AT_ONCE = 2000


class SqliteDatabase(Database):
    """A SQLite file, or a database in memory on one connection."""

    def __init__(self, location: Location, wait: Wait, migrations: Path | None = None) -> None:
        self.path = location.path
        self.in_memory = location.in_memory
        self.place = str(location.path) if location.path is not None else "in memory"
        self._wait = wait
        self._migrations = migrations or migrate.FOLDER
        self._connections: list[sqlite3.Connection] = []
        self._identity: tuple[int, int] | None = None
        self._uri = ":memory:"
        self._level = "FULL"

    # --- opening ----------------------------------------------------------------------------------------------------

    def open(self) -> Engine:
        """Make or find the file, and bring it to this code's revision.

        Raises:
            StoreCorruptError: It is no chat store. It has not been changed.
            StoreVersionError: It is newer, or older and in use.
            StoreReadOnlyError: It must be made or migrated, and can't be written.
            StoreError: It can't be opened.
        """
        if self.in_memory:
            engine = self._make_engine()
            with engine.begin() as connection:
                tables.metadata.create_all(connection)
            return engine
        with failures.translated(self.place, self.path):
            is_new = self._make_or_check()
            self._identity = self._find_identity()
            engine = self._make_engine()
            try:
                with engine.connect() as connection:
                    self._prepare(connection, is_new)
            except BaseException:
                engine.dispose()
                raise
        return engine

    def _make_or_check(self) -> bool:
        """Make the empty file, or check that the file is a store of ours. True when it is empty."""
        path = self._file
        try:
            make_folder(path.parent)
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            with path.open("rb") as file:
                header = file.read(100)
        except OSError as error:
            raise failures.explain(error, self.place) from error
        self.read_only = not (_is_writable(path) and _is_writable(path.parent))
        if header:
            if not header.startswith(_MAGIC) or int.from_bytes(header[68:72]) != APPLICATION_ID:
                raise failures.corrupt(self.place)
        elif self.read_only:
            raise failures.read_only(self.place)
        self._uri = self._find_uri()
        return not header

    @property
    def _file(self) -> Path:
        assert self.path is not None
        return self.path

    def _find_uri(self) -> str:
        # Never `rwc`: only `_make_or_check` makes a file.
        name = "file:" + quote(str(self._file))
        if not self.read_only:
            return f"{name}?mode=rw"
        if self._file.with_name(self._file.name + "-wal").exists():
            return f"{name}?mode=ro"
        # Without a log nobody writes; and where none can be made, SQLite reads a WAL database no other way.
        return f"{name}?mode=ro&immutable=1"

    def _make_engine(self) -> Engine:
        pool = StaticPool if self.in_memory else QueuePool
        engine = create_engine("sqlite://", creator=self._connect, poolclass=pool, hide_parameters=True)
        event.listen(engine, "close", self._forget)
        return engine

    def _connect(self) -> sqlite3.Connection:
        # `isolation_level=None`: transactions begin where `begin` says so, and nowhere else.
        connection = sqlite3.connect(
            self._uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA synchronous=FULL")
        except sqlite3.Error:
            connection.close()
            raise
        self._connections.append(connection)
        return connection

    def _forget(self, connection: Any, record: object) -> None:
        if connection in self._connections:
            self._connections.remove(connection)

    def _prepare(self, connection: Connection, is_new: bool) -> None:
        if is_new:
            self._file.chmod(0o600)
            # In this order, as the first write fixes auto_vacuum; before there is a log, so that both are in the file;
            # and in one transaction, so that no other opener sees a file that is not ours yet.
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql("PRAGMA auto_vacuum=INCREMENTAL")
            connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
            connection.commit()
        if not migrate.needs_migration(connection, self.place, self._migrations):
            if not self.read_only:
                self._use_wal(connection)
            return
        if self.read_only:
            raise failures.read_only(self.place)
        self._use_wal(connection)
        self._migrate(connection)

    def _use_wal(self, connection: Connection) -> None:
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal":
            return
        mode = self._set_wal(connection)
        if mode != "wal":
            logger.warning("The chat store %s is used in mode %r: its folder does not allow WAL.", self.place, mode)

    def _set_wal(self, connection: Connection) -> str:
        until = time.monotonic() + _MIGRATION_SECONDS
        while True:
            try:
                return str(connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar_one())
            except OperationalError as error:
                # Another opener is at the same point, and SQLite does not wait here by itself.
                if "locked" not in str(error.orig) or time.monotonic() > until:
                    raise
                self._wait(0.05)

    def _migrate(self, connection: Connection) -> None:
        raw = self._driver(connection)
        connection.rollback()
        raw.execute(f"PRAGMA busy_timeout={_MIGRATION_SECONDS * 1000}")
        raw.execute("PRAGMA foreign_keys=OFF")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            if migrate.needs_migration(connection, self.place, self._migrations):
                migrate.refuse_if_owned(connection, self.place, self._wait)
                revision = migrate.find_revision(connection)
                if revision is not None:
                    self._copy(revision)
                migrate.upgrade(connection, self._migrations)
            connection.commit()
        finally:
            connection.rollback()
            raw.execute("PRAGMA foreign_keys=ON")
            raw.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")

    def _copy(self, revision: str) -> None:
        """Copy the store as it was before the open transaction. The name appears when the copy is complete."""
        target = self._file.with_name(f"{self._file.name}.bak-{revision}")
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        source, copy = sqlite3.connect(self._uri, uri=True), sqlite3.connect(part)
        try:
            source.backup(copy)
        finally:
            copy.close()
            source.close()
        part.replace(target)

    # --- while open -------------------------------------------------------------------------------------------------

    def begin(self, connection: Connection, *, durable: bool) -> None:
        """Begin a write transaction. What is not durable survives this process, not a power loss."""
        driver = self._driver(connection)
        level = "FULL" if durable else "NORMAL"
        if level != self._level:
            # SQLite refuses this inside a transaction.
            driver.execute(f"PRAGMA synchronous={level}")
            self._level = level
        driver.execute("BEGIN IMMEDIATE")

    def commit(self, connection: Connection) -> None:
        """Commit, also where SQLAlchemy has run nothing and so knows of no transaction."""
        if connection.in_transaction():
            connection.commit()
        else:
            self._driver(connection).commit()

    def roll_back(self, connection: Connection) -> None:
        """Roll back, also where SQLAlchemy has run nothing."""
        connection.rollback()
        self._driver(connection).rollback()

    def run(self, connection: Connection, prepared: Prepared, values: Mapping[str, object]) -> Sequence[Any] | None:
        """Run a prepared statement by the driver alone."""
        row: tuple[Any, ...] | None = self._driver(connection).execute(prepared.text, values).fetchone()
        return row

    @staticmethod
    def _driver(connection: Connection) -> sqlite3.Connection:
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        return raw

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.in_memory or self._file.exists()

    def check_identity(self) -> None:
        """Check that the path still names the file that was opened."""
        if self._identity is not None and self._find_identity() != self._identity:
            raise failures.missing(self.place)

    def check_writable(self) -> None:
        """Check that the file is still ours to write: SQLite itself asks only when it opens the file."""
        self.check_identity()
        if self._identity is not None and not _is_writable(self._file):
            raise failures.read_only(self.place)

    def _find_identity(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def tidy(self, connection: Connection) -> None:
        """Give free pages back to the disk, a few at a time."""
        # Read to its end: each step of the statement frees one page.
        self._driver(connection).execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()

    def inherited(self) -> tuple[Any, ...]:
        """Return all open connections."""
        return tuple(self._connections)


def _is_writable(path: Path) -> bool:
    # The bits count too: root may write anywhere, but a file that nobody may write is meant to stay as it is.
    return os.access(path, os.W_OK) and bool(path.stat().st_mode & 0o222)
