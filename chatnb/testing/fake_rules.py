"""The rules R1 to R9 of the fake Anthropic server (spec/notebook.md, section 8)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chatnb.testing.fake_refusal import Refusal, refuse
from chatnb.testing.fake_shapes import check_shapes

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_IMAGE_BYTES = 5 * 1024 * 1024
MAX_MARKS = 4
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
NO_PREFILL = (
    "claude-fable",
    "claude-mythos",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-4-6",
    "claude-sonnet-5",
    "claude-haiku-5",
)
"""Beginnings of the names of models that refuse a last message of the assistant."""

_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_THOUGHT = ("thinking", "redacted_thinking")
_Message = Mapping[str, Any]


def sign_thinking(model: str, text: str) -> str:
    """The signature of a thinking block: bound to the model and to every character."""
    digest = hashlib.sha256(f"{model}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return base64.b64encode(f"fake|{model}|{digest}".encode()).decode("ascii")


def check_transport(headers: Mapping[str, str], raw: bytes) -> Refusal | None:
    """Rule R1: what is refused before the body means anything.

    Args:
        headers: The request's headers, names in lower case.
        raw: The body.
    """
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not bearer and not headers.get("x-api-key", "").strip():
        return refuse("R1", "x-api-key header is required", 401)
    if not headers.get("anthropic-version"):
        return refuse("R1", "anthropic-version: header is required")
    if len(raw) > MAX_BODY_BYTES:
        return refuse("R1", "Request exceeds the maximum size", 413)
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    return None if isinstance(body, dict) else refuse("R1", "The request body is not valid JSON")


def check_request(body: Mapping[str, Any], *, no_prefill: Sequence[str] = ()) -> Refusal | None:
    """Rules R2 to R9.

    Args:
        body: A request's body. It is not changed.
        no_prefill: Further names of models that refuse a last message of the assistant.

    Returns:
        The first refusal, or None for a request that is accepted.
    """
    found = check_shapes(body)
    if found is not None:
        return found
    messages: list[_Message] = body["messages"]
    found = _check_roles(messages)
    if found is not None:
        return found
    turns = _merged(messages)
    return (
        _check_texts(body, messages, no_prefill)
        or _check_pairs(turns)
        or _check_names(body, turns)
        or _check_marks(body, turns)
        or _check_thinking(body, turns)
        or _check_media(turns)
        or _check_choice(body)
    )


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _merged(messages: Sequence[_Message]) -> list[_Message]:
    """The messages as the API takes them: neighbours of one role are one turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1]["content"].extend(_blocks(message["content"]))
        else:
            turns.append({"role": message["role"], "content": _blocks(message["content"])})
    return list[_Message](turns)


def _check_roles(messages: Sequence[_Message]) -> Refusal | None:
    if not messages:
        return refuse("R3", "messages: at least one message is required")
    for index, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            return refuse("R3", f"messages.{index}.role: user or assistant is required")
        is_last_answer = index == len(messages) - 1 and message["role"] == "assistant"
        if not message["content"] and not is_last_answer:
            return refuse("R3", f"messages.{index}: all messages must have non-empty content")
    if messages[0]["role"] != "user":
        return refuse("R3", "messages: the first message must be the user's")
    return None


def _check_texts(body: _Message, messages: Sequence[_Message], no_prefill: Sequence[str]) -> Refusal | None:
    system = body.get("system")
    for text in _all_texts(messages, system if isinstance(system, list) else []):
        if not text.strip():
            return refuse("R4", "text content blocks must contain non-whitespace text")
    last = messages[-1]
    if last["role"] != "assistant":
        return None
    name = body["model"]
    if name in no_prefill or name.startswith(NO_PREFILL) or _is_thinking(body):
        return refuse("R4", "This model does not support assistant message prefill; end with a user message")
    blocks = _blocks(last["content"]) if last["content"] else []
    if blocks and blocks[-1]["type"] == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        return refuse("R4", "final assistant content cannot end with trailing whitespace")
    return None


