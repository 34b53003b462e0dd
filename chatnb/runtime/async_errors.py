"""Errors that one thread raises in another, and how the other takes one back (CPython's `PyThreadState_SetAsyncExc`).

Setting None instead of an error does not take it back whole: CPython 3.11 and 3.12 then believe for ever that an error
is on its way. The process gets slower, and a profiler, a debugger or a coverage tool that is started later never comes
back from its first function. Only an error that has struck ends that; so what is taken back is replaced and caught.
"""

from __future__ import annotations

import ctypes
import threading


class _TakenBackError(BaseException):
    """Strikes in the place of an error that nobody wants any more."""


def raise_in(thread: int, error: type[BaseException]) -> bool:
    """Raise an error in the thread with this identifier, at its next step; says whether there is such a thread."""
    set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
    return bool(set_error(ctypes.c_ulong(thread), ctypes.py_object(error)))


def take_back() -> None:
    """Take back what `raise_in` has sent to the calling thread and has not struck yet.

    The sender must be kept from sending meanwhile. An error that strikes during this call comes out of it.
    """
    try:
        if raise_in(threading.get_ident(), _TakenBackError):
            for _ in range(1_000_000):  # it strikes at the first of these steps
                pass
    except _TakenBackError:
        pass
