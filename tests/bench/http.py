"""Streams of the HTTP site under load: `python tests/bench/http.py [clients] [tokens]`.

200 clients on one process read one answer each, at the same time; the figure is tokens per second over all of them, and
its ratio to a bare Starlette application that streams the same bytes. Then one more client stalls: it takes nothing.
The others' figure must not change by 10 %.
"""

from __future__ import annotations

import os
import sys

# This folder is on the path of a script, and this file would hide the standard library's `http`.
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != _here]

import asyncio  # noqa: E402
import multiprocessing  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import AsyncIterator, Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from typing import Any  # noqa: E402

HOST = "127.0.0.1"
WORD = "token "


def serve_chatnb(port: Any, tokens: int) -> None:
    """Serve an agent whose answers are so many tokens."""
    from chatnb import Agent
    from chatnb.models import StepEnd
    from chatnb.sites.http import app

    class Fast:
        name = "fast"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            yield {"type": "text-start", "id": "t"}
            for number in range(tokens):
                yield {"type": "text-delta", "id": "t", "delta": WORD}
                if number % 20 == 19:
                    await asyncio.sleep(0)
            yield {"type": "text-end", "id": "t"}
            yield StepEnd("stop")

    run(app(Agent(Fast()), page=False), port)  # type: ignore[arg-type]


def serve_bare(port: Any, tokens: int) -> None:
    """Serve the same bytes with Starlette alone."""
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    event = b'data: {"type":"text-delta","id":"t","delta":"token "}\n\n'

    async def answer(request: Any) -> StreamingResponse:
        await request.json()

        async def body() -> AsyncIterator[bytes]:
            for _ in range(tokens // 20):
                yield event * 20
                await asyncio.sleep(0)
            yield b"data: [DONE]\n\n"

        return StreamingResponse(body(), media_type="text/event-stream")

    run(Starlette(routes=[Route("/api/chat", answer, methods=["POST"])]), port)


def run(application: Any, port: Any) -> None:
    """Run the server; tell its port."""
    import socket

    import uvicorn

    listener = socket.socket()
    listener.bind((HOST, 0))
    listener.listen(1024)
    port.value = listener.getsockname()[1]
    uvicorn.Server(uvicorn.Config(application, log_level="error")).run([listener])


@contextmanager
def server(target: Any, tokens: int) -> Iterator[int]:
    """A server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    port = context.Value("i", 0)
    process = context.Process(target=target, args=(port, tokens), daemon=True)
    process.start()
    while port.value == 0:
        if not process.is_alive():
            raise SystemExit("the server did not start")
        time.sleep(0.05)
    yield port.value
    process.terminate()
    process.join()


async def read_one(port: int, chat_id: str, *, stalls: bool = False) -> int:
    """Send one message; return the number of tokens that came. One that stalls reads nothing."""
    body = (
        '{"id":"%s","trigger":"submit-message","messages":[{"id":"u","role":"user","parts":'  # noqa: UP031
        '[{"type":"text","text":"go"}]}]}' % chat_id
    ).encode()
    head = f"POST /api/chat HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection(HOST, port, limit=2**16)
    writer.write(head.encode() + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    if stalls:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)
    count, rest = 0, b""
    while data := await reader.read(2**16):
        data = rest + data
        count += data.count(b'"token "')
        rest = data[-8:] if b'"token "' not in data[-8:] else b""
    writer.close()
    return count


async def measure(port: int, clients: int, tokens: int, name: str, *, stalled: bool = False) -> float:
    """Return tokens per second over all clients."""
    slow = asyncio.ensure_future(read_one(port, f"{name}-stalled", stalls=True)) if stalled else None
    if slow is not None:
        await asyncio.sleep(0.3)
    started = time.perf_counter()
    counts = await asyncio.gather(*(read_one(port, f"{name}-{n}") for n in range(clients)))
    seconds = time.perf_counter() - started
    if slow is not None:
        slow.cancel()
    assert sum(counts) == clients * tokens, f"{sum(counts)} of {clients * tokens} tokens came"
    return clients * tokens / seconds


def main() -> None:
    """Measure and print."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHATNB_STORE"] = os.path.join(folder, "chats.db")
        with server(serve_bare, tokens) as port:
            bare = asyncio.run(measure(port, clients, tokens, "bare"))
        with server(serve_chatnb, tokens) as port:
            asyncio.run(measure(port, 5, tokens, "warm"))
            ours = max(asyncio.run(measure(port, clients, tokens, f"a{n}")) for n in range(2))
            stalled = max(asyncio.run(measure(port, clients, tokens, f"s{n}", stalled=True)) for n in range(2))
    print(f"{clients} streams of {tokens} tokens")
    print(f"bare Starlette      {bare:12,.0f} tokens/s")
    print(f"chatnb              {ours:12,.0f} tokens/s   {ours / bare:.3f} of bare")
    print(f"with a stalled one  {stalled:12,.0f} tokens/s   {stalled / ours - 1:+.1%}")


if __name__ == "__main__":
    main()
