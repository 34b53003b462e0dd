"""When the transcripts of a widget are updated (spec/widget.md, section 9)."""

from __future__ import annotations

import itertools
from typing import Any

from chatnb.widget.outputs import TranscriptOutputs

from .fakes import SimTime


class Shelf:
    """Transcripts of a text, and what was published of them."""

    def __init__(self) -> None:
        self.time = SimTime()
        self.text = "empty"
        self.is_settled = True
        self.is_seen = False
        self.published: list[tuple[float, str, str]] = []
        self.outputs = TranscriptOutputs(
            lambda: {"text/plain": self.text},
            self._publish,
            lambda: self.is_settled,
            is_seen=lambda: self.is_seen,
        )

    def _publish(self, bundle: dict[str, Any], id: str, update: bool) -> None:
        self.published.append((self.time.time(), id, bundle["text/plain"]))

    def turn(self, text: str) -> None:
        self.text = text
        self.outputs.settled(self.time)

    def shown(self) -> dict[str, str]:
        return {id: text for _, id, text in self.published}


class TestUpdates:
    def test_at_most_once_a_second_and_the_last(self) -> None:
        """Section 9: updated when a turn settles, at most once a second; the last one always."""
        shelf = Shelf()
        shelf.outputs.add()
        for number in range(30):
            shelf.turn(f"turn {number}")
            shelf.time.run(0.1)
        shelf.time.run(2)
        times = [at for at, *_ in shelf.published[1:]]
        assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times))
        assert set(shelf.shown().values()) == {"turn 29"}

    def test_a_long_one_less_often(self) -> None:
        """Section 9: at most once a second, and one of a megabyte every ten: the page reads all of it each time."""
        shelf = Shelf()
        shelf.turn("x" * 1_000_000)
        shelf.outputs.add()
        for number in range(40):
            shelf.turn(f"{number:04d}" * 250_000)
            shelf.time.run(1)
        shelf.time.run(11)
        times = [at for at, *_ in shelf.published[1:]]
        assert len(times) == 5
        assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(times))
        assert set(shelf.shown().values()) == {"0039" * 250_000}

    def test_never_while_streaming(self) -> None:
        """Section 9: never while streaming; its end comes later."""
        shelf = Shelf()
        shelf.outputs.add()
        shelf.turn("one")
        shelf.is_settled = False
        shelf.time.run(3)
        assert len(shelf.published) == 1
        shelf.is_settled = True
        shelf.turn("two")
        shelf.time.run(1)
        assert set(shelf.shown().values()) == {"two"}

    def test_one_shown_meanwhile_leaves_none_behind(self) -> None:
        """Section 9: each output is brought up to date, also where another was made of the newest history before."""
        shelf = Shelf()
        shelf.outputs.add()
        shelf.turn("one")
        shelf.time.run(0.1)
        shelf.turn("two")
        shelf.outputs.add()
        shelf.time.run(2)
        assert list(shelf.shown().values()) == ["two", "two"]
        assert [text for *_, text in shelf.published] == ["empty", "one", "two", "two"]

    def test_at_the_end_of_a_cell(self) -> None:
        """Section 9: who runs a notebook gets the last turn with the cell; with a page open a second is a second."""
        shelf = Shelf()
        shelf.outputs.add()
        shelf.turn("one")
        shelf.outputs.cell_ended()
        shelf.turn("two")
        shelf.outputs.cell_ended()
        assert [text for *_, text in shelf.published] == ["empty", "one", "two"]
        shelf.is_seen = True
        shelf.turn("three")
        shelf.outputs.cell_ended()
        assert len(shelf.published) == 3
        shelf.time.run(1)
        assert [text for *_, text in shelf.published] == ["empty", "one", "two", "three"]
