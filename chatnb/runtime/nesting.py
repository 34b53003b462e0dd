"""Turning a loop that already runs: nested, when nothing else helps (spec/notebook.md, sections 1 and 2).

nest_asyncio2 is applied at that moment and not before; it cannot be taken back, so the loop and `asyncio.run` stay
patched from then on.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chatnb.errors import CannotBlockError

log = logging.getLogger("chatnb")

_TURN_EVERY = 0.1  # seconds

_patched: list[asyncio.AbstractEventLoop] = []


def make_nestable(loop: asyncio.AbstractEventLoop) -> None:
    """Let `loop.run_until_complete` be called while the loop runs.

    Raises:
        CannotBlockError: This loop can't be nested.
    """
    if loop in _patched or not loop.is_running():
        return
    if sys.platform == "emscripten":
        raise CannotBlockError("This kernel can't wait for a reply in a cell. Use `await` instead of `.result()`.")
    try:
        import nest_asyncio2

        nest_asyncio2.apply(loop)
    except (ImportError, ValueError) as error:
        raise CannotBlockError("This event loop can't be nested. Use `await` instead of `.result()`.") from error
    _patched.append(loop)
    log.info("Nested the event loop of %s to wait in it (nest_asyncio2).", threading.current_thread().name)


def run_until(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
    """Turn `loop` until `waiter` is done.

    Raises:
        CannotBlockError: This loop can't be nested.
    """
    make_nestable(loop)
    loop.run_until_complete(waiter)


@contextmanager
def turning(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Turn `loop` ten times a second while the block awaits on it.

    The SIGINT handler of ipykernel's async cells appends to the loop without waking it: a cell that awaits with nothing
    else going on would not notice the interrupt.
    """
    timers: list[asyncio.TimerHandle] = []

    def turn() -> None:
        timers[:] = [loop.call_later(_TURN_EVERY, turn)]

    turn()
    try:
        yield
    finally:
        timers[0].cancel()
