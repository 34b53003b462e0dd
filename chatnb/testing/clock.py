"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

__all__ = ["Clock"]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Time for `mock_chat`: delays, debounce and limits all follow it."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        """Return the wall time: 2026-01-01 UTC plus what has passed."""
        return EPOCH + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        entry = (self._seconds + seconds, self._count, future)
        self._sleepers.append(entry)
        try:
            await future
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    def advance(self, seconds: float) -> Awaitable[None]:
        """Move the clock and wake whoever was waiting for that, in order of time.

        Args:
            seconds: How far.

        Returns:
            Something to await, until the woken tasks have run as far as they can.
        """
        self._seconds += seconds
        due = sorted(entry for entry in self._sleepers if entry[0] <= self._seconds + 1e-9)
        for entry in due:
            if not entry[2].done():
                entry[2].set_result(None)
        return settle()


def settle() -> Awaitable[None]:
    """Return something to await that lets all tasks which can go on do so."""
    return _settle()


class _Settle:
    def __await__(self):  # type: ignore[no-untyped-def]
        return self._run().__await__()

    async def _run(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


def _settle() -> Awaitable[None]:
    return _Settle()
