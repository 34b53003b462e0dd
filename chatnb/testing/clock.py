"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["Clock"]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_ROUNDS = 50
_MOST_ROUNDS = 500
_SAME = 1e-9
"""Moments that differ by less than this are the same one."""


class Clock:
    """Time for `mock_chat`: delays, debounce and limits all follow it."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._coming = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        """Return the wall time: 2026-01-01 UTC plus what has passed."""
        return EPOCH + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._seconds + self._coming

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

        Work that can go on before the clock moves goes on first, so a wait that it begins counts from before the move.
        Likewise on the way: who is woken goes on before the next one is, and what it then waits for is waited for too.

        Args:
            seconds: How far.

        Returns:
            Something to await, until the woken tasks have run as far as they can. The clock moves also if nobody does.
        """
        self._coming += seconds
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._move(seconds)
            return _Done()
        return loop.create_task(self._advance(seconds), name="clock")

    async def _advance(self, seconds: float) -> None:
        await settle()
        left = seconds
        while (due := self._next_due()) is not None and due < self._seconds + left - _SAME:
            step = max(0.0, due - self._seconds)
            left -= step
            self._move(step)
            await settle()
        self._move(left)
        await settle()

    def _next_due(self) -> float | None:
        return min((due for due, _, future in self._sleepers if not future.done()), default=None)

    def _move(self, seconds: float) -> None:
        self._coming -= seconds
        self._seconds += seconds
        for due, _, future in sorted(self._sleepers, key=lambda entry: entry[:2]):
            if due <= self._seconds + _SAME and not future.done():
                future.set_result(None)


class _Done:
    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


async def settle() -> None:
    """Let all tasks which can go on do so."""
    ready = getattr(asyncio.get_running_loop(), "_ready", ())  # of asyncio's own loops; others get the fixed rounds
    for count in range(_MOST_ROUNDS):
        await asyncio.sleep(0)
        if count >= _ROUNDS and not ready:
            return
