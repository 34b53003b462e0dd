"""A live HTTP server of an agent for tests: real sockets on this machine, a store of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from chatnb import Agent, Identity
from chatnb.messages import SseDecoder, UIMessage, fold
from chatnb.sites.http import app

ANN, BOB = Identity("ann"), Identity("bob")
ROBOT = Identity("robot", kind="service")
PEOPLE = {"ann": ANN, "bob": BOB, "robot": ROBOT}


def by_key(request: Any) -> Identity | None:
    """Authentication for tests: the bearer token is the name."""
    return PEOPLE.get(request.headers.get("authorization", "").removeprefix("Bearer "))


class Client(httpx.Client):
    """A client of one identity, with the calls of `DefaultChatTransport`."""

    def post_chat(self, chat_id: str, messages: list[Any], **fields: Any) -> httpx.Response:
        """Send as the AI SDK does."""
        body = {"trigger": "submit-message", **fields, "id": chat_id, "messages": messages}
        return self.post("/api/chat", content=json.dumps(body), headers={"content-type": "application/json"})

    def say(self, chat_id: str, text: str, id: str = "u1", **fields: Any) -> UIMessage:
        """Send one message of the user and return the answer."""
        return answer_of(self.post_chat(chat_id, [user(text, id)], **fields))

    def messages(self, chat_id: str) -> list[dict[str, Any]]:
        """The messages as the server has them."""
        return self.get(f"/api/chat/{chat_id}").json()["messages"]


def user(text: str, id: str = "u1") -> dict[str, Any]:
    """A message of the user in wire form."""
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


def chunks_of(response: httpx.Response) -> list[Any]:
    """The chunks of a stream."""
    assert response.status_code == 200, response.text
    return SseDecoder().feed(response.content)


def answer_of(response: httpx.Response, message: Any = None) -> UIMessage:
    """The message that a stream makes, on top of the one it continues."""
    given = UIMessage.from_wire(message) if message is not None else None
    result = fold(chunks_of(response), given)
    return result.messages[-1]


def code_of(response: httpx.Response) -> tuple[int, str]:
    """Status and error code of an answer that says no."""
    return response.status_code, response.json()["errorCode"]


@contextmanager
def serving(agent: Agent, **options: Any) -> Iterator[str]:
    """Serve an agent; yields the address."""
    application = app(agent, **options)
    with running(application) as address:
        yield address


@contextmanager
def running(application: Any) -> Iterator[str]:
    """Run an ASGI application in a thread; yields its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(application, log_level="error", lifespan="on", timeout_graceful_shutdown=2)
    started = threading.Event()

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Announcing(config)

    async def serve() -> None:
        await server.serve([listener])
        # A connection that outlived the shutdown closes in a later round of the loop, which must not end before.
        left = server.server_state.connections
        for connection in list(left):
            connection.transport.abort()
        for _ in range(100):
            if left:
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def client_of(address: str, who: str | None = "ann") -> Iterator[Client]:
    """A client of one identity."""
    headers = {"authorization": f"Bearer {who}"} if who else {}
    with Client(base_url=address, headers=headers, timeout=20) as client:
        yield client


def event_lines(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    """The named events of a stream, as they come."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: ") and name:
            yield name, json.loads(line[6:])


@contextmanager
def served_by_command(folder: Path, *words: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `chatnb` with some words, in a folder and with further variables; yields its address and the process."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from chatnb.sites.cli import main; main()", *words],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        yield found.group(), process
    finally:
        process.terminate()
        process.communicate(timeout=15)
