from __future__ import annotations

import dataclasses
import time
from datetime import timedelta

import pytest

from chatnb._clock import now
from chatnb.errors import ChatInUseError, LeaseLostError
from chatnb.store import Owner, memory_store
from chatnb.store.lease import Holder, is_alive, judge
from chatnb.store.sql import SqlStore

NOW = now()


def holder(*, host: str = "here", pid: int = 7, start: str = "boot/1", age: float = 0.0, seq: int = 1) -> Holder:
    owner = Owner(host=host, pid=pid, start=start)
    return Holder(chat_id="c", token="t", owner=owner, heartbeat_at=NOW - timedelta(seconds=age), heartbeat_seq=seq)


def set_lease(store: SqlStore, chat_id: str, **columns: object) -> None:
    from sqlalchemy import update

    from chatnb.store import tables

    with store._writing(durable=True) as connection:
        connection.execute(update(tables.chats).where(tables.chats.c.id == chat_id).values(**columns))


class TestVerdict:
    def judge(self, found: Holder, starts: dict[int, str]) -> str:
        return judge(found, host="here", at=NOW, starts=starts.get)

    def test_gone(self) -> None:
        """Section 3, row 1: same host, pid gone: dead."""
        assert self.judge(holder(), {}) == "dead"

    def test_pid_used_again(self) -> None:
        """Section 3, row 1: same host, another start, also after a reboot: dead."""
        assert self.judge(holder(), {7: "boot/2"}) == "dead"
        assert self.judge(holder(), {7: "other-boot/1"}) == "dead"

    @pytest.mark.parametrize("age", [0, 31, 300, 86_400, -3600])
    def test_same_process(self, age: float) -> None:
        """Section 3, row 2 (C7): same pid and start: alive, however old the heartbeat."""
        assert self.judge(holder(age=age), {7: "boot/1"}) == "alive"

    @pytest.mark.parametrize("age", [0, 15, 30])
    def test_fresh_elsewhere(self, age: float) -> None:
        """Section 3, row 3: another host, heartbeat between 0 and 30 s old: alive."""
        assert self.judge(holder(host="there", age=age), {}) == "alive"

    @pytest.mark.parametrize("age", [30.5, 3600, -1])
    def test_old_elsewhere(self, age: float) -> None:
        """Section 3, row 4: another host, older than 30 s or in the future: it must be watched."""
        assert self.judge(holder(host="there", age=age), {7: "boot/1"}) == "doubtful"


