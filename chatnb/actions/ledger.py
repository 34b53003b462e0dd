"""The rules of the calls ledger: what is replayed, what is blocked, what runs (spec/actions.md, section 7)."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Literal

from .ports import CallRow

WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the ledger says about a new write.

    Attributes:
        kind: `"run"`; `"replay"`: settle with `row`'s outcome; `"block"`: `row` was started and has no result.
    """

    kind: Literal["run", "replay", "block"]
    row: CallRow | None = None


class TurnLedger:
    """What earlier attempts mean for the writes of one attempt of a turn.

    Args:
        turn_id: This turn.
        attempt: This attempt.
        continues: The cut-off turns (stopped or failed) whose message this one extends.
    """

    def __init__(self, turn_id: str, attempt: int, continues: Collection[str] = ()) -> None:
        self._turn_id = turn_id
        self._attempt = attempt
        self._continues = frozenset(continues)
        self._used: set[str] = set()
        self._detached: set[str] = set()

    @property
    def turn_ids(self) -> frozenset[str]:
        """The turns whose rows count."""
        return self._continues | {self._turn_id}

    @property
    def is_continued(self) -> bool:
        """There may be rows that count."""
        return bool(self._continues) or self._attempt > 1 or bool(self._detached)

    def note_detached(self, row_id: str) -> None:
        """Note a write of this attempt whose handler was left running: its outcome is unknown as yet."""
        self._detached.add(row_id)

    def judge(self, rows: Iterable[CallRow], *, idempotent: bool) -> Verdict:
        """Judge a write by the rows with its hash, oldest first. A row that is replayed serves no other call."""
        free = [row for row in rows if self._counts(row)]
        for row in free:
            if row.state in ("done", "failed"):
                self._used.add(row.id)
                return Verdict("replay", row)
        if idempotent:
            return Verdict("run")
        for row in free:
            if row.state in ("entered", "unknown"):
                return Verdict("block", row)
        return Verdict("run")

    def _counts(self, row: CallRow) -> bool:
        if row.effect != "committed" or row.reused_by is not None or row.id in self._used:
            return False
        if row.turn_id == self._turn_id:
            return row.attempt < self._attempt or row.id in self._detached
        return row.turn_id in self._continues


class RunningHandlers:
    """The detached handlers of this process, by the id of their row: what became of a write that was left running."""

    def __init__(self) -> None:
        self._futures: dict[str, concurrent.futures.Future[CallRow]] = {}
        self._lock = Lock()

    def add(self, row_id: str) -> concurrent.futures.Future[CallRow]:
        """Begin to follow a handler; the future is resolved with its settled row."""
        future: concurrent.futures.Future[CallRow] = concurrent.futures.Future()
        with self._lock:
            self._futures[row_id] = future
        return future

    def find(self, row_id: str) -> concurrent.futures.Future[CallRow] | None:
        """Return the handler's future, or None when it does not run in this process."""
        with self._lock:
            return self._futures.get(row_id)

    def end(self, row_id: str, row: CallRow) -> None:
        """Note how a handler ended."""
        with self._lock:
            future = self._futures.pop(row_id, None)
        if future is not None and not future.done():
            future.set_result(row)


running_handlers = RunningHandlers()
"""This process's detached handlers. A module's state, since a chat may be reopened while one still runs."""
