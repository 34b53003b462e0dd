"""The queue of a chat and its five policies (spec/turns.md, section 2). Pure bookkeeping: no store, no tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from .definition import Concurrency
from .inputs import Input
from .records import Debounce, Waiting


@dataclass(frozen=True, slots=True)
class Admitted:
    """What the policy made of an input.

    Attributes:
        refused: It is not taken (`drop`).
        superseded: Waiting sends that it supersedes; their submissions end `skipped` now.
        merged: It went into a waiting send, which the queue now holds in its place.
    """

    refused: bool = False
    superseded: list[Input] = field(default_factory=list)
    merged: Input | None = None


class Queue:
    """Inputs that wait for the slot, strictly in order of arrival."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._waiting: list[Input] = []
        self._now = now
        self.running: Input | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Input]:
        return iter(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Nothing runs or waits."""
        return self.running is None and not self._waiting

    def overlaps(self, generation: int) -> bool:
        """Tell whether a send of this generation overlaps: `clear` and what it made stale do not count."""
        others = self._waiting if self.running is None else (self.running, *self._waiting)
        return any(i.row.generation >= generation and not i.clears for i in others)

    def would_refuse(self, policy: Concurrency, generation: int) -> bool:
        """Tell whether a send that arrives now is refused by the policy."""
        return policy == "drop" and self.overlaps(generation)

    def admit(self, input_: Input, policy: Concurrency) -> Admitted:
        """Put an input in line. The policy looks only at a send, and only when it overlaps."""
        if input_.kind != "send" or not self.overlaps(input_.row.generation):
            self._waiting.append(input_)
            return Admitted()
        if isinstance(policy, Debounce):
            seconds: float | None = policy.seconds
        else:
            seconds = Debounce().seconds if policy == "debounce" else None
        if policy == "drop":
            return Admitted(refused=True)
        if policy == "queue":
            self._waiting.append(input_)
            return Admitted()
        if policy == "merge":
            if self._waiting and self._waiting[-1].kind == "send":
                former = self._waiting.pop()
                merged = former.merged_with(input_)
                self._waiting.append(merged)
                return Admitted(merged=merged)
            self._waiting.append(input_)
            return Admitted()
        superseded: list[Input] = []
        while self._waiting and self._waiting[-1].kind == "send":
            former = self._waiting.pop()
            superseded[:0] = [*former.superseded, former]
            former.superseded = []
        input_.superseded = superseded
        if seconds is not None:
            input_.not_before = self._now() + seconds
        self._waiting.append(input_)
        return Admitted(superseded=superseded)

    def joined_by(self, input_: Input, policy: Concurrency) -> dict[str, list[str]]:
        """Return what the policy will make of the sends before this one, as the row of this one tells it.

        A process that finds the rows puts them together in the same way: what was superseded is not answered.
        """
        if input_.kind != "send" or policy in ("queue", "drop") or not self.overlaps(input_.row.generation):
            return {}
        before: list[str] = []
        for former in reversed(self._waiting):
            if former.kind != "send":
                break
            before[:0] = [*former.other_rows, former.row.id]
            if policy == "merge":
                break
        return {"merges" if policy == "merge" else "supersedes": before} if before else {}

    def put_first(self, input_: Input) -> None:
        """Put an input at the head of the line (a recovered turn)."""
        self._waiting.insert(0, input_)

    def put_behind_first(self, inputs: Sequence[Input]) -> None:
        """Put inputs at the head of the line, in their order; the one that runs is before them."""
        self._waiting[:0] = inputs

    def put(self, input_: Input) -> None:
        """Put an input in line without asking the policy."""
        self._waiting.append(input_)

    def peek_delay(self) -> float | None:
        """Return the seconds until the first input may start; None when nothing waits."""
        if not self._waiting:
            return None
        first = self._waiting[0]
        return 0.0 if first.not_before is None else max(0.0, first.not_before - self._now())

    def take(self) -> Input:
        """Take the first input; it is the running one until `release`."""
        self.running = self._waiting.pop(0)
        return self.running

    def release(self) -> None:
        """Free the slot."""
        self.running = None

    def remove(self, input_: Input) -> bool:
        """Take an input out of the line; False when it does not wait."""
        if input_ in self._waiting:
            self._waiting.remove(input_)
            return True
        return False

    def replace(self, input_: Input, other: Input) -> None:
        """Put another input in the place of one that waits."""
        self._waiting[self._waiting.index(input_)] = other

    def drop_older_than(self, generation: int) -> list[Input]:
        """Take out all inputs of an older generation."""
        stale = [i for i in self._waiting if i.row.generation < generation]
        self._waiting = [i for i in self._waiting if i.row.generation >= generation]
        return stale

    def drop_all(self) -> list[Input]:
        """Take out everything."""
        dropped, self._waiting = self._waiting, []
        return dropped

    def lines(self) -> tuple[Waiting, ...]:
        """Return what `chat.queue` shows."""
        shown = (one for i in self._waiting if i.take_up is None for one in i.in_line())
        return tuple(one.to_waiting() for one in shown)
