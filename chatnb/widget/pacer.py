"""When frames go: at most 30 in any second, the first after a pause at once (spec/widget.md, 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

GAP = 0.035
"""Seconds from the end of one paced frame to the next: 34 ms, and the one that a timer may be early."""
SLACK = 0.005
"""Seconds that a frame which is due waits for the loop to be awake anyway: a wake-up costs more than the frame."""
MARKS = (0.5, 2.0, 10.0)
"""Seconds after the last frame of a burst at which a `mark` tells its number."""


class Timers(Protocol):
    """What the pacer needs of an event loop."""

    def time(self) -> float:
        """Return seconds that only grow."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Handle:
        """Call later."""

    def call_soon(self, callback: Callable[[], object]) -> Handle:
        """Call when what runs now is over."""


class Handle(Protocol):
    """Something due."""

    def cancel(self) -> None:
        """Forget it."""


class Pacer:
    """Asks for one frame at a time, never too often.

    Args:
        timers: The runtime's loop.
        pull: Sends the next frame that is due; returns whether there was one.
        has_more: Tells whether there is another one already.
        mark: Sends a `mark`.
    """

    def __init__(
        self, timers: Timers, pull: Callable[[], bool], has_more: Callable[[], bool], mark: Callable[[], None]
    ) -> None:
        self._timers = timers
        self._pull = pull
        self._has_more = has_more
        self._mark = mark
        self._free_at = float("-inf")
        self._last = float("-inf")
        self._due: Handle | None = None
        self._is_soon = False
        self._mark_due: Handle | None = None
        self._mark_wanted = False
        self._marks_sent = 0
        self._closed = False

    def wake(self) -> None:
        """Say that something is there to be sent. What the same callback changes goes into the same frame."""
        if self._is_soon or self._closed:
            return
        if self._timers.time() >= self._free_at:
            if self._due is not None:
                self._due.cancel()
            self._due = self._timers.call_soon(self._turn)
            self._is_soon = True
        elif self._due is None:
            self._due = self._timers.call_at(self._free_at + SLACK, self._turn)

    def spend(self) -> None:
        """A frame went out of turn: the next one waits that much longer, so that a second holds no more of them."""
        self._free_at = max(self._free_at, self._timers.time()) + GAP

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        for handle in (self._due, self._mark_due):
            if handle is not None:
                handle.cancel()
        self._due = self._mark_due = None

    def _turn(self) -> None:
        self._due, self._is_soon = None, False
        if self._timers.time() < self._free_at:  # timers may be early by the clock's resolution
            self._due = self._timers.call_at(self._free_at, self._turn)
        elif self._pull():
            now = self._timers.time()
            self._free_at = now + GAP
            self._last = now
            self._marks_sent, self._mark_wanted = 0, False
            if self._mark_due is None:
                self._mark_due = self._timers.call_at(now + MARKS[0], self._look_at_marks)
            if self._has_more():
                self._due = self._timers.call_at(self._free_at, self._turn)
        elif self._mark_wanted:
            self._mark_wanted = False
            self._free_at = self._timers.time() + GAP
            self._mark()

    def _look_at_marks(self) -> None:
        """Send the mark that is due, unless frames went meanwhile: one timer serves a whole burst."""
        self._mark_due = None
        due = self._last + MARKS[self._marks_sent]
        if self._timers.time() >= due:
            self._marks_sent += 1
            self._mark_wanted = True
            self.wake()
            if self._marks_sent == len(MARKS):
                return
            due = self._last + MARKS[self._marks_sent]
        self._mark_due = self._timers.call_at(due, self._look_at_marks)
