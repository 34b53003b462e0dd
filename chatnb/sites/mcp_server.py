"""Tools of an MCP server: which there are, and what a call of one comes to (spec/actions.md, 11.2 and 11.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from mcp.server import Server, ServerRequestContext

from .. import __version__
from .._json import JsonValue, dumps
from ..actions import Action, Identity
from ..actions.exposure import is_exposed, mcp_hints
from ..actions.failures import CallFailure, failure_of
from ..actions.mcp_output import advertised_output
from ..actions.output import contract_error
from ..actions.settled import Settled
from .mcp_approval import Elicitation
from .place import SitePlace

log = logging.getLogger("chatnb")
IDENTITY_KEY = "chatnb.identity"

Context = ServerRequestContext[Any, Any]


def make_server(place: SitePlace, identity: Identity | None) -> Server[Any]:
    """Return the server.

    Args:
        place: The agent, and the way to the runtime.
        identity: Who calls where the transport does not say.
    """
    tools = Tools(place, identity)
    return Server(
        place.agent.name,
        version=__version__,
        instructions=place.agent.instructions if isinstance(place.agent.instructions, str) else None,
        on_list_tools=tools.list_all,
        on_call_tool=tools.call,
        get_tool_input_schema=tools.input_schema,
    )


class Tools:
    """The tools of one server."""

    def __init__(self, place: SitePlace, identity: Identity | None) -> None:
        self._place = place
        self._identity = identity
        self._actions = {a.name: a for a in place.agent.actions if is_exposed(a, "mcp")}
        self._contracts = {
            a.name: Draft202012Validator(
                advertised_output(a.output), format_checker=Draft202012Validator.FORMAT_CHECKER
            )
            for a in self._actions.values()
            if a.options.mcp_output_schema and a.output is not None
        }

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return a tool's input schema, or None."""
        action = self._actions.get(name)
        return action.input_schema if action is not None else None

    async def list_all(self, _context: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Answer `tools/list`."""
        return types.ListToolsResult(
            tools=[_tool(action, self._contracts.get(action.name)) for action in self._actions.values()]
        )

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer `tools/call`."""
        identity = self._identity_of(context)
        stop = asyncio.Event()
        elicitation = Elicitation(self._place, context, params, identity, stop)
        loop = asyncio.get_running_loop()

        def show(progress: JsonValue, _lines: Sequence[JsonValue]) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(_report, context, dict(progress))

        try:
            settled = await self._place.work(
                lambda: self._place.dispatcher.dispatch(
                    params.name,
                    params.arguments or {},
                    site="mcp",
                    identity=identity,
                    confirm=elicitation.confirm if elicitation.is_possible else None,
                    stop=stop,
                    show=show,
                ),
                f"mcp call of {params.name}",
            )
        except asyncio.CancelledError:
            # The client has cancelled the request, or is gone: the call is stopped, and written down as that.
            self._place.runtime.post(stop.set)
            raise
        if elicitation.required is not None:
            return elicitation.required
        if settled.failure is not None:
            return self._failed(settled, settled.failure)
        return self._done(settled)

    def _identity_of(self, context: Context) -> Identity | None:
        scope = getattr(context.request, "scope", None)
        if isinstance(scope, dict) and IDENTITY_KEY in scope:
            found: Identity | None = scope[IDENTITY_KEY]
            return found
        return self._identity

    def _done(self, settled: Settled) -> types.CallToolResult:
        action = self._actions[settled.action]
        text = settled.output if isinstance(settled.output, str) else dumps(settled.output)
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=self._clean(text))]
        content += [image for item in settled.images if (image := _image(item)) is not None]
        contract = self._contracts.get(settled.action)
        if contract is None or action.output is None:
            return types.CallToolResult(content=content)
        structured = action.output.dump_python(settled.value, mode="json", by_alias=True)
        if isinstance(structured, list):
            structured = {"items": structured}
        problem = _contract_problem(contract, structured, settled)
        if problem is not None:
            return self._failed(settled, problem)
        return types.CallToolResult(content=content, structured_content=structured)

    def _failed(self, settled: Settled, problem: CallFailure) -> types.CallToolResult:
        text = self._place.say_failure(settled) if settled.failure is problem else problem.public_text
        said = f"{text} (errorCode: {problem.code})"
        return types.CallToolResult(content=[types.TextContent(type="text", text=self._clean(said))], is_error=True)

    def _clean(self, text: str) -> str:
        return text if self._place.redact is None else self._place.redact(text)


def _tool(action: Action, contract: Draft202012Validator | None) -> types.Tool:
    return types.Tool(
        name=action.name,
        title=action.title,
        description=action.description,
        input_schema=action.input_schema,
        output_schema=contract.schema if contract is not None else None,
        annotations=types.ToolAnnotations.model_validate(mcp_hints(action)),
    )


def _image(item: JsonValue) -> types.ImageContent | None:
    """Return an image part; one that is only a link stays a note in the text."""
    url = item["data"]["url"]
    if not url.startswith("data:"):
        return None
    return types.ImageContent(type="image", data=url.partition(",")[2], mime_type=item["mediaType"])


def _contract_problem(contract: Draft202012Validator, structured: JsonValue, settled: Settled) -> CallFailure | None:
    """Return why a result does not fit what is advertised, in its JSON form; no value is said."""
    issues = tuple((_path(error, contract.schema), str(error.validator)) for error in contract.iter_errors(structured))
    if not issues:
        return None
    error = contract_error(settled.action, issues, effect=settled.effect)
    error.contract = "mcp"
    return failure_of(error)


def _path(error: ValidationError, schema: Any) -> str:
    """Return the path of an issue: declared names alone, since the keys of a dict are values."""
    steps: list[str] = []
    for step in error.absolute_path:
        if isinstance(step, int):
            steps.append(str(step))
            schema = schema.get("items", {}) if isinstance(schema, dict) else {}
        else:
            declared = schema.get("properties", {}) if isinstance(schema, dict) else {}
            steps.append(str(step) if step in declared else "*")
            schema = declared.get(step, {})
    return ".".join(steps) or "(root)"


_tasks: set[asyncio.Task[None]] = set()


def _report(context: Context, progress: dict[str, Any]) -> None:
    """Send a progress notification; the call does not wait for it."""
    task = asyncio.get_running_loop().create_task(_send_progress(context, progress))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _send_progress(context: Context, progress: dict[str, Any]) -> None:
    try:
        await context.session.report_progress(
            float(progress.get("done") or 0), progress.get("total"), progress.get("text")
        )
    except Exception as error:
        log.debug("progress could not be sent", exc_info=error)
