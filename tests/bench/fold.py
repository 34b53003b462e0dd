"""Prints how long the fold takes for one-character deltas, and by how much twice as many take longer (C4).

The aim is under 2 s for 200,000 and a ratio of about 2. Nothing is asserted here: machines differ. That the work for a
delta does not grow is asserted in tests/messages/test_fold_cost.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from chatnb.messages import Fold


def text_deltas(count: int) -> list[dict[str, Any]]:
    """A text block of one-character deltas."""
    return [{"type": "text-start", "id": "a"}, *({"type": "text-delta", "id": "a", "delta": "x"} for _ in range(count))]


def input_deltas(count: int) -> list[dict[str, Any]]:
    """A tool input of one-character deltas."""
    start = {"type": "tool-input-start", "toolCallId": "c", "toolName": "g"}
    return [start, *({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "1"} for _ in range(count))]


def seconds(chunks: list[dict[str, Any]]) -> float:
    """Seconds to feed all chunks and read the message once; the best of three."""
    times = []
    for _ in range(3):
        fold = Fold()
        start = time.perf_counter()
        for chunk in chunks:
            fold.feed(chunk)
        _ = fold.message
        times.append(time.perf_counter() - start)
    return min(times)


def report(name: str, make: Callable[[int], list[dict[str, Any]]]) -> None:
    """Print one line."""
    once, twice = seconds(make(200_000)), seconds(make(400_000))
    print(f"{name:<12} 200,000: {once:.3f} s   400,000: {twice:.3f} s   ratio {twice / once:.2f}")


if __name__ == "__main__":
    report("text", text_deltas)
    report("tool input", input_deltas)
