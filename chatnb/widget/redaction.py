"""Errors as the log may have them: without credentials (spec/widget.md, section 7)."""

from __future__ import annotations

import traceback

from ..export.redaction import Redact


def describe(error: BaseException, redact: Redact | None) -> str:
    """Return an error with its traceback for the log."""
    text = "".join(traceback.format_exception(error))
    return redact(text) if redact is not None else text


def locate(error: BaseException) -> str:
    """Return an error's type and place, for a log where nobody knows what its text may hold."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
