"""Usage in the store."""

from __future__ import annotations

from .._json import JsonValue
from ..models import Usage

_FIELDS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheWriteTokens",
    "reasoning_tokens": "reasoningTokens",
    "cost": "cost",
    "complete": "complete",
}


def usage_to_json(usage: Usage) -> dict[str, JsonValue]:
    """Return usage as JSON; unknown numbers are left out."""
    return {wire: value for name, wire in _FIELDS.items() if (value := getattr(usage, name)) is not None}


def usage_from_json(value: JsonValue) -> Usage:
    """Return usage from JSON, nothing for None."""
    if not isinstance(value, dict):
        return Usage()
    return Usage(**{name: value[wire] for name, wire in _FIELDS.items() if wire in value})
