"""Streams of the HTTP site under load: `python tests/bench/http.py [clients] [tokens] [rounds]`.

200 clients on one process read one answer each, each in a chat of its own, at the same time; the figure is tokens per
second over all of them, and its ratio to a bare Starlette application that streams the same bytes. Then one more client
stalls: it takes nothing. The others' figure must not change by 10 %.

Figures of one run vary more than that where other programs work too. So the three kinds of run take turns, and each
figure is the median of its runs; for the stalled client it is the median over pairs of neighbours, which met the same
weather, in alternating order. The processor time per token is printed too: it varies least.
"""

from __future__ import annotations

import os
import sys

# This folder is on the path of a script, and this file would hide the standard library's `http`.
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != _here]

import asyncio  # noqa: E402
import json  # noqa: E402
import multiprocessing  # noqa: E402
import socket  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import AsyncIterator, Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from statistics import median  # noqa: E402
from typing import Any  # noqa: E402

import psutil  # noqa: E402

HOST = "127.0.0.1"
WORD = "token "
MUCH = 250
"""How many answers the stalled client asks for: far more than the buffers of its connection hold."""


def serve_chatnb(port: Any, tokens: int) -> None:
    """Serve an agent whose answers are so many tokens."""
    from chatnb import Agent
    from chatnb.models import StepEnd
    from chatnb.sites.http import app

    class Fast:
        name = "fast"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            asked = str(request.messages[-1]["content"])
            yield {"type": "text-start", "id": "t"}
            for number in range(tokens * MUCH if "much" in asked else tokens):
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
    import uvicorn

    listener = socket.socket()
    listener.bind((HOST, 0))
    listener.listen(1024)
    port.value = listener.getsockname()[1]
    uvicorn.Server(uvicorn.Config(application, log_level="error")).run([listener])


@contextmanager
def server(target: Any, tokens: int) -> Iterator[tuple[int, psutil.Process]]:
    """A server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    port = context.Value("i", 0)
    process = context.Process(target=target, args=(port, tokens), daemon=True)
    process.start()
    while port.value == 0:
        if not process.is_alive():
            raise SystemExit("the server did not start")
        time.sleep(0.05)
    yield port.value, psutil.Process(process.pid)
    process.terminate()
    process.join()


async def read_one(port: int, chat_id: str, name: str, *, stalls: bool = False) -> int:
    """Send one message; return the number of tokens that came. One that stalls reads nothing."""
    message = {"id": name, "role": "user", "parts": [{"type": "text", "text": "much" if stalls else "go"}]}
    body = json.dumps({"id": chat_id, "trigger": "submit-message", "messages": [message]}).encode()
    head = f"POST /api/chat HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Type: application/json\r\n"
    connection = socket.socket()
    if stalls:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((HOST, port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=2**16)
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
    """Return tokens per second over all clients, each in a chat of its own."""
    slow = asyncio.ensure_future(read_one(port, "stalled", name, stalls=True)) if stalled else None
    if slow is not None:
        await asyncio.sleep(0.3)
    started = time.perf_counter()
    counts = await asyncio.gather(*(read_one(port, f"chat-{n}", name) for n in range(clients)))
    seconds = time.perf_counter() - started
    if slow is not None:
        slow.cancel()
    assert sum(counts) == clients * tokens, f"{sum(counts)} of {clients * tokens} tokens came"
    return clients * tokens / seconds


def cpu(process: psutil.Process) -> float:
    """Return the processor time of a process so far, in seconds."""
    times = process.cpu_times()
    return times.user + times.system


def main() -> None:
    """Measure and print."""
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    found: dict[str, list[float]] = {"bare": [], "alone": [], "stalled": []}
    spent: dict[str, list[float]] = {"bare": [], "alone": [], "stalled": []}

    def run_once(kind: str, number: int) -> None:
        started = cpu(theirs)
        port = bare_port if kind == "bare" else our_port
        run = measure(port, clients, tokens, f"{kind}{number}", stalled=kind == "stalled")
        found[kind].append(asyncio.run(run))
        spent[kind].append((cpu(theirs) - started) / clients / tokens)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHATNB_STORE"] = os.path.join(folder, "chats.db")
        with server(serve_bare, tokens) as (bare_port, _), server(serve_chatnb, tokens) as (our_port, theirs):
            first = asyncio.run(measure(our_port, clients, tokens, "first"))
            for number in range(rounds):
                pair = ["alone", "stalled"]
                for kind in ["bare", *(pair if number % 2 == 0 else reversed(pair))]:
                    run_once(kind, number)
    bare, ours, stalled = (median(found[kind]) for kind in ("bare", "alone", "stalled"))
    ratios = [b / a for a, b in zip(found["alone"], found["stalled"], strict=True)]
    print(f"{clients} streams of {tokens} tokens, medians of {rounds} runs each")
    print(f"bare Starlette      {bare:12,.0f} tokens/s")
    print(f"chatnb              {ours:12,.0f} tokens/s   {ours / bare:.3f} of bare")
    print(f"in new chats        {first:12,.0f} tokens/s   (the first run: their opening included)")
    print(f"with a stalled one  {stalled:12,.0f} tokens/s   {median(ratios) - 1:+.1%}")
    alone, beside = median(spent["alone"]) * 1e6, median(spent["stalled"]) * 1e6
    print(f"processor           {alone:12.1f} us a token   {beside / alone - 1:+.1%} with a stalled one")


if __name__ == "__main__":
    main()
