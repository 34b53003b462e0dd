"""When observers hear of a chat (spec/widget.md, section 1, threads)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatnb.widget.traits import TraitNotifier

from .fakes import SimTime


class Desk:
    """A notifier, and a main thread that may be blocked."""

    def __init__(self) -> None:
        self.time = SimTime()
        self.values: dict[str, Any] = {"status": "ready", "count": 0}
        self.told: list[tuple[float, str, Any, Any]] = []
        self.waiting: list[Callable[[], None]] = []
        self.is_blocked = False
        self.notifier = TraitNotifier(self.time, self._notify, lambda: self.values, self._tell)
        self.notifier.start()

    def _notify(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)
        if not self.is_blocked:
            self.serve()

    def serve(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def _tell(self, name: str, old: Any, new: Any) -> None:
        self.told.append((self.time.time(), name, old, new))

    def change(self, **values: Any) -> None:
        self.values = {**self.values, **values}
        self.notifier.changed()

    def count(self, seconds: float, every: float = 0.01) -> None:
        for _ in range(round(seconds / every)):
            self.change(count=self.values["count"] + 1)
            self.time.run(every)

    def most_in_a_second(self) -> int:
        times = [at for at, name, *_ in self.told if name == "count"]
        return max(sum(start <= at < start + 1 for at in times) for start in times)


class TestPace:
    def test_at_most_thirty_a_second_and_the_last_always(self) -> None:
        """Section 1: in order, coalesced to at most 30 a second, the last value always, never for an equal value."""
        desk = Desk()
        desk.count(3)
        desk.time.run(1)
        news = [new for _, name, _, new in desk.told if name == "count"]
        assert news == sorted(set(news))
        assert news[-1] == 300
        assert 20 < desk.most_in_a_second() <= 30

    def test_while_a_cell_blocks(self) -> None:
        """Section 1: what a blocked main thread has missed is told once, not change by change."""
        desk = Desk()
        desk.is_blocked = True
        desk.change(status="streaming")
        desk.count(60)
        desk.change(status="ready")
        desk.time.run(1)
        assert len(desk.waiting) == 1
        desk.is_blocked = False
        desk.serve()
        assert [(name, old, new) for _, name, old, new in desk.told] == [("count", 0, 6000)]

    def test_after_a_cell_has_blocked(self) -> None:
        """Section 1: at most 30 a second, counted from when they were told."""
        desk = Desk()
        for _ in range(40):
            desk.is_blocked = True
            desk.count(0.03)
            desk.is_blocked = False
            desk.serve()
            desk.count(0.02)
        desk.time.run(1)
        assert desk.most_in_a_second() <= 30
        assert desk.told[-1][3] == desk.values["count"]
        olds, news = [old for *_, old, _ in desk.told], [new for *_, new in desk.told]
        assert olds[1:] == news[:-1]
