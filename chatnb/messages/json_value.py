"""JSON values: absent against null, read-only containers, equality by wire form.

A message handed out never changes (spec/messages.md, section 1). The containers inside it are therefore subclasses of
`dict` and `list` whose mutators raise. So `part.input["amount"]`, `isinstance(x, dict)`, `json.dumps` and a comparison
with a plain dict all work, and reading costs nothing extra.
"""

from __future__ import annotations

import enum
import math
from typing import Any, NoReturn, TypeAlias

from chatnb.messages.refusal import Path, Refused

JsonValue: TypeAlias = Any
"""None, a bool, a number, a text, a list or a dict of these."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object."""

MAX_DEPTH = 256
"""Deeper values are refused: `json.dumps` and every other walker would run out of stack."""


class Absent(enum.Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent.ABSENT
"""No value at all, where `None` is the value null."""


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        "JSON values that are handed out are read-only; take a copy with dict(...) or list(...) to change it"
    )


class FrozenDict(dict[str, Any]):
    """A JSON object that can't be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> JsonObject:
        return dict(self)

    def __deepcopy__(self, memo: object) -> JsonObject:
        """Return a plain copy, for callers that want to change it."""
        return dict(thaw(self))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return freeze, (thaw(self),)


class FrozenList(list[Any]):
    """A JSON list that can't be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: object) -> list[Any]:
        """Return a plain copy, for callers that want to change it."""
        return list(thaw(self))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return freeze, (thaw(self),)


_LEAVES = frozenset({str, int, bool, type(None)})

# The walkers below take one stack frame for each level, so that MAX_DEPTH levels fit under any caller.


def freeze(value: object, path: Path = (), *, finite: bool = False, depth: int = 0) -> JsonValue:
    """Return a read-only copy of a JSON value; a value that is read-only already is returned itself.

    Args:
        value: Anything.
        path: Where the value stands, for the error.
        finite: Refuse NaN and infinities too.
        depth: How deep the value stands.

    Raises:
        Refused: The value is no JSON value, or too deep.
    """
    kind = type(value)
    if kind in _LEAVES:
        return value
    if not finite and (kind is float or kind is FrozenDict or kind is FrozenList):
        return value
    if isinstance(value, dict):
        _check_depth(value, path, depth)
        pairs: JsonObject = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise Refused(path, "an object whose keys are strings", value)
            pairs[key] = freeze(item, (*path, key), finite=finite, depth=depth + 1)
        return FrozenDict(pairs)
    if isinstance(value, (list, tuple)):
        _check_depth(value, path, depth)
        items: list[JsonValue] = []
        for index, item in enumerate(value):
            items.append(freeze(item, (*path, index), finite=finite, depth=depth + 1))
        return FrozenList(items)
    return _plain_leaf(value, path, finite)


def _check_depth(value: object, path: Path, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refused(path, f"at most {MAX_DEPTH} levels of nesting", value)


def _plain_leaf(value: object, path: Path, finite: bool) -> JsonValue:
    """Turn subclasses (a text enum, a numpy float64) into the JSON type they are."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if finite and not math.isfinite(value):
            raise Refused(path, "a finite number", value)
        return float(value)
    raise Refused(path, "a JSON value", value)


def thaw(value: JsonValue) -> JsonValue:
    """Return a fresh copy in plain dicts and lists."""
    if isinstance(value, dict):
        pairs: JsonObject = {}
        for key, item in value.items():
            pairs[key] = thaw(item)
        return pairs
    if isinstance(value, list):
        items: list[JsonValue] = []
        for item in value:
            items.append(thaw(item))
        return items
    return value


def same_json(left: JsonValue, right: JsonValue) -> bool:
    """Tell whether two values have the same wire form. Unlike `==` it keeps `true` and 1 apart."""
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return False
        for key, item in left.items():  # noqa: SIM110 - `all` takes two frames more
            if not same_json(item, right[key]):
                return False
        return True
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def hash_json(value: JsonValue) -> int:
    """Return a hash that is equal for values of the same wire form."""
    if isinstance(value, dict):
        pairs: set[tuple[str, int]] = set()
        for key, item in value.items():
            pairs.add((key, hash_json(item)))
        return hash(frozenset(pairs))
    if isinstance(value, list):
        return hash(tuple(map(hash_json, value)))
    return hash((bool, value)) if isinstance(value, bool) else hash(value)
