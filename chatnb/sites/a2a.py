"""The A2A site: an agent for other agents, with tasks that wait for a person's approval (spec/actions.md, 11.5).

`app()` makes an ASGI application; `chatnb a2a` runs it. All else is in the files `a2a_*.py`, loaded on use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from .requirements import require

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

    from ..actions import Identity
    from ..agent import Agent

__all__ = ["app"]


def app(
    agent: Agent,
    *,
    url: str = "http://127.0.0.1:8000",
    description: str | None = None,
    authenticate: Callable[[Request], Identity | str | Awaitable[Identity | str | None] | None] | None = None,
    identity: Identity | None = None,
    hosts: Sequence[str] | None = None,
    secret: str | bytes | None = None,
    max_body_bytes: int = 32 * 1024 * 1024,
) -> Starlette:
    """Return an ASGI application that serves an agent to other agents.

    The agent card is at `/.well-known/agent-card.json`, JSON-RPC at `/`. A call that needs approval leaves its task
    `input-required`; its owner decides with a proven click at `/actions/-/tasks/{id}/decision`.

    Args:
        agent: The agent.
        url: Where the server is reached, for the card.
        description: What the card says; default: the agent's instructions' first line, or its name.
        authenticate: Returns who calls, given the request; None is a 401.
        identity: Who calls, where there is no `authenticate`.
        hosts: The host names that the server answers to; None: any.
        secret: Signs the proof that a click comes from the page.
        max_body_bytes: The size limit of requests.

    Raises:
        MissingExtraError: The A2A SDK or Starlette is not installed.
    """
    require("a2a")
    from .a2a_app import make_app
    from .http_site import HttpOptions

    options = HttpOptions(
        authenticate=authenticate,
        identity=identity,
        hosts=None if hosts is None else tuple(host.lower() for host in hosts),
        secret=secret.encode() if isinstance(secret, str) else secret,
        max_body_bytes=max_body_bytes,
    )
    return make_app(agent, options, url=url.rstrip("/"), description=description)
