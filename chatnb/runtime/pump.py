"""Waiting on a thread that runs users' functions: it serves the calls that are due until its future is done.

It waits in `SimpleQueue.get`, whose `put` may be called from a signal handler; nothing here is ever interrupted
half-way, so no lock is left broken (PLATFORM.md, addition A).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from chatnb.runtime.nesting import run_until

T = TypeVar("T")
Token = Literal["done", "work", "interrupt", "stop"]

REPLY_GOES_ON = "The reply goes on; chat.stop() ends it."


class Pump:
    """One wait of one thread.

    Args:
        serve: Runs one call or notification that is due, on this thread; false if there is none.
        nested: The loop to turn while waiting, if there is one and it must be turned now.
    """

    def __init__(self, serve: Callable[[], bool], nested: Callable[[], asyncio.AbstractEventLoop | None]) -> None:
        self._serve = serve
        self._nested = nested
        self._tokens: queue.SimpleQueue[Token] = queue.SimpleQueue()
        self._turning: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.ended_by: Literal["interrupt", "stop"] | None = None

    def put(self, token: Token) -> None:
        """Wake the waiting thread; callable from any thread and from a signal handler."""
        if token in ("interrupt", "stop"):
            self.ended_by = "interrupt" if token == "interrupt" else "stop"
        self._tokens.put(token)
        turning = self._turning
        if turning is not None:
            loop, waiter = turning
            loop.call_soon_threadsafe(_wake, waiter)

    def run(self, future: concurrent.futures.Future[T], timeout: float | None) -> None:
        """Wait until `future` is done or the wait is ended (`ended_by`).

        Raises:
            TimeoutError: Not within `timeout` seconds.
            CannotBlockError: The loop has to be turned and can't be nested.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        future.add_done_callback(lambda _: self.put("done"))
        while self.ended_by is None and not future.done():
            while self._serve():
                if self.ended_by is not None or future.done():
                    return
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise TimeoutError("The reply was not complete in time; it goes on.")
            loop = self._nested()
            if loop is None:
                try:
                    self._tokens.get(timeout=remaining)
                except queue.Empty:
                    continue
            else:
                self._turn(loop, remaining)

    def _turn(self, loop: asyncio.AbstractEventLoop, remaining: float | None) -> None:
        waiter: asyncio.Future[None] = loop.create_future()
        limit = None if remaining is None else loop.call_later(remaining, _wake, waiter)
        self._turning = (loop, waiter)
        try:
            # A token that came before `_turning` was set woke nobody.
            if self._tokens.empty():
                run_until(loop, waiter)
        finally:
            self._turning = None
            if limit is not None:
                limit.cancel()
        while not self._tokens.empty():
            self._tokens.get()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
