"""Operations cut and packed so that each frame fits (spec/widget.md, 3.1: 256 KiB of JSON). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from .._json import JsonValue, whole
from .view_form import Form, text_field

FRAME_BYTES = 256 * 1024
ROOM = FRAME_BYTES - 4096
"""Length of a frame's JSON, escaped, without its envelope."""


def escaped(value: JsonValue) -> int:
    """Return the length of JSON with all but ASCII escaped: not less than any encoding of it needs."""
    return len(json.dumps(value))


def is_small(op: Form) -> bool:
    """Tell at once that an operation fits a frame; True only for short texts, of which a stream is made."""
    return bool(op["op"] == "text" and len(op["d"]) * 12 < ROOM // 2)


def cut_ops(ops: Iterable[Form]) -> list[Form]:
    """Return operations of which each fits a frame: long texts are cut, large messages and parts taken apart."""
    done: list[Form] = []
    for op in ops:
        if op["op"] == "text" and isinstance(op["d"], list):
            op = {**op, "d": whole("".join(op["d"]))}
            if not op["d"]:
                continue
        if is_small(op) or escaped(op) <= ROOM:
            done.append(op)
        elif op["op"] == "text":
            done.extend({**op, "d": piece} for piece in cut_text(op["d"], ROOM - 1024))
        elif op["op"] == "part":
            done.extend(_cut_part(op))
        elif op["op"] == "msg":
            message = op["message"]
            done.append({**op, "message": {**message, "parts": []}})
            parts = (
                {"op": "part", "m": message["id"], "p": p, "part": part} for p, part in enumerate(message["parts"])
            )
            done.extend(cut_ops(parts))
        elif op["op"] == "drop" and len(ids := op["ids"]) > 1:
            done.extend(cut_ops({**op, "ids": half} for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :])))
        else:
            done.append(op)
    return done


def _cut_part(op: Form) -> list[Form]:
    part = op["part"]
    name = text_field(part)
    if name is None:
        return [op]
    pieces = cut_text(part[name], ROOM - 1024)
    head = {**op, "part": {**part, name: ""}}
    return [head, *({"op": "text", "m": op["m"], "p": op["p"], "field": name, "d": piece} for piece in pieces)]


def cut_text(text: str, room: int) -> list[str]:
    """Cut a text into pieces whose escaped JSON fits; never inside a character."""
    pieces = []
    start = 0
    while start < len(text):
        size = room
        while (length := escaped(text[start : start + size])) > room:
            size = max(1, min(size - 1, int(size * room / length)))
        pieces.append(text[start : start + size])
        start += size
    return pieces


def pack(ops: Iterable[Form]) -> list[list[Form]]:
    """Put operations into frames, in order, as many as fit each."""
    ops = list(ops)
    if len(ops) == 1 and is_small(ops[0]):
        return [ops]
    batches: list[list[Form]] = []
    room = 0
    for op in ops:
        size = escaped(op) + 2
        if not batches or size > room:
            batches.append([])
            room = ROOM
        batches[-1].append(op)
        room -= size
    return batches
