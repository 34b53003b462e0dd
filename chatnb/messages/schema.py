"""Building blocks of the wire schemas.

pydantic stands at the other borders; here it can't say what the protocol asks: a key that is absent is not a key that
is null, unknown keys are stripped but forbidden ones refused, and an error has the exact path and no value.

A check takes a value and its path, and returns the read-only, cleaned value or raises `Refused`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from chatnb.messages.json_value import FrozenDict, FrozenList, JsonObject, JsonValue, freeze
from chatnb.messages.refusal import NOTHING, Path, Refused

Check: TypeAlias = Callable[[object, Path], JsonValue]


class Field(NamedTuple):
    """One key of an object."""

    check: Check
    required: bool = False


Fields: TypeAlias = Mapping[str, Field]


def need(check: Check) -> Field:
    """Return a field that must be there."""
    return Field(check, True)


def may(check: Check) -> Field:
    """Return a field that may be absent, but not null unless its check takes null."""
    return Field(check, False)


def string(value: object, path: Path) -> str:
    """Accept a string."""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise Refused(path, "a string", value)


def boolean(value: object, path: Path) -> bool:
    """Accept true or false."""
    if isinstance(value, bool):
        return value
    raise Refused(path, "a boolean", value)


def anything(value: object, path: Path) -> JsonValue:
    """Accept any JSON value, null included."""
    return freeze(value, path)


def finite_json(value: object, path: Path) -> JsonValue:
    """Accept any JSON value without NaN and infinities."""
    return freeze(value, path, finite=True)


def natural(value: object, path: Path) -> int:
    """Accept an integer from 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise Refused(path, "an integer from 0", value)


def one_of(*options: str) -> Check:
    """Return a check for a closed set of strings."""
    allowed = frozenset(options)
    expected = options[0] if len(options) == 1 else f"one of {', '.join(options)}"

    def check(value: object, path: Path) -> str:
        if isinstance(value, str) and value in allowed:
            return str(value)
        raise Refused(path, expected, value)

    return check


def exactly(wanted: bool) -> Check:
    """Return a check for one boolean."""
    expected = "true" if wanted else "false"

    def check(value: object, path: Path) -> bool:
        if value is wanted:
            return wanted
        raise Refused(path, expected, value)

    return check


def forbidden(value: object, path: Path) -> JsonValue:
    """Refuse a key that must not be there, not even as null."""
    raise Refused(path, "no such key here", value)


def open_object(value: object, path: Path) -> FrozenDict:
    """Accept an object of any JSON values."""
    if not isinstance(value, dict):
        raise Refused(path, "an object", value)
    found = freeze(value, path)
    assert isinstance(found, FrozenDict)
    return found


def object_of(check: Check) -> Check:
    """Return a check for an object with free keys, all values of which pass a check."""

    def check_all(value: object, path: Path) -> FrozenDict:
        if not isinstance(value, dict):
            raise Refused(path, "an object", value)
        for key in value:
            if not isinstance(key, str):
                raise Refused(path, "an object whose keys are strings", value)
        return FrozenDict({key: check(item, (*path, key)) for key, item in value.items()})

    return check_all


def list_of(check: Check) -> Check:
    """Return a check for a list, all items of which pass a check."""

    def check_all(value: object, path: Path) -> FrozenList:
        if not isinstance(value, (list, tuple)):
            raise Refused(path, "a list", value)
        return FrozenList([check(item, (*path, index)) for index, item in enumerate(value)])

    return check_all


def record(fields: Fields) -> Check:
    """Return a check for an object of known keys; unknown ones are stripped."""

    def check(value: object, path: Path) -> FrozenDict:
        return clean(value, fields, path)

    return check


def clean(value: object, fields: Fields, path: Path) -> FrozenDict:
    """Return the known keys of an object, checked.

    Raises:
        Refused: The value is no object, or the first field that is missing or wrong, in the order of `fields`.
    """
    if not isinstance(value, dict):
        raise Refused(path, "an object", value)
    out: JsonObject = {}
    for key, field in fields.items():
        found = value.get(key, NOTHING)
        if found is not NOTHING:
            out[key] = field.check(found, (*path, key))
        elif field.required:
            field_path = (*path, key)
            raise Refused(field_path, expectation(field.check, field_path), NOTHING)
    return FrozenDict(out)


def expectation(check: Check, path: Path) -> str:
    """Say what a missing field should have been, by asking its check."""
    try:
        check(NOTHING, path)
    except Refused as refusal:
        return re.sub("^a JSON value$", "a value", refusal.expected)
    return "a value"


provider_metadata: Check = object_of(object_of(finite_json))
"""An object of objects of JSON values."""
