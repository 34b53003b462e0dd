"""The clock that chatnb sees: wall time for people, monotonic time for durations.

Order never comes from a clock. Tests stand still with `chatnb.testing.Clock`; `shift` moves the wall clock of the
process (spec/recovery.md, section 13).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from .errors import StoreUnavailableError

T = TypeVar("T")

GONE_SECONDS = 30.0
"""A database that does not answer for so long is gone (spec/recovery.md, section 9)."""
AGAIN_SECONDS = 1.0
CANCEL_SECONDS = 2.0

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


def is_duration(value: object) -> bool:
    """Tell whether a value is a number of seconds that can be waited for: finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and value > 0
    except OverflowError:  # a whole number beyond all floats
        return False


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """Await `work` for at most `seconds` of `clock`.

    Raises:
        TimeoutError: The time is over; `work` has been cancelled, and is left behind if it does not end at that.
    """
    task = asyncio.ensure_future(work)
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_SECONDS)
            if not task.done() or task.cancelled():
                raise TimeoutError(f"took longer than {seconds:g} s")
        return task.result()
    finally:
        limit.cancel()
        if not task.done():
            task.cancel()


async def ride_out(
    clock: Clock, write: Callable[[], T | Awaitable[T]], *, is_over: Callable[[], bool] = lambda: False
) -> T:
    """Do a write; while the database does not answer, do it again each second, for 30 s.

    Args:
        clock: Measures and waits.
        write: One transaction: what failed has left nothing behind.
        is_over: Tells that waiting is of no use any more.

    Raises:
        StoreUnavailableError: It has not answered for 30 s.
        StoreError: The write failed in another way.
    """
    since, tries = clock.monotonic(), 0
    while True:
        try:
            made = write()
            return await made if isinstance(made, Awaitable) else made
        except StoreUnavailableError:
            tries += 1
            waited = max(clock.monotonic() - since, tries * AGAIN_SECONDS)
            if is_over() or waited > GONE_SECONDS:
                raise
        await _tick(clock)


async def _tick(clock: Clock) -> None:
    """Wait a second; a real one if the clock of a test stands still, since a database is as real as before."""
    waits = {asyncio.ensure_future(clock.sleep(AGAIN_SECONDS)), asyncio.ensure_future(asyncio.sleep(AGAIN_SECONDS))}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
