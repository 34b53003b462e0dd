"""`chatnb serve`, `chatnb mcp`, `chatnb a2a`: run the sites of an agent on this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ..actions import find_identity
from ..errors import ConfigError
from .requirements import require
from .targets import has_module, load_agent

if TYPE_CHECKING:
    import uvicorn

    from ..actions import Identity
    from ..agent import Agent

HOST = "127.0.0.1"
HOSTS = ("127.0.0.1", "localhost", "[::1]")
GRACE_SECONDS = 5

_port = click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free one.")
_authenticate = click.option(
    "--authenticate",
    metavar="MODULE:FUNCTION",
    help="Says who calls, given the request. Without it, whoever reaches the server is you.",
)


@click.command()
@click.argument("target")
@_port
@_authenticate
@click.option("--origin", "origins", multiple=True, metavar="URL", help="Pages of this origin may call too.")
def serve(target: str, port: int, authenticate: str | None, origins: tuple[str, ...]) -> None:
    """Serve an agent over HTTP: the panel at /, chats for AI SDK clients, its actions. TARGET is module:agent.

    The server answers on this machine alone. Ctrl-C ends it; answers that run then go on at the next start.
    """
    require("http")
    from .http import app

    agent = load_agent(target)
    application = app(
        agent,
        authenticate=load_function(authenticate),
        origins=origins,
        hosts=HOSTS,
        identity=whoever_started(agent),
    )
    run(application, port, application.state.site.begin_closing, what=agent.name)


@click.command()
@click.argument("target")
@click.option("--http", "over_http", is_flag=True, help="Streamable HTTP at /mcp instead of stdin and stdout.")
@_port
@_authenticate
def mcp(target: str, over_http: bool, port: int, authenticate: str | None) -> None:
    """Serve an agent's actions to MCP clients. TARGET is module:agent."""
    require("mcp")
    from .mcp import run_stdio, streamable_app

    if not over_http:
        run_stdio(lambda: load_agent(target))
        return
    agent = load_agent(target)
    application = streamable_app(
        agent, authenticate=load_function(authenticate), identity=whoever_started(agent), hosts=HOSTS
    )
    run(application, port, lambda: None, what=agent.name, path="/mcp")


@click.command()
@click.argument("target")
@_port
@_authenticate
def a2a(target: str, port: int, authenticate: str | None) -> None:
    """Serve an agent to other agents (A2A). TARGET is module:agent."""
    require("a2a")
    from .a2a import app

    agent = load_agent(target)
    address = free_port(port)
    application = app(
        agent,
        authenticate=load_function(authenticate),
        identity=whoever_started(agent),
        url=f"http://{HOST}:{address.getsockname()[1]}",
        hosts=HOSTS,
    )
    run(application, port, lambda: None, what=agent.name, listener=address)


def whoever_started(agent: Agent) -> Identity | None:
    """Return who works here: a person at a command line has started this server, for this machine alone."""
    return find_identity(agent.identity, host="terminal")


def load_function(target: str | None) -> Callable[..., Any] | None:
    """Import `module:function`.

    Raises:
        ConfigError: There is no such function. What the module itself raises is passed on.
    """
    if target is None:
        return None
    module, _, name = target.partition(":")
    is_named = module and name and has_module(module)
    found: Callable[..., Any] | None = getattr(import_module(module), name, None) if is_named else None
    if not callable(found):
        raise ConfigError(f"--authenticate takes module:function; {target!r} is none")
    return found


def free_port(port: int) -> socket.socket:
    """Return a listening socket on this machine.

    Raises:
        ConfigError: The port is taken.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(1024)  # who comes before the server runs is kept waiting, not refused
    except OSError as error:
        listener.close()
        raise ConfigError(f"The port {port} is taken: name a free one with --port.") from error
    return listener


def run(
    application: Any,
    port: int,
    begin_closing: Callable[[], None],
    *,
    what: str,
    path: str = "/",
    listener: socket.socket | None = None,
) -> None:
    """Run an application until Ctrl-C or SIGTERM.

    Args:
        application: The ASGI application.
        port: Where; 0 takes a free one.
        begin_closing: Called at the signal: ends the streams, which would otherwise keep the server.
        what: What is served, for the line that tells the address.
        path: Its first path.
        listener: A socket to use.
    """
    listener = listener or free_port(port)
    server = make_server(application, begin_closing)
    click.echo(f"{what}: http://{HOST}:{listener.getsockname()[1]}{path}")
    try:
        asyncio.run(server.serve([listener]))
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()


def make_server(application: Any, begin_closing: Callable[[], None]) -> uvicorn.Server:
    """Return a server that tells its streams when it ends."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Take a signal."""
            begin_closing()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        application,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
    )
    return Server(config)
