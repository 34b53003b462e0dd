"""Any other provider, through pydantic-ai, which already speaks to them (extra `pydantic-ai`).

chatnb keeps the loop: tools are passed as declarations, so no provider's library ever runs an action.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from chatnb.errors import MissingExtraError, ModelRequestError, ModelStreamError
from chatnb.models.anthropic_blocks import clean_id, unused_name
from chatnb.models.anthropic_errors import error_class
from chatnb.models.anthropic_mapping import anthropic_messages
from chatnb.models.network import check_connection
from chatnb.models.port import Chunk, Continuation, ModelRequest, StepEnd, StepItem
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
            names: dict[str, str] = {}
            tools = []
            for spec in request.actions:
                sent = unused_name(clean_id(spec.name, "unnamed"), set(names))
                names[sent] = spec.name
                schema = {**spec.input_schema, "type": "object"}
                tools.append(ToolDefinition(name=sent, description=spec.description, parameters_json_schema=schema))
            settings: Any = dict(request.settings) or None
            parameters = ModelRequestParameters(function_tools=tools)
            reader = _PartReader(names, self._log_once)
            async with model_request_stream(
                model, _history(request), model_settings=settings, model_request_parameters=parameters
            ) as stream:
                async for event in stream:
                    for item in reader.feed(event):
                        yield item
                for item in reader.close():
                    yield item
                yield _step_end(_response(stream), reader.has_calls)
        except ModelHTTPError as error:
            made = error_class(error.status_code)
            text = f"The provider refused with status {error.status_code}: {error.body or error.message}"
            raise made(text, status=error.status_code) from error
        except UserError as error:
            raise ModelRequestError(str(error)) from error

    def _log_once(self, what: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.info("Model %r gave %s, which chatnb leaves out.", self.name, what)


def _history(request: ModelRequest) -> list[Any]:
    """The history in pydantic-ai's messages, with every call answered and roles in turn."""
    from pydantic_ai import messages as pai

    history: list[Mapping[str, Any]] = list(request.messages)
    if request.instructions:
        history.insert(0, {"role": "system", "content": request.instructions})
    system, messages = anthropic_messages(history, cache=False)
    names: dict[str, str] = {}
    result: list[Any] = []
    for message in messages:
        if message["role"] == "user":
            head = [pai.SystemPromptPart(block["text"]) for block in system] if not result else []
            result.append(pai.ModelRequest([*head, *_request_parts(message["content"], names)]))
            continue
        parts: list[Any] = []
        for block in message["content"]:
            if block["type"] == "text":
                parts.append(pai.TextPart(block["text"]))
            elif block["type"] == "tool_use":
                names[block["id"]] = block["name"]
                parts.append(pai.ToolCallPart(block["name"], block["input"], block["id"]))
        if parts:
            result.append(pai.ModelResponse(parts))
    return result


def _request_parts(blocks: list[dict[str, Any]], names: Mapping[str, str]) -> list[Any]:
    from pydantic_ai import messages as pai

    parts: list[Any] = []
    shown: list[Any] = []
    for block in blocks:
        if block["type"] == "tool_result":
            content = block["content"]
            if isinstance(content, list):
                shown.extend(item for each in content if each["type"] != "text" for item in _shown(each))
                content = "\n\n".join(each["text"] for each in content if each["type"] == "text")
            call_id = block["tool_use_id"]
            parts.append(pai.ToolReturnPart(names.get(call_id, "unknown"), content, call_id))
        else:
            shown.extend(_shown(block))
    return [*parts, pai.UserPromptPart(shown)] if shown else parts


def _shown(block: Mapping[str, Any]) -> Iterator[Any]:
    from pydantic_ai import messages as pai

    if block["type"] == "text":
        yield block["text"]
        return
    source = block.get("source")
    kind = source.get("type") if isinstance(source, Mapping) else None
    if kind == "base64":
        yield pai.BinaryContent(base64.b64decode(source["data"]), media_type=source["media_type"])  # type: ignore[index]
    elif kind == "text":
        yield source["data"]  # type: ignore[index]
    elif kind == "url":
        made = pai.ImageUrl if block["type"] == "image" else pai.DocumentUrl
        yield made(source["url"])  # type: ignore[index]


class _PartReader:
    """Turns pydantic-ai's part events into chunks; a part is ended when the next begins."""

    def __init__(self, names: Mapping[str, str], log_once: Any) -> None:
        self.has_calls = False
        self._names = names
        self._log_once = log_once
        self._kind = ""
        self._id = ""
        self._name = ""
        self._raw: list[str] = []

    def feed(self, event: Any) -> list[StepItem]:
        kind = event.event_kind
        if kind == "part_start":
            return [*self.close(), *self._start(event.index, event.part)] or [None]
        if kind == "part_delta":
            return list(self._delta(event.delta)) or [None]
        return [None]

    def close(self) -> list[StepItem]:
        """End the open part."""
        kind, self._kind = self._kind, ""
        if kind == "call":
            return [input_end(self._id, self._name, "".join(self._raw))]
        return [{"type": f"{kind}-end", "id": self._id}] if kind else []

    def _start(self, index: int, part: Any) -> Iterator[Chunk]:
        if part.part_kind in ("text", "thinking"):
            self._kind = "text" if part.part_kind == "text" else "reasoning"
            self._id = f"{self._kind}-{index}"
            yield {"type": f"{self._kind}-start", "id": self._id}
            if part.content:
                yield {"type": f"{self._kind}-delta", "id": self._id, "delta": part.content}
        elif part.part_kind == "tool-call":
            self.has_calls = True
            self._kind, self._id, self._raw = "call", part.tool_call_id, []
            self._name = self._names.get(part.tool_name, part.tool_name)
            yield {"type": "tool-input-start", "toolCallId": self._id, "toolName": self._name}
            yield from self._arguments(part.args)
        else:
            self._log_once(f"a {part.part_kind} part")

    def _delta(self, delta: Any) -> Iterator[Chunk]:
        if self._kind in ("text", "reasoning"):
            text = getattr(delta, "content_delta", None)
            if text:
                yield {"type": f"{self._kind}-delta", "id": self._id, "delta": text}
        elif self._kind == "call":
            yield from self._arguments(getattr(delta, "args_delta", None))

    def _arguments(self, args: Any) -> Iterator[Chunk]:
        text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False) if args else ""
        if text:
            self._raw.append(text)
            yield {"type": "tool-input-delta", "toolCallId": self._id, "inputTextDelta": text}


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
