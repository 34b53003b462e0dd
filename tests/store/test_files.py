from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from chatnb.errors import (
    ConfigError,
    LeaseLostError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from chatnb.store import NodeRow, Owner, memory_store, open_store
from chatnb.store.sql import SqlStore


def node(name: str, ordinal: int = 0) -> NodeRow:
    return NodeRow(
        node_id=name, message_id=f"m-{name}", parent=None, ordinal=ordinal, content_id=f"c-{name}", role="user"
    )


class TestOpenStore:
    def test_same_object(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One place has one store per process, however it is named."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("CHATNB_STORE", "env.db")
        assert open_store("a.db") is open_store("sqlite:///a.db") is open_store(f"sqlite:///{tmp_path}/a.db")
        assert open_store() is open_store(tmp_path / "env.db")
        monkeypatch.delenv("CHATNB_STORE")
        default = open_store(None)
        assert default is open_store(".chatnb/chats.db")
        assert open_store(default) is default

    def test_nothing_made(self, tmp_path: Path) -> None:
        """Naming a store makes no file; the first use does."""
        store = open_store(tmp_path / "x" / "a.db")
        assert not store.exists()
        assert not (tmp_path / "x").exists()

    def test_closed(self, tmp_path: Path) -> None:
        """A closed store says so, and opening it again makes a new one."""
        store = open_store(tmp_path / "a.db")
        store.list_chats()
        store.close()
        store.close()
        with pytest.raises(StoreUnavailableError):
            store.list_chats()
        again = open_store(tmp_path / "a.db")
        assert again.list_chats() == []
        again.close()

    @pytest.mark.parametrize("value", ["mysql://x/y", "sqlite://a.db", "sqlite:///a.db?x=1", " ", 7])
    def test_wrong(self, value: object) -> None:
        """A store that can't be is refused with what to use instead."""
        with pytest.raises(ConfigError, match=r"sqlite:///|SQLite"):
            open_store(value)  # type: ignore[arg-type]

    def test_import_is_light(self) -> None:
        """DESIGN section 3: SQLAlchemy and alembic are loaded on use; an up-to-date store never loads alembic."""
        code = "import sys, chatnb.store; assert not {'sqlalchemy', 'alembic'} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_open_without_alembic(self, store: SqlStore, us: Owner) -> None:
        """The fast path: opening a store of this revision does not load alembic."""
        store.open_chat("c", agent="a", owner=us)
        code = (
            "import sys; from chatnb.store import open_store; "
            "assert open_store(sys.argv[1]).list_chats()[0].id == 'c'; assert 'alembic' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code, store.url], check=True)


class TestFile:
    def test_folder_and_modes(self, store: SqlStore, path: Path) -> None:
        """Section 2: the folder is 0700 with a `.gitignore` of its own; the file is 0600."""
        store.list_chats()
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert path.stat().st_mode & 0o777 == 0o600
        assert (path.parent / ".gitignore").read_text().strip() == "*"

    def test_folder_of_the_user(self, tmp_path: Path) -> None:
        """A folder that was there stays as it is."""
        tmp_path.chmod(0o755)
        store = SqlStore(tmp_path / "a.db")
        store.list_chats()
        assert tmp_path.stat().st_mode & 0o777 == 0o755
        assert not (tmp_path / ".gitignore").exists()
        store.close()

    def test_empty_file(self, tmp_path: Path) -> None:
        """An empty file is a store to be made, and is closed to others."""
        (tmp_path / "a.db").touch()
        store = SqlStore(tmp_path / "a.db")
        assert store.list_chats() == []
        assert (tmp_path / "a.db").stat().st_mode & 0o777 == 0o600
        store.close()

    def test_pragmas(self, store: SqlStore) -> None:
        """Section 2: the pragmas, and FULL or NORMAL by the kind of write."""
        store.list_chats()
        levels = []
        for durable in (True, False, True):
            with store._writing(durable=durable) as connection:
                pragma = connection.exec_driver_sql
                levels.append(pragma("PRAGMA synchronous").scalar_one())
                assert pragma("PRAGMA journal_mode").scalar_one() == "wal"
                assert pragma("PRAGMA busy_timeout").scalar_one() == 5000
                assert pragma("PRAGMA foreign_keys").scalar_one() == 1
                assert pragma("PRAGMA auto_vacuum").scalar_one() == 2
        assert levels == [2, 1, 2]

    def test_no_wal(
        self, store: SqlStore, us: Owner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Section 2: where WAL is refused, the mode SQLite offers is used, with one warning."""
        from chatnb.store.sqlite import SqliteDatabase

        monkeypatch.setattr(SqliteDatabase, "_set_wal", lambda self, connection: "delete")
        with caplog.at_level(logging.WARNING):
            token = store.open_chat("c", agent="a", owner=us).token
            with store.write("c", token) as tx:
                tx.set_chat(head="n")
            store.list_chats()
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert store.find_chat("c").head == "n"  # type: ignore[union-attr]

    def test_one_writer(self, store: SqlStore, us: Owner) -> None:
        """Section 2: one writer connection per store; writes of one thread do not nest."""
        token = store.open_chat("c", agent="a", owner=us).token
        with store.write("c", token) as tx:
            with pytest.raises(RuntimeError, match="nest"), store.write("c", token):
                pass
            tx.set_chat(head="n")
            assert store.find_chat("c").head == "n"  # type: ignore[union-attr]
        with pytest.raises(RuntimeError, match="ended"):
            tx.set_chat(head="m")

    def test_rollback(self, store: SqlStore, us: Owner) -> None:
        """An exception in the block takes the whole transaction back."""
        token = store.open_chat("c", agent="a", owner=us).token
        with pytest.raises(KeyError), store.write("c", token) as tx:  # noqa: PT012
            tx.add_nodes([(node("n"), {"id": "m"})])
            raise KeyError
        assert store.load_nodes("c") == []


class TestCorrupt:
    @pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0" + b"\xff" * 4096, b"\0" * 9000])
    def test_garbage(self, path: Path, us: Owner, content: bytes) -> None:
        """C30: a garbage file: the error names the path; the same bytes and no other file."""
        path.parent.mkdir()
        path.write_bytes(content)
        store = SqlStore(path)
        with pytest.raises(StoreCorruptError, match=str(path)):
            store.open_chat("c", agent="a", owner=us)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) in ([path.name], [path.name, ".gitignore"], [".gitignore", path.name])

    def test_foreign(self, tmp_path: Path) -> None:
        """Section 9: a database of another program is not touched."""
        path = tmp_path / "other.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE chats (id)")
        connection.close()
        content = path.read_bytes()
        with pytest.raises(StoreCorruptError, match=str(path)):
            SqlStore(path).list_chats()
        assert path.read_bytes() == content

    def test_damaged(self, store: SqlStore, path: Path, us: Owner) -> None:
        """Section 9: a store with a good head and a damaged body is reported and left as it is."""
        store.open_chat("c", agent="a", owner=us)
        store.close()
        content = path.read_bytes()
        content = content[:100] + b"\xa5" * (len(content) - 100)
        path.write_bytes(content)
        with pytest.raises(StoreCorruptError, match=str(path)):
            SqlStore(path).open_chat("c", agent="a", owner=us)
        assert path.read_bytes() == content

    def test_message_row(self, store: SqlStore, us: Owner) -> None:
        """Section 9: one unreadable message row is left out; the others are read."""
        token = store.open_chat("c", agent="a", owner=us).token
        with store.write("c", token) as tx:
            tx.add_nodes([(node("a", 0), {"id": "a"}), (node("b", 1), {"id": "b"})])
        with store._writing(durable=True) as connection:
            connection.exec_driver_sql("UPDATE contents SET payload = '{\"id\": \"a' WHERE content_id = 'c-a'")
        assert [row.node_id for row in store.load_nodes("c")] == ["a", "b"]
        assert store.load_messages("c", ["a", "b", "none"]) == {"b": {"id": "b"}}


class TestReadOnly:
    def test_at_open(self, store: SqlStore, path: Path, us: Owner) -> None:
        """Section 9: a read-only store can't be opened for a chat, and can still be read."""
        token = store.open_chat("c", agent="a", owner=us).token
        with store.write("c", token) as tx:
            tx.add_nodes([(node("n"), {"id": "m"})])
        store.close()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        content = path.read_bytes()
        try:
            reader = SqlStore(path)
            with pytest.raises(StoreReadOnlyError, match=str(path)):
                reader.open_chat("c", agent="a", owner=us, take_over=True)
            assert reader.load_messages("c", ["n"]) == {"n": {"id": "m"}}
            assert reader.read_only
            reader.close()
        finally:
            path.parent.chmod(0o700)
        assert path.read_bytes() == content

    def test_turned(self, store: SqlStore, path: Path, us: Owner) -> None:
        """Section 9: turned read-only while open: refused, nothing written; writable again: works."""
        token = store.open_chat("c", agent="a", owner=us).token
        path.chmod(0o444)
        with pytest.raises(StoreReadOnlyError), store.write("c", token) as tx:
            tx.set_chat(head="n")
        assert store.find_chat("c").head is None  # type: ignore[union-attr]
        path.chmod(0o600)
        with store.write("c", token) as tx:
            tx.set_chat(head="n")

    def test_refused_by_sqlite(self, store: SqlStore, us: Owner) -> None:
        """Section 9: what SQLite says about a read-only file becomes the same error."""
        token = store.open_chat("c", agent="a", owner=us).token
        assert store._writer is not None
        store._writer.exec_driver_sql("PRAGMA query_only=ON")
        store._writer.rollback()
        with pytest.raises(StoreReadOnlyError), store.write("c", token) as tx:
            tx.set_chat(head="n")

    def test_missing_and_unwritable(self, tmp_path: Path) -> None:
        """A folder that can't be made is a read-only store, not a crash."""
        (tmp_path / "file").touch()
        with pytest.raises(StoreError):
            SqlStore(tmp_path / "file" / "a.db").list_chats()


class TestFull:
    def test_full(self, store: SqlStore, us: Owner) -> None:
        """Section 9: a full disk: the error says so, nothing was written, and it goes on when there is room."""
        token = store.open_chat("c", agent="a", owner=us).token
        assert store._writer is not None
        pages = store._writer.exec_driver_sql("PRAGMA page_count").scalar_one()
        store._writer.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        store._writer.rollback()
        with pytest.raises(StoreFullError, match="Make room"), store.write("c", token) as tx:  # noqa: PT012
            tx.set_chat(head="n")
            tx.add_nodes([(node("n"), {"id": "m" * 100_000})])
        assert store.find_chat("c").head is None  # type: ignore[union-attr]
        store._writer.exec_driver_sql("PRAGMA max_page_count=100000")
        store._writer.rollback()
        with store.write("c", token) as tx:
            tx.add_nodes([(node("n"), {"id": "m" * 100_000})])
        assert len(store.load_nodes("c")) == 1

    def test_locked(self, store: SqlStore, path: Path, us: Owner) -> None:
        """A database that another program holds is unavailable; nothing was written."""
        token = store.open_chat("c", agent="a", owner=us).token
        assert store._writer is not None
        store._writer.exec_driver_sql("PRAGMA busy_timeout=1")
        store._writer.rollback()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError), store.write("c", token) as tx:
            tx.set_chat(head="n")
        other.rollback()
        other.close()
        with store.write("c", token) as tx:
            tx.set_chat(head="n")


class TestMissing:
    def test_deleted(self, store: SqlStore, path: Path, us: Owner) -> None:
        """C30: deleted while open: the next heartbeat, write or opening says so, and no new file is made."""
        token = store.open_chat("c", agent="a", owner=us).token
        for name in os.listdir(path.parent):
            (path.parent / name).unlink()
        with pytest.raises(StoreMissingError, match=r"chat\.export"):
            store.heartbeat({"c": token})
        with pytest.raises(StoreMissingError), store.write("c", token):
            pass
        with pytest.raises(StoreMissingError):
            store.check_identity()
        assert os.listdir(path.parent) == []

    def test_replaced(self, store: SqlStore, path: Path, us: Owner) -> None:
        """C30: replaced while open is the same as deleted; the other file is not written."""
        token = store.open_chat("c", agent="a", owner=us).token
        path.rename(path.with_name("moved.db"))
        other = SqlStore(path)
        other.list_chats()
        other.close()
        content = path.read_bytes()
        with pytest.raises(StoreMissingError), store.write("c", token) as tx:
            tx.set_chat(head="n")
        assert path.read_bytes() == content

    def test_put_back(self, store: SqlStore, path: Path, us: Owner) -> None:
        """A file that is put back goes on."""
        token = store.open_chat("c", agent="a", owner=us).token
        path.rename(path.with_name("moved.db"))
        with pytest.raises(StoreMissingError):
            store.check_identity()
        path.with_name("moved.db").rename(path)
        with store.write("c", token) as tx:
            tx.set_chat(head="n")


class TestTexts:
    def test_no_values(self, store: SqlStore, us: Owner) -> None:
        """STYLE: messages of errors never carry what was to be written."""
        token = store.open_chat("c", agent="a", owner=us).token
        caught: list[BaseException] = []
        try:
            with store.write("c", token) as tx:
                tx.add_nodes([(node("n"), {"text": "secret-word"}), (node("n"), {"text": "secret-word"})])
        except StoreError as error:
            caught = [error, error.__cause__]  # type: ignore[list-item]
        assert caught
        assert not any("secret-word" in str(error) for error in caught)

    def test_password(self) -> None:
        """A message names a server's store without its password."""
        pytest.importorskip("psycopg")
        store = SqlStore("postgresql://ann:secret-word@127.0.0.1:1/chats")
        with pytest.raises(StoreUnavailableError) as caught:
            store.list_chats()
        assert "ann" in str(caught.value)
        assert "secret-word" not in str(caught.value)


class TestMemory:
    def test_own(self, us: Owner) -> None:
        """Each store in memory is its own; threads share it."""
        first, second = memory_store(), memory_store()
        token = first.open_chat("c", agent="a", owner=us).token
        assert first.in_memory
        assert second.list_chats() == []
        with pytest.raises(LeaseLostError), second.write("c", token):
            pass
        first.close()
        second.close()
