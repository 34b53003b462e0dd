"""What a database says, in the words of `chatnb.errors`: what happened, where, and what to do."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import exc

from ..errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    StoreReadOnlyError,
    StoreUnavailableError,
)


@contextmanager
def translated(place: str, path: Path | None = None) -> Iterator[None]:
    """Raise a `StoreError` for whatever the database raises in the block.

    Args:
        place: The store's file or address, without a password.
        path: The file, if there is one.
    """
    try:
        yield
    except exc.DBAPIError as error:
        raise explain(error.orig or error, place, path) from error
    except exc.SQLAlchemyError as error:
        raise StoreUnavailableError(
            f"The chat store {place} can't be used now: {type(error).__name__}. Try again; if it stays, restart."
        ) from error
    except sqlite3.Error as error:
        raise explain(error, place, path) from error


def explain(error: BaseException, place: str, path: Path | None = None) -> StoreError:
    """Return the error to raise for a driver's one."""
    if isinstance(error, sqlite3.Error):
        return _explain_sqlite(error, place, path)
    if isinstance(error, OSError):
        return _explain_os(error, place)
    state = str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
    if state in ("53100", "53200"):
        return StoreFullError(_FULL.format(place=place))
    if state == "25006" or state == "42501":
        return StoreReadOnlyError(_READ_ONLY.format(place=place))
    if state.startswith("23"):
        return _broken_rule(place)
    if state.startswith("XX"):
        return StoreCorruptError(_CORRUPT.format(place=place))
    return StoreUnavailableError(_UNAVAILABLE.format(place=place))


_FULL = "The disk of the chat store {place} is full. Make room; what is unsaved is written then."
_READ_ONLY = "The chat store {place} can't be written. Make it and its folder writable, or use another `store`."
_CORRUPT = (
    "{place} is damaged or is not a chat store. It has not been changed. "
    "Move it away or restore a copy, or use another `store`."
)
_UNAVAILABLE = (
    "The chat store {place} does not answer. Another program may hold it, or its server does not run; try again."
)
_NO_FILE = "The chat store {place} is no file and can't be one: a folder or file is in its place. Name another."
_MISSING = (
    "The chat store {place} was deleted or replaced while it was open, and no new one was made. Put the file back, "
    "or keep the chat with `chat.export(...)` and restart the kernel."
)


def missing(place: str) -> StoreMissingError:
    """Return the error of a file that is gone."""
    return StoreMissingError(_MISSING.format(place=place))


def corrupt(place: str) -> StoreCorruptError:
    """Return the error of a file that is no store."""
    return StoreCorruptError(_CORRUPT.format(place=place))


def read_only(place: str) -> StoreReadOnlyError:
    """Return the error of a store that can only be read."""
    return StoreReadOnlyError(_READ_ONLY.format(place=place))


def _broken_rule(place: str) -> StoreError:
    return StoreError(f"A row does not fit the rules of the chat store {place}; nothing was written. Please report it.")


def _explain_sqlite(error: sqlite3.Error, place: str, path: Path | None) -> StoreError:
    name = getattr(error, "sqlite_errorname", None) or ""
    if name == "SQLITE_FULL":
        return StoreFullError(_FULL.format(place=place))
    if name == "SQLITE_READONLY_DBMOVED" or (path is not None and name.startswith("SQLITE_") and not path.exists()):
        return missing(place)
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and (name in _NO_ROOM or _is_full(path)):
        return StoreFullError(_FULL.format(place=place))
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
        return read_only(place)
    if name.startswith("SQLITE_CANTOPEN") and path is not None and path.is_dir():
        return StoreUnavailableError(_NO_FILE.format(place=place))
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
        return corrupt(place)
    if name.startswith("SQLITE_CONSTRAINT"):
        return _broken_rule(place)
    if name == "SQLITE_ERROR" and "no such" in str(error):
        return corrupt(place)
    return StoreUnavailableError(_UNAVAILABLE.format(place=place))


# What SQLite says for a quota or a file size limit, and where it has no word for a full disk.
_NO_ROOM = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")
_LITTLE = 1 << 16


def _is_full(path: Path | None) -> bool:
    try:
        return path is not None and shutil.disk_usage(path.parent).free < _LITTLE
    except OSError:
        return False


def _explain_os(error: OSError, place: str) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFullError(_FULL.format(place=place))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return read_only(place)
    if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
        return StoreUnavailableError(_NO_FILE.format(place=place))
    return StoreUnavailableError(_UNAVAILABLE.format(place=place))


def closed(place: str) -> StoreUnavailableError:
    """Return the error of a store that was closed."""
    return StoreUnavailableError(f"The chat store {place} has been closed. Open it again with `open_store`.")
