"""How the chunks of a call change its part (spec/messages.md, 4.4)."""

from __future__ import annotations

from typing import Final

from chatnb.errors import ChunkOrderError
from chatnb.messages.fold_content import Handler
from chatnb.messages.fold_state import FoldChange, FoldState, Slot, is_tool_type
from chatnb.messages.json_value import FrozenDict, JsonObject, freeze

_APPROVAL_KEYS: Final = {
    "approvalDescriptor": "descriptor",
    "inputSchemaInput": "inputSchemaInput",
    "reason": "requestReason",
    "signature": "signature",
}
_ANY_KEYS: Final = frozenset({"approvalDescriptor", "inputSchemaInput"})
_STALE_AFTER_INPUT: Final = ("rawInput", "inputEncoding", "output", "errorText", "preliminary")


def _sticky(chunk: JsonObject, metadata_key: str, *, title: bool = False) -> JsonObject:
    """Return what a chunk replaces on its part; what it leaves out stays."""
    changes: JsonObject = {}
    names = {"providerExecuted": "providerExecuted", "toolMetadata": "toolMetadata", "providerMetadata": metadata_key}
    if title:
        names["title"] = "title"
    for name, key in names.items():
        if chunk.get(name) is not None:
            changes[key] = freeze(chunk[name], (name,))
    return changes


def _drop(wire: JsonObject, *keys: str) -> None:
    for key in keys:
        wire.pop(key, None)


def _find_or_add(state: FoldState, chunk: JsonObject, found: Slot | None) -> Slot:
    if found is not None:
        return found
    name = chunk["toolName"]
    head = {"type": "dynamic-tool", "toolName": name} if chunk.get("dynamic") else {"type": f"tool-{name}"}
    return state.add({**head, "toolCallId": chunk["toolCallId"]})


def input_start(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Begin a call's input, or begin it again."""
    call_id = chunk["toolCallId"]
    changes = _sticky(chunk, "callProviderMetadata", title=True)
    slot = _find_or_add(state, chunk, state.in_step(call_id, bool(chunk.get("dynamic"))))
    wire = slot.edit()
    _drop(wire, "input", *_STALE_AFTER_INPUT)
    wire.update(changes, state="input-streaming")
    slot.pieces = []
    slot.encoding = chunk.get("inputEncoding")
    if slot.encoding is not None:
        wire["inputEncoding"] = slot.encoding
    state.open_inputs.pop(call_id, None)
    state.open_inputs[call_id] = slot
    return slot.changed()


def input_delta(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Append to the buffer. The parse waits until the message is asked for."""
    call_id, delta = chunk["toolCallId"], chunk["inputTextDelta"]
    slot = state.open_inputs.get(call_id)
    if slot is None:
        raise ChunkOrderError(
            "tool-input-delta for a call whose input is not open; send tool-input-start first",
            chunk_type="tool-input-delta",
            chunk_id=call_id,
        )
    if slot.wire.get("state") == "input-streaming":
        slot.append(delta)
        return FoldChange("text", slot.index, "rawInput", delta)
    wire = slot.edit()
    _drop(wire, *_STALE_AFTER_INPUT)
    wire["state"] = "input-streaming"
    if slot.encoding is not None:
        wire["inputEncoding"] = slot.encoding
    slot.append(delta)
    return slot.changed()


def input_available(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Set the whole input."""
    changes = _sticky(chunk, "callProviderMetadata", title=True)
    given = freeze(chunk["input"], ("input",))
    dynamic = bool(chunk.get("dynamic"))
    slot = _find_or_add(state, chunk, state.in_step(chunk["toolCallId"], dynamic))
    wire = slot.edit()
    _drop(wire, *_STALE_AFTER_INPUT)
    if not dynamic:
        wire["type"] = f"tool-{chunk['toolName']}"
    wire.update(changes, state="input-available", input=given)
    return slot.changed()


def input_error(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Record an input that can't be used. The chunk's title is ignored."""
    changes = _sticky(chunk, "callProviderMetadata")
    given = freeze(chunk["input"], ("input",))
    slot = _find_or_add(state, chunk, state.in_step(chunk["toolCallId"]))
    wire = slot.edit()
    _drop(wire, *_STALE_AFTER_INPUT)
    wire.update(changes, state="output-error", input=given, errorText=chunk["errorText"])
    return slot.changed()


def approval_request(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Ask for a decision; an earlier one is replaced."""
    slot = state.lookup(chunk["toolCallId"])
    approval: JsonObject = {"id": chunk["approvalId"]}
    for name, key in _APPROVAL_KEYS.items():
        if name in chunk and (chunk[name] is not None or name in _ANY_KEYS):
            approval[key] = freeze(chunk[name], (name,))
    if chunk.get("isAutomatic") is True:
        approval["isAutomatic"] = True
    slot.edit().update(state="approval-requested", approval=FrozenDict(approval))
    return slot.changed()


def approval_response(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Lay a decision over the request."""
    slot = _with_approval(state, chunk["approvalId"])
    changes = _sticky({**chunk, "toolMetadata": None}, "callProviderMetadata")
    wire = slot.edit()
    approval = {**wire["approval"], "approved": chunk["approved"]}
    if chunk.get("reason") is not None:
        approval["reason"] = chunk["reason"]
    wire.update(changes, state="approval-responded", approval=FrozenDict(approval))
    return slot.changed()


def _with_approval(state: FoldState, approval_id: str) -> Slot:
    for slot in state.slots:
        approval = slot.wire.get("approval")
        if is_tool_type(slot.wire.get("type")) and isinstance(approval, dict) and approval.get("id") == approval_id:
            return slot
    raise ChunkOrderError(
        "tool-approval-response for an approval that the message does not have",
        chunk_type="tool-approval-response",
        chunk_id=approval_id,
    )


def output_available(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Set the result, preliminary or final."""
    slot = state.lookup(chunk["toolCallId"])
    changes = _sticky(chunk, "resultProviderMetadata")
    output = freeze(chunk["output"], ("output",))
    wire = slot.edit()
    _drop(wire, "errorText", "rawInput", "inputEncoding", "preliminary")
    if chunk.get("preliminary") is not None:
        wire["preliminary"] = chunk["preliminary"]
    wire.update(changes, state="output-available", output=output)
    return slot.changed()


def output_error(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Record that the call failed. A static part that was still streaming keeps what was said of its input."""
    slot = state.lookup(chunk["toolCallId"])
    changes = _sticky(chunk, "resultProviderMetadata")
    wire = slot.edit()
    _drop(wire, "output", "inputEncoding", "preliminary")
    if wire["type"] == "dynamic-tool":
        _drop(wire, "rawInput")
    wire.update(changes, state="output-error", errorText=chunk["errorText"])
    return slot.changed()


def output_denied(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Record the denial, and nothing else."""
    slot = state.lookup(chunk["toolCallId"])
    slot.edit()["state"] = "output-denied"
    return slot.changed()


TOOL_HANDLERS: Final[dict[str, Handler]] = {
    "tool-input-start": input_start,
    "tool-input-delta": input_delta,
    "tool-input-available": input_available,
    "tool-input-error": input_error,
    "tool-approval-request": approval_request,
    "tool-approval-response": approval_response,
    "tool-output-available": output_available,
    "tool-output-error": output_error,
    "tool-output-denied": output_denied,
}
