"""The frozen plain-data snapshot of validated arguments, and fresh copies of it (spec/actions.md, 3.2 and 3.3).

`freeze_arguments` reads each value once. What it returns shares nothing with what it read; `thaw` builds a new copy
each time, and rebuilds records without running their validators. Frozen nodes are named tuples: they are made in great
numbers, and a frozen dataclass takes three times as long.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from math import isfinite
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from .._json import JsonValue

MAX_DEPTH = 64
_QUICK = frozenset({str, int, bool, type(None), date})
_SCALAR = _QUICK | {float}
_ONLY_TEXT = {str}

Path = tuple[str | int, ...]


class NotPlainError(Exception):
    """A value is not plain data. `path` leads to it; keys of dicts are `*`."""

    def __init__(self, path: Path) -> None:
        super().__init__("not plain data")
        self.path = path


class Items(NamedTuple):
    """A frozen list or tuple. `flat`: it holds immutable scalars alone."""

    values: tuple[Any, ...]
    flat: bool
    kind: Literal["list", "tuple"] = "list"


class Mapped(NamedTuple):
    """A frozen dict."""

    keys: tuple[str, ...]
    values: tuple[Any, ...]
    flat: bool


class Record(NamedTuple):
    """A frozen pydantic model or dataclass: its fields, and a model's extras, in order."""

    type: type[Any]
    keys: tuple[str, ...]
    values: tuple[Any, ...]
    extras: Mapped | None = None
    fields_set: frozenset[str] | None = None


def freeze_arguments(values: dict[str, Any]) -> Mapped:
    """Freeze validated arguments by parameter name.

    Raises:
        NotPlainError: A value is not plain data; the path begins with the parameter.
    """
    frozen = tuple(_freeze(value, (name,), 1, set()) for name, value in values.items())
    return Mapped(tuple(values), frozen, False)


def thaw(node: Any) -> Any:
    """Return a fresh copy of a frozen value."""
    kind = type(node)
    if kind is Mapped:
        if node.flat:
            return dict(zip(node.keys, node.values, strict=True))
        return {key: thaw(value) for key, value in zip(node.keys, node.values, strict=True)}
    if kind is Items:
        values = node.values if node.flat else [thaw(value) for value in node.values]
        return list(values) if node.kind == "list" else tuple(values)
    if kind is Record:
        return _rebuild(node)
    return node


def to_json(node: Any) -> JsonValue:
    """Return a frozen value as JSON that validates to the same value again: models by alias, dates as ISO texts."""
    kind = type(node)
    if kind is Mapped:
        return {key: to_json(value) for key, value in zip(node.keys, node.values, strict=True)}
    if kind is Items:
        return [to_json(value) for value in node.values]
    if kind is Record:
        return _record_json(node)
    if isinstance(node, Enum):
        return to_json(node.value)
    if isinstance(node, date):
        return node.isoformat()
    return node


def _freeze(value: Any, path: Path, depth: int, active: set[int]) -> Any:
    kind = type(value)
    if kind in _QUICK:
        return value
    if kind is float:
        if not isfinite(value):
            raise NotPlainError(path)
        return value
    if kind is datetime:
        return _fix_offset(value, path)
    if isinstance(value, Enum):
        inner = value.value
        if type(inner) not in _SCALAR and type(inner) is not datetime:
            raise NotPlainError(path)
        _freeze(inner, path, depth, active)
        return value
    if depth > MAX_DEPTH or id(value) in active:
        raise NotPlainError(path)
    active.add(id(value))
    try:
        if kind is list or kind is tuple:
            values, flat = _freeze_values(tuple(value), range(len(value)), path, depth, active)
            return Items(values, flat, "list" if kind is list else "tuple")
        if kind is dict:
            return _freeze_dict(value, path, depth, active)
        if isinstance(value, BaseModel):
            return _freeze_model(value, path, depth, active)
        if dataclasses.is_dataclass(kind):
            return _freeze_record(value, path, depth, active)
    finally:
        active.discard(id(value))
    raise NotPlainError(path)


def _freeze_values(
    values: tuple[Any, ...], names: Iterable[str | int], path: Path, depth: int, active: set[int]
) -> tuple[tuple[Any, ...], bool]:
    kinds = set(map(type, values))
    if kinds <= _SCALAR and not (float in kinds and _may_be_infinite(values)):
        return values, True
    return tuple(
        _freeze(value, (*path, name), depth + 1, active) for name, value in zip(names, values, strict=True)
    ), False


