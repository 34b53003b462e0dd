"""Streams of the HTTP site: chunks of a turn as server-sent events, to clients of any speed.

Nothing is copied for a client: all readers of a turn read one log, and each has at most one piece under way. So a slow
client delays neither the turn nor anybody else. One that blocks and has fallen far behind is told to resume and let go;
one that takes nothing at all is let go without a word.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Literal

from starlette.types import Receive, Scope, Send

from .. import errors
from ..errors import ChunkParseError
from ..messages import SSE_DONE, SSE_HEADERS, encode_sse
from ..turns.wire import WireChunk

Left = Literal["done", "gone", "slow", "closing"]
"""Why a stream ended: its source did, its reader went away, its reader was too slow, the server ends."""

KEEP_ALIVE = b": keep-alive\n\n"
RESUME: WireChunk = {"type": "data-resume", "data": {"reason": "slow"}, "transient": True}
CLOSING: WireChunk = {"type": "data-resume", "data": {"reason": "shutdown"}, "transient": True}
BLOCKED_SECONDS = 1.0
STALLED_SECONDS = 30.0
FAR_BEHIND = 2_000
"""Chunks that a reader whose connection blocks may be behind."""
PIECE = 64 * 1024
"""Bytes that are handed to the connection at once, about."""

FAILED = "The turn failed; the server's log says why."
log = logging.getLogger("chatnb")

Redact = Callable[[str], str]


class EventStream:
    """An ASGI response that sends events until its source ends or the reader leaves.

    Args:
        source: Yields lists of encoded events.
        behind: Tells how many items of the source wait.
        keep_alive: Seconds of silence after which a comment is sent.
        closing: Set when the server ends.
        left: Told once how the stream ended.
        headers: The response's headers.
        end: Sent after the source has ended.
    """

    def __init__(
        self,
        source: AsyncGenerator[list[bytes]],
        *,
        keep_alive: float,
        closing: asyncio.Event,
        left: Callable[[Left], None] = lambda left: None,
        behind: Callable[[], int] = lambda: 0,
        headers: Mapping[str, str] = SSE_HEADERS,
        end: bytes = SSE_DONE,
        resumable: bool = True,
    ) -> None:
        self._source = source
        self._keep_alive = keep_alive
        self._closing = closing
        self._left = left
        self._behind = behind
        self._headers = headers
        self._end = end
        self._resumable = resumable
        self._how: Left = "gone"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        writer = _Writer(send, self._keep_alive)
        is_old = scope.get("http_version", "1.1").startswith("1")  # HTTP/2 has no such header
        names = [name for name in self._headers if is_old or name != "connection"]
        headers = [(name.encode(), self._headers[name].encode()) for name in names]
        watch = asyncio.ensure_future(_until_gone(receive))
        ends = asyncio.ensure_future(self._closing.wait())
        work = asyncio.ensure_future(self._send_all(writer, headers))
        try:
            await asyncio.wait({watch, ends, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            elif not watch.done():
                await _cancel(work)
                self._how = "closing"
                await writer.put(encode_sse(CLOSING) if self._resumable else b"", more=False)
        finally:
            writer.close()
            await _cancel(watch, ends, work)
            await self._source.aclose()
            self._left(self._how)

    async def _send_all(self, writer: _Writer, headers: list[tuple[bytes, bytes]]) -> None:
        await writer.start(headers)
        loop = asyncio.get_running_loop()
        async for events in self._source:
            started = loop.time()
            if not await writer.put(b"".join(events)):
                self._how = "slow"
                return
            if self._resumable and loop.time() - started > BLOCKED_SECONDS and self._behind() > FAR_BEHIND:
                self._how = "slow"
                await writer.put(encode_sse(RESUME), more=False)
                return
        self._how = "done" if await writer.put(self._end, more=False) else "slow"


class _Writer:
    """Writes a response's body, and a comment after each silence."""

    def __init__(self, send: Send, keep_alive: float) -> None:
        self._send = send
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[bool] | None = None

    async def start(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head."""
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        self._timer = self._loop.call_later(self._keep_alive, self._look)

    async def put(self, data: bytes, more: bool = True) -> bool:
        """Send a piece; False when the connection takes nothing."""
        async with self._lock:
            try:
                async with asyncio.timeout(STALLED_SECONDS):
                    await self._send({"type": "http.response.body", "body": data, "more_body": more})
            except TimeoutError:
                return False
            self._last = self._loop.time()
            return True

    def _look(self) -> None:
        """Send a comment if nothing was sent for so long, and look again; one timer serves the whole response."""
        due = self._last + self._keep_alive
        if self._loop.time() >= due:
            if not self._lock.locked():
                self._comment = asyncio.ensure_future(self.put(KEEP_ALIVE))
            due = self._loop.time() + self._keep_alive
        self._timer = self._loop.call_at(due, self._look)

    def close(self) -> None:
        """Send no more comments."""
        if self._timer is not None:
            self._timer.cancel()
        if self._comment is not None:
            self._comment.cancel()


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


async def encoded(
    batches: AsyncIterator[list[WireChunk]], redact: Redact | None, count: Callable[[int], None] = lambda n: None
) -> AsyncGenerator[list[bytes]]:
    """Yield the events of chunks, in pieces of about 64 KiB."""
    async for batch in batches:
        events: list[bytes] = []
        size = 0
        for chunk in batch:
            event = encode_event(chunk, redact)
            events.append(event)
            size += len(event)
            count(1)
            if size >= PIECE:
                yield events
                events, size = [], 0
        if events:
            yield events


def encode_event(chunk: WireChunk, redact: Redact | None) -> bytes:
    """Return the event of one chunk, without credentials, and without the text of an exception that is not chatnb's."""
    try:
        event = encode_sse(chunk if chunk["type"] != "error" else {**chunk, "errorText": public_error(chunk)})
    except ChunkParseError:
        event = encode_sse({"type": "error", "errorText": "A part of the answer can't be sent as JSON."})
    return event if redact is None else redact(event.decode()).encode()


def public_error(chunk: WireChunk) -> str:
    """Return what a client is told of a failed turn: chatnb's own texts hold no values, others may hold anything."""
    text = str(chunk.get("errorText"))
    kind = getattr(errors, text.partition(":")[0], None)
    # A bare `ModelError` quotes whatever a model has raised.
    if isinstance(kind, type) and issubclass(kind, errors.ChatnbError) and kind is not errors.ModelError:
        return text
    log.error("a turn failed: %s", text)
    return FAILED


def named_event(name: str, data: object) -> bytes:
    """Return an event with a name, for `EventSource` listeners."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode()


Answer = Callable[[Scope, Receive, Send], Awaitable[None]]
