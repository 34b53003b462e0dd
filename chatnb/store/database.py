"""The one place where SQLite and PostgreSQL differ: how to connect, to begin a transaction, and to make the tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Executable
from sqlalchemy.dialects import sqlite

from ..errors import MissingExtraError
from .location import Location

Wait = Callable[[float], None]


class Prepared:
    """A statement that runs with each batch of chunks. Its columns need no conversion.

    Attributes:
        statement: The statement; parameters by name.
        text: The same for SQLite's driver, which runs it in a fraction of the time.
    """

    def __init__(self, statement: Executable) -> None:
        self.statement = statement
        self.text = str(statement.compile(dialect=sqlite.dialect(paramstyle="named")))  # type: ignore[attr-defined]


class Database(ABC):
    """One database that holds a store.

    Attributes:
        place: How messages name it; never with a password.
        path: Its file, or None.
        in_memory: It lives in this process only, on one connection.
        read_only: It can be read only; known after `open`.
        locks_rows: A write transaction locks rows, not the whole database.
    """

    place: str
    path: Path | None = None
    in_memory: bool = False
    read_only: bool = False
    locks_rows: bool = False

    @abstractmethod
    def open(self) -> Engine:
        """Connect, make the store if there is none, and bring its tables to this code's revision.

        Raises:
            StoreError: It can't be used; the subclass says why.
        """

    @abstractmethod
    def begin(self, connection: Connection, *, durable: bool) -> None:
        """Begin a write transaction."""

    def commit(self, connection: Connection) -> None:
        """Commit what `begin` began."""
        connection.commit()

    def roll_back(self, connection: Connection) -> None:
        """Roll back what `begin` began."""
        connection.rollback()

    def run(self, connection: Connection, prepared: Prepared, values: Mapping[str, object]) -> Sequence[Any] | None:
        """Run a prepared statement in a write transaction; return its first row, if it gives rows."""
        result = connection.execute(prepared.statement, values)
        return result.first() if result.returns_rows else None

    def exists(self) -> bool:
        """Whether there is a store, as far as can be told without making one."""
        return True

    def check_identity(self) -> None:  # noqa: B027 - what is no file can't be replaced
        """Check that the database is still the one that was opened.

        Raises:
            StoreMissingError: Its file was deleted or replaced.
        """

    def check_writable(self) -> None:
        """Check also that it may be written.

        Raises:
            StoreMissingError: Its file was deleted or replaced.
            StoreReadOnlyError: Its file was made read-only.
        """
        self.check_identity()

    def tidy(self, connection: Connection) -> None:  # noqa: B027 - PostgreSQL does it by itself
        """Give room that deleted rows had back; outside a transaction."""

    def inherited(self) -> tuple[Any, ...]:
        """Return the driver's connections, which a forked child must neither use nor close."""
        return ()


def make_database(location: Location, wait: Wait, migrations: Path | None = None) -> Database:
    """Return the database at a place.

    Raises:
        MissingExtraError: It is PostgreSQL and its driver is not installed.
    """
    if location.path is not None or location.in_memory:
        from .sqlite import SqliteDatabase

        return SqliteDatabase(location, wait, migrations)
    try:
        from .postgres import PostgresDatabase

        return PostgresDatabase(location, wait, migrations)
    except ModuleNotFoundError as error:
        raise MissingExtraError('A PostgreSQL store needs a driver: pip install "chatnb[postgres]"') from error