def _all_texts(messages: Sequence[_Message], system: Sequence[Any]) -> Iterator[str]:
    yield from (block["text"] for block in system)
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            if content:
                yield content
            continue
        for block in content:
            inner = block.get("content") if block["type"] == "tool_result" else None
            for each in [block, *(inner if isinstance(inner, list) else [])]:
                if each["type"] == "text":
                    yield each["text"]


def _check_pairs(turns: Sequence[_Message]) -> Refusal | None:
    seen: set[str] = set()
    open_ids: list[str] = []
    for index, turn in enumerate(turns):
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        calls = [block["id"] for block in turn["content"] if block["type"] in ("tool_use", "server_tool_use")]
        path = f"messages (turn {index})"
        if turn["role"] == "assistant":
            if results:
                return refuse("R5", f"{path}: tool_result is the user's")
            repeated = [call for number, call in enumerate(calls) if call in seen or call in calls[:number]]
            if repeated:
                return refuse("R5", f"{path}: tool_use ids must be unique")
            seen.update(calls)
            open_ids = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
            continue
        if calls:
            return refuse("R5", f"{path}: tool_use is the assistant's")
        if len(results) != len(set(results)):
            return refuse("R5", f"{path}: each tool_use must have a single result")
        if set(results) - set(open_ids):
            return refuse("R5", f"{path}: tool_result without its tool_use in the message before")
        head = [block["tool_use_id"] for block in turn["content"][: len(open_ids)] if block["type"] == "tool_result"]
        if set(head) != set(open_ids):
            return refuse("R5", f"{path}: tool_use without tool_result at the head of the next message")
        open_ids = []
    return refuse("R5", "tool_use without a message with its tool_result after it") if open_ids else None


def _check_names(body: _Message, turns: Sequence[_Message]) -> Refusal | None:
    names: set[str] = set()
    for index, tool in enumerate(body.get("tools") or ()):
        name = tool.get("name")
        if not isinstance(name, str) or not _NAME.match(name) or name in names:
            return refuse("R6", f"tools.{index}.name: 1 to 128 of letters, digits, _ and -, and unique")
        names.add(name)
        schema = tool.get("input_schema")
        if tool.get("type", "custom") == "custom" and (not isinstance(schema, Mapping) or _kind(schema) != "object"):
            return refuse("R6", f"tools.{index}.input_schema.type: must be object")
        found = _check_schema(schema, f"tools.{index}.custom.input_schema") if isinstance(schema, Mapping) else None
        if found is not None:
            return found
    for block in _all_blocks(turns):
        kind = block["type"]
        if kind in ("tool_use", "tool_result") and not names:
            return refuse("R6", "Requests which include tool blocks must define tools")
        if kind in ("tool_use", "server_tool_use"):
            if not _ID.match(block["id"]) or not _NAME.match(block["name"]):
                return refuse("R6", f"{kind}: ids and names have letters, digits, _ and - alone")
            if not isinstance(block["input"], Mapping):
                return refuse("R6", f"{kind}.input: Input should be a valid dictionary")
        if "tool_use_id" in block and not _ID.match(block["tool_use_id"]):
            return refuse("R6", f"{kind}.tool_use_id: letters, digits, _ and - alone")
    return None


