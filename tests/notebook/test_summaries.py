"""Summaries and bundles of objects (spec/notebook.md, section 4; spec/actions.md, section 9)."""

from __future__ import annotations

import dataclasses
import enum
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatnb.kernel.summaries import present, summarize
from chatnb.kernel.summaries_time import within


class TestFrames:
    def test_pandas(self) -> None:
        """C19 of notebook.md: rows x columns, dtypes, nulls, the first 5 rows and none beyond; at most 2,000."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"a": range(100), "b": [None, *map(float, range(99))], "c": ["x" * 100] * 100})
        found = present(frame)
        assert found.type == "DataFrame"
        assert "100 rows x 3 columns" in found.summary
        assert "- a: int64, 0 nulls" in found.summary
        assert "- b: float64, 1 null" in found.summary
        assert "x" * 39 + "…" in found.summary
        assert "x" * 41 not in found.summary
        assert "\n4 | 4 |" in found.summary
        assert "\n5 | 5 |" not in found.summary
        assert found.bundle is not None
        assert "<table" in str(found.bundle["text/html"])

    def test_wide_and_long(self) -> None:
        """Section 4: 30 columns at most are named, 20 x 20 at most are shown, 2,000 characters at most are said."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({f"column number {n}": ["value " * 20] * 50 for n in range(60)})
        found = present(frame)
        assert len(found.summary) <= 2000
        assert "column number 30:" not in found.summary
        assert "more columns" in found.summary
        html = str((found.bundle or {})["text/html"])
        assert html.count("<tr") <= 23
        assert "column number 30<" not in html

    def test_odd_frames(self) -> None:
        """Section 4: no frame makes a summary raise: doubles, empty, odd labels, objects that fail."""
        pd = pytest.importorskip("pandas")
        double = pd.DataFrame([[1, 2]], columns=["a", "a"])
        multi = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))
        broken = pd.DataFrame({"o": [Broken(), {"b", "a"}, object()]}, dtype=object)
        for frame in (double, multi, broken, pd.DataFrame(), pd.DataFrame(index=range(3))):
            assert "rows x" in summarize(frame)
        assert "0x" not in summarize(broken)
        assert '["a","b"]' in summarize(broken)

    def test_is_not_modified(self) -> None:
        """Section 4: summaries never modify the object."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"a": [3, 1, None], "b": list("xyz")})
        before = frame.copy(deep=True)
        present(frame)
        pd.testing.assert_frame_equal(frame, before)

    @pytest.mark.parametrize("kind", ["Series", "Index"])
    def test_series(self, kind: str) -> None:
        """Section 4: length, dtype, nulls, the first 5; min, mean, max if numeric."""
        pd = pytest.importorskip("pandas")
        text = summarize(getattr(pd, kind)([1.0, 2.0, None, 6.0, 7.0, 99.0], name="price"))
        assert "length 6" in text
        assert "float64" in text
        assert "nulls 1" in text
        assert "min 1, mean 23, max 99" in text
        assert not text.endswith("99.0")
        assert "min" not in summarize(getattr(pd, kind)(["a", "b"]))

    def test_masked_and_categories(self) -> None:
        """Section 4: nulls of extension types are counted too."""
        pd = pytest.importorskip("pandas")
        assert "nulls 1" in summarize(pd.Series([1, None, 3], dtype="Int64"))
        assert "max 3" in summarize(pd.Series([1, None, 3], dtype="Int64"))
        assert "nulls 1" in summarize(pd.Series(["a", None], dtype="category"))
        assert "nulls 1" in summarize(pd.Series([pd.NaT, pd.Timestamp("2025-01-01")]))

    def test_polars(self) -> None:
        """Section 4: polars frames and series as pandas'; a LazyFrame shows its schema and is never computed."""
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame({"a": list(range(50)), "b": [None, *["t"] * 49]})
        found = present(frame)
        assert "50 rows x 2 columns" in found.summary
        assert "- b: String, 1 null" in found.summary
        assert "shape: (50, 2)" in str((found.bundle or {})["text/html"])
        assert "mean 24.5" in summarize(frame["a"])
        assert summarize(pl.DataFrame({"a": [1, 2]})).endswith("First 2 rows:\na\n1\n2")

        def fail(_: Any) -> Any:
            raise AssertionError("computed")

        lazy = frame.lazy().map_batches(fail, schema={"a": pl.Int64, "b": pl.String})
        assert "not computed" in summarize(lazy)
        assert "- a: Int64" in summarize(frame.lazy())

    def test_large_frames_are_cheap(self) -> None:
        """9.2 of actions.md: no full copy: at most 200 ms and 50 MiB for 1 GiB; tried at an eighth, in proportion."""
        pd = pytest.importorskip("pandas")
        np = pytest.importorskip("numpy")
        frame = pd.DataFrame({f"c{n}": np.ones(1_000_000) for n in range(16)})
        summarize(frame.head(10))
        took = []
        for _ in range(3):
            began = time.process_time()
            summarize(frame)
            took.append(time.process_time() - began)
        tracemalloc.start()
        text = summarize(frame)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "- c15: float64, 0 nulls" in text
        assert min(took) < 0.1
        assert peak < 10 * 2**20


