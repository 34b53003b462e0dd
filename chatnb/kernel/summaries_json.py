"""Summaries of dicts, lists, dataclasses, pydantic models and plain values as JSON that is cut with counts."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import heapq
import math
import uuid
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import PurePath
from typing import Any

from chatnb._json import JsonValue, dumps
from chatnb.kernel.summaries_text import LIMIT, cut, is_a, repr_text, type_name

_MAX_DEPTH = 6
_MAX_SORTED = 100_000
_SEQUENCES = (list, tuple, collections.deque, array.array)
_PLAIN = (bool, int, float, str, dict, set, frozenset, enum.Enum, *_SEQUENCES)
_WRITTEN = (decimal.Decimal, uuid.UUID, PurePath, datetime.date, datetime.time, datetime.timedelta)


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """How much of a value is kept.

    Attributes:
        text: Characters of a string.
        items: Items of a list or dict.
        depth: Levels of nesting.
    """

    text: int
    items: int
    depth: int


# Tried from the left until the JSON fits.
_STEPS = (
    Sizes(1800, 100, _MAX_DEPTH),
    Sizes(400, 40, _MAX_DEPTH),
    Sizes(200, 20, _MAX_DEPTH),
    Sizes(80, 10, 5),
    Sizes(40, 5, 4),
    Sizes(30, 3, 3),
)


def is_structure(value: object) -> bool:
    """Tell whether an object is described as JSON."""
    return value is None or isinstance(value, _PLAIN) or is_record(value)


def is_record(value: object) -> bool:
    """Tell whether an object is a dataclass instance or a pydantic model."""
    if isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or is_a(value, "pydantic", "BaseModel")


def json_text(value: object, limit: int = LIMIT) -> str:
    """Return the JSON of a value, cut until it fits."""
    text = ""
    for sizes in _STEPS:
        text = dumps(simplify(value, sizes))
        if len(text) <= limit:
            return text
    return cut(text, limit)


def json_form(value: object, limit: int = LIMIT) -> JsonValue:
    """Return the JSON value that `json_text` writes, or None if none is small enough."""
    for sizes in _STEPS:
        made = simplify(value, sizes)
        if len(dumps(made)) <= limit:
            return made
    return None


def simplify(value: Any, sizes: Sizes, depth: int = 0) -> JsonValue:
    """Return a value as JSON: long strings and lists cut with counts, keys of dicts in order, sets sorted."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return f"{type_name(value)}.{value.name}"
    if isinstance(value, int):
        return int(value) if abs(value) < 1 << 63 else cut(_long_number(value), sizes.text)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, str):
        return _cut_string(value, sizes.text)
    if isinstance(value, _WRITTEN):
        return cut(str(value), sizes.text)
    if depth >= sizes.depth:
        return "…"
    if isinstance(value, dict):
        return _pairs(_sorted_items(value, sizes.items), len(value), sizes, depth)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = dict(zip(value._fields, value, strict=False))
        return _pairs(fields.items(), len(fields), sizes, depth)
    if isinstance(value, _SEQUENCES):
        return _items(islice(value, sizes.items), len(value), sizes, depth)
    if isinstance(value, set | frozenset):
        return _items(_sorted_members(value, sizes.items), len(value), sizes, depth)
    if is_record(value):
        own = _fields_of(value)
        return _pairs(own.items(), len(own), sizes, depth)
    return _other(value, sizes)


def _other(value: Any, sizes: Sizes) -> JsonValue:
    shape = getattr(value, "shape", None) if is_a(value, "pandas", "NDFrame", "Index") else None
    if is_a(value, "numpy", "generic") and not is_a(value, "numpy", "void"):
        item = value.item()
        return simplify(item, sizes) if isinstance(item, bool | int | float | str) else str(item)
    if is_a(value, "numpy", "ndarray") or is_a(value, "polars", "DataFrame", "Series"):
        shape = value.shape
    if shape is not None:
        return f"{type_name(value)} {' x '.join(map(str, shape))}"
    text = repr_text(value, min(sizes.text, 80))
    return text if text is not None else type_name(value)


def _pairs(pairs: Iterable[tuple[Any, Any]], length: int, sizes: Sizes, depth: int) -> dict[str, JsonValue]:
    made: dict[str, JsonValue] = {}
    for key, item in islice(pairs, sizes.items):
        made[_key(key, sizes)] = simplify(item, sizes, depth + 1)
    if length > sizes.items:
        made["…"] = f"{length - sizes.items} more of {length}"
    return made


def _items(items: Iterable[Any], length: int, sizes: Sizes, depth: int) -> list[JsonValue]:
    made = [simplify(item, sizes, depth + 1) for item in items]
    if length > len(made):
        made.append(f"… {length - len(made)} more of {length}")
    return made


def _key(key: Any, sizes: Sizes) -> str:
    limit = max(40, sizes.text // 4)
    return cut(key, limit) if isinstance(key, str) else repr_text(key, limit) or type_name(key)


def _sorted_items(value: dict[Any, Any], count: int) -> list[tuple[Any, Any]]:
    """The first items by key: two equal dicts read the same, whatever order they were built in."""
    if len(value) > _MAX_SORTED:
        return list(islice(dict.items(value), count))
    return heapq.nsmallest(count, dict.items(value), key=lambda pair: _order(pair[0]))


def _sorted_members(value: set[Any] | frozenset[Any], count: int) -> list[Any]:
    return heapq.nsmallest(count, islice(value, _MAX_SORTED), key=_order)


def _order(key: Any) -> tuple[str, Any, str]:
    if isinstance(key, str):
        return ("str", 0, key)
    if isinstance(key, int | float):
        return ("number", float(key) if abs(key) < 1e300 else 0, "")
    return (type_name(key), 0, repr_text(key, 200) or "")


def _fields_of(value: Any) -> Mapping[str, Any]:
    """The fields of a record in the order of its class; read from the instance, so that no property is computed."""
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name, "…") for f in dataclasses.fields(value) if f.repr}
    names = list(getattr(type(value), "model_fields", {}))
    state = vars(value)
    extra = getattr(value, "__pydantic_extra__", None) or {}
    return {**{name: state[name] for name in names if name in state}, **extra}


def _cut_string(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text)} characters)"


def _long_number(value: int) -> str:
    return str(value) if value.bit_length() < 4000 else f"an integer of {value.bit_length()} bits"