def _check_schema(schema: Mapping[str, Any], path: str) -> Refusal | None:
    if any(key in schema for key in ("anyOf", "oneOf", "allOf")):
        return refuse("R6", f"{path}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and not all(_KEY.match(str(key)) for key in properties):
        return refuse("R6", f"{path}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'")
    return None


def _kind(schema: Mapping[str, Any]) -> Any:
    return schema.get("type")


def _all_blocks(turns: Sequence[_Message]) -> Iterator[Mapping[str, Any]]:
    for turn in turns:
        for block in turn["content"]:
            yield block
            inner = block.get("content") if block["type"] == "tool_result" else None
            if isinstance(inner, list):
                yield from inner


def _check_marks(body: _Message, turns: Sequence[_Message]) -> Refusal | None:
    system = body.get("system")
    places = [*(system if isinstance(system, list) else []), *(body.get("tools") or ()), *_all_blocks(turns)]
    marked = [block for block in [body, *places] if block.get("cache_control") is not None]
    if len(marked) > MAX_MARKS:
        return refuse("R7", f"A maximum of {MAX_MARKS} blocks with cache_control may be provided")
    for block in marked:
        if block.get("type") in _THOUGHT or (block.get("type") == "text" and not str(block.get("text")).strip()):
            return refuse("R7", "cache_control cannot be set for thinking or empty text blocks")
    return _check_order_of_marks(body, turns)


def _check_order_of_marks(body: _Message, turns: Sequence[_Message]) -> Refusal | None:
    """What is processed first may not be kept for a shorter time: tools, then system, then messages."""
    system = body.get("system")
    places = [*(body.get("tools") or ()), *(system if isinstance(system, list) else []), *_all_blocks(turns)]
    times = [mark.get("ttl", "5m") for block in places if (mark := block.get("cache_control")) is not None]
    if times != sorted(times, key="1h 5m".split().index):
        return refuse("R7", "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
    return None


def _is_thinking(body: _Message) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") != "disabled"


def _check_thinking(body: _Message, turns: Sequence[_Message]) -> Refusal | None:
    for block in _all_blocks(turns):
        if block["type"] == "thinking" and block["signature"] != sign_thinking(body["model"], block["thinking"]):
            return refuse("R8", "Invalid `signature` in `thinking` block")
    if not _is_thinking(body):
        return None
    budget = body["thinking"].get("budget_tokens")
    if body["thinking"]["type"] == "enabled":
        if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1024:
            return refuse("R8", "thinking.budget_tokens: at least 1024 is required")
        if budget >= body["max_tokens"]:
            return refuse("R8", "max_tokens must be greater than thinking.budget_tokens")
    if body.get("temperature", 1) != 1:
        return refuse("R8", "temperature may only be set to 1 when thinking is enabled")
    if body.get("top_k") is not None or (body.get("top_p") or 1) < 0.95:
        return refuse("R8", "top_k must be unset and top_p at least 0.95 when thinking is enabled")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        return refuse("R8", "Thinking may not be enabled when tool_choice forces tool use")
    last = turns[-1]
    is_loop = last["role"] == "user" and any(block["type"] == "tool_result" for block in last["content"])
    if is_loop and len(turns) > 1 and turns[-2]["content"][0]["type"] not in _THOUGHT:
        return refuse("R8", "With thinking, a final assistant message with calls must start with a thinking block")
    return None


def _check_media(turns: Sequence[_Message]) -> Refusal | None:
    for block in _all_blocks(turns):
        source = block.get("source") if block["type"] in ("image", "document") else None
        if isinstance(source, Mapping) and source["type"] == "base64":
            try:
                data = base64.b64decode(source["data"], validate=True)
            except (ValueError, binascii.Error):
                return refuse("R9", f"{block['type']}.source.data: invalid base64 data")
            if block["type"] == "image" and source["media_type"] not in IMAGE_TYPES:
                return refuse("R9", "image.source.media_type: image/jpeg, image/png, image/gif or image/webp")
            if not data or (block["type"] == "image" and len(data) > MAX_IMAGE_BYTES):
                return refuse("R9", f"{block['type']}.source.data: empty, or over the maximum of 5 MB")
        content = block.get("content") if block["type"] == "tool_result" and block.get("is_error") else None
        if isinstance(content, list) and any(each["type"] != "text" for each in content):
            return refuse("R9", "all content of a tool_result must be text if is_error is true")
    return None


def _check_choice(body: _Message) -> Refusal | None:
    choice = body.get("tool_choice") or {}
    if choice and not body.get("tools"):
        return refuse("R9", "tool_choice may only be specified while providing tools")
    names = {tool.get("name") for tool in body.get("tools") or ()}
    if choice.get("type") == "tool" and choice["name"] not in names:
        return refuse("R9", "tool_choice.name: no such tool")
    return None
