"""Credentials of models leave the kernel in no frame and no log (spec/widget.md, section 7)."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

from ..export.redaction import Redact, credentials_of, make_redact

BEGINNING = 4
"""Characters at the end of a growing text that must be like a credential's first to be kept back."""


class Credentials:
    """The credentials that the models of a chat were given: those of the agent as it is, and of former definitions.

    Args:
        model: Returns the agent's model as it is.
    """

    def __init__(self, model: Callable[[], Any]) -> None:
        self._model = model
        self._known: Any = None
        self._values: tuple[str, ...] = ()
        self._redact: Redact | None = None
        self._begins: re.Pattern[str] | None = None
        self.longest = 0
        self._read()

    def _read(self) -> None:
        model = self._model()
        if model is self._known:
            return
        self._known = model
        found = {*self._values, *credentials_of(model)}
        self._values = tuple(sorted(found, key=len, reverse=True))
        self._redact = make_redact(self._values)
        self.longest = len(self._values[0]) if self._values else 0
        heads = {re.escape(value[:2]) for value in self._values} | {
            re.escape(value[0]) + r"\Z" for value in self._values
        }
        self._begins = re.compile("|".join(sorted(heads))) if heads else None

    def redact(self, text: str) -> str:
        """Return a text with each of them replaced."""
        self._read()
        return text if self._redact is None else self._redact(text)

    def may_begin(self, text: str) -> bool:
        """Tell at once whether any may begin in a text: for most pieces of a stream that is all."""
        return self._begins is not None and self._begins.search(text) is not None

    def kept_back(self, text: str) -> int | None:
        """Return how many characters at the end of a growing text may be the beginning of one; None: one is in it."""
        most = 0
        for value in self._values:
            if value in text:
                return None
            start = max(0, len(text) - len(value) + 1)
            while (start := text.find(value[:BEGINNING], start)) >= 0:
                if value.startswith(text[start:]):
                    most = max(most, len(text) - start)
                    break
                start += 1
        return most


def describe(error: BaseException, redact: Redact | None) -> str:
    """Return an error with its traceback for the log."""
    text = "".join(traceback.format_exception(error))
    return redact(text) if redact is not None else text


def locate(error: BaseException) -> str:
    """Return an error's type and place, for a log where nobody knows what its text may hold."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
