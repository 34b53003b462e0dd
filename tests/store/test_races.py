"""Processes that race for one chat or one store (C6). Each round has one winner."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from chatnb._ids import this_process
from chatnb.errors import ChatInUseError
from chatnb.store import Owner
from chatnb.store.sql import SqlStore

ROUNDS = 20
SPAWN = multiprocessing.get_context("spawn")


def racer(url: str, number: int, pipe: Connection) -> None:
    """Open a store or a chat whenever told to, and tell how it went."""
    here = this_process()
    owner = Owner(host=here.host, pid=here.pid, start=here.start, label=f"racer-{number}")
    store: SqlStore | None = None
    while (order := pipe.recv()) is not None:
        kind, name = order
        if kind == "store":
            other = SqlStore(f"{url}-{name}")
            pipe.send(f"{len(other.list_chats())} chats")
            other.close()
            continue
        store = store or SqlStore(url)
        try:
            opened = store.open_chat(name, agent="a", owner=owner, take_over=kind == "take_over")
        except ChatInUseError as error:
            pipe.send(f"lost to {error.label}")
        else:
            pipe.send(f"won {opened.owner_was} {opened.created}")
    pipe.send("end")


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Two processes that do the same thing at once, and the store that they do it to."""
    path = tmp_path_factory.mktemp("race") / "chats.db"
    store = SqlStore(path)
    store.list_chats()
    pipes, processes = [], []
    for number in range(2):
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(target=racer, args=(str(path), number, theirs))
        process.start()
        # So that a racer which dies ends the test instead of leaving it waiting.
        theirs.close()
        pipes.append(ours)
        processes.append(process)

    def run(kind: str, name: str) -> list[str]:
        for pipe in pipes:
            pipe.send((kind, name))
        return [pipe.recv() for pipe in pipes]

    yield run, store, path
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(None)
        pipe.recv()
        process.join(10)
    store.close()


Race = tuple[object, SqlStore, Path]


def check_one_winner(results: list[str]) -> str:
    winners = [number for number, result in enumerate(results) if result.startswith("won")]
    assert len(winners) == 1, results
    assert results[1 - winners[0]] == f"lost to racer-{winners[0]}"
    return results[winners[0]]


class TestRaces:
    @pytest.mark.parametrize("number", range(ROUNDS))
    def test_new_chat(self, race, number: int) -> None:  # type: ignore[no-untyped-def]
        """Section 3: two make the same chat at once: one has it, the other hears who."""
        run, _, _ = race
        assert check_one_winner(run("open", f"new-{number}")) == "won none True"

    @pytest.mark.parametrize("number", range(ROUNDS))
    def test_dead_owner(self, race, us: Owner, number: int) -> None:  # type: ignore[no-untyped-def]
        """Section 3: two find the owner dead at once: one takes the lease."""
        run, store, _ = race
        store.open_chat(f"dead-{number}", agent="a", owner=us)
        store.forget_owner(f"dead-{number}")
        assert check_one_winner(run("open", f"dead-{number}")) == "won dead False"

    @pytest.mark.parametrize("number", range(ROUNDS))
    def test_take_over(self, race, us: Owner, number: int) -> None:  # type: ignore[no-untyped-def]
        """C6: two take a living owner's chat over at once: one has it, the other hears who."""
        run, store, _ = race
        store.open_chat(f"alive-{number}", agent="a", owner=us)
        assert check_one_winner(run("take_over", f"alive-{number}")) == "won taken_over False"

    @pytest.mark.parametrize("number", range(5))
    def test_new_store(self, race, number: int) -> None:  # type: ignore[no-untyped-def]
        """Section 2: two make the same store at once: one makes the tables, the other waits for them."""
        run, _, _ = race
        assert run("store", str(number)) == ["0 chats", "0 chats"]


class TestThreads:
    def test_writes(self, store: SqlStore, us: Owner) -> None:
        """Section 2: one writer per store and process; threads take turns, and readers go on beside."""
        import threading

        token = store.open_chat("c", agent="a", owner=us).token
        failures: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(50):
                    with store.write("c", token, durable=False) as tx:
                        row = store.find_chat("c")
                        assert row is not None
                        tx.set_chat(progress=row.progress + 1)
                    store.find_chat("c")
            except BaseException as error:  # noqa: BLE001 - told to the test
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert store.find_chat("c").progress == 200  # type: ignore[union-attr]
