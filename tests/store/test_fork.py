from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from chatnb.errors import ChatInUseError
from chatnb.store import Owner
from chatnb.store.sql import SqlStore

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked child; return 0 when nothing failed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            gc.collect()
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not run the parent's tests
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class TestFork:
    def test_inherited(self, store: SqlStore, us: Owner) -> None:
        """C8: the child's use raises, naming the parent; it releases nothing; the parent goes on."""
        token, parent = store.open_chat("c", agent="a", owner=us).token, os.getpid()
        connections = store._database.inherited()
        assert connections

        def work() -> None:
            with pytest.raises(ChatInUseError, match=str(parent)) as caught, store.write("c", token):
                pass
            assert caught.value.pid == parent
            store.release_chat("c", token)
            assert store.heartbeat({"c": token}) == set()
            assert not set(map(id, store._database.inherited())) & set(map(id, connections))

        assert in_child(work) == 0
        with store.write("c", token) as tx:
            tx.set_chat(head="n")
        assert store.heartbeat({"c": token}) == set()

    def test_own(self, store: SqlStore, us: Owner) -> None:
        """Section 3: the child may open other chats, with connections of its own; its parent's chat is in use."""
        store.open_chat("c", agent="a", owner=us)

        def work() -> None:
            with pytest.raises(ChatInUseError):
                store.open_chat("c", agent="a", owner=us)
            token = store.open_chat("d", agent="a", owner=us).token
            with store.write("d", token) as tx:
                tx.set_chat(head="child")
            store.close()

        assert in_child(work) == 0
        assert store.find_chat("d").head == "child"  # type: ignore[union-attr]

    def test_inside_a_write(self, store: SqlStore, us: Owner) -> None:
        """Section 3: a fork while the parent writes: the child neither waits for the lock nor ends the transaction."""
        token = store.open_chat("c", agent="a", owner=us).token
        with store.write("c", token) as tx:
            tx.set_chat(head="n")
            assert in_child(lambda: [][store.find_chat("c").head is not None :]) == 0  # type: ignore[union-attr]
        assert store.find_chat("c").head == "n"  # type: ignore[union-attr]

    def test_orderly_exit(self, path: Path) -> None:
        """C8: a child that ends in order, with all its finalisers, leaves the parent's connections alone."""
        code = """
import os, sys
from chatnb._ids import this_process
from chatnb.store import Owner, open_store
here = this_process()
store = open_store(sys.argv[1])
token = store.open_chat("c", agent="a", owner=Owner(host=here.host, pid=here.pid, start=here.start)).token
pid = os.fork()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    assert os.path.exists(sys.argv[1] + "-wal")
    with store.write("c", token) as tx:
        tx.set_chat(head="n")
    assert store.find_chat("c").head == "n"
"""
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
