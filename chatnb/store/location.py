"""Where a store is: from what the user gave to one URL, and from a URL to a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError

DEFAULT_FOLDER = ".chatnb"
DEFAULT_FILE = "chats.db"


@dataclass(frozen=True, slots=True)
class Location:
    """A resolved place.

    Attributes:
        url: The URL; for files absolute.
        path: The SQLite file, or None.
        in_memory: An SQLite database that lives in this process only.
    """

    url: str
    path: Path | None = None
    in_memory: bool = False


def locate(value: str | os.PathLike[str] | None) -> Location:
    """Resolve what `Agent(store=...)` takes: a URL, a path, or None for `CHATNB_STORE` or the default file.

    Raises:
        ConfigError: It is neither, or a database that chatnb does not know.
    """
    if value is None:
        value = os.environ.get("CHATNB_STORE") or Path(DEFAULT_FOLDER, DEFAULT_FILE)
    if isinstance(value, os.PathLike):
        return _file(os.fspath(value))
    if not isinstance(value, str) or not value.strip():
        raise ConfigError("store must be a URL (sqlite:///chats.db, postgresql+psycopg://...), a path, or a Store")
    scheme, mark, rest = value.partition("://")
    if not mark:
        return _file(value)
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _sqlite(rest)
    if scheme == "postgresql":
        return Location(f"postgresql+psycopg://{rest}")
    if scheme.startswith("postgresql+"):
        return Location(value)
    raise ConfigError(f"chatnb stores chats in SQLite or PostgreSQL, not in {scheme!r}: sqlite:///chats.db")


def _sqlite(rest: str) -> Location:
    if "?" in rest:
        raise ConfigError("a SQLite store takes no options in its URL: sqlite:///chats.db")
    if rest in ("", "/", "/:memory:"):
        return Location("sqlite://", in_memory=True)
    if not rest.startswith("/"):
        raise ConfigError("a SQLite URL has three slashes before a relative path and four before an absolute one")
    return _file(rest[1:])


def _file(path: str) -> Location:
    # `realpath` also follows links, so that one file has one store.
    real = Path(os.path.realpath(Path(path).expanduser()))
    return Location(f"sqlite:///{real}", path=real)


def make_folder(folder: Path) -> None:
    """Make a store's folder, closed to others and to git, if it is not there.

    Raises:
        OSError: It can't be made.
    """
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            return
    elif folder.name != DEFAULT_FOLDER or (folder / ".gitignore").exists():
        return
    (folder / ".gitignore").write_text("*\n", "utf-8")
