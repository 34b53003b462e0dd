"""The served page: the notebook's panel, with HTTP in the place of the comm (issue 8; spec/actions.md, 4.8 and 11.1).

A page has a session: a panel of its own, frames by server-sent events, commands by POST. The nonce of the panel travels
as in the notebook; what decides or runs something needs the cookie of `/ui-capability` as well.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from .. import _json
from .._json import JsonValue
from ..actions import Identity
from .http_actions import read_object
from .http_errors import HttpProblem
from .http_stream import Answer, EventStream, Left

if TYPE_CHECKING:
    from ..widget.panel import Panel
    from .http_site import HttpSite

log = logging.getLogger("chatnb")

STATIC = Path(__file__).resolve().parents[1] / "widget" / "static"
FILES = {"widget.js": "text/javascript", "widget.css": "text/css", "page.js": "text/javascript"}
PROVEN = frozenset({"approve", "reject", "call"})
REFUSED = frozenset({"complete", "preview", "restore", "takeOver", "cellInserted"})
"""Commands that reach into the process: they are for a notebook's own page."""
MAX_COMMAND = 24 * 1024 * 1024
MAX_WAITING = 8 * 1024 * 1024
"""Bytes of frames that wait for a page; beyond them they are dropped, and the page asks for all of it anew."""
RETURN_SECONDS = 30.0
"""How long a session without a page is kept: a browser opens a broken stream again."""
MAX_SESSIONS = 200
HEADERS = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/panel/widget.css">
<style>
  html, body {{ height: 100%; margin: 0; }}
  body {{ display: grid; background: Canvas; color: CanvasText; color-scheme: light dark; font-family: system-ui; }}
  #panel {{ width: min(100%, 960px); height: 100vh; height: 100dvh; margin: 0 auto; }}
