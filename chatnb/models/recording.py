"""The file of a `RecordedModel`: its lines, the canonical form of a request, and where two of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatnb.errors import RecordingFormatError
from chatnb.models.anthropic_blocks import content_items
from chatnb.models.port import ModelRequest, StepEnd, StepItem, is_ephemeral
from chatnb.models.redaction import Redactor
from chatnb.models.usage import Usage

FORMAT = "chatnb-recording"
VERSION = 1
# Which keys of a delta name its block and hold its piece of the text.
_DELTAS = {
    "text-delta": ("id", "delta"),
    "reasoning-delta": ("id", "delta"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
}
_USAGE_FIELDS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
    "cost": "cost",
}


@dataclass(frozen=True)
class Entry:
    """One recorded request.

    Attributes:
        number: Its place in the file, from 1.
        chat: The chat's number in the file, from 1.
        request: Its canonical form.
        items: What was answered, each with the milliseconds since the request.
    """

    number: int
    chat: int
    request: dict[str, Any]
    items: tuple[tuple[float, StepItem], ...]


def read_recording(path: Path) -> tuple[str | None, list[Entry]]:
    """Read a file.

    Returns:
        The recorded model's name, None if there is no file yet, and the entries.

    Raises:
        RecordingFormatError: The file is no recording, or one of a newer version. It is not changed.
    """
    try:
        lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        return None, []
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingFormatError(f"{path.name} can't be read as a recording. It was not changed.") from error
    if lines == [""]:
        return None, []
    head = _line(path, lines[0])
    if head.get("format") != FORMAT:
        raise RecordingFormatError(f"{path.name} is no recording of chatnb. It was not changed.")
    if head.get("version") != VERSION:
        raise RecordingFormatError(
            f"{path.name} is a recording of version {head.get('version')!r}, and this chatnb reads version {VERSION}. "
            "It was not changed; update chatnb, or record anew into another file."
        )
    entries = [_entry(path, number, _line(path, text)) for number, text in enumerate(lines[1:], 1)]
    return str(head.get("model")), entries


def head_line(model: str) -> str:
    """The first line of a file."""
    return _dump({"format": FORMAT, "version": VERSION, "model": model})


def entry_line(
    chat: int, request: Mapping[str, Any], items: Sequence[tuple[float, StepItem]], redactor: Redactor
) -> str:
    """The line of one request, without secrets."""
    chunks = [[round(at, 1), _item_out(item)] for at, item in _redacted(items, redactor)]
    return _dump({"chat": chat, "request": request, "chunks": chunks})


def canonical(request: ModelRequest, redactor: Redactor) -> dict[str, Any]:
    """What is compared of a request: no ids, times, ephemeral items or secrets."""
    ids: dict[str, str] = {}
    messages = [_message(message, ids) for message in request.messages]
    form = {
        "instructions": request.instructions,
        "actions": [
            {"name": spec.name, "description": spec.description, "inputSchema": spec.input_schema}
            for spec in request.actions
        ],
        "settings": dict(request.settings),
        "messages": [message for message in messages if message["content"]],
    }
    plain: dict[str, Any] = json.loads(_dump(redactor.redact(form)))
    return plain


def first_difference(recorded: Any, asked: Any, path: str = "") -> tuple[str, str, str] | None:
    """The path of the first difference and the kinds of both values, or None."""
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in [*recorded, *(key for key in asked if key not in recorded)]:
            place = f"{path}.{key}" if path else key
            found = first_difference(recorded.get(key, _ABSENT), asked.get(key, _ABSENT), place)
            if found is not None:
                return found
        return None
    if isinstance(recorded, list) and isinstance(asked, list):
        for index in range(max(len(recorded), len(asked))):
            pair = [side[index] if index < len(side) else _ABSENT for side in (recorded, asked)]
            found = first_difference(pair[0], pair[1], f"{path}[{index}]")
            if found is not None:
                return found
        return None
    if type(recorded) is type(asked) and recorded == asked:
        return None
    return path, _kind(recorded), _kind(asked)


_ABSENT = object()


def _kind(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    names = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "object"}
    return names.get(type(value), "null")


def _message(message: Mapping[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    content = message.get("content")
    if isinstance(content, str):
        return {"role": message.get("role"), "content": content}
    items = [_without_ids(item, ids) for item in content_items(message) if not is_ephemeral(item)]
    return {"role": message.get("role"), "content": items}


def _without_ids(item: Mapping[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """The item with its ids replaced by their order, so that what belongs together still does."""
    result = dict(item)
    for key in ("toolCallId", "approvalId", "id"):
        if isinstance(result.get(key), str):
            result[key] = ids.setdefault(result[key], f"id-{len(ids) + 1}")
    return result


def _redacted(items: Sequence[tuple[float, StepItem]], redactor: Redactor) -> list[tuple[float, StepItem]]:
    """The items without secrets, also those that were streamed in pieces."""
    blocks: dict[tuple[str, str], list[int]] = {}
    for index, (_, item) in enumerate(items):
        kind = _delta_keys(item)
        if kind is not None and isinstance(item, dict):
            blocks.setdefault((str(item["type"]), str(item[kind[0]])), []).append(index)
    result = [(at, item if not isinstance(item, dict) else redactor.redact(item)) for at, item in items]
    for places in blocks.values():
        chunks = [items[index][1] for index in places]
        key = (_delta_keys(chunks[0]) or ("", ""))[1]
        texts = redactor.redact_pieces(str(chunk[key]) for chunk in chunks if isinstance(chunk, dict))
        for index, chunk, text in zip(places, chunks, texts, strict=True):
            if isinstance(chunk, dict):
                result[index] = (items[index][0], {**redactor.redact(chunk), key: text})
    return result


def _delta_keys(item: StepItem) -> tuple[str, str] | None:
    return _DELTAS.get(str(item.get("type"))) if isinstance(item, dict) else None


def _item_out(item: StepItem) -> Any:
    if not isinstance(item, StepEnd):
        return item
    end: dict[str, Any] = {"finishReason": item.finish_reason}
    if item.usage is not None:
        end["usage"] = {wire: getattr(item.usage, name) for wire, name in _USAGE_FIELDS.items()}
    return {"end": end}


def _item_in(item: Any) -> StepItem:
    if not isinstance(item, dict) or "end" not in item:
        return item
    usage = item["end"].get("usage")
    known = {name: usage.get(wire) for wire, name in _USAGE_FIELDS.items()} if usage is not None else None
    return StepEnd(item["end"]["finishReason"], Usage(**known) if known is not None else None)


def _line(path: Path, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordingFormatError(f"{path.name} is no recording of chatnb. It was not changed.") from error
    if not isinstance(value, dict):
        raise RecordingFormatError(f"{path.name} is no recording of chatnb. It was not changed.")
    return value


def _entry(path: Path, number: int, value: Mapping[str, Any]) -> Entry:
    try:
        items = tuple((float(at), _item_in(item)) for at, item in value["chunks"])
        return Entry(number, int(value["chat"]), value["request"], items)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordingFormatError(f"Request {number} of {path.name} can't be read. It was not changed.") from error


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else str(value)
