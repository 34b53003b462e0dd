"""The clock that chatnb sees: wall time for people, monotonic time for durations.

Order never comes from a clock. Tests stand still with `chatnb.testing.Clock`; `shift` moves the wall clock of the
process (spec/recovery.md, section 13).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

T = TypeVar("T")

_shifted = timedelta(0)


class Clock(Protocol):
    """What the engine asks for time."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The real clock."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return datetime.now(UTC) + _shifted

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def shift(seconds: float) -> None:
    """Move the wall clock that chatnb sees in this process."""
    global _shifted
    _shifted += timedelta(seconds=seconds)


def now() -> datetime:
    """Return the process's wall time, shifted, in UTC."""
    return datetime.now(UTC) + _shifted


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """Await `work` for at most `seconds` of `clock`.

    Raises:
        TimeoutError: The time is over; `work` has been cancelled.
    """
    task = asyncio.ensure_future(work)
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            if task.cancelled():
                raise TimeoutError(f"took longer than {seconds:g} s")
        return task.result()
    finally:
        limit.cancel()
        if not task.done():
            task.cancel()
