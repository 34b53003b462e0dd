"""What a view shows of an object: a MIME bundle, as IPython's formatters make it (spec/notebook.md, section 4)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chatnb._json import JsonValue
from chatnb.actions.environment import IN_OBJECTS
from chatnb.kernel.host import running_shell
from chatnb.kernel.summaries_text import cut, guarded, real_method, repr_text, type_name, without_addresses

TEXT_LIMIT = 20_000
_SIDE = 20

# The display methods of objects, for where IPython is not loaded.
_METHODS: Mapping[str, str] = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
}
# Shown as text, html or a picture by any page; all else needs code of its own.
_SHOWN = frozenset({*_METHODS, "text/plain", "image/gif", "image/webp"})


def bundle_of(value: Any) -> dict[str, JsonValue]:
    """Return the bundle of any object; what a page can't show without code becomes a note."""
    made: dict[str, JsonValue] = {}
    left_out = False
    for mime, data in _formatted(value):
        if mime not in _SHOWN:
            left_out = True
        elif data is not None and mime not in made and (written := _written(mime, data)) is not None:
            made[mime] = written
    text = made.get("text/plain")
    if not isinstance(text, str):
        text = repr_text(value, TEXT_LIMIT) or type_name(value)
    made["text/plain"] = cut(without_addresses(text), TEXT_LIMIT)
    if left_out and made.keys() == {"text/plain"}:
        made["text/plain"] = note_of(value)
    return made


def note_of(value: object) -> str:
    """Return the note that stands for an object which needs the page's own code."""
    return f"{type_name(value)}: it can't be shown in a card. {IN_OBJECTS}"


def frame_bundle(frame: Any) -> dict[str, JsonValue]:
    """Return html and text of a frame, of at most 20 x 20."""
    if type(frame).__module__.startswith("polars"):
        return _polars_bundle(frame)
    shown: Any = frame
    if getattr(frame, "ndim", 2) == 1:
        return {"text/plain": shown.to_string(max_rows=_SIDE)}
    return {
        "text/html": shown.to_html(max_rows=_SIDE, max_cols=_SIDE, show_dimensions=True),
        "text/plain": shown.to_string(max_rows=_SIDE, max_cols=_SIDE, show_dimensions=True),
    }


def _polars_bundle(frame: Any) -> dict[str, JsonValue]:
    shape = frame.shape
    if len(shape) == 1:
        return {"text/plain": str(frame.head(_SIDE))}
    part = frame[:_SIDE, :_SIDE] if shape[0] > _SIDE or shape[1] > _SIDE else frame
    html, text = part._repr_html_(), str(part)
    if part is not frame:
        small, whole = (f"shape: ({rows:_}, {columns:_})" for rows, columns in (part.shape, shape))
        html, text = html.replace(small, whole, 1), text.replace(small, whole, 1)
    return {"text/html": html, "text/plain": text}


def json_bundle(form: JsonValue, text: str) -> dict[str, JsonValue]:
    """Return the bundle of a structure.

    Args:
        form: Its cut JSON, or None.
        text: What to show as text where there is no form.
    """
    if not isinstance(form, dict | list):
        return {"text/plain": text}
    return {"application/json": form, "text/plain": json.dumps(form, ensure_ascii=False, indent=2)}


def _formatted(value: Any) -> Iterator[tuple[str, Any]]:
    """What the formatters of the running IPython make of an object, else its own display methods.

    IPython's `format` itself is not called: it prints what a method raises into the running cell, and lets objects
    display themselves.
    """
    mimebundle = real_method(value, "_repr_mimebundle_")
    if mimebundle is not None:
        yield from _pairs_of(guarded(mimebundle))
    formatters = _formatters()
    for mime, formatter in formatters.items():
        if mime != "text/plain" and getattr(formatter, "enabled", True):
            yield mime, _with_formatter(formatter, value)
    for mime, method in _METHODS.items():
        if mime not in formatters and (function := real_method(value, method)) is not None:
            yield mime, _data_of(guarded(function))
    plain = formatters.get("text/plain")
    if plain is not None:
        yield "text/plain", guarded(lambda: plain(value))


def _formatters() -> Mapping[str, Any]:
    formatter = getattr(running_shell(), "display_formatter", None)
    return getattr(formatter, "formatters", None) or {}


def _with_formatter(formatter: Any, value: Any) -> Any:
    try:
        function: Callable[[Any], Any] = formatter.lookup(value)
    except KeyError:
        method = real_method(value, str(formatter.print_method))
        return None if method is None else _data_of(guarded(method))
    return _data_of(guarded(lambda: function(value)))


def _data_of(made: Any) -> Any:
    """Some methods give data and metadata."""
    return made[0] if isinstance(made, tuple) and len(made) == 2 else made


def _pairs_of(made: Any) -> list[tuple[str, Any]]:
    found = _data_of(made)
    return [(str(mime), data) for mime, data in found.items()] if isinstance(found, Mapping) else []


def _written(mime: str, data: Any) -> JsonValue:
    """The data as JSON, or None if it can't be."""
    if isinstance(data, bytes | bytearray):
        return base64.b64encode(data).decode() if mime.startswith("image/") and mime != "image/svg+xml" else None
    if isinstance(data, str):
        return data
    if mime == "application/json":
        try:
            json.dumps(data, allow_nan=False)
        except (TypeError, ValueError):
            return None
        return data
    return None
