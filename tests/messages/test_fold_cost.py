"""What a delta costs (spec/messages.md, 4.1), counted and not timed. Seconds are printed by tests/bench/fold.py."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chatnb.messages import Fold, TextPart, UIMessage, fold

ROOT = Path(__file__).resolve().parents[2]
DELTA = {"type": "text-delta", "id": "a", "delta": "x"}
INPUT_DELTA = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "1"}


def long_fold(parts: int, deltas: int) -> Fold:
    """A fold with finished parts, an open text block and an open input."""
    message = UIMessage(id="m", role="assistant", parts=[{"type": "text", "text": "old"}] * parts)
    made = Fold(message)
    made.feed({"type": "text-start", "id": "a"})
    made.feed({"type": "tool-input-start", "toolCallId": "c", "toolName": "g"})
    for _ in range(deltas):
        made.feed(DELTA)
        made.feed(INPUT_DELTA)
    return made


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions, built-in ones too, a piece of work calls."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def count_calls() -> None:
    """Print, for each kind of delta, the calls that one costs in a short fold and in a long one."""
    for chunk in (DELTA, INPUT_DELTA):
        small, large = long_fold(1, 10), long_fold(500, 20_000)
        print(calls_of(lambda f=small, c=chunk: f.feed(c)), calls_of(lambda f=large, c=chunk: f.feed(c)))


def count_calls_of_steps() -> None:
    """Print the calls that one more call costs in a step that holds none, and in one that holds many."""

    def call(made: Fold, id: str) -> None:
        made.feed({"type": "tool-input-available", "toolCallId": id, "toolName": "g", "input": {}})
        made.feed({"type": "tool-output-available", "toolCallId": id, "output": 1})

    few, many = Fold(), Fold()
    for number in range(500):
        call(many, f"c{number}")
    call(few, "first")
    print(calls_of(lambda: call(few, "next")), calls_of(lambda: call(many, "next")))


def counted(function: Callable[[], None]) -> list[list[str]]:
    """The lines that a counting function of this file prints, in words.

    In a process of its own: in a long test run Python 3.11 was seen to profile one call for ever.
    """
    code = f"from tests.messages.test_fold_cost import {function.__name__}; {function.__name__}()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    return [line.split() for line in done.stdout.splitlines()]


def bytes_of(work: Callable[[], Any]) -> int:
    """The peak of memory that a piece of work allocates."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestDelta:
    """C4 of messages.md: the work for one delta depends on the delta alone."""

    def test_calls_do_not_grow(self) -> None:
        counts = counted(count_calls)
        assert len(counts) == 2
        assert all(small == large for small, large in counts)

    def test_nothing_is_copied(self) -> None:
        made = long_fold(2_000, 0)
        made.feed({**DELTA, "delta": "x" * 1_000_000})
        made.feed({**INPUT_DELTA, "inputTextDelta": "1" * 1_000_000})
        assert bytes_of(lambda: made.feed(DELTA)) < 10_000
        assert bytes_of(lambda: made.feed(INPUT_DELTA)) < 10_000

    def test_many_deltas(self) -> None:
        made = Fold()
        made.feed({"type": "text-start", "id": "a"})
        for _ in range(200_000):
            made.feed(DELTA)
        assert made.message.text == "x" * 200_000

    def test_fold_makes_no_snapshot_that_nobody_asked_for(self) -> None:
        chunks = [{"type": "text-start", "id": "a"}, *[DELTA] * 50_000]
        assert bytes_of(lambda: fold(chunks)) < 100_000_000

    def test_a_call_of_a_step_with_many(self) -> None:
        """Section 11 of recovery.md: what a call costs does not grow with the calls of its step."""
        [[few, many]] = counted(count_calls_of_steps)
        assert few == many


class TestMessage:
    """C5 of messages.md: reading the message builds only what changed."""

    def test_earlier_parts_are_the_same_objects(self) -> None:
        made = Fold(UIMessage(id="m", role="assistant", parts=[{"type": "text", "text": "old"}] * 2_000))
        made.feed({"type": "text-start", "id": "a"})
        before = made.message
        made.feed(DELTA)
        after = made.message
        assert all(old is new for old, new in zip(before.parts[:-1], after.parts[:-1], strict=True))
        assert isinstance(after.parts[-1], TextPart)
        assert after.parts[-1].text == "x"

    def test_parts_of_the_argument_are_kept(self) -> None:
        message = UIMessage(id="m", role="assistant", parts=[{"type": "text", "text": "old"}])
        assert Fold(message).message.parts[0] is message.parts[0]

    def test_an_unchanged_message_has_the_same_parts(self) -> None:
        made = long_fold(3, 3)
        assert all(old is new for old, new in zip(made.message.parts, made.message.parts, strict=True))

    def test_the_tolerant_parse_runs_once_for_a_reading(self, monkeypatch: Any) -> None:
        from chatnb.messages import fold_state

        parsed: list[str] = []
        monkeypatch.setattr(fold_state, "parse_partial_json", lambda text: parsed.append(text) or {})
        made = long_fold(0, 50)
        assert parsed == []
        _ = made.message, made.message
        assert parsed == ["1" * 50]
