"""What the store costs: `python tests/bench/store.py`. Prints milliseconds and ratios of one run on this machine."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chatnb import Agent
from chatnb._ids import this_process
from chatnb.models import ScriptedModel
from chatnb.store import InputRow, NodeRow, Owner, TurnRow
from chatnb.store.sql import SqlStore

TEXT = "A reply of some length, as they come. " * 10
OPENINGS = 7


def measure(work: Callable[[], object], times: int = 30) -> float:
    """Return the median milliseconds of `work`."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def show(what: str, milliseconds: float, limit: float | None = None) -> None:
    """Print one line."""
    print(f"{what:<52} {milliseconds:9.2f} ms" + (f"   (limit {limit:g})" if limit else ""))


def node(number: int) -> NodeRow:
    """Return one node of a chain."""
    return NodeRow(
        node_id=f"node-{number:016}",
        message_id=f"msg-{number:016}",
        parent=f"node-{number - 1:016}" if number else None,
        ordinal=number,
        content_id=f"row-{number:016}",
        role="assistant" if number % 2 else "user",
    )


def message(number: int) -> dict[str, object]:
    """Return one message."""
    return {"id": f"msg-{number:016}", "role": "user", "parts": [{"type": "text", "text": TEXT}]}


class Bench:
    """One store in a new folder, with chats of several lengths."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        here = this_process()
        self.us = Owner(host=here.host, pid=here.pid, start=here.start)

    def fill(self, count: int, name: str) -> tuple[SqlStore, str]:
        """Make a chat of `count` messages in a store of its own."""
        store = SqlStore(self.folder / f"{name}-{count}.db")
        token = store.open_chat("c", agent="a", owner=self.us).token
        for first in range(0, count, 1000):
            with store.write("c", token, durable=False) as tx:
                tx.add_nodes([(node(n), message(n)) for n in range(first, min(first + 1000, count))])
        with store.write("c", token) as tx:
            tx.set_chat(head=node(count - 1).node_id)
            tx.add_turn(TurnRow(id="t", number=0, trigger="submit-message", state="running"))
        return store, token

    def append(self, count: int) -> float:
        """Measure appending a message to a chat of `count`, with its head, on the disk for good."""
        store, token = self.fill(count, "append")
        number = count

        def work() -> None:
            nonlocal number
            with store.write("c", token) as tx:
                tx.add_nodes([(node(number), message(number))])
                assert tx.move_head(node(number - 1).node_id, node(number).node_id)
            number += 1

        result = measure(work, 100)
        store.close()
        return result

    def batches(self) -> float:
        """Measure committing a chunk batch of 4 KB."""
        store, token = self.fill(100, "batch")
        batch = [{"type": "text-delta", "id": "1", "delta": "x" * 40}] * 50
        seq = 0

        def work() -> None:
            nonlocal seq
            with store.write("c", token, durable=False) as tx:
                tx.add_chunks("t", seq, batch)
            seq += 50

        result = measure(work, 300)
        show("  reading 15,000 chunks back", measure(lambda: store.load_chunks("t"), 5))
        show("heartbeat", measure(lambda: store.heartbeat({"c": token}), 100))
        store.close()
        return result

    def open(self, count: int) -> float:
        """Measure `agent.chat(id)` for a chat of `count`, a turn for every two messages, as its user waits for it."""
        store, token = self.fill(count, "open")
        with store.write("c", token) as tx:
            tx.move_turn("t", {"running"}, "completed", hooks_done=True)
            for number in range(1, count // 2):
                tx.add_turn(self.ended_turn(number))
                tx.add_input(self.done_input(number))
            tx.set_chat(next_number=count // 2)
        store.release_chat("c", token)
        store.close()
        agent = Agent(ScriptedModel([]), store=self.folder / f"open-{count}.db")
        agent.chat("first").close()
        taken = []
        for _ in range(OPENINGS):
            start = time.perf_counter()
            chat = agent.chat("c")
            taken.append((time.perf_counter() - start) * 1000)
            chat.close()
        return statistics.median(taken)

    def ended_turn(self, number: int) -> TurnRow:
        """Return a turn that has answered."""
        return TurnRow(
            id=f"t-{number}",
            number=number,
            trigger="submit-message",
            state="completed",
            assistant_id=f"msg-{2 * number + 1:016}",
            input_id=f"i-{number}",
            hooks_done=True,
            usage={"inputTokens": 100, "outputTokens": 20, "complete": True},
        )

    def done_input(self, number: int) -> InputRow:
        """Return the input of such a turn."""
        payload = {"message": message(2 * number)}
        return InputRow(id=f"i-{number}", arrival=number, kind="send", payload=payload, generation=0, state="done")

    def all_messages(self, count: int) -> float:
        """Measure reading every message of a chat."""
        store = SqlStore(self.folder / f"open-{count}.db")
        ids = [row.node_id for row in store.load_nodes("c")]
        result = measure(lambda: store.load_messages("c", ids), 3)
        store.close()
        return result


def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CHATNB_BENCH_FOLDER")) as folder:
        bench = Bench(Path(folder))
        batch = bench.batches()
        show("committing a chunk batch (median)", batch, 2)
        short, long = bench.append(100), bench.append(10_000)
        show("appending to 100 messages", short)
        show("appending to 10,000 messages", long, 5)
        print(f"{'  ratio':<52} {long / short:9.2f}")
        few, many = bench.open(100), bench.open(50_000)
        show("agent.chat(id) with 100 messages", few)
        show("agent.chat(id) with 50,000 messages", many, 500)
        print(f"{'  ratio':<52} {many / few:9.2f}")
        show("reading all 50,000 messages", bench.all_messages(50_000), 3000)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
