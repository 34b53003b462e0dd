"""An MCP server's tools as actions: the connection, and one action for each tool.

All connections live on one thread of their own, so that they serve any number of chats and outlive each call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import keyword
import logging
import re
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypeVar

import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from pydantic import WithJsonSchema

from .._json import JsonValue, dumps
from ..actions import Action
from ..actions.images import FIELD
from ..errors import ActionError, ConfigError

T = TypeVar("T")
MAX_DESCRIPTION = 2_000
MAX_TITLE = 100
MAX_PAGES = 100
MAX_TOOLS = 500
MAX_SCHEMA = 4_000
"""Characters of one parameter's schema; of a longer one only its type is shown."""
log = logging.getLogger("chatnb")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_TYPES: dict[Any, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}


class _Thread:
    """The loop of all connections; started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine there."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="chatnb-mcp", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


_thread = _Thread()


class Connection:
    """One connection to a server, kept until the process ends.

    Args:
        server: What `Client` takes.
        headers: For a URL.
    """

    def __init__(self, server: Any, headers: Mapping[str, str] | None) -> None:
        self._server = server
        self._headers = headers
        self._client: Client | None = None
        self._done: asyncio.Event | None = None
        self._serving: concurrent.futures.Future[None] | None = None

    def open(self, timeout: float) -> tuple[str, list[types.Tool]]:
        """Connect; return the server's name and its tools.

        Raises:
            ConfigError: It can't be reached.
        """
        ready: concurrent.futures.Future[tuple[str, list[types.Tool]]] = concurrent.futures.Future()
        self._serving = _thread.start(self._serve(ready))
        try:
            return ready.result(timeout)
        except TimeoutError:
            self._serving.cancel()
            raise ConfigError(f"The MCP server has not answered within {timeout:g} s; see timeout=.") from None
        except Exception as error:
            what = type(_first_cause(error)).__name__
            is_url = isinstance(self._server, str)
            hint = "is it running, and is the address right" if is_url else "does its command run by itself"
            raise ConfigError(f"The MCP server can't be used ({what}): {hint}?") from error

    async def _serve(self, ready: concurrent.futures.Future[tuple[str, list[types.Tool]]]) -> None:
        """Hold the connection open: its scopes have to be entered and left by one task."""
        try:
            async with AsyncExitStack() as stack:
                target = self._server
                if isinstance(target, str) and self._headers:
                    http = create_mcp_http_client(headers=dict(self._headers))
                    await stack.enter_async_context(http)
                    target = streamable_http_client(target, http_client=http)
                client = await stack.enter_async_context(Client(target))
                self._client, self._done = client, asyncio.Event()
                name = client.server_info.name if client.server_info is not None else "an MCP server"
                ready.set_result((name, await _list_tools(client)))
                await self._done.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else ConfigError("The connection ended."))
            if not isinstance(error, Exception):
                raise
        finally:
            self._client = None

    async def call(self, name: str, arguments: dict[str, JsonValue]) -> types.CallToolResult:
        """Call a tool; from any loop.

        Raises:
            ActionError: The server refuses, or is gone.
        """
        client = self._client
        if client is None:
            raise ActionError("The MCP server is gone.", code="action_failed", status_code=502)
        running = _thread.start(client.call_tool(name, arguments))
        try:
            return await asyncio.wrap_future(running)
        except MCPError as error:
            raise ActionError(_clean(str(error), MAX_DESCRIPTION)) from error

    def close(self) -> None:
        """End the connection."""
        done = self._done
        if done is not None and self._serving is not None and not self._serving.done():

            async def end() -> None:
                done.set()

            _thread.start(end())


async def _list_tools(client: Client) -> list[types.Tool]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def connect(
    server: Any,
    *,
    prefix: str,
    headers: Mapping[str, str] | None,
    needs_approval: bool | None,
    timeout: float,
) -> list[Action]:
    """Connect, and make the actions; see `mcp.mcp_actions`."""
    connection = Connection(_target(server), headers)
    name, tools = connection.open(timeout)
    label = _clean(name, MAX_TITLE)
    if len(tools) > MAX_TOOLS:
        log.warning("the MCP server %s has %d tools; the first %d are taken", label, len(tools), MAX_TOOLS)
    names = _distinct([_name(prefix + tool.name) for tool in tools[:MAX_TOOLS]], 64)
    return [
        _action(connection, tool, name, label, needs_approval)
        for tool, name in zip(tools[:MAX_TOOLS], names, strict=True)
    ]


def _target(server: Any) -> Any:
    if isinstance(server, str):
        if not server.startswith(("http://", "https://")):
            raise ConfigError("an MCP server is named by its URL, or by a list: the command and its arguments")
        return server
    if isinstance(server, Server | MCPServer | StdioServerParameters):
        return server
    if isinstance(server, Sequence) and server and all(isinstance(word, str) for word in server):
        return StdioServerParameters(command=server[0], args=list(server[1:]))
    raise ConfigError("an MCP server is a URL, a command as a list, or a Server of the MCP SDK")


def _action(connection: Connection, tool: types.Tool, name: str, server: str, needs_approval: bool | None) -> Action:
    hints = tool.annotations
    is_read = hints is not None and hints.read_only_hint is True
    # Where nothing is said a tool may destroy: the protocol's own default.
    is_harmless = is_read or (hints is not None and hints.destructive_hint is False)
    said = _clean(tool.description or tool.title or tool.name, MAX_DESCRIPTION)
    return Action(
        _function(connection, tool, name),
        name=name,
        title=_clean(tool.title, MAX_TITLE) if tool.title else None,
        description=f"Tool of the MCP server {server}, described by itself: {said}",
        read_only=is_read,
        needs_approval=(not is_harmless) if needs_approval is None else needs_approval,
        idempotent=not is_read and hints is not None and hints.idempotent_hint is True,
    )


def _function(connection: Connection, tool: types.Tool, name: str) -> Callable[..., Any]:
    """Return the handler: a function with the tool's parameters."""
    properties, needed = tool.input_schema.get("properties"), tool.input_schema.get("required")
    schemas: dict[str, Any] = properties if isinstance(properties, dict) else {}
    required = {key for key in needed if isinstance(key, str)} if isinstance(needed, list) else set()
    names = dict(zip(_distinct([_identifier(key) for key in schemas], 100), schemas, strict=True))

    async def call(**given: Any) -> JsonValue:
        arguments = {names[key]: value for key, value in given.items() if value is not None or names[key] in required}
        return _result(await connection.call(tool.name, arguments))

    parameters = [
        inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=_annotation(schemas[theirs], theirs in required),
            default=inspect.Parameter.empty if theirs in required else None,
        )
        for key, theirs in names.items()
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__name__ = name
    return call


