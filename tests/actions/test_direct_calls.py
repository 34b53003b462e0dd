"""Direct calls of actions (spec/actions.md, 2.2)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from chatnb.actions import action
from chatnb.errors import InvalidArgumentsError


class Frame:
    """A class without JSON Schema."""


@dataclass
class Point:
    x: int
    y: int = 0


class TestDirectCalls:
    def test_sync_and_async(self) -> None:
        """2.2: a sync action returns its value, an async one an awaitable."""

        @action(read_only=True)
        def double(n: int) -> int:
            """Double."""
            return n * 2

        @action(read_only=True)
        async def triple(n: int) -> int:
            """Triple."""
            return n * 3

        assert double(2) == 4
        assert asyncio.run(triple(n=2)) == 6

    def test_missing_arguments_name_themselves(self) -> None:
        """C1: called without a required argument, the error names it and the handler is untouched."""
        ran = []

        @action
        def f(region: str) -> None:
            """Do."""
            ran.append(region)

        with pytest.raises(InvalidArgumentsError, match="region"):
            f()
        assert ran == []

    def test_names_stay_names(self) -> None:
        """2.2: a direct call binds as the function would: what it takes by name alone is not given by position."""

        @action(read_only=True)
        def f(region: str, *, limit: int = 10) -> str:
            """Look."""
            return f"{region} {limit}"

        assert f("EU", limit=3) == "EU 3"
        with pytest.raises(InvalidArgumentsError, match="at most 1 positional"):
            f("EU", 3)

    def test_no_snapshot_rule(self) -> None:
        """C8: a direct call with a set runs; a dispatched one is `not_plain_data`."""
        with pytest.warns(UserWarning, match="tags"):

            @action
            def f(tags: set[str]) -> int:
                """Count."""
                return len(tags)

        assert f({"a", "b"}) == 2
        with pytest.raises(InvalidArgumentsError, match="tags: not_plain_data"):
            f.prepare({"tags": ["a"]})

    def test_records_pass_through(self) -> None:
        """2.2: a dataclass or model goes in as it is."""

        @action
        def f(point: Point) -> int:
            """Sum."""
            return point.x + point.y

        assert f(Point(1, 2)) == 3

    def test_a_variable_is_the_object_itself(self) -> None:
        """1.2: a direct call passes the object, never a copy."""
        seen = []

        @action
        def f(df: Frame) -> None:
            """Use."""
            seen.append(df)

        frame = Frame()
        f(frame)
        assert seen[0] is frame
        with pytest.raises(InvalidArgumentsError, match="df"):
            f(3)
