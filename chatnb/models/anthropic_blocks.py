"""One content item of a model message as one block of the Messages API (spec/messages.md, section 9).

What the API can't take never fails a turn: it becomes a text that names the file and its media type.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

Block: TypeAlias = dict[str, Any]

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
# The API measures the base64 text.
MAX_IMAGE_TEXT = 5 * 1024 * 1024
MAX_NAME = 128
MAX_TITLE = 500
# Texts that are called applications. The panel takes JSON, so the model should see it.
_WRITTEN = frozenset({"json", "ld+json", "x-ndjson", "jsonl", "xml", "yaml", "x-yaml", "toml", "sql", "javascript"})

_DATA_URL = re.compile(r"data:(?P<type>[^,;]*)(?P<params>(?:;[^,;]*)*),", re.IGNORECASE)
_CLAUDE_NAME = re.compile(rb"claude-[a-z0-9.-]*[a-z0-9]")
_ERROR_KINDS = ("error-text", "error-json", "execution-denied")


def clean_id(value: Any, fallback: str) -> str:
    """An id or name of the characters that the API takes, cut at 128."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", str(value))[:MAX_NAME] or fallback


def unused_name(name: str, used: set[str]) -> str:
    """The name, or the first of `name_2`, `name_3`, … that is not used yet; it is added to `used`."""
    candidate, number = name, 1
    while candidate in used:
        number += 1
        suffix = f"_{number}"
        candidate = name[: MAX_NAME - len(suffix)] + suffix
    used.add(candidate)
    return candidate


