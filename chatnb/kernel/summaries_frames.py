"""Summaries of pandas and polars frames, series and indexes, and of frames that are never computed.

No library is imported here: an object brings its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chatnb._json import dumps
from chatnb.kernel.summaries_json import Sizes, simplify
from chatnb.kernel.summaries_numbers import count_nan, describe_numbers, number_text
from chatnb.kernel.summaries_text import LIMIT, cut, is_a, module_root, repr_text, type_name

MAX_COLUMNS = 30
ROWS = 5
_CELL = 40
_HEAD_LIMIT = 1300
_BUDGET = 150_000_000  # units of about a nanosecond: a frame of 1 GiB stays under 200 ms
_CHUNK = 1 << 16
_CELL_SIZES = Sizes(_CELL, 5, 2)
_LAZY_ROOTS = frozenset({"daft", "dask", "dask_expr", "duckdb", "ibis", "pyspark", "snowflake", "sqlframe", "vaex"})


def is_frame(value: object) -> bool:
    """Tell whether an object is a pandas or polars DataFrame."""
    return is_a(value, "pandas", "DataFrame") or is_a(value, "polars", "DataFrame")


def is_series(value: object) -> bool:
    """Tell whether an object is a pandas or polars Series, or a pandas Index."""
    return is_a(value, "pandas", "Series", "Index") or is_a(value, "polars", "Series")


def is_lazy(value: object) -> bool:
    """Tell whether an object stands for data that reading it would compute."""
    if is_a(value, "polars", "LazyFrame") or is_a(value, "django", "QuerySet"):
        return True
    return module_root(value) in _LAZY_ROOTS and any(
        hasattr(type(value), name) or name in getattr(value, "__dict__", {}) for name in ("columns", "schema", "dtype")
    )


# --- frames ---------------------------------------------------------------------------------------------------------


def describe_frame(frame: Any) -> str:
    """Return rows x columns; name, dtype and null count of the first 30 columns; the first 5 rows."""
    rows, columns = frame.shape
    is_pandas = is_a(frame, "pandas", "DataFrame")
    lines = [f"{'pandas' if is_pandas else 'polars'} {type_name(frame)}: {rows} rows x {columns} columns"]
    shown = min(columns, MAX_COLUMNS)
    described = _pandas_columns(frame, shown) if is_pandas else _polars_columns(frame, shown)
    kept = _fitting(described, _HEAD_LIMIT - len(lines[0]) - 60)
    lines.extend(kept)
    if columns > len(kept):
        lines.append(f"… and {columns - len(kept)} more columns")
    if rows:
        lines.append(f"First {min(ROWS, rows)} rows:")
        table = _pandas_rows(frame, shown) if is_pandas else _polars_rows(frame, shown)
        least = 2 if is_pandas else 1  # pandas' first column is the index
        lines.extend(_fit_table(table, LIMIT - sum(len(line) + 1 for line in lines), least))
    return cut("\n".join(lines))


def _pandas_columns(frame: Any, count: int) -> list[str]:
    budget = _Budget(_BUDGET)
    return [
        _column_line(frame.columns[n], frame.dtypes.iloc[n], count_nulls(frame.iloc[:, n], budget))
        for n in range(count)
    ]


def _polars_columns(frame: Any, count: int) -> list[str]:
    columns = frame.get_columns()[:count]
    return [_column_line(column.name, column.dtype, int(column.null_count())) for column in columns]


def _column_line(name: object, dtype: object, nulls: int | None) -> str:
    counted = "nulls not counted" if nulls is None else f"{nulls} null" if nulls == 1 else f"{nulls} nulls"
    return f"- {_label(name)}: {cut(str(dtype), _CELL)}, {counted}"


def _pandas_rows(frame: Any, count: int) -> list[list[str]]:
    head = frame.iloc[:ROWS, :count]
    columns = [[_label(name), *map(cell_text, head.iloc[:, n].tolist())] for n, name in enumerate(head.columns)]
    index = ["", *map(cell_text, head.index.tolist())]
    return [list(row) for row in zip(index, *columns, strict=True)]


def _polars_rows(frame: Any, count: int) -> list[list[str]]:
    columns = [[_label(c.name), *map(cell_text, c.head(ROWS).to_list())] for c in frame.get_columns()[:count]]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _fit_table(table: list[list[str]], room: int, least: int) -> list[str]:
    """As many columns as leave room for all the rows, at least so many; else the first row's head."""
    count = len(table[0]) if table else 0
    while count >= least:
        lines = [" | ".join(row[:count]) + (" | …" if count < len(row) else "") for row in table]
        if sum(len(line) + 1 for line in lines) <= room:
            return lines
        count -= 1
    return [row[0] for row in table[:1]]


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def _label(name: object) -> str:
    return cell_text(name)


def cell_text(value: Any, limit: int = _CELL) -> str:
    """Return one cell as text on one line, cut at 40 characters."""
    if isinstance(value, str):
        text = value
    elif value is None or isinstance(value, bool | int | float):
        text = str(value)
    elif isinstance(value, dict | list | tuple | set | frozenset):
        text = dumps(simplify(value, _CELL_SIZES))
    elif module_root(value) in ("datetime", "decimal", "pandas", "numpy"):
        text = str(value)
    else:
        text = repr_text(value, limit) or type_name(value)
    text = text.replace("\r", " ").replace("\n", " ")
    return text if len(text) <= limit else text[: limit - 1] + "…"


