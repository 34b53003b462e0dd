"""The same code on PostgreSQL, where a server can be started."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from chatnb.errors import ChatInUseError, LeaseLostError, StoreUnavailableError
from chatnb.store import NodeRow, Owner, TurnRow, migrate, tables
from chatnb.store.sql import SqlStore


def find_programs() -> Path | None:
    """Return the folder of PostgreSQL's server programs."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    if found:
        folders.append(Path(found).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A new server of this module's own, on this machine only."""
    pytest.importorskip("psycopg")
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    # Not in pytest's own folder: the next pytest on this machine closes that to other users.
    folder = Path(tempfile.mkdtemp(prefix="chatnb-postgres-"))
    user: str | None = None
    if getpass.getuser() == "root":
        # The server refuses to run as root.
        user = "postgres"
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: str) -> None:
        environment = os.environ | {"LC_ALL": "C"}
        subprocess.run(
            command,
            user=user,
            env=environment,
            cwd=folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )

    data = str(folder / "data")
    run(str(programs / "initdb"), "-D", data, "-U", "chatnb", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    control = str(programs / "pg_ctl")
    run(control, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
    yield f"postgresql://chatnb@127.0.0.1:{port}/postgres"
    run(control, "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(folder)


@pytest.fixture
def server(url: str, waits: list[float]) -> Iterator[SqlStore]:
    store = SqlStore(url, wait=waits.append)
    yield store
    store.close()


class TestStatements:
    def test_tables(self) -> None:
        """The tables can be made on PostgreSQL too, whether or not a server is here to try it."""
        dialect = postgresql.dialect()
        for table in tables.metadata.sorted_tables:
            assert str(CreateTable(table).compile(dialect=dialect)).strip().startswith("CREATE TABLE")


class TestServer:
    def test_migrated(self, server: SqlStore) -> None:
        """Section 2: the migrations make the tables; a second opening finds them."""
        server.list_chats()
        with server._reading() as connection:
            assert migrate.find_revision(connection) == migrate.revisions()[-1]
        again = SqlStore(server.url)
        again.list_chats()
        again.close()

    def test_lease(self, server: SqlStore, us: Owner) -> None:
        """Section 3: the lease, its loss and its return are the same."""
        token = server.open_chat("lease", agent="a", owner=us).token
        with pytest.raises(ChatInUseError):
            server.open_chat("lease", agent="a", owner=us)
        new = server.open_chat("lease", agent="a", owner=us, take_over=True)
        assert new.owner_was == "taken_over"
        with pytest.raises(LeaseLostError), server.write("lease", token) as tx:
            tx.set_chat(head="n")
        assert server.heartbeat({"lease": token}) == {"lease"}
        assert server.heartbeat({"lease": new.token}) == set()
        server.release_chat("lease", new.token)
        assert server.open_chat("lease", agent="a", owner=us).owner_was == "released"

    def test_rows(self, server: SqlStore, us: Owner) -> None:
        """Section 2: rows come back as they were, also those that PostgreSQL's text can't hold as they are."""
        token = server.open_chat("rows", agent="a", owner=us).token
        row = NodeRow(node_id="n", message_id="m", parent=None, ordinal=0, content_id="x", role="user")
        wire = {"id": "m", "text": "ü\0\ud800"}
        turn = TurnRow(id="t", number=0, trigger="submit-message", state="running", stash={"a": "\0"})
        with server.write("rows", token) as tx:
            tx.add_nodes([(row, wire)])
            assert tx.move_head(None, "n")
            assert not tx.move_head(None, "m")
            tx.add_turn(turn)
        with server.write("rows", token, durable=False) as tx:
            assert tx._run(text("SHOW synchronous_commit")).scalar_one() == "off"
            tx.add_chunks("t", 0, [wire])
        assert server.load_nodes("rows") == [row]
        assert server.load_messages("rows", ["n"]) == {"n": wire}
        assert server.load_turns("rows") == [turn]
        assert server.load_chunks("t") == [wire]
        server.release_chat("rows", token)
        assert server.delete_chat("rows", owner=us)
        assert server.load_turns("rows") == []

    def test_two_stores(self, server: SqlStore, us: Owner) -> None:
        """Section 2: a write transaction holds its chat's row, so that a taker waits for it."""
        token = server.open_chat("two", agent="a", owner=us).token
        other = SqlStore(server.url, wait=lambda seconds: None)
        other.list_chats()
        taken: list[str] = []
        taker = threading.Thread(
            target=lambda: taken.append(other.open_chat("two", agent="a", owner=us, take_over=True).token)
        )
        with server.write("two", token) as tx:
            taker.start()
            tx.set_chat(head="n")
            assert taken == []
        taker.join(10)
        assert len(taken) == 1
        assert server.find_chat("two").head == "n"  # type: ignore[union-attr]
        with pytest.raises(LeaseLostError), server.write("two", token):
            pass
        other.close()

    def test_connection_lost(self, server: SqlStore, us: Owner) -> None:
        """Section 9: a lost connection is an error of this write; the next one connects again."""
        token = server.open_chat("gone", agent="a", owner=us).token
        with server.write("gone", token) as tx:
            pid = tx._run(text("SELECT pg_backend_pid()")).scalar_one()
        with server._reading() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        with pytest.raises(StoreUnavailableError), server.write("gone", token) as tx:
            tx.set_chat(head="n")
        with server.write("gone", token) as tx:
            assert tx.move_head(None, "m")
