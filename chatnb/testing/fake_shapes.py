"""Rule R2 of the fake Anthropic server: which fields a request may and must have, at every level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatnb.testing.fake_refusal import Refusal, refuse

MAX_TITLE = 500
_CACHE = "cache_control"
# Each row: the fields that must be there, and those that may be.
_Fields = tuple[frozenset[str], frozenset[str]]


def _fields(required: str, optional: str = "") -> _Fields:
    return frozenset(required.split()), frozenset(optional.split())


_BODY = _fields(
    "model max_tokens messages",
    "system tools tool_choice temperature top_p top_k stop_sequences stream thinking metadata service_tier "
    "cache_control output_config container inference_geo diagnostics",
)
_MESSAGE = _fields("role content")
_BLOCKS: dict[str, _Fields] = {
    "text": _fields("type text", f"{_CACHE} citations"),
    "image": _fields("type source", f"{_CACHE} transformations"),
    "document": _fields("type source", f"{_CACHE} citations context title"),
    "thinking": _fields("type thinking signature", _CACHE),
    "redacted_thinking": _fields("type data", _CACHE),
    "tool_use": _fields("type id name input", f"{_CACHE} caller toolset_name"),
    "tool_result": _fields("type tool_use_id", f"content is_error {_CACHE} toolset_name"),
    "server_tool_use": _fields("type id name input", f"{_CACHE} caller"),
}
_SERVED_RESULT = _fields("type tool_use_id content", f"{_CACHE} caller")
_SOURCES: dict[str, _Fields] = {
    "base64": _fields("type media_type data"),
    "url": _fields("type url"),
    "file": _fields("type file_id"),
    "text": _fields("type media_type data"),
    "content": _fields("type content"),
}
_TOOL = _fields("name input_schema", f"type description strict {_CACHE} input_examples defer_loading")
_CHOICES: dict[str, _Fields] = {
    "auto": _fields("type", "disable_parallel_tool_use"),
    "any": _fields("type", "disable_parallel_tool_use"),
    "none": _fields("type"),
    "tool": _fields("type name", "disable_parallel_tool_use"),
}
_THINKING: dict[str, _Fields] = {
    "enabled": _fields("type budget_tokens", "display"),
    "adaptive": _fields("type", "display"),
    "disabled": _fields("type"),
}
_TEXTS = frozenset({"text", "thinking", "signature", "data", "id", "name", "tool_use_id", "title", "url", "file_id"})


def check_shapes(body: Mapping[str, Any]) -> Refusal | None:
    """Refuse unknown and missing fields, and values of the wrong kind."""
    return (
        _check_fields(body, _BODY, "")
        or _check_numbers(body)
        or _check_system(body.get("system"))
        or _check_tools(body.get("tools"))
        or _check_typed(body.get("tool_choice"), _CHOICES, "tool_choice")
        or _check_typed(body.get("thinking"), _THINKING, "thinking")
        or _check_metadata(body.get("metadata"))
        or _check_messages(body["messages"])
    )


def _check_fields(value: Any, fields: _Fields, path: str) -> Refusal | None:
    if not isinstance(value, Mapping):
        return refuse("R2", f"{path or 'body'}: an object is required")
    required, optional = fields
    for name in sorted(required):
        if name not in value:
            return refuse("R2", f"{_join(path, name)}: Field required")
    for name in value:
        if name not in required and name not in optional:
            return refuse("R2", f"{_join(path, str(name))}: Extra inputs are not permitted")
        if path and name in _TEXTS and not isinstance(value[name], str):
            return refuse("R2", f"{_join(path, str(name))}: Input should be a valid string")
    return _check_mark(value.get(_CACHE), _join(path, _CACHE))


def _check_mark(mark: Any, path: str) -> Refusal | None:
    if mark is None:
        return None
    if not isinstance(mark, Mapping) or mark.get("type") != "ephemeral" or set(mark) - {"type", "ttl"}:
        return refuse("R2", f"{path}: only {{type: ephemeral, ttl}} is known")
    return None if mark.get("ttl", "5m") in ("5m", "1h") else refuse("R2", f"{path}.ttl: 5m or 1h")


def _check_numbers(body: Mapping[str, Any]) -> Refusal | None:
    if not isinstance(body["model"], str) or not body["model"]:
        return refuse("R2", "model: Input should be a valid string")
    limit = body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        return refuse("R2", "max_tokens: an integer of at least 1 is required")
    heat = body.get("temperature")
    if heat is not None and (not isinstance(heat, int | float) or isinstance(heat, bool) or not 0 <= heat <= 1):
        return refuse("R2", "temperature: range: 0..1")
    if not isinstance(body.get("stream", False), bool):
        return refuse("R2", "stream: Input should be a valid boolean")
    return None


def _check_metadata(value: Any) -> Refusal | None:
    return None if value is None else _check_fields(value, _fields("", "user_id"), "metadata")


def _check_system(system: Any) -> Refusal | None:
    if system is None or isinstance(system, str):
        return None
    if not isinstance(system, list):
        return refuse("R2", "system: text or a list of text blocks is required")
    for index, block in enumerate(system):
        path = f"system.{index}"
        found = _check_fields(block, _BLOCKS["text"], path)
        if found is not None or block.get("type") != "text":
            return found or refuse("R2", f"{path}.type: only text is known")
    return None


def _check_tools(tools: Any) -> Refusal | None:
    if tools is None:
        return None
    if not isinstance(tools, list):
        return refuse("R2", "tools: a list is required")
    for index, tool in enumerate(tools):
        is_served = isinstance(tool, Mapping) and tool.get("type", "custom") != "custom"
        found = None if is_served else _check_fields(tool, _TOOL, f"tools.{index}")
        if found is not None:
            return found
    return None


def _check_typed(value: Any, kinds: Mapping[str, _Fields], path: str) -> Refusal | None:
    if value is None:
        return None
    kind = value.get("type") if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in kinds:
        return refuse("R2", f"{path}.type: one of {', '.join(sorted(kinds))} is required")
    return _check_fields(value, kinds[kind], path)


def _check_messages(messages: Any) -> Refusal | None:
    if not isinstance(messages, list):
        return refuse("R2", "messages: a list is required")
    for index, message in enumerate(messages):
        path = f"messages.{index}"
        found = _check_fields(message, _MESSAGE, path)
        if found is not None:
            return found
        if not isinstance(message["role"], str):
            return refuse("R2", f"{path}.role: Input should be a valid string")
        found = _check_content(message["content"], f"{path}.content")
        if found is not None:
            return found
    return None


def _check_content(content: Any, path: str) -> Refusal | None:
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return refuse("R2", f"{path}: text or a list of blocks is required")
    for index, block in enumerate(content):
        found = _check_block(block, f"{path}.{index}")
        if found is not None:
            return found
    return None


def _check_block(block: Any, path: str) -> Refusal | None:
    kind = block.get("type") if isinstance(block, Mapping) else None
    fields = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if fields is None and isinstance(kind, str) and kind.endswith("_tool_result"):
        fields = _SERVED_RESULT
    if fields is None:
        return refuse("R2", f"{path}.type: no such block")
    found = _check_fields(block, fields, path)
    if found is None and kind == "document" and not 1 <= len(block.get("title") or "-") <= MAX_TITLE:
        found = refuse("R2", f"{path}.title: String should have at most {MAX_TITLE} characters")
    if found is None and kind in ("image", "document"):
        found = _check_typed(block["source"], _SOURCES, f"{path}.source")
    if found is None and kind == "tool_result":
        if not isinstance(block.get("is_error", False), bool):
            return refuse("R2", f"{path}.is_error: Input should be a valid boolean")
        found = _check_content(block.get("content", ""), f"{path}.content")
    return found


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
