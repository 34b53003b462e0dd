"""Who may start next (spec/notebook.md, section 2), as a property of any schedule."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from chatnb._ports import FunctionCall
from chatnb.runtime.entry import Entry
from chatnb.runtime.queue import CallQueue

calls = st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["a", "b", None])), min_size=1, max_size=12)


def entry(is_async: bool = False, overlap: bool = False, chat_id: str | None = None) -> Entry:
    call = FunctionCall(function=print, chat_id=chat_id, overlap=overlap)
    return Entry(call=call, context=cast(Any, None), done=cast(Any, None), started=cast(Any, None), is_async=is_async)


def anything(_: Entry) -> bool:
    return True


class TestCallQueue:
    @given(calls, st.randoms(use_true_random=False))
    def test_any_schedule(self, wanted: list[tuple[bool, bool, str | None]], draw: Any) -> None:
        """Calls start in order of arrival, and no sync call ever overlaps another; each starts once."""
        queue = CallQueue()
        entries = [entry(*call) for call in wanted]
        for one in entries:
            queue.put(one)
        running: list[Entry] = []
        started: list[Entry] = []
        while len(started) < len(entries) or running:
            taken = queue.take(anything)
            if taken is not None:
                started.append(taken)
                running.append(taken)
                assert len(running) == 1 or all(one.is_async and one.call.overlap for one in running)
                assert len({one.chat_id for one in running}) == 1
            if running and (taken is None or draw.random() < 0.5):
                done = running.pop(draw.randrange(len(running)))
                queue.release(done)
        assert started == entries

    def test_past_the_head(self) -> None:
        """What a waiting function needs goes before calls that wait longer; nothing else does."""
        queue = CallQueue()
        outer, other, needed, through = entry(chat_id="a"), entry(chat_id="x"), entry(chat_id="b"), entry(chat_id="c")
        queue.put(outer)
        assert queue.take(anything) is outer
        for one in (other, through, needed):
            queue.put(one)
        assert queue.take(anything) is None
        queue.begin_wait(outer, "b")
        assert queue.take(anything) is needed
        assert queue.take(anything) is None
        queue.begin_wait(needed, "c")
        assert queue.take(anything) is through
        queue.release(through)
        queue.end_wait(needed, "c")
        queue.release(needed)
        queue.end_wait(outer, "b")
        assert queue.take(anything) is None
        queue.release(outer)
        assert queue.take(anything) is other
