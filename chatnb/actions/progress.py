"""How a running call shows its progress, lines and output: from any thread, never blocking (spec/actions.md, 9.5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from .._json import JsonValue
from ..errors import ActionError
from .effects import CallScope
from .environment import CapturedCall, Children

_INTERVAL = 0.1
_MAX_LINES = 200

Show = Callable[[dict[str, JsonValue] | None, tuple[dict[str, JsonValue], ...]], None]
"""Takes the latest progress, or None, and all lines."""


class CallReporter:
    """The `Reporter` of a dispatched call. Updates go to `show` on the loop, at most 10 a second, the last one wins."""

    def __init__(
        self,
        scope: CallScope,
        loop: asyncio.AbstractEventLoop,
        show: Show | None,
        *,
        captured: CapturedCall | None = None,
        children: Children | None = None,
    ) -> None:
        self._scope = scope
        self._loop = loop
        self._show = show
        self._captured = captured
        self._children = children
        self._lock = Lock()
        self._progress: dict[str, JsonValue] | None = None
        self._lines: list[dict[str, JsonValue]] = []
        self._is_due = False
        self._is_dirty = False
        self._shown_at = float("-inf")

    def progress(self, done: float, total: float | None, text: str | None) -> None:
        """Show progress."""
        update: dict[str, JsonValue] = {"done": done}
        if total is not None:
            update["total"] = total
        if text is not None:
            update["text"] = str(text)
        with self._lock:
            self._progress = update
        self._plan()

    def log(self, text: str, level: str) -> None:
        """Show a line."""
        with self._lock:
            if len(self._lines) >= _MAX_LINES:
                return
            self._lines.append({"level": str(level), "text": str(text)})
        self._plan()

    def hear(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Show what a function in another process reports."""
        match name, arguments:
            case "progress", (done, total, text):
                self.progress(done, total, text)
            case "log", (text, level):
                self.log(text, level)

    def display(self, value: object) -> None:
        """Add an object to the call's output."""
        if self._captured is not None:
            self._captured.add(value)

    def changed(self, resources: Sequence[str]) -> None:
        """Name what the call has changed."""
        self._scope.name_resources(resources)

    def child(self, agent: Any) -> Any:
        """Open the child chat of this call.

        Raises:
            ActionError: The call is in no chat.
        """
        if self._children is None or self._scope.tool_call_id is None:
            raise ActionError("ctx.child() works in an action that an agent's turn calls.")
        return self._children.open(agent, self._scope.tool_call_id)

    def close(self) -> None:
        """Show what is not shown yet; on the loop. Later updates are dropped."""
        if self._is_dirty:
            self._flush()
        self._show = None

    def _plan(self) -> None:
        if self._show is None:
            return
        with self._lock:
            self._is_dirty = True
            if self._is_due:
                return
            self._is_due = True
        with suppress(RuntimeError):  # the loop is closed: nobody looks any more
            self._loop.call_soon_threadsafe(self._wait_turn)

    def _wait_turn(self) -> None:
        rest = self._shown_at + _INTERVAL - time.monotonic()
        if rest <= 0:
            self._flush()
        else:
            self._loop.call_later(rest, self._flush)

    def _flush(self) -> None:
        with self._lock:
            progress, lines = self._progress, tuple(self._lines)
            self._is_due = self._is_dirty = False
        self._shown_at = time.monotonic()
        if self._show is not None:
            self._show(progress, lines)
