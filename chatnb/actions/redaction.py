"""Secrets and size: what of a call's input an audit row may hold (spec/actions.md, section 12)."""

from __future__ import annotations

import re

from .._json import JsonValue, dumps

REDACTED = "[redacted]"

_MAX_TEXT = 2000
_MAX_DEPTH = 6
_MAX_ITEMS = 100
_MAX_TOTAL = 8000
_SECRET_NAMES = (
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "privatekey",
)
SECRET_VALUES = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----
    | \b(?:Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}
    | \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abprs]-[A-Za-z0-9-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    | ://[^/\s:@]+:[^/\s@]+@
    """,
    re.VERBOSE,
)


def is_secret_name(name: str) -> bool:
    """Tell whether a key is named like a secret."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return any(word in plain for word in _SECRET_NAMES)


def mask_secrets(value: JsonValue) -> JsonValue:
    """Return JSON with secret-named keys masked and everything else as it is: what MCP and A2A show of an ask."""
    if isinstance(value, dict):
        return {key: REDACTED if is_secret_name(key) else mask_secrets(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_secrets(item) for item in value]
    return value


def redact(value: JsonValue) -> JsonValue:
    """Return JSON without secrets, cut to size; still valid JSON."""
    for text, items in ((_MAX_TEXT, _MAX_ITEMS), (400, 50), (100, 20), (40, 8)):
        cut = _cut(value, text, items, _MAX_DEPTH)
        if len(dumps(cut)) <= _MAX_TOTAL:
            return cut
    return {"truncated": f"[{len(dumps(cut))} characters]"}


def _cut(value: JsonValue, text: int, items: int, depth: int) -> JsonValue:
    if isinstance(value, str):
        if SECRET_VALUES.search(value):
            return REDACTED
        return value if len(value) <= text else f"{value[:text]}[{len(value) - text} more characters]"
    if isinstance(value, dict | list) and depth == 0:
        return "[deeper]"
    if isinstance(value, dict):
        made: dict[str, JsonValue] = {}
        for key, item in list(value.items())[:items]:
            made[key[:200]] = REDACTED if is_secret_name(key) else _cut(item, text, items, depth - 1)
        if len(value) > items:
            made["[more]"] = len(value) - items
        return made
    if isinstance(value, list):
        shown = [_cut(item, text, items, depth - 1) for item in value[:items]]
        return [*shown, f"[{len(value) - items} more items]"] if len(value) > items else shown
    return value
