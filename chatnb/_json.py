"""JSON as chatnb writes it: compact, UTF-8, keys in the order they came; and canonical, with sorted keys."""

from __future__ import annotations

import json
from typing import Any

JsonValue = Any
"""A JSON value. The one place where `Any` is right."""
# Made once: `json.dumps` makes an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def dumps(value: JsonValue) -> str:
    """Return compact JSON on one line.

    Raises:
        ValueError: A number is not finite.
        TypeError: A value is not JSON.
    """
    return _encode(value)


def canonical(value: JsonValue) -> str:
    """Return compact JSON with sorted keys: equal values give equal texts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)


def loads(text: str | bytes) -> JsonValue:
    """Return the value of a JSON text."""
    return json.loads(text)


def size(value: JsonValue) -> int:
    """Return the bytes of a value's compact JSON in UTF-8."""
    return len(dumps(value).encode("utf-8", "surrogatepass"))
