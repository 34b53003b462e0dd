"""A history as pydantic-ai's messages, and what a provider wants to have back of its own parts.

Signatures of thinking, encrypted reasoning and the thought signatures of calls are kept as provider metadata under the
key `pydantic-ai`, and go back with the part that they came with: some providers refuse a call without its own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from chatnb._json import dumps
from chatnb.models.anthropic_mapping import anthropic_messages
from chatnb.models.anthropic_tools import AnthropicTools
from chatnb.models.port import ModelRequest

KEY = "pydantic-ai"
_KEPT = ("id", "signature", "provider_name", "provider_details")
_MARK = "kept-"


def kept_of(part: Any, canonical_system: str | None) -> dict[str, Any] | None:
    """What a part's provider wants back, as provider metadata, or None.

    Args:
        part: A part of pydantic-ai, complete.
        canonical_system: Whose keys verify it, where pydantic-ai says so.
    """
    found = {name: value for name in _KEPT if (value := getattr(part, name, None)) is not None}
    if not set(found) - {"provider_name"}:
        return None
    if canonical_system is not None:
        found["canonical_system"] = canonical_system
    try:
        dumps(found)
    except (TypeError, ValueError, RecursionError):
        return None
    return {KEY: found}


def pydantic_ai_history(request: ModelRequest, tools: AnthropicTools) -> list[Any]:
    """The history in pydantic-ai's messages, with every call answered and roles in turn."""
    from pydantic_ai import messages as pai

    reasoning: dict[str, Mapping[str, Any]] = {}
    calls: list[Mapping[str, Any]] = []
    history = [_marked(message, reasoning, calls) for message in request.messages]
    if request.instructions:
        history.insert(0, {"role": "system", "content": request.instructions})
    system, messages = anthropic_messages(history, cache=False)
    tools.rename_inputs(messages)
    names: dict[str, str] = {}
    kept_calls = iter(calls)
    result: list[Any] = []
    for message in messages:
        if message["role"] == "user":
            head = [pai.SystemPromptPart(block["text"]) for block in system] if not result else []
            result.append(pai.ModelRequest([*head, *_request_parts(message["content"], names)]))
            continue
        parts: list[Any] = []
        signed: dict[str, Any] = {}
        for block in message["content"]:
            kept: Mapping[str, Any] = {}
            if block["type"] == "text":
                parts.append(pai.TextPart(block["text"]))
            elif block["type"] == "thinking" and block["signature"] in reasoning:
                kept = reasoning[block["signature"]]
                parts.append(pai.ThinkingPart(block["thinking"], **_fields(kept, *_KEPT)))
            elif block["type"] == "tool_use":
                names[block["id"]] = block["name"]
                kept = next(kept_calls, {})
                more = _fields(kept, "id", "provider_name", "provider_details")
                parts.append(pai.ToolCallPart(block["name"], block["input"], block["id"], **more))
            signed |= _fields(kept, "provider_name", "canonical_system")
        if parts:
            result.append(pai.ModelResponse(parts, **signed))
    return result


def _fields(kept: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: kept[name] for name in names if name in kept}


def _marked(
    message: Mapping[str, Any], reasoning: dict[str, Mapping[str, Any]], calls: list[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The message with a mark on the reasoning that is kept, so that it can be told in the mapped one."""
    if message.get("role") != "assistant" or not isinstance(message.get("content"), list | tuple):
        return message
    items = []
    for item in message["content"]:
        kept = (item.get("providerOptions") or {}).get(KEY) or {}
        if item.get("type") == "tool-call" and not item.get("providerExecuted"):
            calls.append(kept)
        elif item.get("type") == "reasoning":
            mark = f"{_MARK}{len(reasoning)}"
            if kept:
                reasoning[mark] = kept
            item = {**item, "providerOptions": {"anthropic": {"signature": mark}} if kept else {}}
        items.append(item)
    return {**message, "content": items}


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
            more: dict[str, Any] = {}
            if block.get("is_error") and "outcome" in pai.ToolReturnPart.__dataclass_fields__:
                more["outcome"] = "failed"
            parts.append(pai.ToolReturnPart(names.get(call_id, "unknown"), content, call_id, **more))
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
        title = block.get("title")
        yield (f"{title}:\n\n" if title else "") + source["data"]  # type: ignore[index]
    elif kind == "url":
        made = pai.ImageUrl if block["type"] == "image" else pai.DocumentUrl
        yield made(source["url"])  # type: ignore[index]
