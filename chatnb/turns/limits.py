"""Size limits: what is stored of a message or a chunk that is too large (spec/recovery.md, section 11).

Sizes are UTF-8 bytes of compact JSON. Views get everything; only what is stored is cut, and never inside a character.
"""

from __future__ import annotations

from typing import Any

from .._json import JsonValue, dumps
from ..messages import UIMessage, is_tool_part
from .wire import WireChunk

MESSAGE_BYTES = 16_000_000
CHUNK_BYTES = 2_000_000
MAX_DEPTH = 8
TEXT_KEPT = 500
_STEPS = ((200_000, 2000), (50_000, 500), (10_000, 100), (2_000, 30), (500, 10), (100, 3))
_OUTPUTS = "data-output"


def size_of(value: JsonValue) -> int:
    """Return the bytes of a value; a lone surrogate counts as it is stored, escaped."""
    text = dumps(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


NOT_FINITE = (
    "a message holds a number that is not finite (NaN or infinity), which JSON does not have; send null or text"
)


def fit_chunk(chunk: WireChunk, limit: int = CHUNK_BYTES) -> WireChunk:
    """Return a chunk as it is logged: itself, or cut to the limit."""
    if not _may_be_large(chunk) or size_of(chunk) <= limit:
        return chunk
    room = limit - 2000
    cut = dict(chunk)
    largest = sorted(cut, key=lambda key: -size_of(cut[key]))
    for key in largest:
        if key in ("type", "id", "toolCallId", "toolName", "messageId"):
            continue
        if key == "data" and chunk["type"] == _OUTPUTS:
            cut[key] = _outputs_cut(cut[key], room)
        else:
            cut[key] = shrink(cut[key], room)
        if size_of(cut) <= limit:
            break
    return cut


def _may_be_large(chunk: WireChunk) -> bool:
    """Most chunks are small deltas, which nobody measures."""
    delta = chunk.get("delta") or chunk.get("inputTextDelta")
    return not isinstance(delta, str) or len(delta) > CHUNK_BYTES // 6


def shrink(value: JsonValue, limit: int) -> JsonValue:
    """Return a value cut to so many bytes with its shape kept: keys stay, long texts and lists end in a marker."""
    made = value
    for text, items in _STEPS:
        made = _cut(value, text, items, 0)
        if size_of(made) <= limit:
            return made
    return f"[left out: {size_of(value):,} bytes]"


def _cut(value: JsonValue, text: int, items: int, depth: int) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= text else f"{value[:text]}… [cut: {text:,} of {len(value):,} characters]"
    if isinstance(value, dict):
        if depth >= MAX_DEPTH:
            return f"[cut: an object of {len(value):,} keys]"
        return {key: _cut(item, text, items, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if depth >= MAX_DEPTH:
            return f"[cut: a list of {len(value):,}]"
        kept = [_cut(item, text, items, depth + 1) for item in value[:items]]
        return kept if len(value) <= items else [*kept, f"[cut: {items:,} of {len(value):,} items]"]
    return value


def _is_rich(item: JsonValue) -> bool:
    return isinstance(item, dict) and "stream" not in item


def _note(item: JsonValue, size: int) -> JsonValue:
    kinds = ", ".join(sorted(key for key in item if "/" in str(key))) or "output"
    return {"text/plain": f"[left out: {kinds}, {size:,} bytes]"}


def _outputs_cut(data: JsonValue, limit: int) -> JsonValue:
    """Make notes of rich items, largest first, until the whole fits."""
    if not isinstance(data, dict) or not isinstance(data.get("outputs"), list):
        return shrink(data, limit)
    outputs = list(data["outputs"])
    total = size_of(data)
    for size, index in sorted(((size_of(item), i) for i, item in enumerate(outputs) if _is_rich(item)), reverse=True):
        if total <= limit:
            break
        outputs[index] = _note(outputs[index], size)
        total += size_of(outputs[index]) - size
    made = {**data, "outputs": outputs}
    return made if total <= limit else shrink(made, limit)


def fit_message(message: UIMessage, limit: int = MESSAGE_BYTES) -> UIMessage:
    """Return an assistant's message cut to the limit; the same object when it fits.

    Rich outputs become notes, then results of calls are cut, then texts, the oldest first. What was cut is listed in
    `metadata.chatnb.truncated`.
    """
    wire = message.to_wire()
    if message.role != "assistant" or size_of(wire) <= limit:
        return message
    cut = _MessageCut(message, wire, limit)
    cut.cut_outputs()
    cut.cut_results()
    cut.cut_texts()
    return cut.done()


class _MessageCut:
    """One message on its way below the limit."""

    def __init__(self, message: UIMessage, wire: dict[str, Any], limit: int) -> None:
        self._message = message
        self._wire = wire
        self._parts: list[Any] = [dict(part) for part in wire["parts"]]
        self._sizes = [size_of(part) for part in self._parts]
        self._kept: dict[int, int] = {}
        # Room for the list of what was cut.
        self._limit = limit - 2000 - 120 * len(self._parts)
        self._total = size_of(wire)

    def _replace(self, index: int, part: dict[str, Any]) -> None:
        size = size_of(part)
        self._total += size - size_of(self._parts[index])
        self._parts[index] = part
        self._kept[index] = size

    @property
    def _fits(self) -> bool:
        return self._total <= self._limit

    def cut_outputs(self) -> None:
        """Make notes of the largest rich items."""
        found: list[tuple[int, int, int]] = []
        for index, part in enumerate(self._parts):
            if part.get("type") == _OUTPUTS and isinstance(part.get("data"), dict):
                items = part["data"].get("outputs")
                if isinstance(items, list):
                    found += [(size_of(item), index, place) for place, item in enumerate(items) if _is_rich(item)]
        for size, index, place in sorted(found, key=lambda f: -f[0]):
            if self._fits:
                return
            part = self._parts[index]
            outputs = list(part["data"]["outputs"])
            outputs[place] = _note(outputs[place], size)
            self._replace(index, {**part, "data": {**part["data"], "outputs": outputs}})

    def cut_results(self) -> None:
        """Cut the largest results, and other large data."""

        def rank(index: int) -> int:
            return -self._sizes[index]

        tools = [i for i, part in enumerate(self._message.parts) if is_tool_part(part)]
        others = [i for i, part in enumerate(self._parts) if i not in tools and part.get("type") not in ("text",)]
        for index in [*sorted(tools, key=rank), *sorted(others, key=rank)]:
            if self._fits or self._sizes[index] < 2000:
                continue
            part = self._parts[index]
            room = max(1000, self._sizes[index] - (self._total - self._limit) - 1000)
            changed = dict(part)
            for key in ("output", "errorText", "data", "rawInput", "input", "text", "url"):
                if key in changed and size_of(changed[key]) > 500:
                    changed[key] = shrink(changed[key], room)
                    if key == "input" and not isinstance(changed[key], dict):
                        changed[key] = {}
                    break
            self._replace(index, changed)

    def cut_texts(self) -> None:
        """Cut texts to 500 characters, the oldest first."""
        for index, part in enumerate(self._parts):
            if self._fits:
                return
            text = part.get("text")
            if part.get("type") == "text" and isinstance(text, str) and len(text) > TEXT_KEPT:
                note = f"{text[:TEXT_KEPT]}… [cut: {TEXT_KEPT} of {len(text):,} characters]"
                self._replace(index, {**part, "text": note})

    def done(self) -> UIMessage:
        """Return the message with the list of what was cut."""
        listed: list[JsonValue] = []
        for index, kept in sorted(self._kept.items()):
            call_id = self._parts[index].get("toolCallId") or _call_of(self._parts[index])
            name: dict[str, JsonValue] = {"toolCallId": call_id} if call_id else {"partIndex": index}
            listed.append({**name, "bytes": self._sizes[index], "kept": kept})
        metadata = self._wire.get("metadata")
        metadata = dict(metadata) if isinstance(metadata, dict) else {}
        own = metadata.get("chatnb")
        own = dict(own) if isinstance(own, dict) else {}
        metadata["chatnb"] = {**own, "truncated": listed}
        return UIMessage.from_wire({**self._wire, "parts": self._parts, "metadata": metadata})


def _call_of(part: dict[str, Any]) -> str | None:
    data = part.get("data")
    call_id = data.get("toolCallId") if part.get("type") == _OUTPUTS and isinstance(data, dict) else None
    return call_id if isinstance(call_id, str) else None
