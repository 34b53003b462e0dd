"""Ctrl-C for async functions that run on the main thread's loop between cells.

An idle kernel ignores SIGINT, and each cell sets a handler of its own and puts back what it found. So chatnb's handler
is set when it finds an ignored SIGINT while an async call runs, and taken back when it finds itself and none runs.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from chatnb.runtime.entry import Entry

_LOOK_AGAIN_AFTER = 0.25  # seconds


class TaskInterrupts:
    """The async calls that run on the main loop, and the handler that cancels them."""

    def __init__(self) -> None:
        self._running: list[tuple[asyncio.Task[Any], Entry]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_ours = False

    def begin(self, task: asyncio.Task[Any], entry: Entry) -> Callable[[], None]:
        """Let Ctrl-C cancel `task` while no cell runs; called on the loop's thread.

        Returns:
            What to call when the task has ended.
        """
        running = (task, entry)
        self._running.append(running)
        self._look(task.get_loop())

        def ended() -> None:
            self._running.remove(running)
            self._look(task.get_loop())

        return ended

    def cancel(self) -> bool:
        """Cancel all async calls, as by a person; false if there is none. Callable from a signal handler."""
        running = list(self._running)
        for task, entry in running:
            entry.by_user = True
            task.get_loop().call_soon_threadsafe(task.cancel)
        return bool(running)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        handler = signal.getsignal(signal.SIGINT)
        if self._running and handler is signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_signal)
            self._is_ours = True
        elif not self._running and handler == self._on_signal:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._is_ours = False
        if (self._running or self._is_ours) and not loop.is_closed():
            self._timer = loop.call_later(_LOOK_AGAIN_AFTER, self._look, loop)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.cancel()
