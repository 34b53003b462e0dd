"""The ASGI application of the HTTP site: its routes, and what holds for every request."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .http_actions import ActionRoute, routes_of
from .http_chat import ChatRoutes
from .http_errors import CompactJson, HttpProblem, answer_error, problem_of
from .http_events import EventRoutes
from .http_openapi import describe
from .http_page import PageRoutes
from .http_proof import is_same_origin
from .http_site import HttpOptions, HttpSite
from .http_stream import Answer

if TYPE_CHECKING:
    from ..agent import Agent

Handler = Callable[[Request], Awaitable[Response | Answer]]
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CORS_HEADERS = "content-type, authorization, x-chatnb-ui, user-agent"


class Endpoint:
    """A handler as an ASGI application: its exceptions become answers, other verbs a 405; credentials are taken out.

    Args:
        site: The site.
        handlers: By verb; `ANY` takes all.
    """

    def __init__(self, site: HttpSite, **handlers: Handler) -> None:
        self._redact = site.redact
        self._any = handlers.pop("ANY", None)
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        handler = self._any or self._handlers.get(request.method)
        try:
            if handler is None:
                allowed = ", ".join(sorted(self._handlers))
                raise HttpProblem(405, "method_not_allowed", f"Use {allowed}.", headers={"allow": allowed})
            answer = await handler(request)
        except Exception as error:  # noqa: BLE001 - whatever a request meets is answered, never shown
            answer = problem_of(error).response()
        if self._redact is not None and isinstance(answer, CompactJson):
            answer = answer.redacted(self._redact)
        await answer(scope, receive, send)


class Border:
    """What every request passes first: the host's name, the origin, and for other origins the CORS headers."""

    def __init__(self, app: ASGIApp, options: HttpOptions) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        origin = request.headers.get("origin")
        is_known = origin is not None and origin.rstrip("/").lower() in self._options.origins
        refusal = self._refusal(request, origin, is_known)
        if refusal is None and is_known and request.method == "OPTIONS":
            refusal = Response(status_code=204)
        target = refusal or self._app
        await target(scope, receive, _with_cors(send, origin) if is_known and origin else send)

    def _refusal(self, request: Request, origin: str | None, is_known: bool) -> Response | None:
        hosts = self._options.hosts
        if hosts is not None and _host_name(request.headers.get("host", "")) not in hosts:
            return answer_error(421, "forbidden", "This server does not answer to that name.")
        if request.method in SAFE or origin is None or is_known or is_same_origin(request):
            return None
        return answer_error(403, "forbidden", "Pages of that origin may not call this server.")


def _host_name(host: str) -> str:
    name = host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return name.lower()


def _with_cors(send: Send, origin: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {
                **message,
                "headers": [
                    *message.get("headers", ()),
                    (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
                    (b"access-control-allow-credentials", b"true"),
                    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
                    (b"access-control-allow-headers", CORS_HEADERS.encode()),
                    (b"vary", b"origin"),
                ],
            }
        await send(message)

    return send_with_headers


def make_app(agent: Agent, options: HttpOptions) -> Starlette:
    """Return the application.

    Raises:
        ConfigError: Two actions share a path and a verb.
    """
    actions = routes_of(agent.actions)
    site = HttpSite(agent, options)
    chats, events = ChatRoutes(site), EventRoutes(site)

    async def openapi(request: Request) -> Response:
        await site.identify(request)
        return CompactJson(describe(agent, actions))

    routes: list[Any] = [
        Route("/ui-capability", Endpoint(site, GET=site.capability)),
        Route("/openapi.json", Endpoint(site, GET=openapi)),
        *(Route(path, Endpoint(site, ANY=ActionRoute(site, verbs))) for path, verbs in actions.items()),
        Route("/api/chat", Endpoint(site, POST=chats.send)),
        Route("/api/chats", Endpoint(site, GET=chats.list_chats)),
        Route("/api/chat/{id}", Endpoint(site, GET=chats.read)),
        Route("/api/chat/{id}/messages", Endpoint(site, GET=chats.read)),
        Route("/api/chat/{id}/stream", Endpoint(site, GET=chats.resume)),
        Route("/api/chat/{id}/actions", Endpoint(site, POST=chats.act)),
        Route("/api/chat/{id}/stop", Endpoint(site, POST=chats.stop)),
        Route("/api/chat/{id}/events", Endpoint(site, GET=events.chat_events)),
    ]

    if options.page:
        page = PageRoutes(site)
        routes += [Route("/", Endpoint(site, GET=page.page)), *panel_routes(site, page)]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        releasing = asyncio.create_task(site.release_forgotten())
        yield
        await site.close()
        await releasing

    made = Starlette(routes=routes, lifespan=lifespan)
    made.router.redirect_slashes = False  # a path is served as it is declared, or not at all
    made.add_middleware(Border, options=options)
    made.add_exception_handler(404, _not_found)
    made.state.site = site
    return made


def panel_routes(site: HttpSite, page: PageRoutes) -> list[Any]:
    """Return the routes that a served page needs beside its own."""
    return [
        Route("/panel/{name}", Endpoint(site, GET=page.file)),
        Route("/actions/-/panel/frames", Endpoint(site, GET=page.frames)),
        Route("/actions/-/panel/commands", Endpoint(site, POST=page.command)),
    ]


async def _not_found(request: Request, error: Exception) -> Response:
    if inspect.isawaitable(error):
        raise AssertionError
    code = "unknown_action" if request.scope["path"].startswith("/actions/") else "not_found"
    return answer_error(404, code, "There is nothing here.")
