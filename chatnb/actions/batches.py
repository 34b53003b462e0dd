"""Which calls of a step run at once, and which wait (spec/actions.md, 8.1 and 8.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from .prepare import PreparedCall

CallClass = Literal["read", "parallel", "serial"]
T = TypeVar("T")


def class_of(call: PreparedCall | None) -> CallClass:
    """Return a call's class; what could not be prepared is serial."""
    if call is None or call.action.ends_turn:
        return "serial"
    if not call.is_write:
        return "read"
    return "parallel" if call.action.parallel_safe else "serial"


def split_batches(calls: Iterable[tuple[T, CallClass]]) -> list[list[T]]:
    """Split calls in model order into batches: neighbours of one class; each serial call stands alone."""
    batches: list[list[T]] = []
    former: CallClass | None = None
    for call, kind in calls:
        if kind == "serial" or kind != former:
            batches.append([])
        batches[-1].append(call)
        former = kind
    return batches


def find_held(calls: Sequence[tuple[CallClass, bool]]) -> set[int]:
    """Return the places of held calls: serial calls behind a gated one.

    Args:
        calls: The class of each call, and whether it is gated.
    """
    held: set[int] = set()
    behind = False
    for place, (kind, gated) in enumerate(calls):
        if gated:
            behind = True
        elif behind and kind == "serial":
            held.add(place)
    return held
