"""How a turn ends before its end: a failure with its stage, and a stop."""

from __future__ import annotations

from .records import TurnError


class StageError(Exception):
    """Something failed in a stage of a turn; carries the record."""

    def __init__(self, stage: str, cause: BaseException, code: str | None = None) -> None:
        super().__init__(stage)
        self.error = TurnError.of(stage, cause, code)
        self.cause = cause


class Stopped(Exception):  # noqa: N818 - a signal, not a failure
    """The turn was asked to stop."""
