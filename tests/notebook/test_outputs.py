"""The list of outputs of a call and its limits (spec/notebook.md, section 3)."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatnb.kernel.outputs import ALL_LIMIT, ITEM_LIMIT, RICH_LIMIT, TEXT_LIMIT, Outputs
from chatnb.kernel.run_code_streams import Tee


class TestText:
    def test_in_order(self) -> None:
        """Section 3: items come in order; text of one stream runs together."""
        outputs = Outputs()
        outputs.write("stdout", "a")
        outputs.write("stdout", "b\n")
        outputs.write("stderr", "c")
        outputs.show({"text/plain": "d"})
        outputs.write("stdout", "e")
        assert outputs.items() == [
            {"stream": "stdout", "text": "ab\n"},
            {"stream": "stderr", "text": "c"},
            {"text/plain": "d"},
            {"stream": "stdout", "text": "e"},
        ]

    @pytest.mark.parametrize(
        ("pieces", "text"),
        [
            (["1%\r2%\r3%\n"], "3%\n"),
            (["head\n1%\r", "2%\r", "3%"], "head\n3%"),
            (["dos\r\n", "next\r", "\n"], "dos\nnext\n"),
            (["kept\r"], "kept"),
        ],
    )
    def test_carriage_return(self, pieces: list[str], text: str) -> None:
        """Section 3: a carriage return overwrites its line."""
        outputs = Outputs()
        for piece in pieces:
            outputs.write("stdout", piece)
        assert outputs.text("stdout") == text

    @given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.integers(1, 60_000)), min_size=1, max_size=12))
    def test_limit(self, writes: list[tuple[Any, int]]) -> None:
        """Section 3: of more than 100,000 characters head and tail are kept, and the gap says how many are gone."""
        outputs = Outputs()
        whole = ""
        for number, (stream, length) in enumerate(writes):
            text = chr(97 + number) * length
            whole += text
            outputs.write(stream, text)
        texts = [item["text"] for item in outputs.items()]
        if len(whole) <= TEXT_LIMIT:
            assert "".join(texts) == whole
            return
        head, gap, tail = "".join(texts).partition("\n… ")[0], "", "".join(texts).rpartition("left out …\n")[2]
        gap = "".join(texts)[len(head) : len("".join(texts)) - len(tail)]
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + len(tail) == TEXT_LIMIT
        assert f"{len(whole) - TEXT_LIMIT:,}" in gap

    def test_two_streams_by_turns(self) -> None:
        """Section 3: a short text costs the same however many texts to both streams by turns came before it."""
        outputs = Outputs()
        began = time.perf_counter()
        for number in range(40_000):
            outputs.write("stderr" if number % 2 else "stdout", "x")
        # A tenth of a second; counting all texts at each print took half a minute.
        assert time.perf_counter() - began < 5
        assert len(outputs.items()) == 40_000


class TestWhatTheModelReads:
    """Section 6: of what code prints the model reads head and tail of 10,000 characters."""

    def tee(self) -> Tee:
        return Tee(Outputs())

    def test_short(self) -> None:
        """A short text is told whole, without colours and carriage returns before line ends."""
        tee = self.tee()
        for text in ("a\x1b[31mb\x1b[0m\r", "\nc"):
            tee.write("stdout", text)
        assert tee.printed("stdout") == "ab\nc"

    @pytest.mark.parametrize("lines", [1500, 12_000])
    def test_long(self, lines: int) -> None:
        """The note says how many characters are left out, also of a text that is no longer held."""
        tee = self.tee()
        whole = "".join(f"{number:09}\n" for number in range(lines))
        for start in range(0, len(whole), 10):
            tee.write("stdout", whole[start : start + 10])
        told = tee.printed("stdout")
        head, _, rest = told.partition("\n… ")
        count, _, tail = rest.partition(" characters left out …\n")
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(told) <= 10_000
        assert int(count) == len(whole) - 10_000

    def test_no_end(self) -> None:
        """Code that prints for ever, until its time is over, fills no memory."""
        tee = self.tee()
        tracemalloc.start()
        try:
            for number in range(4_000):
                tee.write("stdout", f"{number:01000}\n")
            assert tracemalloc.get_traced_memory()[0] < 1_000_000
        finally:
            tracemalloc.stop()


class TestRich:
    def test_display_id(self) -> None:
        """Section 3: an update replaces the items of its display, in place; of another display it is not ours."""
        outputs = Outputs()
        outputs.show({"text/plain": "one"}, display_id="x")
        outputs.write("stdout", "between")
        assert outputs.show({"text/plain": "two"}, display_id="x", update=True)
        assert outputs.items()[0] == {"text/plain": "two"}
        assert not outputs.show({"text/plain": "three"}, display_id="y", update=True)

    @pytest.mark.parametrize("wait", [False, True])
    def test_clear(self, wait: bool) -> None:
        """Section 3: `clear_output()` clears the card; with `wait`, when the next output comes."""
        outputs = Outputs()
        outputs.write("stdout", "old")
        outputs.clear(wait=wait)
        assert bool(outputs.items()) is wait
        outputs.write("stdout", "new")
        assert outputs.items() == [{"stream": "stdout", "text": "new"}]

    def test_count(self) -> None:
        """Section 3: at most 50 rich items; a note says how many more there were."""
        outputs = Outputs()
        for number in range(RICH_LIMIT + 3):
            outputs.show({"text/plain": str(number)})
        items = outputs.items()
        assert len(items) == RICH_LIMIT + 1
        assert items[-1]["text/plain"].startswith("3 more")

    def test_size(self) -> None:
        """Section 3: an item above 400 kB loses what is too large, and becomes a note if nothing is left."""
        outputs = Outputs()
        outputs.show({"text/html": "x" * ITEM_LIMIT, "text/plain": "short"})
        outputs.show({"text/html": "x" * ITEM_LIMIT})
        first, second = outputs.items()
        assert first == {"text/plain": "short"}
        assert "too large" in second["text/plain"]

    def test_size_of_all(self) -> None:
        """Section 3: at most 1 MB in all."""
        outputs = Outputs()
        for _ in range(5):
            outputs.show({"text/html": "x" * 300_000, "text/plain": "short"})
        assert sum("text/html" in item for item in outputs.items()) == 3
        assert outputs.room() < ALL_LIMIT - 900_000

    def test_live_only(self) -> None:
        """Section 3: widgets, JavaScript and plotly's own type become a note; an image beside them is shown."""
        outputs = Outputs()
        outputs.show({"application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider(value=0)"})
        outputs.show({"application/javascript": "alert(1)"})
        outputs.show({"application/vnd.plotly.v1+json": {}, "image/png": "AAAA"})
        widget, script, plotly = outputs.items()
        assert "IntSlider" in widget["text/plain"]
        assert "chat.objects" in widget["text/plain"]
        assert set(script) == {"text/plain"}
        assert plotly == {"image/png": "AAAA"}


class TestChanges:
    def test_announced_once(self) -> None:
        """A change is announced once until it is read, so that a loop of prints costs a view nothing."""
        seen: list[Outputs] = []
        outputs = Outputs(seen.append)
        for _ in range(100):
            outputs.write("stdout", "x")
        assert seen == [outputs]
        outputs.items()
        outputs.write("stdout", "x")
        assert seen == [outputs, outputs]