def anthropic_options(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The provider options of an item that are Anthropic's."""
    options = item.get("providerOptions")
    own = options.get("anthropic") if isinstance(options, Mapping) else None
    return own if isinstance(own, Mapping) else {}


def text_block(text: Any) -> Block | None:
    """A text block, or None for blank text, which the API refuses."""
    return {"type": "text", "text": text} if isinstance(text, str) and text.strip() else None


def content_items(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The items of a message whose content is a list or one text."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [item for item in content or () if isinstance(item, Mapping)]


def reasoning_block(item: Mapping[str, Any], model: str | None) -> Block | None:
    """Signed thinking as it was streamed, redacted thinking, or None for what the API would refuse."""
    options = anthropic_options(item)
    signature, redacted = options.get("signature"), options.get("redactedData")
    if isinstance(signature, str) and signature:
        if model is not None and not is_signed_for(signature, model):
            return None
        return {"type": "thinking", "thinking": str(item.get("text") or ""), "signature": signature}
    if isinstance(redacted, str) and redacted:
        return {"type": "redacted_thinking", "data": redacted}
    return None


def is_signed_for(signature: str, model: str) -> bool:
    """Whether a thinking signature can be the given model's.

    A signature is opaque, but it names its model in clear. One that names another model is refused by the API, as
    thinking is bound to its model; one that names none is taken as it is.

    Args:
        signature: The signature, base64.
        model: The name of the model that is asked now.
    """
    try:
        names = _CLAUDE_NAME.findall(base64.b64decode(signature + "=" * (-len(signature) % 4)))
    except (ValueError, binascii.Error):
        return True
    return not names or any(_is_same_model(name.decode("ascii"), model) for name in names)


def _is_same_model(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    rest = longer[len(shorter) :]
    # A rest such as "-20250929" or "-latest" is the same model; "-5" is another version.
    return longer.startswith(shorter) and (not rest or re.match(r"-(?!\d{1,2}(-|$))", rest) is not None)


def user_block(item: Mapping[str, Any]) -> Block | None:
    """A text or file of the user, or of a tool's content, as a block."""
    if item.get("type") == "file":
        return file_block(item)
    return text_block(item.get("text")) if item.get("type") == "text" else None


def file_block(item: Mapping[str, Any]) -> Block:
    """A file as an image, a document, or a note that names it."""
    media = str(item.get("mediaType") or "").lower()
    data = item.get("data")
    data = data if isinstance(data, Mapping) else {}
    if data.get("type") == "reference":
        reference = data.get("reference")
        file_id = reference.get("anthropic") if isinstance(reference, Mapping) else None
        if not isinstance(file_id, str) or not file_id:
            return file_note(item)
        kind = "image" if media.startswith("image/") else "document"
        return _titled({"type": kind, "source": {"type": "file", "file_id": file_id}}, item)
    url = data.get("url")
    if not isinstance(url, str):
        return file_note(item)
    is_remote = url.lower().startswith(("http://", "https://"))
    if media in IMAGE_TYPES:
        source = {"type": "url", "url": url} if is_remote else _base64_source(url, media, MAX_IMAGE_TEXT)
        return {"type": "image", "source": source} if source else file_note(item)
    if media == "application/pdf" or media.startswith("text/") or (_is_written(media) and not is_remote):
        source = {"type": "url", "url": url} if is_remote else _document_source(url, media)
        return _titled({"type": "document", "source": source}, item) if source else file_note(item)
    return file_note(item)


def _is_written(media: str) -> bool:
    kind, _, name = media.partition(";")[0].partition("/")
    return kind == "application" and (name.strip() in _WRITTEN or name.endswith(("+json", "+xml")))


def file_note(item: Mapping[str, Any]) -> Block:
    """A text in the place of a file that can't be sent."""
    name = item.get("filename")
    media = item.get("mediaType") or "unknown type"
    return {"type": "text", "text": f"[File {name or 'without a name'} ({media}): it can't be shown to this model.]"}


def result_block(item: Mapping[str, Any], call_id: str) -> Block:
    """A tool's result for the call with the given id."""
    output = item.get("output")
    output = output if isinstance(output, Mapping) else {"type": "json", "value": output}
    kind, value = output.get("type"), output.get("value")
    block: Block = {"type": "tool_result", "tool_use_id": call_id}
    if kind in _ERROR_KINDS:
        return {**block, "content": _error_text(output), "is_error": True}
    if kind == "content" and isinstance(value, list | tuple):
        blocks = [found for each in value if isinstance(each, Mapping) and (found := user_block(each))]
        return {**block, "content": blocks} if blocks else {**block, "content": ""}
    return {**block, "content": value if kind == "text" and isinstance(value, str) else compact_json(value)}


def missing_result(call_id: str) -> Block:
    """The result of a call that has none."""
    text = "This call did not finish."
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": True}


def compact_json(value: Any) -> str:
    """JSON on one line, non-ASCII kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else str(value)


def _error_text(output: Mapping[str, Any]) -> str:
    kind, value = output.get("type"), output.get("value")
    if kind == "execution-denied":
        reason = output.get("reason")
        return reason if isinstance(reason, str) and reason.strip() else "The call was denied."
    text = value if kind == "error-text" and isinstance(value, str) else compact_json(value)
    return text if text.strip() and text not in ('""', "null") else "The action failed."


def _titled(block: Block, item: Mapping[str, Any]) -> Block:
    name = item.get("filename")
    is_named = block["type"] == "document" and isinstance(name, str) and name
    return {**block, "title": str(name)[:MAX_TITLE]} if is_named else block


def _read_data_url(url: str) -> bytes | None:
    match = _DATA_URL.match(url)
    if match is None:
        return None
    body = url[match.end() :]
    if not match["params"].lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(re.sub(r"\s+", "", unquote_to_bytes(body).decode("ascii")), validate=True)
    except (ValueError, binascii.Error):
        return None


def _base64_source(url: str, media: str, limit: int | None = None) -> Block | None:
    data = _read_data_url(url)
    text = base64.b64encode(data).decode("ascii") if data else ""
    if not text or (limit is not None and len(text) > limit):
        return None
    return {"type": "base64", "media_type": media, "data": text}


def _document_source(url: str, media: str) -> Block | None:
    if media == "application/pdf":
        return _base64_source(url, media)
    data = _read_data_url(url)
    text = data.decode("utf-8", "replace") if data else ""
    return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None
