"""The wire schemas of chunks (spec/messages.md, section 4.5), and what chatnb may emit (section 7.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from chatnb.errors import MessageValidationError
from chatnb.messages.part_schema import PARTS, citations
from chatnb.messages.refusal import NOTHING, Path, Refused
from chatnb.messages.schema import (
    Field,
    Fields,
    anything,
    boolean,
    expectation,
    finite_json,
    may,
    need,
    one_of,
    open_object,
    provider_metadata,
    string,
)

FINISH_REASONS: Final = ("stop", "length", "content-filter", "tool-calls", "error", "interrupted", "other")

_pm: Fields = {"providerMetadata": may(provider_metadata)}
_call: Fields = {"toolCallId": need(string)}
_named: Fields = {**_call, "toolName": need(string)}
_executed: Fields = {"providerExecuted": may(boolean), **_pm, "toolMetadata": may(open_object), "dynamic": may(boolean)}
_titled: Fields = {**_executed, "title": may(string)}
_output: Fields = {**_executed, "preliminary": may(boolean)}
_block: Fields = {"id": need(string), **_pm}
_delta: Fields = {"id": need(string), "delta": need(string), **_pm}
_file: Fields = {"url": need(string), "mediaType": need(string), **_pm}


def _part(kind: str) -> Fields:
    return {key: field for key, field in PARTS[kind].items() if key != "type"}


CHUNKS: Final[dict[str, Fields]] = {
    "start": {"messageId": may(string), "messageMetadata": may(anything)},
    "finish": {"finishReason": may(one_of(*FINISH_REASONS)), "messageMetadata": may(anything)},
    "message-metadata": {"messageMetadata": need(anything)},
    "abort": {"reason": may(string)},
    "error": {"errorText": need(string)},
    "start-step": {},
    "finish-step": {},
    "reset-step": {},
    "text-start": _block,
    "text-delta": _delta,
    "text-end": {**_block, "citations": may(citations)},
    "reasoning-start": _block,
    "reasoning-delta": _delta,
    "reasoning-end": _block,
    "file": _file,
    "reasoning-file": _file,
    "source-url": _part("source-url"),
    "source-document": _part("source-document"),
    "custom": _part("custom"),
    "steering-message": _part("steering-message"),
    "tool-input-start": {**_named, "inputEncoding": may(one_of("json", "text")), **_titled},
    "tool-input-delta": {**_call, "inputTextDelta": need(string)},
    "tool-input-available": {**_named, "input": need(anything), **_titled},
    "tool-input-error": {**_named, "input": need(anything), "errorText": need(string), **_titled},
    "tool-approval-request": {
        **_call,
        "approvalId": need(string),
        "approvalDescriptor": may(anything),
        "inputSchemaInput": may(anything),
        "reason": may(string),
        "isAutomatic": may(boolean),
        "signature": may(string),
    },
    "tool-approval-response": {
        "approvalId": need(string),
        "approved": need(boolean),
        "reason": may(string),
        "providerExecuted": may(boolean),
        **_pm,
    },
    "tool-output-available": {**_call, "output": need(anything), **_output},
    "tool-output-error": {**_call, "errorText": need(string), **_output},
    "tool-output-denied": _call,
}
DATA_CHUNK: Final[Fields] = {"id": may(string), "data": need(anything), "transient": may(boolean)}

_NEVER_EMITTED: Final = frozenset(
    {"tool-approval-response", "custom", "reasoning-file", "steering-message", "reset-step"}
)
_FORBIDDEN_KEYS: Final = ("dynamic", "isAutomatic", "citations")
_VALUE_KEYS: Final = frozenset({"data", "input", "output"})
_PRINTABLE_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}\Z")


def is_plain_delta(chunk: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a chunk is a good text or reasoning delta without extras: nearly all chunks are."""
    if type(chunk) is not dict or len(chunk) != 3:
        return False
    kind = chunk.get("type")
    return (
        (kind == "text-delta" or kind == "reasoning-delta")
        and type(chunk.get("id")) is str
        and type(chunk.get("delta")) is str
    )


def fields_of(kind: str) -> Fields | None:
    """Return the fields of a chunk type, or None for an unknown type."""
    found = CHUNKS.get(kind)
    return DATA_CHUNK if found is None and kind.startswith("data-") else found


def validate_chunk(value: Any) -> Any:
    """Return the chunk, the same object. Extra keys pass.

    Raises:
        MessageValidationError: It is no object, of unknown type, or lacks or mistypes a key.
    """
    if not is_plain_delta(value):
        try:
            _check(value)
        except Refused as refusal:
            raise refusal.to_error("chunk") from None
    return value


def _check(value: object) -> None:
    if not isinstance(value, dict):
        raise Refused((), "an object", value)
    kind = value.get("type", NOTHING)
    fields = fields_of(kind) if isinstance(kind, str) else None
    if fields is None:
        raise Refused(("type",), "a known chunk type", kind)
    _check_fields(value, fields)
    if fields is DATA_CHUNK:
        # A data chunk is stored as it came, so its extra keys must be JSON as well.
        for key, extra in value.items():
            if not isinstance(key, str):
                raise Refused((), "an object whose keys are strings", value)
            anything(extra, (key,))


def _check_fields(value: Mapping[str, object], fields: Fields) -> None:
    for key, field in fields.items():
        found = value.get(key, NOTHING)
        if found is not NOTHING:
            field.check(found, (key,))
        elif field.required:
            raise Refused((key,), expectation(field.check, (key,)), NOTHING)


def check_shape(value: Mapping[str, object], kind: str, fields: Fields) -> None:
    """Check only the required keys, for chunks that go in unchecked.

    Raises:
        Refused: A required key is missing or mistyped; without it the fold would not know what to do.
    """
    required: dict[str, Field] = {key: field for key, field in fields.items() if field.required}
    _check_fields(value, required)


def check_emittable(chunk: Any) -> Any:
    """Return the chunk if chatnb may send it to a client of either generation (spec/messages.md, section 7.1).

    Raises:
        MessageValidationError: It is no valid chunk, or of a type or with a key that chatnb never emits. The text
            names the type.
    """
    if is_plain_delta(chunk):
        return chunk
    try:
        _check(chunk)
        _check_emittable(chunk)
    except Refused as refusal:
        error = refusal.to_error("chunk")
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if isinstance(kind, str) and _PRINTABLE_TYPE.match(kind):
            raise MessageValidationError(f"{kind}: {error}"[:300], path=error.path) from None
        raise error from None
    return chunk


def _check_emittable(chunk: dict[str, object]) -> None:
    kind = str(chunk["type"])
    if kind in _NEVER_EMITTED:
        raise Refused(("type",), "a chunk type that clients of both generations accept", chunk["type"])
    if chunk.get("finishReason") == "interrupted":
        raise Refused(("finishReason",), "a reason that clients of both generations accept", chunk["finishReason"])
    if not kind.startswith("data-"):
        for key in _FORBIDDEN_KEYS:
            if key in chunk:
                raise Refused((key,), "no such key in what is sent", chunk[key])
    _check_values(chunk, ())


def _check_values(chunk: dict[str, object], path: Path) -> None:
    for key, value in chunk.items():
        if value is None and key not in _VALUE_KEYS:
            raise Refused((*path, key), "the key to be left out when it has no value", value)
        if key == "messageMetadata" and not isinstance(value, dict):
            raise Refused((*path, key), "an object", value)
        finite_json(value, (*path, key))  # what is sent has to be JSON for every reader, so no NaN