class TestArrays:
    def test_numbers(self) -> None:
        """Section 4: shape, dtype; min, mean, max, count of NaN; the first 10."""
        np = pytest.importorskip("numpy")
        array = np.arange(24.0).reshape(4, 6)
        array[0, 0] = np.nan
        text = summarize(array)
        assert "shape (4, 6), dtype float64" in text
        assert "min 1, mean 12, max 23, 1 NaN" in text
        assert "First 10: nan, 1.0," in text
        assert "10.0" not in text
        assert summarize(array.T[::2]) == summarize(np.array(array.T[::2]))

    @pytest.mark.parametrize(
        "make",
        [
            lambda np: np.array([]),
            lambda np: np.array(5),
            lambda np: np.array(["a", "b"]),
            lambda np: np.array([1 + 2j]),
            lambda np: np.array([(1, "a")], dtype=[("n", int), ("t", "U1")]),
            lambda np: np.array([None, {}], dtype=object),
            lambda np: np.array(["2025-01-01"], dtype="datetime64[D]"),
            lambda np: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
            lambda np: np.array([True, False]),
            lambda np: np.full(3, np.nan),
            lambda np: np.array([np.inf, -np.inf]),
            lambda np: np.array([1e308, 1e308]),
        ],
    )
    def test_odd_arrays(self, make: Callable[[Any], Any]) -> None:
        """Section 4: no array makes a summary raise or lose its shape."""
        np = pytest.importorskip("numpy")
        assert "shape" in summarize(make(np))

    def test_masked_items(self) -> None:
        """Section 4: what is masked is not shown, and no number stands in its place."""
        np = pytest.importorskip("numpy")
        assert summarize(np.ma.masked_array([1.5, 2.5], mask=[False, True])).endswith("First 2: 1.5, --")

    def test_large_arrays_have_no_numbers(self) -> None:
        """Section 4: min, mean and max when at most 10 million elements."""
        np = pytest.importorskip("numpy")
        text = summarize(np.zeros(10_000_001, dtype="int8"))
        assert "min" not in text
        assert "First 10: 0," in text