# --- series and indexes -----------------------------------------------------------------------------------------------


def describe_series(series: Any) -> str:
    """Return length, dtype, nulls, the first 5; min, mean and max if it is numeric."""
    is_polars = is_a(series, "polars", "Series")
    nulls = int(series.null_count()) if is_polars else count_nulls(series, _Budget(_BUDGET))
    name = getattr(series, "name", None)
    named = f" {_label(name)!r}" if name not in (None, "") else ""
    length = len(series)
    lines = [
        f"{'polars' if is_polars else 'pandas'} {type_name(series)}{named}: length {length}, "
        f"dtype {cut(str(series.dtype), _CELL)}, {'nulls not counted' if nulls is None else f'nulls {nulls}'}"
    ]
    numbers = _polars_numbers(series) if is_polars else _pandas_numbers(series)
    if numbers:
        lines.append(numbers)
    if length:
        first = series.head(ROWS).to_list() if is_polars else series[:ROWS].tolist() if _is_index(series) else None
        lines.append(f"First {min(ROWS, length)}:")
        if first is None:
            head = series.iloc[:ROWS]
            pairs = zip(head.index.tolist(), head.tolist(), strict=True)
            lines.extend(f"{cell_text(label)}: {cell_text(item)}" for label, item in pairs)
        else:
            lines.extend(map(cell_text, first))
    return cut("\n".join(lines))


def _is_index(value: object) -> bool:
    return is_a(value, "pandas", "Index")


def _pandas_numbers(series: Any) -> str:
    dtype = series.dtype
    values = getattr(series, "values", None)
    if is_a(values, "numpy", "ndarray"):
        return describe_numbers(values)
    if getattr(dtype, "kind", "") not in ("i", "u", "f") or not getattr(dtype, "_is_numeric", False):
        return ""
    return f"min {number_text(series.min())}, mean {number_text(series.mean())}, max {number_text(series.max())}"


def _polars_numbers(series: Any) -> str:
    if not series.dtype.is_numeric() or not len(series):
        return ""
    return f"min {number_text(series.min())}, mean {number_text(series.mean())}, max {number_text(series.max())}"


# --- nulls ------------------------------------------------------------------------------------------------------------


class _Budget:
    """How much counting is left. By size and not by the clock, so that equal data gives an equal text."""

    def __init__(self, units: int) -> None:
        self._units = units

    def take(self, units: int) -> bool:
        """Take units; False when there are not enough left."""
        if units > self._units:
            return False
        self._units -= units
        return True


def count_nulls(column: Any, budget: _Budget) -> int | None:
    """Return the nulls of a pandas Series or Index, or None where counting would take too long."""
    kind = getattr(column.dtype, "kind", "O")
    values: Any = getattr(column, "values", None)
    is_plain = is_a(values, "numpy", "ndarray")
    if is_plain and kind in "biu":
        return 0
    size = len(column)
    if is_plain and kind == "f":
        is_dense = values.strides == (values.itemsize,)
        if not budget.take(size if is_dense else 10 * size):
            return None
        return count_nan(values)
    if not budget.take(size * (60 if kind == "O" else 5)):
        return None
    take = column.iloc if hasattr(column, "iloc") else column
    return sum(int(take[start : start + _CHUNK].isna().sum()) for start in range(0, size, _CHUNK))


# --- never computed ---------------------------------------------------------------------------------------------------


def describe_lazy(value: Any) -> str:
    """Return type and schema of data that is not there yet; nothing of it is computed."""
    lines = [f"{module_root(value)} {type_name(value)}, not computed"]
    try:
        pairs = _schema_of(value)
    except Exception:  # noqa: BLE001 - a plan that can't even say its columns
        pairs = []
    shown = [f"- {_label(name)}: {cut(str(kind), _CELL)}" for name, kind in pairs[:MAX_COLUMNS]]
    lines.extend(shown)
    if len(pairs) > len(shown):
        lines.append(f"… and {len(pairs) - len(shown)} more columns")
    return cut("\n".join(lines))


def _schema_of(value: Any) -> list[tuple[object, object]]:
    if is_a(value, "polars", "LazyFrame"):
        return list(value.collect_schema().items())
    if module_root(value) == "pyspark":
        return [(name, kind) for name, kind in value.dtypes]
    dtypes = getattr(value, "dtypes", None)
    columns = getattr(value, "columns", None)
    if columns is not None and dtypes is not None:
        return list(zip(list(columns), list(dtypes), strict=False))
    schema = getattr(value, "schema", None)
    schema = schema() if callable(schema) else schema
    if schema is not None and hasattr(schema, "items"):
        return list(schema.items())
    if columns is not None:
        return [(name, "?") for name in columns]
    return [(name, getattr(value, name)) for name in ("dtype", "shape", "chunks") if hasattr(value, name)]
