"""The HTTP site: an agent as a web service for AI SDK clients, action routes and the served page.

`app()` makes an ASGI application; `chatnb serve` runs it. Everything else of the site is in the files `http_*.py`,
which are loaded when an app is made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from .requirements import require

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

    from ..actions import Identity
    from ..agent import Agent
    from ..turns import ClientTool

__all__ = ["app"]


def app(
    agent: Agent,
    *,
    authenticate: Callable[[Request], Identity | str | Awaitable[Identity | str | None] | None] | None = None,
    client_tools: Sequence[ClientTool] = (),
    origins: Sequence[str] = (),
    hosts: Sequence[str] | None = None,
    page: bool = True,
    secret: str | bytes | None = None,
    resume_within: float = 1.5,
    keep_alive: float = 15.0,
    max_body_bytes: int = 32 * 1024 * 1024,
    identity: Identity | None = None,
) -> Starlette:
    """Return an ASGI application that serves an agent.

    Args:
        agent: The agent.
        authenticate: Returns who calls, given the request: an `Identity`, its id, or None for nobody, which is a 401.
            Sync or async. Without it whoever reaches the server is who works here (`Agent(identity=)`,
            `CHATNB_IDENTITY`, on a terminal the login user), or nobody.
        client_tools: Tools that the page runs or a person answers.
        origins: Other origins (`http://localhost:3000`) whose pages may call the server.
        hosts: The host names that the server answers to; None: any. It keeps pages of other names, which point to
            this address, out.
        page: Serve the panel at `/`.
        secret: Signs the proof that a click comes from the page. Several processes of one site need the same.
        resume_within: Seconds in which a turn whose reader went away may be taken up again before it is stopped.
        keep_alive: Seconds of silence after which a stream sends a comment.
        max_body_bytes: The size limit of chat requests; actions have limits of their own.
        identity: Who works here, where there is no `authenticate`.

    Raises:
        MissingExtraError: Starlette is not installed.
        ConfigError: An option can't be so, or two actions share a route.
    """
    require("http")
    from .http_app import make_app
    from .http_site import HttpOptions

    if authenticate is not None and not callable(authenticate):
        raise ConfigError("authenticate is a function of the request")
    for name, value in (("resume_within", resume_within), ("keep_alive", keep_alive)):
        _check_seconds(name, value)
    if type(max_body_bytes) is not int or max_body_bytes < 1:
        raise ConfigError("max_body_bytes is a whole number above 0")
    options = HttpOptions(
        authenticate=authenticate,
        client_tools=tuple(client_tools),
        origins=tuple(origin.rstrip("/").lower() for origin in origins),
        hosts=None if hosts is None else tuple(host.lower() for host in hosts),
        page=page,
        secret=secret.encode() if isinstance(secret, str) else secret,
        resume_within=float(resume_within),
        keep_alive=float(keep_alive),
        max_body_bytes=max_body_bytes,
        identity=identity,
    )
    return make_app(agent, options)


def _check_seconds(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 86_400:
        raise ConfigError(f"{name} is a number of seconds")
