"""The wire schemas of messages and parts (spec/messages.md, section 2)."""

from __future__ import annotations

from typing import Final

from chatnb.messages.json_value import FrozenDict
from chatnb.messages.parts import WireObject
from chatnb.messages.refusal import NOTHING, Path, Refused
from chatnb.messages.schema import (
    Check,
    Field,
    Fields,
    anything,
    boolean,
    clean,
    exactly,
    finite_json,
    forbidden,
    list_of,
    may,
    natural,
    need,
    object_of,
    one_of,
    open_object,
    provider_metadata,
    record,
    string,
)

ROLES: Final = ("system", "user", "assistant")
FINISHED_STATES: Final = frozenset({"output-available", "output-error", "output-denied"})

_block_state = one_of("streaming", "done")
_pm: Fields = {"providerMetadata": may(provider_metadata)}

_url_source = record(
    {
        "type": need(one_of("source")),
        "sourceType": need(one_of("url")),
        "id": need(string),
        "url": need(string),
        "title": may(string),
    }
)
_document_source = record(
    {
        "type": need(one_of("source")),
        "sourceType": need(one_of("document")),
        "id": need(string),
        "mediaType": need(string),
        "title": need(string),
        "filename": may(string),
    }
)
_any_source = record({"type": need(one_of("source")), "sourceType": need(one_of("url", "document"))})


def _source(value: object, path: Path) -> FrozenDict:
    head = _any_source(value, path)
    found = _url_source(value, path) if head["sourceType"] == "url" else _document_source(value, path)
    assert isinstance(found, FrozenDict)
    return found


citations: Check = list_of(
    record({"source": need(_source), "startIndex": may(natural), "endIndex": may(natural), "citedText": may(string)})
)

_TEXT: Fields = {
    "type": need(one_of("text")),
    "text": need(string),
    "state": may(_block_state),
    "citations": may(citations),
    **_pm,
}
_FILE: Fields = {
    "type": need(one_of("file")),
    "mediaType": need(string),
    "url": need(string),
    "filename": may(string),
    "providerReference": may(object_of(string)),
    **_pm,
}


def _steering_item(value: object, path: Path) -> FrozenDict:
    if not isinstance(value, dict):
        raise Refused(path, "an object", value)
    kind = value.get("type", NOTHING)
    if kind == "text":
        return clean(value, _TEXT, path)
    if kind == "file":
        return clean(value, _FILE, path)
    raise Refused((*path, "type"), "one of text, file", kind)


PARTS: Final[dict[str, Fields]] = {
    "text": _TEXT,
    "reasoning": {
        "type": need(string),
        "text": need(string),
        "id": may(string),
        "state": may(_block_state),
        **_pm,
    },
    "file": _FILE,
    "reasoning-file": {"type": need(string), "mediaType": need(string), "url": need(string), **_pm},
    "source-url": {"type": need(string), "sourceId": need(string), "url": need(string), "title": may(string), **_pm},
    "source-document": {
        "type": need(string),
        "sourceId": need(string),
        "mediaType": need(string),
        "title": need(string),
        "filename": may(string),
        **_pm,
    },
    "custom": {"type": need(string), "kind": need(string), **_pm},
    "step-start": {"type": need(string)},
    "steering-message": {"type": need(string), "id": need(string), "parts": need(list_of(_steering_item))},
}
_DATA: Fields = {"type": need(string), "id": may(string), "data": need(anything)}


def _approval(approved: Field, reason: Field) -> Check:
    return record(
        {
            "id": need(string),
            "approved": approved,
            "reason": reason,
            "requestReason": may(string),
            "descriptor": may(anything),
            "isAutomatic": may(boolean),
            "signature": may(string),
            "inputSchemaInput": may(anything),
        }
    )


_no = may(forbidden)
_approved = may(_approval(need(exactly(True)), may(string)))
_result: Fields = {"resultProviderMetadata": may(provider_metadata)}
_no_result: Fields = {"output": _no, "errorText": _no}

_STATES: Final[dict[str, Fields]] = {
    "input-streaming": {
        "rawInput": may(string),
        "inputEncoding": may(one_of("json", "text")),
        "input": may(anything),
        **_no_result,
        "approval": _no,
    },
    "input-available": {"input": need(anything), **_no_result, "approval": _no},
    "approval-requested": {"input": need(anything), **_no_result, "approval": need(_approval(_no, _no))},
    "approval-responded": {
        "input": need(anything),
        **_no_result,
        "approval": need(_approval(need(boolean), may(string))),
    },
    "output-available": {
        "input": need(anything),
        "output": need(anything),
        "errorText": _no,
        "preliminary": may(boolean),
        **_result,
        "approval": _approved,
    },
    "output-error": {
        "rawInput": may(anything),
        "input": may(anything),
        "output": _no,
        "errorText": need(string),
        **_result,
        "approval": _approved,
    },
    "output-denied": {
        "input": need(anything),
        **_no_result,
        "approval": need(_approval(need(exactly(False)), may(string))),
    },
}
_TOOL_HEAD: Fields = {
    "toolCallId": need(string),
    "state": need(string),
    "title": may(string),
    "toolMetadata": may(open_object),
    "providerExecuted": may(boolean),
    "callProviderMetadata": may(provider_metadata),
}
_STATIC: Final = {state: {"type": need(string), **_TOOL_HEAD, **fields} for state, fields in _STATES.items()}
_DYNAMIC: Final = {
    state: {
        "type": need(string),
        "toolName": need(string),
        "dynamic": may(exactly(False)),
        **_TOOL_HEAD,
        **fields,
    }
    for state, fields in _STATES.items()
}
_known_state = one_of(*_STATES)


def clean_part(value: object, path: Path) -> FrozenDict:
    """Return a part's wire form with its known keys.

    Raises:
        Refused: The part breaks section 2.
    """
    if isinstance(value, WireObject):
        value = value.wire
    if not isinstance(value, dict):
        raise Refused(path, "an object", value)
    kind = value.get("type", NOTHING)
    if not isinstance(kind, str):
        raise Refused((*path, "type"), "a string", kind)
    if kind.startswith("data-"):
        return clean(value, _DATA, path)
    if kind.startswith("tool-"):
        return _clean_tool(value, _STATIC, path)
    if kind == "dynamic-tool":
        return _clean_tool(value, _DYNAMIC, path)
    fields = PARTS.get(kind)
    if fields is None:
        raise Refused((*path, "type"), "a known part type", kind)
    return clean(value, fields, path)


def _clean_tool(value: dict[str, object], states: dict[str, dict[str, Field]], path: Path) -> FrozenDict:
    state = _known_state(value.get("state", NOTHING), (*path, "state"))
    return clean(value, states[state], path)


_role = one_of(*ROLES)
_MESSAGE_HEAD: Fields = {"id": need(string), "role": need(_role), "metadata": may(finite_json)}
_parts = list_of(clean_part)


def clean_message(value: object, path: Path) -> FrozenDict:
    """Return a message's wire form with its known keys.

    Raises:
        Refused: The message breaks sections 2 or 3.
    """
    head = clean(value, _MESSAGE_HEAD, path)
    assert isinstance(value, dict)
    at = (*path, "parts")
    parts = _parts(value.get("parts", NOTHING), at)
    if not parts and head["role"] != "assistant":
        raise Refused(at, "at least one part", parts)
    return FrozenDict({**head, "parts": parts})
