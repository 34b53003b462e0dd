"""What is said and shown of an object: at most 2,000 characters for the model, a MIME bundle for the view.

The table of spec/notebook.md, section 4, row by row. A summary never changes the object, never triggers its
computation and never raises; equal data gives an equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chatnb._json import JsonValue
from chatnb.actions.environment import Presented
from chatnb.kernel.summaries_arrays import describe_array, is_array
from chatnb.kernel.summaries_bundles import bundle_of, frame_bundle, json_bundle, note_of
from chatnb.kernel.summaries_figures import (
    describe_drawing,
    describe_picture,
    describe_plotly,
    is_drawing,
    is_picture,
    is_plotly,
    is_shown_by_call,
    png_of,
    png_of_plotly,
)
from chatnb.kernel.summaries_frames import (
    describe_frame,
    describe_lazy,
    describe_series,
    is_frame,
    is_lazy,
    is_series,
)
from chatnb.kernel.summaries_json import is_structure, json_form, json_text
from chatnb.kernel.summaries_text import cut, guarded, real_method, repr_text, type_name

Bundle = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the table.

    Attributes:
        matches: Tells whether an object belongs here.
        describe: Makes its summary.
        show: Makes its bundle, from the object and its summary.
    """

    matches: Callable[[object], bool]
    describe: Callable[[Any], str]
    show: Callable[[Any, str], Bundle]


def present(value: object) -> Presented:
    """Return summary and bundle of an object. Call it on the thread where the object was made."""
    summary, row = _described(value)
    return Presented(type=type_name(value), summary=summary, bundle=_bundle(value, summary, row))


def summarize(value: object) -> str:
    """Return an object's summary alone, at most 2,000 characters."""
    return _described(value)[0]


def _described(value: object) -> tuple[str, _Row | None]:
    """The summary, and the row that the object belongs to; None: not even its `repr` can be had."""
    row = _row_of(value)
    own = _own_summary(value)
    if own is not None:
        return own, row
    try:
        return cut(row.describe(value)), row
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a foreign object may fail in any way; its type is always known
        return type_name(value), None


def _bundle(value: object, summary: str, row: _Row | None) -> Bundle:
    if row is None:
        return {"text/plain": summary}
    try:
        return row.show(value, summary)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - what can't be drawn is still described
        return {"text/plain": summary}


def _row_of(value: object) -> _Row:
    for row in _TABLE:
        try:
            if row.matches(value):
                return row
        except Exception:  # noqa: BLE001 - a foreign `__getattr__`; then it is something else
            continue
    return _ANYTHING


def _own_summary(value: object) -> str | None:
    method = real_method(value, "__chatnb_summary__")
    text = guarded(method) if method is not None else None
    return cut(text) if isinstance(text, str) else None


def _describe_anything(value: object) -> str:
    method = real_method(value, "_repr_markdown_")
    if method is not None:
        text = guarded(method)
        text = text[0] if isinstance(text, tuple) and text else text
        if isinstance(text, str) and text:
            return text
    found = repr_text(value)
    if found is None:
        raise ValueError("no repr")
    return found


def _as_text(_value: object, summary: str) -> Bundle:
    return {"text/plain": summary}


def _as_png(value: object, summary: str) -> Bundle:
    if is_shown_by_call(value):
        return {}
    png = png_of(value)
    return {"text/plain": summary} if png is None else {"image/png": png, "text/plain": summary}


def _as_plotly(value: object, summary: str) -> Bundle:
    png = png_of_plotly(value)
    return {"text/plain": note_of(value)} if png is None else {"image/png": png, "text/plain": summary}


def _as_json(value: object, summary: str) -> Bundle:
    return json_bundle(json_form(value), summary)


_ANYTHING = _Row(lambda value: True, _describe_anything, lambda value, _summary: bundle_of(value))

_TABLE = (
    _Row(is_structure, json_text, _as_json),
    _Row(is_lazy, describe_lazy, _as_text),
    _Row(is_frame, describe_frame, lambda value, _summary: frame_bundle(value)),
    _Row(is_series, describe_series, lambda value, _summary: _series_bundle(value)),
    _Row(is_array, describe_array, _as_text),
    _Row(is_drawing, describe_drawing, _as_png),
    _Row(is_picture, describe_picture, _as_png),
    _Row(is_plotly, describe_plotly, _as_plotly),
)


def _series_bundle(value: Any) -> Bundle:
    if hasattr(value, "to_string"):
        return frame_bundle(value)
    if type(value).__module__.startswith("polars"):
        return frame_bundle(value)
    return {"text/plain": repr_text(value) or type_name(value)}
