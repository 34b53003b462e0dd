"""A store in PostgreSQL, for many machines."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, make_url, text

from . import migrate
from .database import Database, Wait
from .failures import translated
from .location import Location

# Names the lock that one migrating process holds: "chatnb" in ASCII.
_MIGRATION_LOCK = 0x636861746E62


class PostgresDatabase(Database):
    """A PostgreSQL database, or a schema of one."""

    locks_rows = True

    def __init__(self, location: Location, wait: Wait, migrations: Path | None = None) -> None:
        url = make_url(location.url)
        self.place = url.render_as_string(hide_password=True)
        self._wait = wait
        self._migrations = migrations or migrate.FOLDER
        self._engine = create_engine(url, hide_parameters=True, pool_pre_ping=True)

    def open(self) -> Engine:
        """Connect and bring the tables to this code's revision."""
        with translated(self.place), self._engine.connect() as connection:
            if migrate.needs_migration(connection, self.place, self._migrations):
                connection.rollback()
                connection.execute(text("SET LOCAL lock_timeout = '30s'"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
                if migrate.needs_migration(connection, self.place, self._migrations):
                    migrate.refuse_if_owned(connection, self.place, self._wait)
                    migrate.upgrade(connection, self._migrations)
                connection.commit()
        return self._engine

    def begin(self, connection: Connection, *, durable: bool) -> None:
        """Begin a write transaction; one that is not durable does not wait for the disk."""
        connection.execute(text(f"SET LOCAL synchronous_commit TO {'on' if durable else 'off'}"))
