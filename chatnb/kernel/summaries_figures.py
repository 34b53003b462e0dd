"""Summaries of matplotlib figures and axes, pictures and plotly figures, and their pictures for the view."""

from __future__ import annotations

import base64
from typing import Any

from chatnb.actions.images import draw_image
from chatnb.kernel.figures import is_open_figure_of, take_figure
from chatnb.kernel.outputs import current_outputs
from chatnb.kernel.summaries_text import cut, is_a, type_name

_TITLE = 80
_MAX_PANELS = 12
_MAX_TRACES = 20


def is_drawing(value: object) -> bool:
    """Tell whether an object is a matplotlib Figure or Axes."""
    return is_a(value, "matplotlib", "Figure", "SubFigure", "Axes", "_AxesBase")


def is_picture(value: object) -> bool:
    """Tell whether an object is a PIL image."""
    return is_a(value, "PIL", "Image")


def is_plotly(value: object) -> bool:
    """Tell whether an object is a plotly figure."""
    return is_a(value, "plotly", "BaseFigure")


def describe_drawing(value: Any) -> str:
    """Return the size, and titles and labels of the axes."""
    if not is_a(value, "matplotlib", "Figure", "SubFigure"):
        return cut(f"matplotlib {type_name(value)}\n{_axes_line(value)}")
    size = value.get_size_inches() if hasattr(value, "get_size_inches") else None
    sized = f": {size[0]:g} x {size[1]:g} in" if size is not None else ""
    panels = list(value.axes)
    lines = [f"matplotlib {type_name(value)}{sized}, {len(panels)} axes"]
    title = getattr(value, "_suptitle", None)
    if title is not None and title.get_text():
        lines.append(f"title: {cut(title.get_text(), _TITLE)}")
    lines.extend(_axes_line(panel) for panel in panels[:_MAX_PANELS])
    if len(panels) > _MAX_PANELS:
        lines.append(f"… and {len(panels) - _MAX_PANELS} more axes")
    return cut("\n".join(lines))


def _axes_line(panel: Any) -> str:
    said = [
        f"{what}: {cut(text, _TITLE)}"
        for what, text in (("title", panel.get_title()), ("x", panel.get_xlabel()), ("y", panel.get_ylabel()))
        if text
    ]
    return "- axes" + (f"; {'; '.join(said)}" if said else " without title and labels")


def describe_picture(value: Any) -> str:
    """Return size and mode."""
    return f"PIL image: {value.size[0]} x {value.size[1]} pixels, mode {value.mode}"


def describe_plotly(value: Any) -> str:
    """Return the title, and kinds and point counts of the traces."""
    title = getattr(getattr(value.layout, "title", None), "text", None)
    traces = list(value.data)
    lines = [f"plotly {type_name(value)}, {len(traces)} traces"]
    if title:
        lines.append(f"title: {cut(str(title), _TITLE)}")
    lines.extend(_trace_line(trace) for trace in traces[:_MAX_TRACES])
    if len(traces) > _MAX_TRACES:
        lines.append(f"… and {len(traces) - _MAX_TRACES} more traces")
    return cut("\n".join(lines))


def _trace_line(trace: Any) -> str:
    name = getattr(trace, "name", None)
    count = 0
    for key in ("x", "y", "z", "values", "lat", "lon", "locations", "r"):
        data = getattr(trace, key, None)
        if data is not None and hasattr(data, "__len__"):
            count = max(count, len(data))
    return f"- {trace.type}{f' {cut(str(name), _TITLE)!r}' if name else ''}, {count} points"


def figure_of(value: Any) -> Any:
    """Return the whole figure that a drawing is or belongs to, or None."""
    figure = value if is_a(value, "matplotlib", "Figure") else value.get_figure()
    while figure is not None and not is_a(figure, "matplotlib", "Figure"):
        outer = getattr(figure, "figure", None)
        figure = outer if outer is not figure else None
    return figure


def is_shown_by_call(value: Any) -> bool:
    """Tell whether the running call shows a drawing by itself, as one that it has made and left open; show it now.

    So a returned figure is shown once (spec/notebook.md, section 3).
    """
    outputs = current_outputs.get()
    figure = figure_of(value) if outputs is not None and is_drawing(value) else None
    if outputs is None or figure is None:
        return False
    if is_open_figure_of(figure, outputs):
        take_figure(figure, outputs)
    return outputs.has_taken(figure)


# --- pictures ---------------------------------------------------------------------------------------------------------


def png_of(value: Any) -> str | None:
    """Return a drawing or picture as base64 of a PNG, at most 1,568 pixels wide and high; None if it is nothing."""
    png = draw_image(value if is_picture(value) else figure_of(value))
    return None if png is None else base64.b64encode(png).decode()


def png_of_plotly(value: Any) -> str | None:
    """Return a plotly figure as base64 of a PNG if kaleido is installed and can draw, else None."""
    from importlib.util import find_spec

    if find_spec("kaleido") is None:
        return None
    try:
        return base64.b64encode(value.to_image(format="png")).decode()
    except Exception:  # noqa: BLE001 - it finds no browser
        return None
