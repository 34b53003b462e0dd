"""The way from the runtime's thread to the server's loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from chatnb.sites.crossing import Crossing


class TestCrossing:
    """Many wakes, one hop."""

    async def test_wakes_go_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What other threads hand over arrives whole and in order, with far fewer hops than functions."""
        loop = asyncio.get_running_loop()
        crossing, arrived, hops = Crossing(), [], 0
        hop = loop.call_soon_threadsafe
        over = asyncio.Event()

        def counted(*given: object) -> object:
            nonlocal hops
            hops += 1
            return hop(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)

        def work() -> None:
            for number in range(10_000):
                crossing.take(lambda number=number: arrived.append(number))  # type: ignore[misc]
            crossing.take(over.set)

        thread = threading.Thread(target=work)
        thread.start()
        await asyncio.wait_for(over.wait(), 10)
        thread.join()
        assert arrived == list(range(10_000))
        assert hops < 500

    async def test_a_loop_that_has_ended(self) -> None:
        """A turn that outlives its server wakes nobody, and is not disturbed."""

        async def make() -> Crossing:
            return Crossing()

        crossing = await asyncio.to_thread(lambda: asyncio.run(make()))
        crossing.take(lambda: pytest.fail("there is no loop"))
