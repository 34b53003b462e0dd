"""The stall watchdog of one step: a model that says nothing for too long is left (spec/recovery.md, section 7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .turn_run import TurnRun


class StallWatch:
    """Watches one model stream. Only the time in which the next item is awaited counts.

    Args:
        run: The turn; it is broken off with the cause `stalled`.
        model: Before its first chunk its own `timeout` holds instead, if it has one.
    """

    def __init__(self, run: TurnRun, model: Any) -> None:
        self._run = run
        self._limit: float | None = getattr(run.definition.recovery, "stall_timeout", None)
        self._own_limit = getattr(model, "timeout", None) is not None
        self._since: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.has_begun = False

    def waits(self) -> None:
        """The next item is awaited from now on."""
        self._since = self._run.clock.monotonic()
        if self._task is None and self._limit is not None:
            self._task = self._run.engine.start(self._watch(self._limit), f"stall watch of {self._run.turn_id}")

    def came(self, *, is_chunk: bool) -> None:
        """An item came; a keep-alive is one too."""
        self._since = None
        self.has_begun = self.has_begun or is_chunk

    def end(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self, limit: float) -> None:
        clock = self._run.clock
        while True:
            is_due = self._since is not None and (self.has_begun or not self._own_limit)
            left = limit if not is_due or self._since is None else self._since + limit - clock.monotonic()
            if left <= 0:
                self._run.lose("stalled")
                return
            await clock.sleep(left)
