"""Credentials leave the kernel in no frame, transcript, export or log (spec/widget.md, section 7)."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

Redact = Callable[[str], str]
MARK = "[redacted]"
VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
"""Environment variables that hold credentials of models."""
SHORTEST = 8
"""Characters below which a value is a word and no credential."""


def credentials_of(model: Any) -> tuple[str, ...]:
    """Return the credentials that a model was given, by argument, client or environment; the longest first."""
    values = [os.environ.get(name) for name in VARIABLES]
    given = getattr(model, "_given_key", None)
    values.append(given() if callable(given) else None)
    values.append(getattr(getattr(model, "_client", None), "api_key", None))
    named = getattr(model, "credentials", None)
    values.extend(named() if callable(named) else named or ())
    kept = {value.strip() for value in values if isinstance(value, str)}
    return tuple(sorted((value for value in kept if len(value) >= SHORTEST), key=len, reverse=True))


def make_redact(values: Sequence[str]) -> Redact | None:
    """Return what replaces credentials in a text; None when there are none.

    Args:
        values: The credentials, the longest first.
    """
    if not values:
        return None
    # In html and in JSON some signs are written otherwise.
    written = {form for value in values for form in (value, html.escape(value), json.dumps(value)[1:-1])}
    forms = sorted(written, key=len, reverse=True)

    def redact(text: str) -> str:
        for value in forms:
            if value in text:
                text = text.replace(value, MARK)
        return text

    return redact
