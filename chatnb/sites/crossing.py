"""The way from the runtime's thread to a server's loop: many wakes, one hop.

A turn that streams wakes its readers at every chunk. Waking a loop of another thread costs a system call, and hands the
interpreter over; so wakes that come while one is under way go with it, and hops keep a small distance.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

PACE = 0.01
"""Seconds between two hops. The first after a silence goes at once."""


class Crossing:
    """Takes functions from any thread and calls them on the loop it was made on, in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._last = 0.0

    def take(self, function: Callable[[], None]) -> None:
        """Take a function; it may be called from any thread. A loop that has ended calls nothing any more."""
        with self._lock:
            self._waiting.append(function)
            is_first = len(self._waiting) == 1
        if is_first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        wait = self._last + PACE - self._loop.time()
        if wait > 0:
            self._loop.call_later(wait, self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        self._last = self._loop.time()
        with self._lock:
            functions, self._waiting = self._waiting, []
        for function in functions:
            function()
