"""Cells that a page inserts for the kernel, where its host can (spec/notebook.md, section 6)."""

from __future__ import annotations

import asyncio

from .._ids import random_word
from .channel import Channel

ANSWER_WITHIN = 5.0
"""Seconds in which a page answers."""


class CellInserts:
    """Asks views to insert cells. On the runtime."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting: dict[str, asyncio.Future[bool]] = {}

    async def insert(self, source: str, kind: str = "code", position: str = "below") -> bool:
        """Ask the view that was used last, if its host can insert; tell whether the cell is there."""
        views = [view for view in self._channel.views.values() if view.can_insert]
        if not views:
            return False
        view = max(views, key=lambda view: view.used)
        id = random_word(16)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        self._channel.queue(
            {"type": "insertCell", "to": view.id, "id": id, "source": source, "kind": kind, "position": position}
        )
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await answer
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(id, None)

    def answered(self, id: str, ok: bool) -> None:
        """A page has answered."""
        answer = self._waiting.get(id)
        if answer is not None and not answer.done():
            answer.set_result(ok)