class TestPictures:
    def test_matplotlib(self) -> None:
        """Section 4: size, titles and labels of the axes; a PNG for the view, for a figure and for axes."""
        figures = pytest.importorskip("matplotlib.figure")
        figure = figures.Figure(figsize=(4, 3))
        axes = figure.subplots()
        axes.set(title="Sales", xlabel="month", ylabel="EUR")
        for value in (figure, axes):
            found = present(value)
            assert "title: Sales; x: month; y: EUR" in found.summary
            assert str((found.bundle or {})["image/png"]).startswith("iVBOR")
        assert "4 x 3 in, 1 axes" in summarize(figure)

    def test_pillow(self) -> None:
        """Section 4: size and mode; a PNG."""
        images = pytest.importorskip("PIL.Image")
        found = present(images.new("CMYK", (3000, 20)))
        assert found.summary == "PIL image: 3000 x 20 pixels, mode CMYK"
        assert "image/png" in (found.bundle or {})

    def test_plotly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 4: title, trace kinds, point counts; a PNG if kaleido can draw, else a note on chat.objects."""
        from plotly import graph_objects as graphs

        def undrawn(*args: Any, **options: Any) -> bytes:
            raise ValueError("no browser")

        find = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: find("json" if name == "kaleido" else name))
        monkeypatch.setattr(graphs.Figure, "to_image", undrawn)

        figure = graphs.Figure(graphs.Scatter(x=[1, 2, 3], y=[1, 2, 3], name="s"), layout={"title": "T"})
        found = present(figure)
        assert "title: T" in found.summary
        assert "- scatter 's', 3 points" in found.summary
        assert "application/vnd.plotly.v1+json" not in (found.bundle or {})
        assert "chat.objects" in str((found.bundle or {})["text/plain"])
        monkeypatch.setattr(graphs.Figure, "to_image", lambda *args, **options: b"picture")
        assert present(figure).bundle == {"image/png": "cGljdHVyZQ==", "text/plain": found.summary}


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]
    secret: str = dataclasses.field(default="s", repr=False)


class Model(pydantic.BaseModel):
    name: str
    password: pydantic.SecretStr


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Leaves:
    def __repr__(self) -> str:
        raise SystemExit(1)


class Endless:
    def __repr__(self) -> str:
        while True:
            pass


class Sleepy:
    def __repr__(self) -> str:
        time.sleep(30)
        return "late"


class TestStructures:
    def test_cut_with_counts(self) -> None:
        """Section 4: JSON, long strings and lists cut with counts, depth at most 6."""
        deep: Any = 1
        for _ in range(10):
            deep = [deep]
        text = summarize({"list": list(range(5000)), "text": "y" * 5000, "deep": deep})
        made = json.loads(text)
        assert len(text) <= 2000
        assert made["list"][-1].endswith("more of 5000")
        assert made["text"].endswith("(5000 characters)")
        assert '[["…"]]' in text

    def test_depth_is_six(self) -> None:
        """Section 4: depth at most 6."""
        assert summarize([[[[[[1]]]]]]) == "[[[[[[1]]]]]]"
        assert summarize([[[[[[[1]]]]]]]) == '[[[[[["…"]]]]]]'

    def test_records(self) -> None:
        """Section 4: dataclasses and pydantic models as JSON, and JSON for the view."""
        assert summarize(Point(1, ["a"])) == '{"x":1,"tags":["a"]}'
        text = summarize(Model(name="n", password=pydantic.SecretStr("hunter2")))
        assert '"name":"n"' in text
        assert "hunter2" not in text
        assert (present(Point(1, [])).bundle or {})["application/json"] == {"x": 1, "tags": []}
        assert summarize(Colour.RED) == '"Colour.RED"'

    def test_order_is_no_luck(self) -> None:
        """Section 4: identical data gives an identical text: no dict-order luck, no set order."""
        assert summarize({"a": 1, "b": 2}) == summarize({"b": 2, "a": 1})
        code = "from chatnb.kernel.summaries import summarize; print(summarize({'s': set('abcdefgh'), 'x': object()}))"
        found = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(found) == 1

    def test_cycles_end(self) -> None:
        """Section 4: a structure that holds itself is cut by depth."""
        cycle: list[Any] = []
        cycle.append(cycle)
        assert "…" in summarize(cycle)

    @settings(max_examples=60, deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.sets(st.text()),
            max_leaves=30,
        )
    )
    def test_any_data(self, value: Any) -> None:
        """Section 4: any data gives the same text of at most 2,000 characters each time, and a bundle of JSON."""
        found = present(value)
        assert len(found.summary) <= 2000
        assert found == present(value)
        json.dumps(found.bundle, allow_nan=False)


class TestAnything:
    @pytest.mark.parametrize("kind", [Broken, Leaves])
    def test_a_repr_that_raises(self, kind: type) -> None:
        """C21 of notebook.md: a `__repr__` that raises gives the type name alone."""
        found = present(kind())
        assert (found.summary, found.bundle) == (kind.__name__, {"text/plain": kind.__name__})

    @pytest.mark.parametrize("kind", [Endless, Sleepy])
    def test_a_repr_that_takes_long(self, kind: type) -> None:
        """Section 4: a `repr` that takes over 1 s: the type name alone, on the same thread."""
        began = time.monotonic()
        assert summarize(kind()) == kind.__name__
        assert time.monotonic() - began < 5

    def test_in_another_thread(self) -> None:
        """Section 4: also on a thread of the pool, which goes on afterwards."""
        found: list[str] = []

        def work() -> None:
            found.append(summarize(Endless()))
            found.append(summarize([1]))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(10)
        assert found == ["Endless", "[1]"]

    def test_own_summary(self) -> None:
        """Section 4: `__chatnb_summary__()` decides the summary; the limit holds; one that fails is passed over."""

        class Own:
            def __init__(self, text: Any) -> None:
                self.text = text

            def __chatnb_summary__(self) -> str:
                if self.text is None:
                    raise ValueError
                return str(self.text)

            def __repr__(self) -> str:
                return "plain"

        assert summarize(Own("mine")) == "mine"
        assert len(summarize(Own("m" * 9000))) == 2000
        assert summarize(Own(None)) == "plain"
        assert "class" in summarize(Own)

    def test_markdown_comes_before_repr(self) -> None:
        """Section 4: `_repr_markdown_`, else `repr`; addresses are left out."""

        class Marked:
            def _repr_markdown_(self) -> str:
                return "**m**"

        assert summarize(Marked()) == "**m**"
        assert summarize(object()) == "<object object>"

    def test_bundle_without_code(self) -> None:
        """Section 3: widgets and scripts appear as a note that names the object's place."""

        class Live:
            def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
                return {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "application/javascript": "x"}

        bundle = present(Live()).bundle or {}
        assert bundle.keys() == {"text/plain"}
        assert "chat.objects" in str(bundle["text/plain"])

    def test_html_and_text(self) -> None:
        """Section 4: anything else gets the bundle of its display methods; one that raises is left out."""

        class Shown:
            def _repr_html_(self) -> str:
                return "<b>x</b>"

            def _repr_png_(self) -> bytes:
                raise ValueError

        assert (present(Shown()).bundle or {})["text/html"] == "<b>x</b>"

    def test_imports_nothing(self) -> None:
        """Section 4: never imports those libraries."""
        code = (
            "import sys; from chatnb.kernel.summaries import present; present({'a': object()}); "
            "print([m for m in ('pandas', 'numpy', 'polars', 'matplotlib', 'PIL', 'IPython') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestWithin:
    def test_nested_and_reused(self) -> None:
        """Section 4: the limit leaves no alarm behind."""
        assert within(1.0, lambda: 5) == 5
        with pytest.raises(TimeoutError):
            within(0.05, lambda: time.sleep(5))
        assert within(1.0, lambda: within(1.0, lambda: 6)) == 6
