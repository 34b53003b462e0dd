from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from chatnb.errors import StoreReadOnlyError, StoreVersionError
from chatnb.store import Owner, migrate, tables
from chatnb.store.sql import SqlStore

SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = "0001"


def upgrade():
    with op.batch_alter_table("chats") as batch:
        batch.add_column(sa.Column("colour", sa.String()))
    op.execute("UPDATE chats SET colour = 'blue'")
    {last}
"""


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The migrations of a later release: one more revision."""
    folder = tmp_path / "later"
    shutil.copytree(migrate.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "__init__.py").write_text('REVISIONS = ("0001", "9001")\n')
    (folder / "versions" / "second.py").write_text(SECOND.format(last=""))
    return folder


def dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def run(code: str, *arguments: object, **environment: str) -> int:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


class TestRevisions:
    def test_same_tables(self, store: SqlStore) -> None:
        """The migrations make exactly the tables of `tables.py`."""
        store.list_chats()
        with store._reading() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, tables.metadata) == []

    def test_named(self) -> None:
        """The literal list of revisions is what alembic finds."""
        config = Config()
        config.set_main_option("script_location", str(migrate.FOLDER))
        found = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
        assert list(migrate.revisions()) == found[::-1]

    def test_new_store_has_no_copy(self, store: SqlStore, path: Path) -> None:
        """A new store has nothing to keep."""
        store.list_chats()
        assert not [name for name in os.listdir(path.parent) if ".bak" in name]


class TestUpgrade:
    def test_copy(self, store: SqlStore, path: Path, us: Owner, newer: Path) -> None:
        """Section 2: a copy of the old revision is complete before the migration; the data is kept."""
        token = store.open_chat("c", agent="a", owner=us).token
        store.release_chat("c", token)
        store.close()
        before = dump(path)
        later = SqlStore(path, migrations=newer)
        assert later.find_chat("c") is not None
        later.close()
        assert dump(path.with_name("chats.db.bak-0001")) == before
        assert path.with_name("chats.db.bak-0001").stat().st_mode & 0o777 == 0o600
        assert "9001" in "".join(dump(path))
        assert not path.with_name("chats.db.bak-0001.part").exists()

    def test_copy_holds_the_log(self, store: SqlStore, path: Path, us: Owner, newer: Path) -> None:
        """Section 2: what is only in the write-ahead log yet is in the copy too."""
        token = store.open_chat("c", agent="a", owner=us).token
        store.release_chat("c", token)
        later = SqlStore(path, migrations=newer)
        later.list_chats()
        assert "'c'" in "".join(dump(path.with_name("chats.db.bak-0001")))
        later.close()

    def test_living_owner(self, store: SqlStore, path: Path, us: Owner, newer: Path) -> None:
        """Section 2: refused, naming the owners, while a living lease exists; nothing is changed."""
        store.open_chat("c", agent="a", owner=us)
        before = dump(path)
        later = SqlStore(path, migrations=newer)
        with pytest.raises(StoreVersionError, match=rf"'c'.*{us.pid}.*analysis\.ipynb"):
            later.list_chats()
        assert dump(path) == before
        assert not path.with_name("chats.db.bak-0001").exists()
        store.forget_owner("c")
        assert len(later.list_chats()) == 1
        later.close()

    def test_owner_elsewhere(self, store: SqlStore, path: Path, us: Owner, newer: Path) -> None:
        """Section 2: owners on other hosts count as they do for leases."""
        store.open_chat("c", agent="a", owner=dataclasses.replace(us, host="there/1"))
        with pytest.raises(StoreVersionError, match="there"):
            SqlStore(path, migrations=newer).list_chats()

    def test_failing(self, store: SqlStore, path: Path, newer: Path) -> None:
        """Section 2: one transaction: a migration that fails leaves the old revision as it was."""
        store.list_chats()
        store.close()
        before = dump(path)
        (newer / "versions" / "second.py").write_text(SECOND.format(last="op.execute('SELECT * FROM nowhere')"))
        with pytest.raises(Exception, match="damaged"):
            SqlStore(path, migrations=newer).list_chats()
        assert dump(path) == before
        again = SqlStore(path)
        assert again.list_chats() == []
        again.close()

    def test_newer(self, store: SqlStore, path: Path, newer: Path) -> None:
        """Section 2: a store newer than the code is refused unwritten."""
        store.list_chats()
        store.close()
        later = SqlStore(path, migrations=newer)
        later.list_chats()
        later.close()
        content = path.read_bytes()
        with pytest.raises(StoreVersionError, match="newer"):
            SqlStore(path).list_chats()
        assert path.read_bytes() == content

    def test_read_only(self, store: SqlStore, path: Path, newer: Path) -> None:
        """A store that must be migrated and can't be written says so."""
        store.list_chats()
        store.close()
        path.chmod(0o444)
        with pytest.raises(StoreReadOnlyError):
            SqlStore(path, migrations=newer).list_chats()


class TestKilled:
    CODE = (
        "import sys; from pathlib import Path; from chatnb import _killpoint; from chatnb.store.sql import SqlStore; "
        "_killpoint.enable(); "
        "SqlStore(sys.argv[1], migrations=Path(sys.argv[2]) if sys.argv[2:] else None).list_chats()"
    )

    def test_new(self, path: Path) -> None:
        """Section 13, migrate.middle: killed while the store is made: the next opening makes it."""
        assert run(self.CODE, path, CHATNB_KILL_AT="migrate.middle") == -signal.SIGKILL
        store = SqlStore(path)
        assert store.list_chats() == []
        store.close()

    def test_upgrade(self, store: SqlStore, path: Path, us: Owner, newer: Path) -> None:
        """Section 13, migrate.middle: opens at the old revision, and migrates."""
        store.release_chat("c", store.open_chat("c", agent="a", owner=us).token)
        store.close()
        assert run(self.CODE, path, newer, CHATNB_KILL_AT="migrate.middle") == -signal.SIGKILL
        old = SqlStore(path)
        assert len(old.list_chats()) == 1
        old.close()
        later = SqlStore(path, migrations=newer)
        assert len(later.list_chats()) == 1
        later.close()
        assert "9001" in "".join(dump(path))
