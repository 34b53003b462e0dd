"""The queue of calls that want the main thread, and who may start next (spec/notebook.md, section 2).

A call holds the place from when it is taken until its function has returned. Any thread may ask; nothing here blocks
or runs foreign code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from chatnb.errors import ChatBusyError
from chatnb.runtime.entry import Entry


class CallQueue:
    """Calls in order of arrival, the calls that hold the place, and which chat waits for which."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queued: list[Entry] = []
        self._holders: list[Entry] = []
        self._waiters: list[Entry] = []  # entries of any kind whose function waits for a chat

    def put(self, entry: Entry) -> None:
        """Append a call."""
        with self._lock:
            self._queued.append(entry)

    def drop(self, entry: Entry) -> None:
        """Remove a call if it is still queued."""
        with self._lock:
            if entry in self._queued:
                self._queued.remove(entry)

    def take(self, serves: Callable[[Entry], bool]) -> Entry | None:
        """Give the place to the call whose turn it is.

        Args:
            serves: Says whether the asking thread may run a call.

        Returns:
            The call, which holds the place until `release`; None if no call may start, or the next is not the
            asking thread's.
        """
        with self._lock:
            entry = self._next()
            if entry is None or not serves(entry):
                return None
            self._queued.remove(entry)
            self._holders.append(entry)
            return entry

    def release(self, entry: Entry) -> None:
        """Give the place back."""
        with self._lock:
            if entry in self._holders:
                self._holders.remove(entry)

    def open(self, entry: Entry) -> None:
        """Let the thread `chatnb-calls` take a call."""
        with self._lock:
            entry.is_open = True

    def is_queued(self, entry: Entry) -> bool:
        """Say whether a call has not been taken."""
        with self._lock:
            return entry in self._queued

    def is_held(self) -> bool:
        """Say whether a call holds the place."""
        with self._lock:
            return bool(self._holders)

    def holds_async(self) -> bool:
        """Say whether an async call holds the place, by itself or below others."""
        with self._lock:
            return any(entry.is_async for entry in self._holders)

    def holds_sync(self) -> bool:
        """Say whether a sync call holds the place."""
        with self._lock:
            return any(not entry.is_async for entry in self._holders)

    def queued(self) -> list[Entry]:
        """Return the calls that have not been taken, in order."""
        with self._lock:
            return list(self._queued)

    def begin_wait(self, entry: Entry, chat_id: str) -> None:
        """Note that a call's function waits for a chat.

        Raises:
            ChatBusyError: That chat waits, directly or through others, for the call's own.
        """
        with self._lock:
            if entry.chat_id is not None and entry.chat_id in self._reach([chat_id]):
                raise ChatBusyError(
                    f"Waiting for chat {chat_id!r} here could never end: it waits for chat {entry.chat_id!r}, "
                    "to which this function belongs."
                )
            entry.waits.append(chat_id)
            self._waiters.append(entry)

    def end_wait(self, entry: Entry, chat_id: str) -> None:
        """Take back one `begin_wait`."""
        with self._lock:
            entry.waits.remove(chat_id)
            self._waiters.remove(entry)

    def _next(self) -> Entry | None:
        for index, entry in enumerate(self._queued):
            if not all(self._goes_beside(entry, holder) for holder in self._holders):
                continue
            # Past the head only what a waiting function needs may start: the order of arrival holds for all else.
            if index == 0 or any(entry.chat_id in self._reach(holder.waits) for holder in self._holders):
                return entry
        return None

    def _goes_beside(self, entry: Entry, holder: Entry) -> bool:
        if entry.is_async and holder.is_async and entry.call.overlap and holder.call.overlap:
            return entry.chat_id == holder.chat_id
        return entry.chat_id is not None and entry.chat_id in self._reach(holder.waits)

    def _reach(self, chats: Iterable[str]) -> set[str]:
        """The chats given, those that their calls wait for, and so on."""
        reached: set[str] = set()
        front = set(chats)
        while front:
            reached |= front
            front = {chat for waiter in self._waiters if waiter.chat_id in front for chat in waiter.waits} - reached
        return reached