def _may_be_infinite(values: tuple[Any, ...]) -> bool:
    """Tell whether a float may not be finite. A sum is the fast test; one that overflows is looked at one by one."""
    return not isfinite(sum([value for value in values if type(value) is float]))


def _freeze_dict(value: dict[Any, Any], path: Path, depth: int, active: set[int]) -> Mapped:
    keys, values = tuple(value), tuple(value.values())
    if keys and set(map(type, keys)) != _ONLY_TEXT:
        raise NotPlainError((*path, "*"))
    if set(map(type, values)) <= _QUICK:
        return Mapped(keys, values, True)
    frozen, flat = _freeze_values(values, ("*",) * len(values), path, depth, active)
    return Mapped(keys, frozen, flat)


def _freeze_model(value: BaseModel, path: Path, depth: int, active: set[int]) -> Record:
    kind = type(value)
    if kind.__private_attributes__:
        raise NotPlainError(path)
    held = value.__dict__
    keys = tuple(name for name in kind.model_fields if name in held)
    values, _ = _freeze_values(tuple(held[name] for name in keys), keys, path, depth, active)
    extra = value.__pydantic_extra__
    extras = _freeze_dict(dict(extra), path, depth, active) if extra else None
    return Record(kind, keys, values, extras, frozenset(value.__pydantic_fields_set__))


def _freeze_record(value: Any, path: Path, depth: int, active: set[int]) -> Record:
    names = tuple(field.name for field in dataclasses.fields(value))
    values, _ = _freeze_values(tuple(getattr(value, name) for name in names), names, path, depth, active)
    return Record(type(value), names, values)


def _fix_offset(value: datetime, path: Path) -> datetime:
    try:
        offset = value.utcoffset()
        return value if offset is None else value.replace(tzinfo=timezone(offset))
    except (ValueError, TypeError, OverflowError):
        raise NotPlainError(path) from None


def find_lone_surrogate(arguments: Mapped) -> Path:
    """Return the path of a text that has no UTF-8. Freezing does not look for them: hashing finds them by the way."""
    found = _find_surrogate(arguments, ())
    assert found is not None
    return tuple(found)


def _find_surrogate(node: Any, path: Path) -> Path | None:
    kind = type(node)
    if kind is str:
        return path if any("\ud800" <= char <= "\udfff" for char in node) else None
    if kind is Items:
        pairs: list[tuple[str | int, Any]] = list(enumerate(node.values))
    elif kind is Mapped or kind is Record:
        shown = node.keys if kind is Record or not path else ("*",) * len(node.keys)
        pairs = list(zip(shown, node.values, strict=True))
        if kind is Mapped:
            pairs += [("*", key) for key in node.keys]
        elif node.extras is not None:
            pairs.append(("*", node.extras))
    elif isinstance(node, Enum):
        pairs = [("*", node.value)]
    else:
        return None
    return next((found for name, inner in pairs if (found := _find_surrogate(inner, (*path, name)))), None)


def _rebuild(node: Record) -> Any:
    values = {key: thaw(value) for key, value in zip(node.keys, node.values, strict=True)}
    made = object.__new__(node.type)
    put: Callable[[Any, str, Any], None] = object.__setattr__
    if issubclass(node.type, BaseModel):
        put(made, "__dict__", values)
        put(made, "__pydantic_fields_set__", set(node.fields_set or ()))
        extras: dict[str, Any] | None = {} if node.type.model_config.get("extra") == "allow" else None
        put(made, "__pydantic_extra__", extras if node.extras is None else thaw(node.extras))
        put(made, "__pydantic_private__", None)
        return made
    for name, value in values.items():
        put(made, name, value)
    return made


def _record_json(node: Record) -> JsonValue:
    if not issubclass(node.type, BaseModel):
        return {key: to_json(value) for key, value in zip(node.keys, node.values, strict=True)}
    if node.keys == ("root",) and node.type.__pydantic_root_model__:
        return to_json(node.values[0])
    by_alias = node.type.model_config.get("validate_by_alias", True) is not False
    result = {}
    for key, value in zip(node.keys, node.values, strict=True):
        alias = node.type.model_fields[key].validation_alias
        result[alias if by_alias and isinstance(alias, str) else key] = to_json(value)
    if node.extras is not None:
        result.update(to_json(node.extras))
    return result


def shift_epoch(value: datetime) -> int:
    """Return the microseconds since 1970-01-01, of UTC for an aware datetime, of the wall clock for a naive one."""
    offset = value.utcoffset() or timedelta(0)
    return ((value.replace(tzinfo=None) - offset) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
