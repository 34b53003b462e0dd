"""Random kills: nothing settled is lost, nothing runs twice, the history is valid (spec/recovery.md, section 12)."""

from __future__ import annotations

from pathlib import Path

from tests.crash.__main__ import run

KILLS = 100


def test_random_kills(tmp_path: Path) -> None:
    """After each of 100 kills at random moments the guarantees of section 12 hold."""
    tally = run(KILLS, 7, tmp_path)
    assert (tally.lost, tally.twice, tally.invalid) == ([], [], [])
    assert tally.kills == KILLS
