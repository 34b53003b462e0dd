"""Fixtures of the tests of recovery."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recovery.processes import Nursery, Scene


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The process whose children the scenarios run in."""
    made = Nursery()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def empty_store(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store at the newest revision: making one is what costs most in a scenario."""
    folder = tmp_path_factory.mktemp("store")
    Scene(nursery, folder).run("""
    from chatnb.store import open_store
    store = open_store(str(folder / "chats.db"))
    store.heartbeat({"nobody": "nothing"})
    store.close()
    """)
    return folder / "chats.db"


@pytest.fixture
def bare_scene(nursery: Nursery, tmp_path: Path) -> Scene:
    """A folder of its own, with nothing in it."""
    return Scene(nursery, tmp_path)


@pytest.fixture
def scene(bare_scene: Scene, empty_store: Path) -> Scene:
    """One chat in a folder of its own."""
    shutil.copy(empty_store, bare_scene.folder / "chats.db")
    return bare_scene
