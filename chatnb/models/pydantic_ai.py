"""Any other provider, through pydantic-ai, which already speaks to them (extra `pydantic-ai`).

chatnb keeps the loop: tools are passed as declarations, so no provider's library ever runs an action.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from chatnb.errors import MissingExtraError, ModelRequestError, ModelStreamError
from chatnb.models.anthropic_errors import error_class
from chatnb.models.anthropic_tools import AnthropicTools, anthropic_tools
from chatnb.models.network import check_connection
from chatnb.models.port import Chunk, Continuation, ModelRequest, StepEnd, StepItem
from chatnb.models.pydantic_ai_history import kept_of, pydantic_ai_history
from chatnb.models.scripted import input_end
from chatnb.models.usage import Usage

_log = logging.getLogger("chatnb")
_FINISH = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}


class PydanticAIModel:
    """A model of any provider that pydantic-ai knows.

    What a provider lacks is left out, and logged once.

    Args:
        model: A name such as `openai:gpt-5-mini`, or a model object of pydantic-ai.

    Raises:
        MissingExtraError: pydantic-ai is not installed.

    Example:
        agent = Agent(PydanticAIModel("openai:gpt-5-mini"))  # needs its key with the first message
    """

    continuation: Continuation = "user-message"
    accepts_images = True

    def __init__(self, model: Any) -> None:
        if find_spec("pydantic_ai") is None:
            raise MissingExtraError('PydanticAIModel needs pydantic-ai: pip install "chatnb[pydantic-ai]".')
        self.model = model
        self.name = model if isinstance(model, str) else str(getattr(model, "model_name", type(model).__name__))
        self._logged: set[str] = set()

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Answer one step.

        Raises:
            ModelError: By the status of the provider's answer, as for `AnthropicModel`.
            ModelStreamError: The answer broke off.
        """
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.exceptions import ModelHTTPError, UserError
        from pydantic_ai.models import ModelRequestParameters, infer_model
        from pydantic_ai.tools import ToolDefinition

        try:
            model = infer_model(self.model)
            base_url = getattr(model, "base_url", None)
            if base_url:
                check_connection(str(base_url))
            tools = anthropic_tools(request.actions)
            declared = [
                ToolDefinition(
                    name=tool["name"],
                    description=tool.get("description"),
                    parameters_json_schema=tool["input_schema"],
                )
                for tool in tools.blocks
            ]
            settings: Any = dict(request.settings) or None
            parameters = ModelRequestParameters(function_tools=declared)
            reader = _PartReader(tools, self._log_once)
            history = pydantic_ai_history(request, tools)
            async with model_request_stream(
                model, history, model_settings=settings, model_request_parameters=parameters
            ) as stream:
                async for event in stream:
                    for item in reader.feed(event):
                        yield item
                for item in reader.close():
                    yield item
                yield _step_end(_response(stream), reader.has_calls)
        except ModelHTTPError as error:
            made = error_class(error.status_code)
            text = f"The provider refused with status {error.status_code}: {_said(error)}"
            raise made(text, status=error.status_code) from error
        except UserError as error:
            is_bare = isinstance(self.model, str) and ":" not in self.model
            hint = ". A name has its provider in front, as in 'openai:gpt-5'." if is_bare else ""
            raise ModelRequestError(f"{error}{hint}") from error
        except ImportError as error:
            # A provider's own library is no part of the extra; pydantic-ai's text has the command.
            raise ModelRequestError(f"{self!r} needs a library that is not installed. {error}") from error
        except Exception as error:
            # Newer versions tell a lost connection from all else; older ones raise what the transport did.
            if any(kind.__name__ == "ModelConnectionError" for kind in type(error).__mro__):
                raise ModelStreamError(
                    f"The connection to the provider broke off: {error}", kind="connection_lost"
                ) from error
            raise

    def _log_once(self, what: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.info("Model %r gave %s, which chatnb leaves out.", self.name, what)


@dataclass
class _OpenPart:
    kind: str
    id: str = ""
    name: str = ""
    raw: list[str] = field(default_factory=list)
    arguments: Mapping[str, str] = field(default_factory=dict)
    kept: dict[str, Any] | None = None


class _PartReader:
    """Turns pydantic-ai's part events into chunks. Parts may overlap: each is told by its index."""

    def __init__(self, tools: AnthropicTools, log_once: Callable[[str], None]) -> None:
        self.has_calls = False
        self._tools = tools
        self._log_once = log_once
        self._open: dict[int, _OpenPart] = {}

    def feed(self, event: Any) -> list[StepItem]:
        kind = event.event_kind
        if kind == "part_start":
            return [*self._end(event.index), *self._start(event.index, event.part)] or [None]
        if kind == "part_delta":
            return list(self._delta(event.index, event.delta)) or [None]
        if kind == "part_end":
            return self._part_end(event) or [None]
        return [None]

    def _part_end(self, event: Any) -> list[StepItem]:
        part = self._open.get(event.index)
        if part is None:
            return []
        part.kept = kept_of(event.part, getattr(event, "canonical_system", None))
        # pydantic-ai ends a part when the next begins, though deltas of parallel calls may come in turns.
        return [] if part.kind == "call" else self._end(event.index)

    def close(self) -> list[StepItem]:
        """End what is open."""
        return [item for index in sorted(self._open) for item in self._end(index)]

    def _end(self, index: int) -> list[StepItem]:
        part = self._open.pop(index, None)
        if part is None:
            return []
        more: Chunk = {"providerMetadata": part.kept} if part.kept else {}
        if part.kind != "call":
            return [{"type": f"{part.kind}-end", "id": part.id, **more}]
        end = input_end(part.id, part.name, "".join(part.raw), **more)
        if part.arguments and end["type"] == "tool-input-available":
            end["input"] = {part.arguments.get(key, key): value for key, value in end["input"].items()}
        return [end]

    def _start(self, index: int, part: Any) -> Iterator[Chunk]:
        if part.part_kind in ("text", "thinking"):
            kind = "text" if part.part_kind == "text" else "reasoning"
            self._open[index] = _OpenPart(kind, f"{kind}-{index}")
            yield {"type": f"{kind}-start", "id": f"{kind}-{index}"}
            if part.content:
                yield {"type": f"{kind}-delta", "id": f"{kind}-{index}", "delta": part.content}
        elif part.part_kind == "tool-call":
            self.has_calls = True
            name = self._tools.names.get(part.tool_name, part.tool_name)
            arguments = self._tools.arguments.get(part.tool_name, {})
            made = self._open[index] = _OpenPart("call", part.tool_call_id, name, arguments=arguments)
            yield {"type": "tool-input-start", "toolCallId": made.id, "toolName": name}
            yield from _arguments(made, part.args)
        else:
            self._log_once(f"a {part.part_kind} part")

    def _delta(self, index: int, delta: Any) -> Iterator[Chunk]:
        part = self._open.get(index)
        if part is None:
            return
        if part.kind == "call":
            yield from _arguments(part, getattr(delta, "args_delta", None))
            return
        text = getattr(delta, "content_delta", None)
        if text:
            yield {"type": f"{part.kind}-delta", "id": part.id, "delta": text}


def _arguments(part: _OpenPart, args: Any) -> Iterator[Chunk]:
    text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False) if args else ""
    if text:
        part.raw.append(text)
        yield {"type": "tool-input-delta", "toolCallId": part.id, "inputTextDelta": text}


def _said(error: Any) -> str:
    """The provider's own text, out of the bodies that providers send."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    text = inner.get("message") if isinstance(inner, Mapping) else inner
    return str(text or body or error.message)


def _response(stream: Any) -> Any:
    found = getattr(stream, "response", None)
    return stream.get() if found is None else found


def _step_end(response: Any, has_calls: bool) -> StepEnd:
    if getattr(response, "state", "complete") != "complete":
        raise ModelStreamError("The model's stream ended before its answer was whole.", kind="incomplete")
    reason = _FINISH.get(str(response.finish_reason), "other") if response.finish_reason else None
    return StepEnd(reason or ("tool-calls" if has_calls else "stop"), _usage(response))


def _usage(response: Any) -> Usage | None:
    used = response.usage
    if not used.input_tokens and not used.output_tokens:
        return None
    # pydantic-ai counts what came from the cache within the input; chatnb keeps it apart.
    read, write = used.cache_read_tokens or 0, used.cache_write_tokens or 0
    try:
        cost: float | None = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError, AttributeError):
        cost = None
    return Usage(max(0, used.input_tokens - read - write), used.output_tokens, read, write, None, cost)
