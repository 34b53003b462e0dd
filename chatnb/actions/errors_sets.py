"""Closed error sets (spec/actions.md, section 6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from .._json import JsonValue
from ..errors import ActionError

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class ErrorSet:
    """The codes that an action may fail with, in order. Made by `action_errors`."""

    def __init__(self, codes: tuple[str, ...]) -> None:
        self.codes = codes

    def fail(self, message: str, code: str, *, status_code: int = 409, details: JsonValue = None) -> NoReturn:
        """Fail the call.

        Raises:
            ActionError: Always, with this message and code.
            TypeError: The code is not declared.
        """
        self._check(code)
        raise ActionError(message, code=code, status_code=status_code, details=details)

    def no_write(self, message: str, code: str, *, status_code: int = 409, details: JsonValue = None) -> NoReturn:
        """Fail the call and state that it has written nothing: its own effect becomes `none`.

        Raises:
            ActionError: Always, with this message and code.
            TypeError: The code is not declared.
        """
        self._check(code)
        raise NothingWrittenError(message, code=code, status_code=status_code, details=details)

    def __contains__(self, code: object) -> bool:
        return code in self.codes

    def __iter__(self) -> Iterator[str]:
        return iter(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"action_errors({', '.join(map(repr, self.codes))})"

    def _check(self, code: str) -> None:
        if code not in self.codes:
            raise TypeError(f"{code!r} is not a declared error code; declared are {', '.join(self.codes)}")


class NothingWrittenError(ActionError):
    """What `ErrorSet.no_write` raises: the handler was entered, and wrote nothing."""


def action_errors(*codes: str) -> ErrorSet:
    """Declare the closed set of codes that an action may fail with.

    `errors = action_errors("not_found", "locked")`, then `@action(errors=errors)` and `errors.fail(text, "locked")`.

    Raises:
        TypeError: No code, a code twice, or one that is no lower-case word with underscores.

    Example:
        errors = action_errors("not_found")

        @action(errors=errors)
        def ship(order: str) -> str:
            "Ship an order."
            if order not in ("7", "8"):
                errors.no_write("There is no such order.", "not_found")
            return "shipped"
    """
    if not codes:
        raise TypeError("action_errors() needs at least one code")
    for code in codes:
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            raise TypeError("an error code is a lower-case word of letters, digits and underscores")
    if len(set(codes)) != len(codes):
        raise TypeError("an error code is declared twice")
    return ErrorSet(codes)
