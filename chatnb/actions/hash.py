"""The hash that names one prepared call: SHA-256 over a tagged encoding (spec/actions.md, 3.5).

Every tag and number of the encoding is ASCII, so it is built as one text and turned to bytes once; that is several
times faster than joining bytes, and large arguments have a budget.
"""

from __future__ import annotations

import hashlib
import struct
from datetime import date, datetime
from enum import Enum
from functools import lru_cache
from typing import Any

from .snapshot import Items, Mapped, Record, shift_epoch

_PREFIX = "chatnb.call.v1\n"
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_pack = struct.Struct(">d").pack


def call_hash(name: str, arguments: Mapped) -> str:
    """Return the hash of a call: 64 lower-case hex digits.

    Args:
        name: The action's name.
        arguments: The frozen arguments, by parameter.

    Raises:
        UnicodeEncodeError: A text holds a lone surrogate, so it has no UTF-8.
    """
    out = [_PREFIX, _text(name)]
    _put(arguments, out)
    return hashlib.sha256("".join(out).encode()).hexdigest()


def _put(node: Any, out: list[str]) -> None:
    kind = type(node)
    if kind is Mapped:
        _put_pairs(node.keys, node.values, out)
    elif kind is Items:
        _put_items(node, out)
    elif kind is Record:
        keys, values = node.keys, node.values
        if node.extras is not None:
            keys, values = keys + node.extras.keys, values + node.extras.values
        _put_pairs(keys, values, out)
    else:
        out.append(_scalar(node))


def _put_pairs(keys: tuple[str, ...], values: tuple[Any, ...], out: list[str]) -> None:
    out.append("{")
    for key, place in _plan(keys):
        value = values[place]
        if type(value) is str and value.isascii():
            out.append(f"{key}s{len(value)}:{value}")
        elif type(value) is float:
            out.append(f"{key}d{_pack(value or 0.0).hex()}")
        else:
            out.append(key)
            _put(value, out)
    out.append("}")


def _put_items(node: Items, out: list[str]) -> None:
    values = node.values
    kinds = set(map(type, values)) if node.flat else None
    if kinds == {str}:
        out.append(f"[{''.join(map(_text, values))}]")
    elif kinds == {int} and max(map(int.bit_length, values)) < _WIDE_BITS:
        out.append(f"[i{';i'.join(map(str, values))};]")
    elif kinds is not None:
        out.append(f"[{''.join(map(_scalar, values))}]")
    else:
        out.append("[")
        for value in values:
            _put(value, out)
        out.append("]")


@lru_cache(maxsize=256)
def _plan(keys: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return the encoded keys in order, each with its place. The order of code points is that of UTF-8 bytes."""
    return tuple((_text(keys[place]), place) for place in sorted(range(len(keys)), key=keys.__getitem__))


def _text(value: str) -> str:
    return f"s{len(value) if value.isascii() else len(value.encode())}:{value}"


def _scalar(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return f"s{len(value) if value.isascii() else len(value.encode())}:{value}"
    if kind is int:
        return f"i{value};" if -_WIDE < value < _WIDE else f"i{_decimal(value)};"
    if kind is float:
        return f"d{_pack(value or 0.0).hex()}"
    if value is None:
        return "z"
    if kind is bool:
        return "t" if value else "f"
    if kind is datetime:
        return f"{'N' if value.tzinfo is None else 'T'}{shift_epoch(value)};"
    if kind is date:
        return f"D{value.toordinal() - _EPOCH_DAY};"
    if isinstance(value, Enum):
        return _scalar(value.value)
    raise AssertionError(f"{kind.__name__} is not frozen plain data")


_WIDE = 10**4000
_WIDE_BITS = 13_000


def _decimal(value: int) -> str:
    """Return an integer's decimal digits, of any size: Python's own conversion stops at 4,300 digits."""
    sign, rest = ("-", -value) if value < 0 else ("", value)
    groups = []
    while rest >= _WIDE:
        rest, group = divmod(rest, _WIDE)
        groups.append(f"{group:04000d}")
    return sign + str(rest) + "".join(reversed(groups))
