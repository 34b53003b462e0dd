"""How a worker process of this machine asks to begin, and says how it is getting on (spec/notebook.md, section 2).

The kernel listens at one local socket, which is opened at the first call that goes to a process pool. A worker connects
before it enters the function. What the function reports is sent from a thread, so that it never waits. Elsewhere
reports are dropped, and the result says that there were some.
"""

from __future__ import annotations

import contextvars
import os
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Report = tuple[str, tuple[Any, ...]]
"""The name of what is reported, "progress" or "log", and its arguments."""
Take = Callable[[str, tuple[Any, ...]], None]

INTERVAL = 0.1  # seconds between two reports of a worker
LAST_WORD = 1.0  # seconds that a worker waits until its last report has arrived
_MAX_LINES = 200


@dataclass(frozen=True, slots=True)
class Way:
    """How a worker reaches the kernel, and for which call.

    Attributes:
        address: The listener's address.
        key: The secret that it asks for.
        call: The call's number.
    """

    address: Any
    key: bytes
    call: int


# --- in the kernel ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Expected:
    """A call that may begin, or has begun."""

    take: Take | None
    has_begun: bool = False
    is_withdrawn: bool = False


class Inbox:
    """Hears the workers, for all calls of this process."""

    def __init__(self) -> None:
        from multiprocessing.connection import Listener

        self.process = os.getpid()
        self._key = secrets.token_bytes(32)
        self._listener = Listener(authkey=self._key)  # a Unix socket or a named pipe: of this machine alone
        self._lock = threading.Lock()
        self._calls: dict[int, _Expected] = {}
        self._count = 0
        threading.Thread(target=self._accept, name="chatnb-workers", daemon=True).start()

    def open(self, take: Take | None) -> Way:
        """Expect a call, and take its reports, on a thread, until `close`."""
        with self._lock:
            self._count += 1
            self._calls[self._count] = _Expected(take)
            return Way(self._listener.address, self._key, self._count)

    def has_begun(self, way: Way) -> bool:
        """Say whether a worker has begun a call."""
        with self._lock:
            call = self._calls.get(way.call)
            return call is not None and call.has_begun

    def withdraw(self, way: Way) -> None:
        """Let no worker begin a call any more."""
        with self._lock:
            if way.call in self._calls:
                self._calls[way.call].is_withdrawn = True

    def close(self, way: Way) -> None:
        """Forget a call."""
        with self._lock:
            self._calls.pop(way.call, None)

    def _begin(self, number: int) -> bool:
        with self._lock:
            call = self._calls.get(number)
            if call is None or call.has_begun or call.is_withdrawn:
                return False
            call.has_begun = True
            return True

    def _take(self, number: int, report: Report) -> None:
        with self._lock:
            call = self._calls.get(number)
            take = None if call is None else call.take
        if take is not None:
            take(*report)

    def _accept(self) -> None:
        from multiprocessing import AuthenticationError

        while True:
            try:
                connection = self._listener.accept()
            except (AuthenticationError, EOFError, ConnectionError):
                continue  # somebody else, or a worker that died while it connected
            except OSError:
                return  # closed, with the process
            threading.Thread(target=self._hear, args=(connection,), name="chatnb-workers", daemon=True).start()

    def _hear(self, connection: Any) -> None:
        with connection, suppress(EOFError, OSError):
            number = connection.recv()
            connection.send(self._begin(number))
            while (report := connection.recv()) is not None:
                self._take(number, report)
            connection.send(None)  # all has arrived


_inbox: Inbox | None = None
_inbox_lock = threading.Lock()


def inbox() -> Inbox:
    """Return this process's inbox; a forked child has its own."""
    global _inbox
    with _inbox_lock:
        if _inbox is None or _inbox.process != os.getpid():
            _inbox = Inbox()
        return _inbox


# --- in the worker ----------------------------------------------------------------------------------------------


class Reports:
    """What one call reports: the latest progress and the lines since, sent at most 10 times a second.

    Args:
        way: How the kernel is reached; None: it can't be, and all is dropped.
    """

    def __init__(self, way: Way | None) -> None:
        self._way = way
        self._connection: Any = None
        self._lock = threading.Lock()
        self._progress: Report | None = None
        self._lines: list[Report] = []
        self._line_count = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._sender: threading.Thread | None = None
        self.are_dropped = False

    def begin(self) -> bool:
        """Ask the kernel whether the function may be entered; no if the kernel is gone."""
        from multiprocessing.connection import Client

        if self._way is None:
            return True
        try:
            self._connection = Client(self._way.address, authkey=self._way.key)
            self._connection.send(self._way.call)
            return bool(self._connection.recv())
        except (OSError, EOFError):
            return False

    def add(self, name: str, *arguments: Any) -> None:
        """Report something; any thread, never waits."""
        if self._connection is None:
            self.are_dropped = True
            return
        with self._lock:
            if self._closing.is_set():
                return
            if name == "progress":
                self._progress = (name, arguments)
            elif self._line_count < _MAX_LINES:
                self._line_count += 1
                self._lines.append((name, arguments))
            if self._sender is None:
                self._sender = threading.Thread(target=self._send, name="chatnb-reports", daemon=True)
                self._sender.start()
        self._wake.set()

    def close(self) -> None:
        """Send what is left, and wait for at most a second until it has arrived. The function has returned."""
        with self._lock:
            self._closing.set()
            sender = self._sender
        if sender is not None:
            self._wake.set()
            sender.join(LAST_WORD)
        if self._connection is not None:
            self._connection.close()

    def _send(self) -> None:
        with suppress(OSError, EOFError):  # the kernel is gone
            while not self._closing.is_set():
                self._wake.wait()
                self._wake.clear()
                self._pass_on()
                self._closing.wait(INTERVAL)
            self._pass_on()
            self._connection.send(None)
            if self._connection.poll(LAST_WORD):
                self._connection.recv()

    def _pass_on(self) -> None:
        with self._lock:
            reports = [*self._lines, *([self._progress] if self._progress is not None else [])]
            self._progress = None
            self._lines = []
        for report in reports:
            with suppress(TypeError, AttributeError, ValueError):  # no plain numbers or text: it can't be sent
                self._connection.send(report)


# The reports of the call that is being loaded or run: a context that arrives in a worker is bound to them.
current_reports: contextvars.ContextVar[Reports | None] = contextvars.ContextVar("chatnb_reports", default=None)
