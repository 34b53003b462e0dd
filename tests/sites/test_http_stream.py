"""Streams to clients of any speed: keep-alives, back-pressure, the end (issue 8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from chatnb import Agent
from chatnb.models import ScriptedModel
from chatnb.sites import http_stream
from chatnb.sites.http_site import HttpOptions, HttpSite
from chatnb.sites.http_stream import FAILED, EventStream, encode_event
from tests.sites.http_server import by_key, chunks_of, client_of, serving, user


async def pieces(count: int) -> AsyncGenerator[list[bytes]]:
    for number in range(count):
        yield [b"data: %d\n\n" % number]


async def never() -> Any:
    await asyncio.Event().wait()


async def played(stream: EventStream, *, block: float = 0.0) -> bytes:
    """Send a stream to a client whose connection blocks so long at each piece."""
    sent = b""

    async def send(message: Any) -> None:
        nonlocal sent
        sent += message.get("body", b"")
        if message["type"] == "http.response.body" and block:
            await asyncio.wait_for(asyncio.shield(asyncio.sleep(block)), None)

    await stream({"type": "http"}, never, send)
    return sent


class TestSlowClients:
    """A slow client is told to resume; a stalled one is let go."""

    async def test_far_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client that blocks and is far behind gets `data-resume` and no done marker."""
        monkeypatch.setattr(http_stream, "BLOCKED_SECONDS", 0.01)
        how: list[str] = []
        closing = asyncio.Event()
        stream = EventStream(pieces(50), keep_alive=5, closing=closing, left=how.append, behind=lambda: 5_000)
        sent = await played(stream, block=0.02)
        assert b"data-resume" in sent
        assert b"[DONE]" not in sent
        assert how == ["slow"]

    async def test_slow_but_near(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client that is slow and keeps up gets everything."""
        monkeypatch.setattr(http_stream, "BLOCKED_SECONDS", 0.001)
        how: list[str] = []
        closing = asyncio.Event()
        sent = await played(EventStream(pieces(5), keep_alive=5, closing=closing, left=how.append), block=0.01)
        assert sent.endswith(b"data: [DONE]\n\n")
        assert how == ["done"]

    async def test_stalled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client that takes nothing is let go."""
        monkeypatch.setattr(http_stream, "STALLED_SECONDS", 0.05)
        how: list[str] = []
        await played(EventStream(pieces(5), keep_alive=5, closing=asyncio.Event(), left=how.append), block=60)
        assert how == ["slow"]

    async def test_server_ends(self) -> None:
        """At the server's end a stream says that it can be resumed."""
        closing = asyncio.Event()
        closing.set()

        async def silent() -> AsyncGenerator[list[bytes]]:
            await never()
            yield []

        how: list[str] = []
        sent = await played(EventStream(silent(), keep_alive=5, closing=closing, left=how.append))
        assert b"shutdown" in sent
        assert how == ["closing"]


class TestErrors:
    """What a failed turn says."""

    def test_plain_exception(self, caplog: pytest.LogCaptureFixture) -> None:
        """Section 6 of actions.md: of a plain exception the client gets a fixed text, the log the rest."""
        with caplog.at_level(logging.ERROR):
            event = encode_event({"type": "error", "errorText": "RuntimeError: password=hunter2"}, None)
        assert b"hunter2" not in event
        assert FAILED.encode() in event
        assert "hunter2" in caplog.text
        own = encode_event({"type": "error", "errorText": "ModelRateLimitError: wait a minute"}, None)
        assert b"wait a minute" in own

    def test_over_http(self) -> None:
        """A turn whose model raises ends with the fixed text."""
        agent = Agent(ScriptedModel([RuntimeError("password=hunter2")]))
        with serving(agent, authenticate=by_key) as address, client_of(address) as client:
            response = client.post_chat("c", [user("x")])
        assert chunks_of(response)[-1] == {"type": "error", "errorText": FAILED}


class TestIdleChats:
    """A chat that nobody uses is given back, so that a notebook may open it."""

    async def test_release(self) -> None:
        """After the idle time the chat is closed; one that is watched stays."""
        site = HttpSite(Agent(ScriptedModel([])), HttpOptions())
        used, watched = [await site.open_chat(name, None) for name in ("used", "watched")]
        assert used is not None
        assert watched is not None
        await site.release_idle(60, lambda chat_id: False)
        assert not used.is_closed
        await site.release_idle(-1, lambda chat_id: chat_id == "watched")
        assert used.is_closed
        assert not watched.is_closed
        again = await site.open_chat("used", None)
        assert again is not None
        assert not again.is_closed
        await site.close()
