"""A limit of time for the user's own code in summaries: a `repr` may never end (spec/notebook.md, section 4)."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from chatnb.runtime.async_errors import raise_in, take_back

T = TypeVar("T")


class _TooLongError(BaseException):
    """Raised inside the code that takes too long; no `except Exception` of its own may swallow it."""


def within(seconds: float, function: Callable[[], T]) -> T:
    """Return what a function returns, on the calling thread.

    The main thread is woken by an alarm, which also ends a sleep; elsewhere, and where the alarm is in use, the
    exception is set from a timer's thread and ends pure Python alone.

    Raises:
        TimeoutError: It took longer.
        BaseException: What the function raises.
    """
    began = time.monotonic()
    try:
        value = _with_alarm(seconds, function) if _is_alarm_free() else _with_timer(seconds, function)
    except _TooLongError:
        raise TimeoutError(f"took more than {seconds:g} s") from None
    if time.monotonic() - began > seconds:
        raise TimeoutError(f"took more than {seconds:g} s")
    return value


def _is_alarm_free() -> bool:
    return (
        threading.current_thread() is threading.main_thread()
        and hasattr(signal, "setitimer")
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    )


def _with_alarm(seconds: float, function: Callable[[], T]) -> T:
    is_inside = True

    def ring(_number: int, _frame: FrameType | None) -> None:
        if is_inside:
            raise _TooLongError

    former = signal.signal(signal.SIGALRM, ring)
    try:
        # Again and again: the first one may hit a place where exceptions are swallowed, such as a finaliser.
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
        try:
            return function()
        finally:
            is_inside = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _with_timer(seconds: float, function: Callable[[], T]) -> T:
    thread = threading.get_ident()
    lock = threading.Lock()
    is_inside, is_sent = True, False

    def ring() -> None:
        nonlocal is_sent
        with lock:
            if is_inside:
                is_sent = True
                raise_in(thread, _TooLongError)

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:  # no threads here (Pyodide), or the interpreter ends
        return function()
    try:
        return function()
    finally:
        timer.cancel()
        with lock:
            is_inside = False
            if is_sent:  # one that has not struck yet must not strike others
                take_back()
