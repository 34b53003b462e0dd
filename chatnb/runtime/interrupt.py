"""Ending a function from outside, on the thread where it runs (the protocol of PLATFORM.md, addition B).

A guard runs one function at a time, nested ones above each other. Whoever wants a function to end asks the guard, which
raises `KeyboardInterrupt` in it if, and only if, it is the one that is running. A stop that comes late is swallowed; a
person's Ctrl-C that comes late goes to the handler that was there before.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from chatnb.runtime.async_errors import raise_in, take_back
from chatnb.runtime.entry import Entry

if TYPE_CHECKING:
    from chatnb.runtime.pump import Pump

# How long the end of a function waits for a signal that was sent and not yet seen. It has never been needed.
_SIGNAL_SEEN_WITHIN = 0.1


class Slot:
    """The running of one function under a guard, and how it ended."""

    def __init__(self, guard: Guard, entry: Entry | None) -> None:
        self.entry = entry
        self.value: Any = None
        self.error: BaseException | None = None
        self.returned = False
        self.inside = False
        self.hit_by_user = False
        self.late_by_user = False
        self._guard = guard

    def enter(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> None:
        """Call the function; whatever it raises is kept.

        An interrupt may come at any bytecode until `inside` is false again, so there are two nets.
        """
        try:
            try:
                if self._guard.begin(self):
                    self.value = function(**kwargs)
                    self.returned = True
                else:
                    self.error = KeyboardInterrupt()
                self._guard.leave(self)
            except BaseException as error:  # noqa: BLE001 - any of them is the call's error
                self._guard.leave(self)
                self.error = _below(error)
        except BaseException as error:  # noqa: BLE001 - an interrupt that fell into the net above
            self._guard.leave(self)
            if self.error is None and not self.returned:
                self.error = _below(error)
        if self.returned:
            self.error = None


def _below(error: BaseException) -> BaseException:
    """Cut chatnb's own frame off a traceback."""
    trace = error.__traceback__
    return error if trace is None else error.with_traceback(trace.tb_next)


class Guard:
    """Runs functions that nobody can end: the guard of pool threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.current: Slot | None = None

    def run(self, entry: Entry | None, body: Callable[[Slot], None]) -> Slot:
        """Run `body`, which calls `Slot.enter`; returns the slot. Never raises for what the function does."""
        slot = Slot(self, entry)
        body(slot)
        return slot

    def finish(self, slot: Slot) -> None:
        """Pass on a Ctrl-C that came late; called when all else of the call is settled. May raise it."""

    def begin(self, slot: Slot) -> bool:
        """Say whether the function may be entered, and from now on be interrupted."""
        return True

    def leave(self, slot: Slot) -> None:
        """The function has ended."""

    def interrupt(self, entry: Entry) -> None:
        """Raise KeyboardInterrupt in the call's function if it runs; keep it from being entered if it does not.

        A function that waits for a chat is told through its pump, also while another call runs above it.
        """
        with self.lock:
            entry.wanted = True
            if entry.pump is not None:
                entry.pump.put("stop")
                return
            slot = self.current
            if slot is not None and slot.entry is entry and slot.inside:
                self._raise_in(slot)

    def _raise_in(self, slot: Slot) -> None:
        """Raise KeyboardInterrupt in the running function; called under the lock."""

    @contextmanager
    def hosting(self, pump: Pump) -> Iterator[None]:
        """Have interrupts of the running function go to `pump`, in which it waits."""
        slot = self.current
        entry = None if slot is None else slot.entry
        if entry is None:
            yield
            return
        with self.lock:
            outer, entry.pump = entry.pump, pump
        try:
            yield
        finally:
            with self.lock:
                entry.pump = outer

    @contextmanager
    def waiting(self, on_interrupt: Callable[[bool], None]) -> Iterator[None]:
        """Own Ctrl-C while this thread waits; `on_interrupt(by_user)` is called from the signal handler."""
        yield


class ThreadGuard(Guard):
    """The guard of the thread `chatnb-calls`: ends loops, though not a blocking call into C."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = 0
        self._has_sent = False

    def run(self, entry: Entry | None, body: Callable[[Slot], None]) -> Slot:  # noqa: D102
        slot = Slot(self, entry)
        with self.lock:
            outer, self.current = self.current, slot
            self._thread = threading.get_ident()
        body(slot)
        with self.lock:
            self.current = outer
        return slot

    def begin(self, slot: Slot) -> bool:  # noqa: D102
        with self.lock:
            slot.inside = slot.entry is None or not slot.entry.wanted
        return slot.inside

    def leave(self, slot: Slot) -> None:  # noqa: D102
        while True:
            try:
                with self.lock:
                    slot.inside = False
                    if self._has_sent:
                        take_back()
                        self._has_sent = False
                return
            except KeyboardInterrupt:
                continue

    def _raise_in(self, slot: Slot) -> None:
        self._has_sent = True
        raise_in(self._thread, KeyboardInterrupt)


class SignalGuard(Guard):
    """The guard of the main thread: a real SIGINT ends even a blocking call into C.

    Order of a run: set the handler, publish the slot, run, take the slot back, wait until every signal that was sent
    has been seen, put the former handler back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sent = 0
        self._seen = 0

    def run(self, entry: Entry | None, body: Callable[[Slot], None]) -> Slot:  # noqa: D102
        slot = Slot(self, entry)

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            by_user = self._is_by_user()
            if slot.inside:
                slot.hit_by_user = slot.hit_by_user or by_user
                raise KeyboardInterrupt
            if by_user:
                slot.late_by_user = True

        former = signal.getsignal(signal.SIGINT)
        if former is None:  # set by C code: it could not be put back
            body(slot)
            return slot
        signal.signal(signal.SIGINT, on_signal)
        with self.lock:
            outer, self.current = self.current, slot
        body(slot)
        with self.lock:
            self.current = outer
        self._await_signals()
        signal.signal(signal.SIGINT, former)
        return slot

    def finish(self, slot: Slot) -> None:  # noqa: D102
        former = signal.getsignal(signal.SIGINT)
        if slot.late_by_user and callable(former):
            former(signal.SIGINT, None)

    def begin(self, slot: Slot) -> bool:  # noqa: D102
        with self.lock:
            may_enter = slot.entry is None or not slot.entry.wanted
            slot.inside = may_enter
        return may_enter

    def leave(self, slot: Slot) -> None:  # noqa: D102
        slot.inside = False

    def _raise_in(self, slot: Slot) -> None:
        self._sent += 1
        signal.pthread_kill(_main_thread(), signal.SIGINT)

    @contextmanager
    def waiting(self, on_interrupt: Callable[[bool], None]) -> Iterator[None]:  # noqa: D102
        former = signal.getsignal(signal.SIGINT)
        # Where Ctrl-C is ignored it stays so: raised in an idle kernel's loop it would end the kernel.
        if former is None or former is signal.SIG_IGN:
            yield
            return

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            on_interrupt(self._is_by_user())

        signal.signal(signal.SIGINT, on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, former)

    def _is_by_user(self) -> bool:
        # By counters, not by looking at the current slot: a late stop must not be taken for a Ctrl-C.
        if self._seen != self._sent:
            self._seen = self._sent
            return False
        return True

    def _await_signals(self) -> None:
        deadline = time.monotonic() + _SIGNAL_SEEN_WITHIN
        while self._seen != self._sent and time.monotonic() < deadline:
            time.sleep(0.001)
        self._seen = self._sent


def _main_thread() -> int:
    ident = threading.main_thread().ident
    assert ident is not None
    return ident
