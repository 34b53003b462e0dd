"""From one revision of the tables to the next. A store that is up to date is opened without loading alembic."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from .._clock import now
from .._ids import this_process
from .._killpoint import kill_point
from ..errors import StoreVersionError
from . import lease

FOLDER = Path(__file__).parent / "migrations"


def find_revision(connection: Connection) -> str | None:
    """Return the revision of the tables; None when there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return None if revision is None else str(revision)


def needs_migration(connection: Connection, place: str, folder: Path = FOLDER) -> bool:
    """Whether the tables are older than this code.

    Raises:
        StoreVersionError: They are newer.
    """
    revision, known = find_revision(connection), revisions(folder)
    if revision == known[-1]:
        return False
    if revision is None or revision in known:
        return True
    raise StoreVersionError(
        f"The chat store {place} was made by a newer chatnb (revision {revision}; this one knows up to {known[-1]}). "
        "It was not changed. Update chatnb, or use another `store`."
    )


@cache
def revisions(folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the known revisions, oldest first. They stand in the folder's `__init__.py`, as a literal."""
    for statement in ast.parse((folder / "__init__.py").read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "REVISIONS":
            return tuple(ast.literal_eval(statement.value))
    raise LookupError("the migrations name no REVISIONS")


def refuse_if_owned(connection: Connection, place: str, wait: Callable[[float], None]) -> None:
    """Refuse to migrate under a living owner. The columns of a lease are the same in all revisions.

    Raises:
        StoreVersionError: Somebody owns a chat; the text names them.
    """
    if find_revision(connection) is None:
        return
    host = this_process().host

    def read(chat_id: str) -> lease.Holder | None:
        return lease.find_holder(connection, chat_id)

    holders = lease.find_holders(connection)
    # Those of this host and the fresh ones first: they are judged without watching.
    holders.sort(key=lambda holder: lease.judge(holder, host=host, at=now()) == "doubtful")
    living = [holder for holder in holders if lease.judge(holder, host=host, at=now()) == "alive"]
    if not living:
        living = [holder for holder in holders if lease.is_alive(holder, host=host, read=read, wait=wait)]
    if living:
        owners = "; ".join(f"{holder.chat_id!r}: {lease.describe(holder)}" for holder in living[:10])
        raise StoreVersionError(
            f"The chat store {place} must be brought to a new version, and chats in it are open ({owners}). "
            "Close them or shut those kernels down, then try again."
        )


def upgrade(connection: Connection, folder: Path = FOLDER) -> None:
    """Run the migrations inside the open transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    kill_point("migrate.middle")
