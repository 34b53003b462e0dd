"""Credentials never leave the kernel: not in frames, transcripts, exports or the log (spec/widget.md, section 7)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

Redact = Callable[[str], str]
MARK = "[redacted]"


def make_redact(values: Sequence[str]) -> Redact | None:
    """Return what replaces credentials in a text; None when there are none.

    Args:
        values: The credentials, the longest first.
    """
    if not values:
        return None

    def redact(text: str) -> str:
        for value in values:
            if value in text:
                text = text.replace(value, MARK)
        return text

    return redact


def describe(error: BaseException, redact: Redact | None) -> str:
    """Return an error with its traceback for the log."""
    text = "".join(traceback.format_exception(error))
    return redact(text) if redact is not None else text


def locate(error: BaseException) -> str:
    """Return an error's type and place, for a log where nobody knows what its text may hold."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
