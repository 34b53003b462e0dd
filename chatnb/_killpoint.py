"""Kill points: named places where a test lets the process die (spec/recovery.md, section 13)."""

from __future__ import annotations

import os
import signal

POINTS = (
    "batch.partial",
    "chunk.buffered",
    "chunk.flushed",
    "decision.after",
    "edit.after",
    "edit.before",
    "exhausted.recorded",
    "exhausted.stored",
    "input.after",
    "input.before",
    "lease.taken",
    "migrate.middle",
    "model.before_call",
    "recovery.requeued",
    "recovery.scanned",
    "recovery.stored",
    "step.between",
    "tool.approval",
    "tool.before_entry",
    "tool.entered",
    "tool.input",
    "tool.prepared",
    "tool.recorded",
    "tool.returned",
    "turn.before_end",
    "turn.ended",
    "turn.started",
    "turn.stored",
)

_armed: str | None = None
_left = 0


def enable() -> None:
    """Arm the point that `CHATNB_KILL_AT=point[:n]` names, if it is set.

    Raises:
        ValueError: An unknown point, or n below 1.
    """
    global _armed, _left
    wanted = os.environ.get("CHATNB_KILL_AT")
    if not wanted:
        return
    point, _, count = wanted.partition(":")
    if point not in POINTS:
        raise ValueError(f"unknown kill point {point!r}; known are {', '.join(POINTS)}")
    passages = int(count) if count else 1
    if passages < 1:
        raise ValueError("a kill point's passage counts from 1")
    _armed, _left = point, passages


def is_armed(name: str) -> bool:
    """Tell whether a passage of this point may be the last one."""
    return _armed == name


def kill_point(name: str) -> None:
    """Die here, by SIGKILL, when this passage of this point is the armed one."""
    global _left
    if _armed != name:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
