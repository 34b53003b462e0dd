"""Keeps secrets out of files: values of the environment and strings in the form of vendors' keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

REDACTED = "[redacted]"
MIN_LENGTH = 8
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_VENDOR_KEYS = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
        sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,}
        |(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}
        |gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}
        |glpat-[A-Za-z0-9_-]{16,}
        |(?:AKIA|ASIA)[A-Z0-9]{16}
        |AIza[A-Za-z0-9_-]{30,}
        |xox[abprs]-[A-Za-z0-9-]{10,}
        |hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}
        |eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
    )
    """,
    re.VERBOSE,
)


class Redactor:
    """Finds secrets in texts. Reads the environment once, when it is made."""

    def __init__(self) -> None:
        values = {
            value
            for name, value in os.environ.items()
            if len(value) >= MIN_LENGTH and any(part in name.upper() for part in _SECRET_NAMES)
        }
        # The longest first, so that a secret within another leaves nothing behind.
        ordered = sorted(values, key=len, reverse=True)
        self._own = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the secrets of a text are, in order and without overlap."""
        found = [match.span() for match in _VENDOR_KEYS.finditer(text)]
        if self._own is not None:
            found.extend(match.span() for match in self._own.finditer(text))
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def redact(self, value: Any) -> Any:
        """The same JSON with every secret replaced, in keys too."""
        if isinstance(value, str):
            return "".join(self.redact_pieces([value]))
        if isinstance(value, Mapping):
            return {self.redact(str(key)): self.redact(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact(item) for item in value]
        return value

    def redact_pieces(self, pieces: Iterable[str]) -> list[str]:
        """The pieces of one text with its secrets replaced, also those that lie across pieces."""
        parts = list(pieces)
        spans = self.spans("".join(parts))
        if not spans:
            return parts
        result, at = [], 0
        for part in parts:
            end = at + len(part)
            cursor, kept = at, ""
            for start, stop in spans:
                if stop <= cursor or start >= end:
                    continue
                kept += part[cursor - at : max(start, cursor) - at]
                kept += REDACTED if start >= at else ""
                cursor = min(stop, end)
            result.append(kept + part[cursor - at :])
            at = end
        return result
