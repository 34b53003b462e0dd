"""The hash that names one prepared call: SHA-256 over a tagged encoding (spec/actions.md, 3.5)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum
from typing import Any

from .snapshot import Items, Mapped, Record, shift_epoch

_PREFIX = b"chatnb.call.v1\n"
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def call_hash(name: str, arguments: Mapped) -> str:
    """Return the hash of a call: 64 lower-case hex digits.

    Args:
        name: The action's name.
        arguments: The frozen arguments, by parameter.
    """
    return hashlib.sha256(_PREFIX + _str(name) + _dict(arguments.keys, arguments.values)).hexdigest()


def encode(node: Any) -> bytes:
    """Return the encoding of a frozen value."""
    made = _ENCODERS.get(type(node))
    if made is not None:
        return made(node)
    if isinstance(node, Enum):
        return encode(node.value)
    raise AssertionError(f"{type(node).__name__} is not frozen plain data")


def _str(value: str) -> bytes:
    data = value.encode()
    return b"s%d:%b" % (len(data), data)


def _int(value: int) -> bytes:
    return b"i%d;" % value


def _float(value: float) -> bytes:
    return b"d" + struct.pack(">d", value or 0.0).hex().encode()


def _datetime(value: datetime) -> bytes:
    return b"%b%d;" % (b"N" if value.tzinfo is None else b"T", shift_epoch(value))


def _items(node: Items) -> bytes:
    values = node.values
    if node.flat:
        kinds = set(map(type, values))
        if len(kinds) == 1:
            one = _ENCODERS[kinds.pop()]
            return b"[" + b"".join(map(one, values)) + b"]"
    return b"[" + b"".join(map(encode, values)) + b"]"


def _dict(keys: tuple[str, ...], values: tuple[Any, ...]) -> bytes:
    # The order of code points is the order of UTF-8 bytes.
    pairs = sorted(zip(keys, values, strict=True), key=_key)
    return b"{" + b"".join([_str(key) + encode(value) for key, value in pairs]) + b"}"


def _key(pair: tuple[str, Any]) -> str:
    return pair[0]


def _record(node: Record) -> bytes:
    keys, values = node.keys, node.values
    if node.extras is not None:
        keys, values = keys + node.extras.keys, values + node.extras.values
    return _dict(keys, values)


_ENCODERS: dict[type[Any], Callable[[Any], bytes]] = {
    type(None): lambda _: b"z",
    bool: lambda value: b"t" if value else b"f",
    int: _int,
    float: _float,
    str: _str,
    datetime: _datetime,
    date: lambda value: b"D%d;" % (value.toordinal() - _EPOCH_DAY),
    Items: _items,
    Mapped: lambda node: _dict(node.keys, node.values),
    Record: _record,
}
