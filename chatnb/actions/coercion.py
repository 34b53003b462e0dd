"""What dispatched input goes through before validation (spec/actions.md, 1.4)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_ABSENT = object()


def coerce(raw: Any, allowed: Mapping[str, frozenset[str]]) -> Any:
    """Return the input with texts turned into what the schema wants; anything else stays.

    Args:
        raw: The input as it came.
        allowed: The JSON types of each property's advertised schema.
    """
    if isinstance(raw, str):
        parsed = _parse(raw)
        if not isinstance(parsed, dict):
            return raw
        raw = parsed
    if type(raw) is not dict:
        return raw
    result = raw
    for name, value in raw.items():
        types = allowed.get(name)
        if type(value) is not str or types is None or "string" in types:
            continue
        better = _better(value, types)
        if better is not _ABSENT:
            if result is raw:
                result = dict(raw)
            result[name] = better
    return result


def _better(text: str, types: frozenset[str]) -> Any:
    if text in ("true", "false") and "boolean" in types:
        return text == "true"
    if text[:1] in ("[", "{"):
        parsed = _parse(text)
        wanted = "array" if isinstance(parsed, list) else "object" if isinstance(parsed, dict) else None
        return parsed if wanted in types else _ABSENT
    if types & {"integer", "number"} and len(text) < 400 and _NUMBER.fullmatch(text):
        return _number(text, types)
    return _ABSENT


def _number(text: str, types: frozenset[str]) -> Any:
    if "." not in text and "e" not in text and "E" not in text:
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        return _ABSENT
    if "number" in types:
        return value
    return int(value) if value.is_integer() else _ABSENT


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _ABSENT