def _annotation(schema: Any, is_required: bool) -> Any:
    given = schema if isinstance(schema, dict) else {}
    kind = given.get("type")
    base = _TYPES.get(kind, Any) if isinstance(kind, str) else Any
    shown = _cleaned(given)
    if len(dumps(shown)) > MAX_SCHEMA:
        shown = {"type": kind} if base is not Any else {}
    return Annotated[base if is_required else base | None, WithJsonSchema(shown)]


def _cleaned(value: Any) -> Any:
    """Return a schema with every text cleaned and no references to elsewhere."""
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items() if key not in ("$ref", "$schema", "$id", "$defs")}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return _clean(value, MAX_DESCRIPTION) if isinstance(value, str) else value


def _result(result: types.CallToolResult) -> JsonValue:
    """Return what a tool gave: structured content, else its text; images for models that take them.

    Raises:
        ActionError: The tool failed.
    """
    text = "\n".join(said for block in result.content if (said := _said(block)) is not None)
    if result.is_error:
        raise ActionError(_clean(text, MAX_DESCRIPTION) or "The tool failed.")
    images: list[JsonValue] = [
        {"data": block.data, "media_type": block.mime_type}
        for block in result.content
        if isinstance(block, types.ImageContent)
    ]
    value: JsonValue = result.structured_content
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key != FIELD}  # a stranger's JSON names no images
    if value is None:
        value = text
    if not images:
        return value
    return {**value, FIELD: images} if isinstance(value, dict) else {"result": value, FIELD: images}


def _said(block: types.ContentBlock) -> str | None:
    """Return what a block of a result says; of an image nothing, of what no model can read here a note."""
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    return None if isinstance(block, types.ImageContent) else f"[{block.type}]"


def _clean(text: str, most: int) -> str:
    text = _CONTROL.sub("", text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _name(name: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
    return cleaned if cleaned[:1].isalpha() else f"t_{cleaned}"[:64]


def _identifier(name: str) -> str:
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)[:90]
    is_plain = cleaned.isidentifier() and not keyword.iskeyword(cleaned) and not cleaned.startswith("_")
    return cleaned if is_plain else f"p_{cleaned}"


def _distinct(names: Sequence[str], most: int) -> list[str]:
    """Return names that differ: the second of two gets a number."""
    found: list[str] = []
    for name in names:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name[: most - 1 - len(str(number))]}_{number}"
        found.append(free)
    return found


def _first_cause(error: BaseException) -> BaseException:
    """What failed, out of the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