</style>
</head>
<body>
<main id="panel"></main>
<script type="module" src="/panel/page.js"></script>
</body>
</html>
"""
NOT_BUILT = "<!doctype html><p>The panel is not built: run <code>python hatch_build.py</code>, or install a wheel.</p>"


class Session:
    """One page: its panel, and the frames that wait for it."""

    def __init__(self, chat_id: str, identity: Identity | None) -> None:
        self.chat_id = chat_id
        self.identity = identity
        self.panel: Panel | None = None
        self.leaving: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size = 0
        self._there = asyncio.Event()

    def send(self, frame: Mapping[str, JsonValue], buffers: Sequence[bytes]) -> None:
        """Take one frame of the panel; on the runtime."""
        parcel = {"content": frame, "buffers": [base64.b64encode(bytes(b)).decode() for b in buffers]}
        event = b"event: frame\ndata: " + _json.dumps(parcel).encode("utf-8", "replace") + b"\n\n"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._add, event)

    def _add(self, event: bytes) -> None:
        self._waiting.append(event)
        self._size += len(event)
        if self._size > MAX_WAITING and len(self._waiting) > 1:
            # The page sees a gap in the numbers, and asks for everything anew.
            self._waiting, self._size = [], 0
        self._there.set()

    async def read(self) -> AsyncGenerator[list[bytes]]:
        """Yield the frames as they come."""
        yield [b": open\n\n"]
        while True:
            await self._there.wait()
            self._there.clear()
            events, self._waiting, self._size = self._waiting, [], 0
            if events:
                yield events


class PageRoutes:
    """The page, its files, and the sessions of those who look at it."""

    def __init__(self, site: HttpSite) -> None:
        self._site = site
        self._sessions: dict[str, Session] = {}

    async def page(self, request: Request) -> Response:
        """`GET /`: the page."""
        await self._site.identify(request)
        from html import escape

        is_built = all((STATIC / name).is_file() for name in FILES)
        html = PAGE.format(title=escape(self._site.agent.name)) if is_built else NOT_BUILT
        tools = " 'unsafe-eval'" if any(tool.js for tool in self._site.options.client_tools) else ""
        policy = (
            f"default-src 'none'; script-src 'self' blob:{tools}; style-src 'self' 'unsafe-inline'; img-src data: "
            "blob: https:; font-src data: blob:; media-src data: blob:; connect-src 'self'; frame-src blob: data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        )
        headers = {
            "cache-control": "no-store",
            "content-security-policy": policy,
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        }
        return Response(html, media_type="text/html", headers=headers)

    async def file(self, request: Request) -> Response:
        """`GET /panel/{name}`: a file of the panel."""
        name = request.path_params["name"]
        path = STATIC / name
        if name not in FILES or not path.is_file():
            raise HttpProblem(404, "not_found", "There is nothing here.")
        data = await asyncio.to_thread(path.read_bytes)
        headers = {"cache-control": "no-cache", "x-content-type-options": "nosniff"}
        return Response(data, media_type=FILES[name], headers=headers)

    # --- sessions -----------------------------------------------------------------------------------------------

    async def frames(self, request: Request) -> Response | Answer:
        """`GET /actions/-/panel/frames`: the frames of a session, which begins with it."""
        identity = await self._site.identify(request)
        key, chat_id = _session_of(request)
        session = self._sessions.get(key)
        if session is None:
            session = await self._open(key, chat_id, identity)
        self._check(session, chat_id, identity)
        if session.leaving is not None:
            session.leaving.cancel()
            session.leaving = None

        def left(_how: Left) -> None:
            loop = asyncio.get_running_loop()
            session.leaving = loop.call_later(RETURN_SECONDS, self._close, key)

        return EventStream(
            session.read(),
            keep_alive=self._site.options.keep_alive,
            closing=self._site.closing,
            left=left,
            headers=HEADERS,
            end=b"",
            resumable=False,
        )

    async def _open(self, key: str, chat_id: str, identity: Identity | None) -> Session:
        from ..widget.panel import Panel
        from ..widget.settings import read_settings

        if len(self._sessions) >= MAX_SESSIONS:
            raise HttpProblem(503, "chat_busy", "Too many pages are open.")
        chat = await self._site.open_chat(chat_id, identity)
        session = self._sessions[key] = Session(chat_id, identity)
        self._site.watched[key] = chat_id
        settings = read_settings({"transcript": False, "client_tools": list(self._site.options.client_tools)})
        live = {"height": "100%", "theme": "auto", "placeholder": None, "title": None, "suggestions": ()}
        try:
            session.panel = await asyncio.to_thread(
                Panel,
                chat,
                f"http-{key[:16]}",
                settings,
                lambda: live,
                session.send,
                lambda name, old, new: None,
                lambda: None,
                lambda: False,
            )
        except BaseException:
            self._close(key)
            raise
        return session

    async def command(self, request: Request) -> Response:
        """`POST /actions/-/panel/commands`: one command of a session."""
        identity = await self._site.identify(request)
        key, chat_id = _session_of(request)
        session = self._sessions.get(key)
        if session is None or session.panel is None:
            raise HttpProblem(404, "not_found", "There is no such session.")
        self._check(session, chat_id, identity)
        if not self._site.proof.is_claimed(request):
            raise HttpProblem(403, "ui_capability_required", "Commands come from the page alone.")
        given = await read_object(request, MAX_COMMAND)
        content, buffers = given.get("content"), _buffers(given.get("buffers", []))
        kind = content.get("type") if isinstance(content, Mapping) else None
        if not isinstance(kind, str):
            raise HttpProblem(400, "invalid_body", "A command has `content`, an object with `type`.")
        if kind in REFUSED:
            raise HttpProblem(403, "forbidden", "The served page can't do this.")
        if kind in PROVEN:
            self._site.require_person(identity, "A decision")
            if not self._site.proof.holds(request, identity):
                raise HttpProblem(403, "ui_capability_required", "The page has to prove itself: GET /ui-capability.")
        session.panel.desk.receive(content, buffers)
        return Response(status_code=204, headers={"cache-control": "no-store"})

    def _check(self, session: Session, chat_id: str, identity: Identity | None) -> None:
        mine = identity.id if identity is not None else None
        owner = session.identity.id if session.identity is not None else None
        if mine != owner or chat_id != session.chat_id:
            raise HttpProblem(404, "not_found", "There is no such session.")

    def _close(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        self._site.watched.pop(key, None)
        if session is not None and session.panel is not None:
            self._site.runtime.post(session.panel.close)


def _session_of(request: Request) -> tuple[str, str]:
    key, chat_id = request.query_params.get("session", ""), request.query_params.get("chat", "")
    if not 16 <= len(key) <= 100 or not key.isascii() or not chat_id:
        raise HttpProblem(400, "invalid_body", "A page has `chat` and `session` in its query.")
    return key, chat_id


def _buffers(given: Any) -> list[bytes]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise HttpProblem(400, "invalid_body", "`buffers` is a list of base64 texts.")
    try:
        return [base64.b64decode(text, validate=True) for text in given]
    except (binascii.Error, ValueError):
        raise HttpProblem(400, "invalid_body", "`buffers` is a list of base64 texts.") from None
