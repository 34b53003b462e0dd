"""The MCP site: an agent's actions as the tools of an MCP server, and an MCP server's tools as actions.

`run_stdio` and `streamable_app` serve; `mcp_actions` is the client. All else is in the files `mcp_*.py`, loaded on use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .requirements import require

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.applications import Starlette
    from starlette.requests import Request

    from ..actions import Action, Identity
    from ..agent import Agent

__all__ = ["mcp_actions", "run_stdio", "server", "streamable_app"]


def server(agent: Agent, *, identity: Identity | None = None) -> Server[Any]:
    """Return an MCP server that offers the exposed actions of an agent (spec/actions.md, 11.2 to 11.4).

    Args:
        agent: The agent.
        identity: Who calls, where the transport does not say.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
    """
    require("mcp")
    from .mcp_server import make_server
    from .place import SitePlace

    return make_server(SitePlace(agent), identity)


def run_stdio(load: Callable[[], Agent]) -> None:
    """Serve an agent over stdin and stdout until the client ends.

    Args:
        load: Imports the agent; whatever it prints goes to stderr.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
    """
    require("mcp")
    from .mcp_transports import serve_stdio

    serve_stdio(load)


def streamable_app(
    agent: Agent,
    *,
    authenticate: Callable[[Request], Identity | str | Awaitable[Identity | str | None] | None] | None = None,
    identity: Identity | None = None,
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
    path: str = "/mcp",
) -> Starlette:
    """Return an ASGI application that serves an agent over streamable HTTP.

    Args:
        agent: The agent.
        authenticate: Returns who calls, given the request; None is a 401.
        identity: Who calls, where there is no `authenticate`.
        hosts: The host names that the server answers to; None: any.
        origins: Other origins whose pages may call.
        path: Where.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
    """
    require("mcp")
    from .mcp_transports import make_streamable

    return make_streamable(agent, authenticate=authenticate, identity=identity, hosts=hosts, origins=origins, path=path)


def mcp_actions(
    server: str | Sequence[str] | Any,
    *,
    prefix: str = "",
    headers: Mapping[str, str] | None = None,
    needs_approval: bool | None = None,
    timeout: float = 30.0,
) -> list[Action]:
    """Return the tools of an MCP server as actions.

    What the server says of itself is a stranger's text: names and descriptions are cut and cleaned, and its
    annotations only choose defaults: a tool that says it only reads is a read; one that is not said to be harmless
    needs approval.

    Args:
        server: A URL (streamable HTTP), a command with its arguments (stdio), or an MCP `Server` of this process.
        prefix: Put before each tool's name.
        headers: For a URL: sent with every request, for instance an authorization.
        needs_approval: Overrides what the annotations suggest, for all tools.
        timeout: Seconds for the connection.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
        ConfigError: The server can't be reached, or is none of these.
    """
    require("mcp")
    from .mcp_client import connect

    return connect(server, prefix=prefix, headers=headers, needs_approval=needs_approval, timeout=timeout)
