"""JSON as chatnb writes it: compact, UTF-8, keys in the order they came; and canonical, with sorted keys."""

from __future__ import annotations

import json
import re
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


_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def whole(text: str) -> str:
    """Return a text without halves of characters: pairs become what they are, single ones the replacement character.

    Halves come from providers that cut their deltas inside a character; they have no UTF-8, so no frame, no output
    and no file can hold them.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    joined = _PAIR.sub(lambda pair: pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
    return _SURROGATE.sub("\ufffd", joined)


def with_escapes(text: str) -> str:
    """Return a JSON text in which halves of characters are written as escapes: nothing of it is lost."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", text)
