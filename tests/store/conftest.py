from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chatnb._ids import this_process
from chatnb.store import Owner
from chatnb.store.sql import SqlStore


@pytest.fixture
def us() -> Owner:
    """This process as an owner."""
    here = this_process()
    return Owner(host=here.host, pid=here.pid, start=here.start, kernel_id="kernel-1", label="analysis.ipynb")


@pytest.fixture
def waits() -> list[float]:
    """What the store waited, instead of waiting."""
    return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".chatnb" / "chats.db"


@pytest.fixture
def store(path: Path, waits: list[float]) -> Iterator[SqlStore]:
    """A store in a file that is not there yet."""
    store = SqlStore(path, wait=waits.append)
    yield store
    store.close()
