"""Live change events: what an agent's actions have changed, and that a chat has changed (spec/actions.md, 8.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ..turns.records import Update
from .http_errors import HttpProblem
from .http_stream import Answer, EventStream, named_event

if TYPE_CHECKING:
    from ..chat import Chat
    from .http_site import HttpSite

MOST = 256
"""Events that wait for a reader; beyond them it is told to read everything anew."""
TOLD = frozenset({"change", "history", "pending", "settled", "closed"})
HEADERS = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}


class Mailbox:
    """The events that wait for one reader, at most `MOST`. Filled on the runtime, read on the server's loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: list[bytes] = []
        self._there = asyncio.Event()

    def put(self, name: str, data: object) -> None:
        """Add an event; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._add, named_event(name, data))

    def _add(self, event: bytes) -> None:
        if len(self._events) >= MOST:
            self._events = [named_event("resync", {})]
        elif not self._events or self._events[-1] != event:
            self._events.append(event)
        self._there.set()

    async def read(self, end: Callable[[], None]) -> AsyncGenerator[list[bytes]]:
        """Yield what is there, as it comes; `end` is called when nobody reads any more."""
        try:
            yield [named_event("ready", {})]
            while True:
                await self._there.wait()
                self._there.clear()
                events, self._events = self._events, []
                if events:
                    yield events
        finally:
            end()


class EventRoutes:
    """`GET /api/chat/{id}/events`: `change`, `history`, `pending`, `settled`, `closed`; `resync` to a slow reader."""

    def __init__(self, site: HttpSite) -> None:
        self._site = site

    async def chat_events(self, request: Request) -> Response | Answer:
        """Stream the events of one chat, and the changes that belong to no chat."""
        identity = await self._site.identify(request)
        chat = await self._site.open_chat(request.path_params["id"], identity, create=False)
        if chat is None:
            raise HttpProblem(404, "unknown_chat", "There is no such chat.")
        box = Mailbox()
        self._site.watched[box] = chat.id
        unsubscribe = await self._site.on_runtime(lambda: self._listen(chat, box))
        return EventStream(
            box.read(lambda: self._end(box, unsubscribe)),
            keep_alive=self._site.options.keep_alive,
            closing=self._site.closing,
            headers=HEADERS,
            end=b"",
            resumable=False,
        )

    def _end(self, box: Mailbox, unsubscribe: Callable[[], None]) -> None:
        self._site.watched.pop(box, None)
        self._site.runtime.post(unsubscribe)

    def _listen(self, chat: Chat, box: Mailbox) -> Callable[[], None]:
        def listen(update: Update) -> None:
            if update.kind in TOLD:
                box.put(update.kind, update.data if update.kind == "change" else {})

        return chat._engine.subscribe(listen)
