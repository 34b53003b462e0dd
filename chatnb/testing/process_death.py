"""Kill points and the shifted clock, for tests of recovery in processes of their own (spec/recovery.md, section 13)."""

from __future__ import annotations

from .. import _clock, _killpoint

__all__ = ["enable_kill_points", "kill_points", "shift_clock"]


def enable_kill_points() -> None:
    """Let `CHATNB_KILL_AT=point[:n]` kill this process, by SIGKILL, at the n-th passage of a point.

    Raises:
        ValueError: An unknown point, or n below 1.
    """
    _killpoint.enable()


def kill_points() -> tuple[str, ...]:
    """Return the names of all kill points."""
    return _killpoint.POINTS


def shift_clock(seconds: float) -> None:
    """Move the wall clock that chatnb sees in this process."""
    _clock.shift(seconds)
