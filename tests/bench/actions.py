"""What actions cost, as ratios to a plain pydantic `validate_call` in the same run.

Run: `python tests/bench/actions.py`. Absolute times depend on the machine; the ratios hardly do.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from pydantic import validate_call

from chatnb._clock import SystemClock
from chatnb._ids import new_id
from chatnb.actions import Action, Catalog
from chatnb.actions.dispatch import Dispatcher
from chatnb.actions.environment import CallEnvironment
from chatnb.runtime import InlineRuntime

ROWS = [{"id": n, "name": f"customer {n}", "total": n * 1.5, "note": "x" * 60} for n in range(560)]


def add(first: int, second: int = 1) -> int:
    """Add."""
    return first + second


def store(rows: list[dict[str, Any]]) -> int:
    """Count rows."""
    return len(rows)


def median(work: Callable[[], Any], number: int) -> float:
    """Return the median seconds of one call."""
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        for _ in range(number):
            work()
        times.append((time.perf_counter() - begun) / number)
    return statistics.median(times)


async def dispatch_cost(number: int) -> float:
    """Return the median seconds of one dispatched read."""
    runtime = InlineRuntime(asyncio.get_running_loop())
    dispatcher = Dispatcher(
        Catalog([Action(add, read_only=True)]),
        CallEnvironment(),
        calls=runtime.calls,
        clock=SystemClock(),
        new_id=new_id,
    )
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        for _ in range(number):
            await dispatcher.dispatch("add", {"first": 1}, site="http")
        times.append((time.perf_counter() - begun) / number)
    return statistics.median(times)


def main() -> None:
    """Print the costs."""
    size = len(json.dumps(ROWS))
    direct, prepared = Action(add, read_only=True), Action(store, read_only=True)
    validated_add, validated_store = validate_call(add), validate_call(store)
    plain = median(lambda: validated_add(first=1), 2000)
    large = median(lambda: validated_store(rows=ROWS), 20)
    prepare_large = median(lambda: prepared.prepare({"rows": ROWS}), 20)
    prepare_small = median(lambda: direct.prepare({"first": 1}), 500)
    call_direct = median(lambda: direct(first=1), 500)
    dispatched = asyncio.run(dispatch_cost(200))
    print(f"prepare {size // 1024} KiB      {prepare_large * 1e3:8.2f} ms {prepare_large / large:8.1f} x validate_call")
    print(f"prepare one number  {prepare_small * 1e6:8.1f} us {prepare_small / plain:8.1f} x validate_call")
    print(f"direct call         {call_direct * 1e6:8.1f} us {call_direct / plain:8.1f} x validate_call")
    print(f"dispatched read     {dispatched * 1e6:8.1f} us {dispatched / plain:8.1f} x validate_call")


if __name__ == "__main__":
    main()
