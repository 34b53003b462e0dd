"""The first rows of an object as JSON, for `inspect_variable` (spec/notebook.md, section 6)."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from chatnb._json import JsonValue, dumps
from chatnb.actions import action_errors
from chatnb.kernel.summaries import summarize
from chatnb.kernel.summaries_frames import MAX_COLUMNS, is_frame, is_lazy, is_series
from chatnb.kernel.summaries_json import Sizes, simplify
from chatnb.kernel.summaries_text import cut, guarded, is_a, repr_text, type_name
from chatnb.kernel.variables_shape import describe_briefly

MAX_TEXT = 200
_SIZES = Sizes(MAX_TEXT, 20, 4)
_errors = action_errors("unknown_column")


def inspect_object(name: str, value: Any, *, columns: list[str] | None, rows: int) -> dict[str, JsonValue]:
    """Return `{name, type, shape..., summary, rows}`; texts are cut at 200.

    Args:
        name: The variable.
        value: What it means.
        columns: Columns of a frame, or None for all.
        rows: How many rows or items.

    Raises:
        ActionError: Code `unknown_column`.
    """
    made = describe_briefly(name, value)
    shown = _choose(value, columns) if columns is not None and is_frame(value) else value
    made["summary"] = summarize(shown)
    found = guarded(lambda: _rows(shown, rows))
    if found is not None:
        made["rows"] = found
    return made


def _choose(frame: Any, columns: list[str]) -> Any:
    by_text = {str(label): label for label in frame.columns}
    missing = [column for column in columns if column not in by_text]
    if missing:
        known = ", ".join(cut(name, 40) for name in islice(by_text, MAX_COLUMNS))
        _errors.fail(f"There is no column {cut(missing[0], 60)!r}. Columns: {known}.", "unknown_column")
    return frame[[by_text[column] for column in columns]]


def _rows(value: Any, count: int) -> list[JsonValue] | None:
    if is_lazy(value):
        return None
    if is_frame(value):
        return _frame_rows(value, count)
    if is_series(value):
        items = value[:count]
        return [_cell(item) for item in (items.to_list() if hasattr(items, "to_list") else items.tolist())]
    if is_a(value, "numpy", "ndarray"):
        first = value[:count] if value.ndim else value.reshape(1)
        return [_cell(item) for item in first.tolist()]
    if isinstance(value, dict):
        return [{"key": cut(str(key), MAX_TEXT), "value": _cell(item)} for key, item in islice(value.items(), count)]
    if isinstance(value, list | tuple):
        return [_cell(item) for item in value[:count]]
    return None


def _frame_rows(frame: Any, count: int) -> list[JsonValue]:
    labels = [cut(str(label), MAX_TEXT) for label in frame.columns[:MAX_COLUMNS]]
    if is_a(frame, "pandas", "DataFrame"):
        head = frame.iloc[:count, :MAX_COLUMNS]
        columns = [head.iloc[:, n].tolist() for n in range(head.shape[1])]
        made: list[JsonValue] = []
        for place, label in enumerate(head.index.tolist()):
            cells = dict(zip(labels, (_cell(column[place]) for column in columns), strict=True))
            made.append({"index": _cell(label), **cells} if "index" not in cells else cells)
        return made
    head = frame[:count, :MAX_COLUMNS]
    return [dict(zip(labels, map(_cell, row), strict=True)) for row in head.rows()]


def _cell(value: Any) -> JsonValue:
    if isinstance(value, float) and not math.isfinite(value):
        return None if value != value else str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return cut(value, MAX_TEXT)
    made = simplify(value, _SIZES)
    if isinstance(made, str):
        return cut(made, MAX_TEXT)
    return made if len(dumps(made)) <= MAX_TEXT else cut(repr_text(value, MAX_TEXT) or type_name(value), MAX_TEXT)
