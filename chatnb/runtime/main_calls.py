"""Where queued calls run: the kernel's main thread, a waiting main thread, or the thread `chatnb-calls`.

Knows which threads can serve now, wakes them when a call is due, and runs each call under that thread's guard
(spec/notebook.md, section 2).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from chatnb._ports import Host
from chatnb.runtime.entry import Entry
from chatnb.runtime.interrupt import Guard, SignalGuard, ThreadGuard
from chatnb.runtime.pump import Pump
from chatnb.runtime.queue import CallQueue
from chatnb.runtime.task_interrupts import TaskInterrupts
from chatnb.runtime.tasks import log_failure

Perform = Callable[[Entry, Guard], None]
Notification = Callable[[], object]


class MainCalls:
    """Serves the queue of calls.

    Args:
        host: The place that chatnb runs in.
        main_loop: The main thread's loop if it turns between cells (a kernel's, or the runtime's own), else None.
        runtime_loop: The loop where async functions run if there is no main loop.
        perform: Runs a taken call to its end, or starts it if it is async; gives the place back.
    """

    def __init__(
        self,
        host: Host,
        main_loop: asyncio.AbstractEventLoop | None,
        runtime_loop: asyncio.AbstractEventLoop,
        perform: Perform,
    ) -> None:
        self.queue = CallQueue()
        self.main_loop = main_loop
        self.main_guard: Guard = SignalGuard()
        self.tasks = TaskInterrupts()
        self._host = host
        self._runtime_loop = runtime_loop
        self._perform = perform
        self._lock = threading.Lock()
        self._pumps: list[Pump] = []
        self._calls_pumps: list[Pump] = []
        self._awaiting: list[asyncio.AbstractEventLoop] = []
        self._notifications: collections.deque[Notification] = collections.deque()
        self._calls_guard = ThreadGuard()
        self._calls_tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._calls_thread: threading.Thread | None = None
        self.goes_to_calls_thread = False

    # --- who serves -------------------------------------------------------------------------------------------

    def is_main_serving(self) -> bool:
        """Say whether the main thread waits in chatnb."""
        with self._lock:
            return bool(self._pumps or self._awaiting)

    def guard_here(self) -> Guard | None:
        """Return the guard of the calling thread if calls run on it."""
        if threading.current_thread() is self._calls_thread:
            return self._calls_guard
        if threading.current_thread() is threading.main_thread():
            return self.main_guard
        return None

    def wake(self) -> None:
        """Tell all who may serve that a call or notification may be due; callable from any thread."""
        with self._lock:
            pumps, loops = [*self._pumps, *self._calls_pumps], list(self._awaiting)
            calls_thread = self._calls_thread
        for pump in pumps:
            pump.put("work")
        if self.main_loop is not None:
            _soon(self.main_loop, self._turn_main)
            self._host.wake_main()
            return
        for loop in loops:
            _soon(loop, partial(self._turn, loop, self._serves_main))
        _soon(self._runtime_loop, partial(self._turn, self._runtime_loop, _is_async))
        if calls_thread is not None:
            self._calls_tokens.put(None)

    def open(self, entry: Entry) -> None:
        """Let the thread `chatnb-calls` take a call, since the main thread does not come."""
        self.queue.open(entry)
        with self._lock:
            if self._calls_thread is None or not self._calls_thread.is_alive():
                self._calls_thread = threading.Thread(target=self._serve_calls, name="chatnb-calls", daemon=True)
                self._calls_thread.start()
        self.wake()

    def notify(self, work: Notification) -> None:
        """Run `work` on the main thread when that is free, in order."""
        self._notifications.append(work)
        self.wake()

    # --- serving ----------------------------------------------------------------------------------------------

    @contextmanager
    def pumping(self, guard: Guard, nested: Callable[[], asyncio.AbstractEventLoop | None]) -> Iterator[Pump]:
        """Make a pump for the calling thread, whose guard is `guard`, and have it woken while the block runs."""
        if guard is self._calls_guard:
            pumps, serve = self._calls_pumps, lambda: self.serve_one(_is_open, guard)
        else:
            pumps, serve = self._pumps, lambda: self.serve_one(self._serves_main, guard) or self._notify_one()
        pump = Pump(serve, nested)
        with self._lock:
            pumps.append(pump)
        try:
            yield pump
        finally:
            with self._lock:
                pumps.remove(pump)

    @contextmanager
    def awaiting(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Let calls run on a loop of the main thread while the block awaits."""
        with self._lock:
            self._awaiting.append(loop)
        try:
            yield
        finally:
            with self._lock:
                self._awaiting.remove(loop)

    def serve_one(self, serves: Callable[[Entry], bool], guard: Guard) -> bool:
        """Run one call that is due on the calling thread; false if there is none."""
        entry = self.queue.take(serves)
        if entry is None:
            return False
        self._perform(entry, guard)
        return True

    def _serves_main(self, entry: Entry) -> bool:
        return self.main_loop is not None or not entry.is_async

    def _turn_main(self) -> None:
        assert self.main_loop is not None
        self._turn(self.main_loop, self._serves_main)

    def _turn(self, loop: asyncio.AbstractEventLoop, serves: Callable[[Entry], bool]) -> None:
        """One call a turn of the loop, so that a kernel's messages get their turns in between."""
        if self.serve_one(serves, self._guard_of_loop()) or (loop is self.main_loop and self._notify_one()):
            _soon(loop, partial(self._turn, loop, serves))

    def _guard_of_loop(self) -> Guard:
        return self.main_guard if threading.current_thread() is threading.main_thread() else Guard()

    def _serve_calls(self) -> None:
        while True:
            while self.serve_one(_is_open, self._calls_guard):
                pass
            self._calls_tokens.get()

    def _notify_one(self) -> bool:
        # A function that waits for a chat serves that chat's calls and nothing else.
        if not self._notifications or self.queue.holds_sync():
            return False
        try:
            work = self._notifications.popleft()
        except IndexError:
            return False
        guard = self._guard_of_loop()
        slot = guard.run(None, lambda slot: slot.enter(work, {}))
        if slot.error is not None:
            log_failure("An observer", slot.error)
        guard.finish(slot)
        return True


def _is_async(entry: Entry) -> bool:
    return entry.is_async


def _is_open(entry: Entry) -> bool:
    return entry.is_open and not entry.is_async


def _soon(loop: asyncio.AbstractEventLoop, work: Callable[..., Any]) -> None:
    with contextlib.suppress(RuntimeError):  # closed: nobody serves there any more
        loop.call_soon_threadsafe(work)
