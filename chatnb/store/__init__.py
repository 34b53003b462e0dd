"""The store: what is on disk, and who may write it (spec/recovery.md, sections 1 to 3).

It owns the records and the port (`Store`, `WriteTx`), the SQL store behind it with its tables, leases and migrations,
and the rule that one place has one store per process. Importing this folder does not load SQLAlchemy; opening a store
does.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .location import locate
from .port import OpenedChat, Store, WriteTx
from .records import (
    ChatRow,
    IncidentRow,
    InjectedRow,
    InputKind,
    InputRow,
    InputState,
    NodeRow,
    OverlayRow,
    Owner,
    Trigger,
    TurnRow,
    TurnState,
)

if TYPE_CHECKING:
    from .sql import SqlStore

__all__ = [
    "ChatRow",
    "IncidentRow",
    "InjectedRow",
    "InputKind",
    "InputRow",
    "InputState",
    "NodeRow",
    "OpenedChat",
    "OverlayRow",
    "Owner",
    "Store",
    "Trigger",
    "TurnRow",
    "TurnState",
    "WriteTx",
    "memory_store",
    "open_store",
]

_stores: dict[str, SqlStore] = {}
_lock = threading.Lock()


def open_store(value: str | os.PathLike[str] | Store | None = None) -> Store:
    """Return the store at a place, the same object for the same place in this process. Connects on first use.

    Args:
        value: A URL (`sqlite:///chats.db`, `postgresql+psycopg://...`), a path, a `Store`, or None: `CHATNB_STORE`, or
            `.chatnb/chats.db` in the working directory.

    Raises:
        ConfigError: It is none of these.
        MissingExtraError: It is PostgreSQL and its driver is not installed.
    """
    if value is not None and not isinstance(value, str | os.PathLike):
        if not hasattr(value, "open_chat"):
            raise ConfigError("store must be a URL (sqlite:///chats.db), a path, or a Store")
        return value
    location = locate(value)
    from .sql import SqlStore

    with _lock:
        store = _stores.get(location.url)
        if store is None or store.closed:
            store = _stores[location.url] = SqlStore(location.url)
        return store


def memory_store() -> SqlStore:
    """Return a new store in memory, for tests. It lives as long as the object."""
    from .sql import SqlStore

    return SqlStore("sqlite://")
