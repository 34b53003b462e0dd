"""How start, metadata, steps, text, files, sources and data change a message (spec/messages.md, 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from chatnb.errors import ChunkOrderError
from chatnb.messages.chunk_schema import fields_of
from chatnb.messages.fold_state import MESSAGE_CHANGED, PARTS_CHANGED, FoldChange, FoldState, Slot
from chatnb.messages.json_value import ABSENT, FrozenDict, JsonObject, JsonValue, freeze
from chatnb.messages.schema import clean

Handler: TypeAlias = Callable[[FoldState, JsonObject], FoldChange | None]

_UNSAFE_KEYS: Final = frozenset({"__proto__", "constructor", "prototype"})


def start(state: FoldState, chunk: JsonObject) -> FoldChange | None:
    """Take the id; another id than the current one begins another message."""
    id = chunk.get("messageId")
    change = _merge_into(state, chunk) if id is None or id == state.id else None
    if id is None:
        return change
    if id != state.id:
        metadata = _given_metadata(chunk)
        state.begin(id)
        if metadata is not None:
            state.metadata = metadata
    return MESSAGE_CHANGED


def finish(state: FoldState, chunk: JsonObject) -> FoldChange | None:
    """Note the reason."""
    change = _merge_into(state, chunk)
    reason = chunk.get("finishReason")
    if reason:
        state.finish_reason = str(reason)
    return change


def message_metadata(state: FoldState, chunk: JsonObject) -> FoldChange | None:
    """Merge metadata."""
    return _merge_into(state, chunk)


def nothing(state: FoldState, chunk: JsonObject) -> FoldChange | None:
    """Change nothing: finish-step and abort; open blocks survive them."""
    return None


def _given_metadata(chunk: JsonObject) -> JsonValue:
    return freeze(chunk.get("messageMetadata"), ("messageMetadata",))


def _merge_into(state: FoldState, chunk: JsonObject) -> FoldChange | None:
    given = _given_metadata(chunk)
    if given is None:
        return None
    state.metadata = given if state.metadata is ABSENT else _merged(state.metadata, given)
    return MESSAGE_CHANGED


def _merged(old: JsonValue, new: JsonValue) -> JsonValue:
    """Merge objects deeply; in every other pairing the new value replaces the old."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    out = dict(old)
    for key, value in new.items():
        if key not in _UNSAFE_KEYS:
            out[key] = _merged(out[key], value) if key in out else value
    return FrozenDict(out)


def start_step(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Append the border."""
    slot = state.add({"type": "step-start"})
    state.step_at = len(state.slots)
    return slot.changed()


def reset_step(state: FoldState, chunk: JsonObject) -> FoldChange | None:
    """Drop the parts of the current step and forget what is open."""
    state.forget_open()
    if state.step_at == len(state.slots):
        return None
    state.drop_step()
    return PARTS_CHANGED


def _provider_metadata(chunk: JsonObject) -> JsonObject:
    given = chunk.get("providerMetadata")
    return {} if given is None else {"providerMetadata": freeze(given, ("providerMetadata",))}


def _open_blocks(state: FoldState, kind: str) -> dict[str, Slot]:
    return state.open_text if kind.startswith("text") else state.open_reasoning


def block_start(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Append a part and open its id; an open id's earlier part stays as it is."""
    kind, id = chunk["type"], chunk["id"]
    metadata = _provider_metadata(chunk)
    named = {"type": "text"} if kind == "text-start" else {"type": "reasoning", "id": id}
    slot = state.add({**named, "text": "", "state": "streaming", **metadata})
    slot.pieces = []
    blocks = _open_blocks(state, kind)
    blocks.pop(id, None)
    blocks[id] = slot
    return slot.changed()


def _open_block(state: FoldState, chunk: JsonObject) -> Slot:
    kind, id = chunk["type"], chunk["id"]
    slot = _open_blocks(state, kind).get(id)
    if slot is None:
        raise ChunkOrderError(
            f"{kind} for a block that is not open; send {kind.split('-')[0]}-start first", chunk_type=kind, chunk_id=id
        )
    return slot


def block_delta(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Append to the open part."""
    blocks = state.open_text if chunk["type"] == "text-delta" else state.open_reasoning
    slot = blocks.get(chunk["id"]) or _open_block(state, chunk)
    delta = chunk["delta"]
    if chunk.get("providerMetadata") is None:
        slot.append(delta)
        return FoldChange("text", slot.index, "text", delta)
    metadata = _provider_metadata(chunk)
    slot.append(delta)
    slot.edit().update(metadata)
    return slot.changed()


def block_end(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Close the part."""
    slot = _open_block(state, chunk)
    changes = _provider_metadata(chunk)
    if chunk["type"] == "text-end" and chunk.get("citations") is not None:
        changes["citations"] = freeze(chunk["citations"], ("citations",))
    slot.edit().update(changes, state="done")
    del _open_blocks(state, chunk["type"])[chunk["id"]]
    return slot.changed()


def whole_part(state: FoldState, chunk: JsonObject) -> FoldChange:
    """Append a part of the known keys: files, sources, custom, steering-message."""
    kind = chunk["type"]
    fields = fields_of(kind)
    assert fields is not None
    given = {key: value for key, value in chunk.items() if value is not None}
    return state.add({"type": kind, **clean(given, fields, ())}).changed()


def data(state: FoldState, chunk: JsonObject) -> FoldChange | None:
    """Append app data, or replace the data of the part with the same type and id. Transient data is not kept."""
    if chunk.get("transient") is True:
        return None
    id = chunk.get("id")
    if id is not None:
        for slot in state.slots:
            if slot.wire.get("id") == id and slot.wire.get("type") == chunk["type"]:
                value = freeze(chunk["data"], ("data",))
                slot.edit()["data"] = value
                return slot.changed()
    return state.add({key: freeze(value, (key,)) for key, value in chunk.items()}).changed()


CONTENT_HANDLERS: Final[dict[str, Handler]] = {
    "start": start,
    "finish": finish,
    "message-metadata": message_metadata,
    "abort": nothing,
    "finish-step": nothing,
    "start-step": start_step,
    "reset-step": reset_step,
    "text-start": block_start,
    "text-delta": block_delta,
    "text-end": block_end,
    "reasoning-start": block_start,
    "reasoning-delta": block_delta,
    "reasoning-end": block_end,
    "file": whole_part,
    "reasoning-file": whole_part,
    "source-url": whole_part,
    "source-document": whole_part,
    "custom": whole_part,
    "steering-message": whole_part,
}