class TestWatching:
    def test_moved(self) -> None:
        """Section 3, row 4: a heartbeat that moves within 12 s means alive."""
        found, waits = holder(host="there", age=60), []

        def read(chat_id: str) -> Holder:
            return dataclasses.replace(found, heartbeat_seq=1 + len(waits) // 12)

        assert is_alive(found, host="here", read=read, wait=waits.append)
        assert sum(waits) == 12

    def test_unmoved(self) -> None:
        """Section 3, row 4: a heartbeat that stays for 12 s means dead."""
        found, waits = holder(host="there", age=60), []
        assert not is_alive(found, host="here", read=lambda chat_id: found, wait=waits.append)
        assert sum(waits) == 12

    def test_changed_hands(self) -> None:
        """Section 3: when the token changes meanwhile, watching ends; the conditional update decides."""
        found, waits = holder(host="there", age=60), []
        other = dataclasses.replace(found, token="u")
        assert not is_alive(found, host="here", read=lambda chat_id: other, wait=waits.append)
        assert sum(waits) == 1

    def test_dead_elsewhere_is_taken(self, store: SqlStore, us: Owner, waits: list[float]) -> None:
        """Section 3, row 4: the unmoved lease of another host is taken after 12 s."""
        there = Owner(host="there/1", pid=1, start="x")
        store.open_chat("c", agent="a", owner=there)
        set_lease(store, "c", heartbeat_at=now() - timedelta(minutes=5))
        opened = store.open_chat("c", agent="a", owner=us)
        assert opened.owner_was == "dead"
        assert sum(waits) == 12

    def test_sign_of_life_at_the_last_moment(self, store: SqlStore, us: Owner) -> None:
        """Section 3: a heartbeat between the verdict and the taking keeps the lease."""
        there = Owner(host="there/1", pid=1, start="x")
        token = store.open_chat("c", agent="a", owner=there).token
        set_lease(store, "c", heartbeat_at=now() - timedelta(minutes=5))
        find = store._find_holder
        count = 0

        def read(chat_id: str) -> Holder | None:
            nonlocal count
            count += 1
            found = find(chat_id)
            if count == 13:
                store.heartbeat({"c": token})
            return found

        store._find_holder = read  # type: ignore[method-assign]
        with pytest.raises(ChatInUseError):
            store.open_chat("c", agent="a", owner=us)


class TestOpening:
    def test_new(self, store: SqlStore, us: Owner) -> None:
        """Section 3: a new chat is made with its lease."""
        opened = store.open_chat("c", agent="a", owner=us, identity="ann")
        assert opened.created
        assert opened.owner_was == "none"
        assert opened.chat.last_owner is None
        assert store.list_chats()[0].identity == "ann"

    def test_in_use(self, store: SqlStore, us: Owner) -> None:
        """C4: the error names host, pid, kernel, label, heartbeat and `take_over=True`."""
        store.open_chat("c", agent="a", owner=us)
        with pytest.raises(ChatInUseError) as caught:
            store.open_chat("c", agent="a", owner=us)
        error, host = caught.value, us.host.partition("/")[0]
        assert (error.chat_id, error.host, error.pid) == ("c", host, us.pid)
        assert (error.kernel_id, error.label) == ("kernel-1", "analysis.ipynb")
        assert error.heartbeat_at is not None
        for word in (host, str(us.pid), "kernel-1", "analysis.ipynb", "take_over=True", f"{error.heartbeat_at:%H:%M}"):
            assert word in str(error)

    def test_dead(self, store: SqlStore, us: Owner, waits: list[float]) -> None:
        """C4: the owner is gone: the chat opens at once, and says who it was."""
        gone = dataclasses.replace(us, start="earlier", label="old.ipynb")
        store.open_chat("c", agent="a", owner=gone)
        opened = store.open_chat("c", agent="a", owner=us)
        assert opened.owner_was == "dead"
        assert opened.chat.last_owner == gone
        assert opened.chat.heartbeat_at is not None
        assert waits == []

    def test_released(self, store: SqlStore, us: Owner) -> None:
        """Section 3: an orderly end leaves a mark that recovery can tell from a death."""
        token = store.open_chat("c", agent="a", owner=us).token
        store.release_chat("c", token)
        opened = store.open_chat("c", agent="a", owner=us)
        assert opened.owner_was == "released"
        assert opened.chat.last_owner == us

    def test_take_over(self, store: SqlStore, us: Owner) -> None:
        """C5: the deposed owner writes nothing more, hears who took over, and can't give back what is not its own."""
        token = store.open_chat("c", agent="a", owner=us).token
        new = store.open_chat("c", agent="a", owner=dataclasses.replace(us, label="b.ipynb"), take_over=True)
        assert new.owner_was == "taken_over"
        with pytest.raises(LeaseLostError, match=r"b\.ipynb"), store.write("c", token) as tx:
            tx.set_chat(head="x")
        assert store.heartbeat({"c": token}) == {"c"}
        store.release_chat("c", token)
        with store.write("c", new.token) as tx:
            tx.set_chat(generation=1)
        assert store.find_chat("c").generation == 1  # type: ignore[union-attr]
        assert store.find_chat("c").head is None  # type: ignore[union-attr]

    def test_take_over_of_the_dead(self, store: SqlStore, us: Owner) -> None:
        """Section 3: taking over a dead owner's chat still says that it was dead."""
        store.open_chat("c", agent="a", owner=dataclasses.replace(us, start="earlier"))
        assert store.open_chat("c", agent="a", owner=us, take_over=True).owner_was == "dead"

    def test_two_take_over(self, store: SqlStore, path: object, us: Owner) -> None:
        """C6: of two racers that read the same token one wins; the other's error names the winner."""
        store.open_chat("c", agent="a", owner=us)
        winner = dataclasses.replace(us, label="winner.ipynb")
        second = SqlStore(store.url, wait=lambda seconds: None)
        won = []

        def pause(seconds: float) -> None:
            won.append(second.open_chat("c", agent="a", owner=winner, take_over=True))

        store._wait = pause
        with pytest.raises(ChatInUseError, match=r"winner\.ipynb"):
            store.open_chat("c", agent="a", owner=us, take_over=True)
        assert len(won) == 1
        second.close()

    def test_who_set_out_before_it_was_won(self, store: SqlStore, us: Owner) -> None:
        """C6: a racer that reads the token only after the other has won has lost as well; who comes later has not."""
        set_out = time.monotonic()
        winner = dataclasses.replace(us, label="winner.ipynb")
        store.open_chat("c", agent="a", owner=winner)
        with pytest.raises(ChatInUseError, match=r"winner\.ipynb"):
            store.open_chat("c", agent="a", owner=us, take_over=True, began=set_out)
        assert store.open_chat("c", agent="a", owner=us, take_over=True).owner_was == "taken_over"

    def test_a_dead_winner_is_no_winner(self, store: SqlStore, us: Owner) -> None:
        """Section 3: who has won and died meanwhile keeps nobody out."""
        set_out = time.monotonic()
        store.open_chat("c", agent="a", owner=dataclasses.replace(us, start="earlier"))
        assert store.open_chat("c", agent="a", owner=us, take_over=True, began=set_out).owner_was == "dead"

    def test_forgotten_in_memory(self, us: Owner) -> None:
        """A store in memory survives a simulated death of the owner."""
        store = memory_store()
        token = store.open_chat("c", agent="a", owner=us).token
        with store.write("c", token) as tx:
            tx.set_chat(head="n")
        store.forget_owner("c")
        opened = store.open_chat("c", agent="a", owner=us)
        assert (opened.owner_was, opened.chat.head) == ("dead", "n")
        store.close()


class TestHeartbeat:
    def test_one_statement(self, store: SqlStore, us: Owner) -> None:
        """Section 3: one statement for all chats; those that are lost or gone are named."""
        tokens = {name: store.open_chat(name, agent="a", owner=us).token for name in ("a", "b", "c")}
        before = store._find_holder("a")
        store.open_chat("b", agent="a", owner=us, take_over=True)
        store.release_chat("c", tokens["c"])
        assert store.heartbeat(tokens | {"d": "none"}) == {"b", "c", "d"}
        after = store._find_holder("a")
        assert before is not None
        assert after is not None
        assert after.heartbeat_seq == before.heartbeat_seq + 1
        assert store.heartbeat({}) == set()


class TestDelete:
    def test_in_use(self, store: SqlStore, us: Owner) -> None:
        """Section 3: `delete` takes the lease, so it is refused beside a living owner."""
        token = store.open_chat("c", agent="a", owner=us).token
        with pytest.raises(ChatInUseError):
            store.delete_chat("c", owner=us)
        store.release_chat("c", token)
        assert store.delete_chat("c", owner=us)
        assert not store.delete_chat("c", owner=us)
        assert store.find_chat("c") is None
        with pytest.raises(LeaseLostError, match="deleted"), store.write("c", token):
            pass
