"""Tokens and money of a step, and how they add up (spec/turns.md, section 6)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


@dataclass(frozen=True)
class Usage:
    """What one or more steps used. None means unknown, which is not 0.

    Attributes:
        input_tokens: Tokens read, those of the cache left out.
        output_tokens: Tokens written, reasoning included.
        cache_read_tokens: Tokens read from the provider's cache.
        cache_write_tokens: Tokens written to it.
        reasoning_tokens: Those of the output that were reasoning.
        cost: US dollars. A sum with an unpriced step is None.
        complete: False if a step that is summed here gave no number.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    complete: bool = True

    def __repr__(self) -> str:
        """Show the numbers that are known."""
        known = [f"{name}={value!r}" for name in _COUNTS if (value := getattr(self, name)) is not None]
        if self.cost is not None:
            known.append(f"cost={round(self.cost, 6)!r}")
        return f"Usage({', '.join(known if self.complete else [*known, 'complete=False'])})"

    @property
    def is_known(self) -> bool:
        """Whether at least one number is there."""
        return self.cost is not None or any(getattr(self, name) is not None for name in _COUNTS)

    def check(self) -> None:
        """Refuse what can't be added up or stored.

        Raises:
            TypeError: A count is no whole number from 0, or the cost no finite number.
        """
        for name in _COUNTS:
            count = getattr(self, name)
            if count is not None and (not isinstance(count, int) or count < 0):
                raise TypeError(f"Usage({name}=) takes a whole number from 0, or None")
        if self.cost is not None and not (isinstance(self.cost, int | float) and math.isfinite(self.cost)):
            raise TypeError("Usage(cost=) takes a finite number of US dollars, or None")

    def __add__(self, other: Usage) -> Usage:
        """Sum field by field; an unknown number counts 0 and makes the sum incomplete.

        `Usage()` changes nothing, so it may stand for a turn that asked no model.
        """
        if not isinstance(other, Usage):
            return NotImplemented
        complete = self.complete and other.complete
        if not self.is_known or not other.is_known:
            return replace(self if self.is_known else other, complete=complete)
        sums: dict[str, int | None] = {}
        for name in _COUNTS:
            left: int | None = getattr(self, name)
            right: int | None = getattr(other, name)
            if left is None or right is None:
                sums[name] = right if left is None else left
                complete = complete and left is right
            else:
                sums[name] = left + right
        cost, priced = _add_cost(self, other)
        return Usage(**sums, cost=cost, complete=complete and priced)


def _add_cost(left: Usage, right: Usage) -> tuple[float | None, bool]:
    """Sum the costs: a step with tokens and no price makes the sum unknown, a step without any number counts 0."""
    if left.cost is not None and right.cost is not None:
        return left.cost + right.cost, True
    if left.cost is None and right.cost is None:
        return None, True
    unpriced, priced = (left, right) if left.cost is None else (right, left)
    return (None if unpriced.is_known else priced.cost), False


def sum_usage(usages: Iterable[Usage | None]) -> Usage:
    """Add up the usage of steps or turns.

    Args:
        usages: One for each step; None for a step that gave no numbers, which makes the sum incomplete.

    Returns:
        The sum. A field that no step knew is None. No steps at all: everything None, and complete.
    """
    total = Usage()
    for usage in usages:
        total = total + (Usage(complete=False) if usage is None else usage)
    return total
