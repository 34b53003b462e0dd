"""The MCP server on stdio and on streamable HTTP, with the site's own authentication there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ..actions import Identity
from .http_app import Border
from .http_errors import HttpProblem, problem_of
from .http_site import Authenticate, HttpOptions, identify
from .mcp_server import IDENTITY_KEY, make_server
from .place import SitePlace

if TYPE_CHECKING:
    from ..agent import Agent

SESSION_HEADER = b"mcp-session-id"


def serve_stdio(load: Callable[[], Agent]) -> None:
    """Serve over stdin and stdout until the client ends."""

    async def serve() -> None:
        async with stdio_server() as (read, write):
            with redirect_stdout(sys.stderr):
                place = await asyncio.to_thread(lambda: SitePlace(load()))
            server = make_server(place, place.local_identity())
            await server.run(read, write, server.create_initialization_options())

    try:
        asyncio.run(serve())
    except BaseExceptionGroup as group:
        # The SDK's task group wraps what went wrong; the command line tells it as it is.
        raise _alone(group) from None


def _alone(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class Gate:
    """Lets requests of known callers through, and keeps each session to the one who opened it.

    Args:
        manager: Serves the sessions.
        authenticate: Says who calls.
        identity: Who calls where there is no authentication.
    """

    def __init__(
        self,
        manager: StreamableHTTPSessionManager,
        authenticate: Authenticate | None,
        identity: Identity | None,
    ) -> None:
        self._manager = manager
        self._authenticate = authenticate
        self._identity = identity
        self._owners: dict[bytes, str | None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        request = Request(scope, receive)
        try:
            identity = await identify(request, self._authenticate, self._identity)
            self._check_session(request, identity)
        except HttpProblem as problem:
            await problem.response()(scope, receive, send)
            return
        except Exception as error:  # noqa: BLE001 - what authentication meets is answered, never shown
            await problem_of(error).response()(scope, receive, send)
            return
        scope[IDENTITY_KEY] = identity

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                for name, value in message.get("headers", ()):
                    if name.lower() == SESSION_HEADER:
                        self._owners.setdefault(value, _id(identity))
            await send(message)

        await self._manager.handle_request(scope, receive, noting)

    def _check_session(self, request: Request, identity: Identity | None) -> None:
        session = request.headers.get("mcp-session-id")
        if session is None:
            return
        key = session.encode("latin-1", "replace")
        if key in self._owners and self._owners[key] != _id(identity):
            raise HttpProblem(404, "not_found", "There is no such session.")
        if request.method == "DELETE":
            self._owners.pop(key, None)


def _id(identity: Identity | None) -> str | None:
    return identity.id if identity is not None else None


def make_streamable(
    agent: Agent,
    *,
    authenticate: Authenticate | None,
    identity: Identity | None,
    hosts: Sequence[str] | None,
    origins: Sequence[str],
    path: str,
) -> Starlette:
    """Return the ASGI application."""
    place = SitePlace(agent)
    local = identity or place.local_identity()
    manager = StreamableHTTPSessionManager(make_server(place, local))
    gate = Gate(manager, authenticate, local)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    options = HttpOptions(
        hosts=None if hosts is None else tuple(host.lower() for host in hosts),
        origins=tuple(origin.rstrip("/").lower() for origin in origins),
    )
    routes: list[Any] = [Route(path, gate)]
    made = Starlette(routes=routes, lifespan=lifespan)
    made.router.redirect_slashes = False
    made.add_middleware(Border, options=options)
    return made
