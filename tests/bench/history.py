"""Append and checkpoint with 100 and with 10,000 messages, as a ratio in one run (spec/turns.md, section 4).

    python -m tests.bench.history

On a SQLite file, as by default.

Prints milliseconds (the aim is below 5) and ratios; exits with 1 when a ratio is above 1.5 or a chain is written anew.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from typing import Any

from chatnb import Agent
from chatnb.messages import UIMessage
from chatnb.models import ScriptedModel
from chatnb.store import open_store
from chatnb.testing import mock_chat

SIZES = (100, 10_000)
ROUNDS = 60
MOST_RATIO = 1.5


def _message(name: str, number: int) -> UIMessage:
    role = "assistant" if number % 2 else "user"
    return UIMessage.from_wire(
        {"id": f"{name}-{number}", "role": role, "parts": [{"type": "text", "text": f"message {number}"}]}
    )


def _append(mock: Any, number: int) -> None:
    history = mock.chat.history
    history.set([*history.all(), _message("new", number)])


def _checkpoint(mock: Any, number: int) -> None:
    """Replace the last message but one, as a hook's edit would."""
    history = mock.chat.history
    history.replace(history.all()[-2].id, _message("changed", number))


async def measure() -> dict[str, dict[int, float]]:
    """Return the medians in milliseconds, by operation and size. The sizes take turns, so a busy machine hits both."""
    times: dict[str, dict[int, list[float]]] = {"append": {s: [] for s in SIZES}, "checkpoint": {s: [] for s in SIZES}}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = open_store(f"sqlite:///{folder}/chats.db")
        stack.callback(store.close)
        mocks = {
            size: await stack.enter_async_context(
                mock_chat(
                    Agent(ScriptedModel([])), f"c{size}", store=store, messages=[_message("m", n) for n in range(size)]
                )
            )
            for size in SIZES
        }
        for round_ in range(ROUNDS):
            for name, operation in (("append", _append), ("checkpoint", _checkpoint)):
                for size, mock in mocks.items():
                    before = time.perf_counter()
                    operation(mock, round_)
                    times[name][size].append((time.perf_counter() - before) * 1000)
        for size, mock in mocks.items():
            nodes = len(mock.store.load_nodes(f"c{size}"))
            if nodes > size + 3 * ROUNDS:
                raise SystemExit(f"{nodes} nodes for {size} messages: whole chains were written")
    return {name: {size: statistics.median(t) for size, t in by_size.items()} for name, by_size in times.items()}


def main() -> int:
    """Print the medians and ratios."""
    failed = False
    for name, by_size in asyncio.run(measure()).items():
        small, large = (by_size[size] for size in SIZES)
        ratio = large / small
        failed = failed or ratio > MOST_RATIO
        print(f"{name:<12} {SIZES[0]:>6}: {small:6.3f} ms   {SIZES[1]:>6}: {large:6.3f} ms   ratio {ratio:.2f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
