"""Saved notebooks under nbval (spec/widget.md, section 9)."""

from __future__ import annotations

from pathlib import Path


def nbval_sanitizer() -> str:
    """Return the path of a file for `--nbval-sanitize-with`, which makes transcripts equal.

    nbval compares the saved, last transcript with the first one of the new run, since it sees no updates.
    """
    return str(Path(__file__).with_name("nbval.cfg"))
