"""The table of a turn's moves (spec/turns.md, section 6), and the only code that moves one."""

from __future__ import annotations

from typing import Any

from ..store.port import WriteTx
from ..store.records import TurnState

MOVES: dict[TurnState, frozenset[TurnState]] = {
    "queued": frozenset({"starting", "stopped"}),
    "starting": frozenset({"running", "stopped", "error", "interrupted"}),
    "running": frozenset({"finishing", "interrupted"}),
    "finishing": frozenset({"completed", "awaiting", "stopped", "error", "interrupted"}),
    "interrupted": frozenset({"queued", "awaiting", "completed", "error", "stopped"}),
    "completed": frozenset(),
    "awaiting": frozenset(),
    "stopped": frozenset(),
    "error": frozenset(),
}


def move_turn(tx: WriteTx, turn_id: str, come_from: TurnState, to: TurnState, **fields: Any) -> None:
    """Move a turn by a conditional update, and set further columns with it.

    Raises:
        AssertionError: The table has no such move, or the turn is not where it was thought to be. Nothing changes.
    """
    if to not in MOVES[come_from]:
        expected = ", ".join(sorted(MOVES[come_from])) or "nothing"
        raise AssertionError(f"a turn in {come_from!r} can't move to {to!r}; expected {expected}")
    if not tx.move_turn(turn_id, {come_from}, to, **fields):
        raise AssertionError(f"turn {turn_id} is no longer in {come_from!r}; it can't move to {to!r}")
