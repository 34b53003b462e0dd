"""Figures that a call makes and leaves open (spec/notebook.md, section 3).

matplotlib is never imported here: without it there are no figures. A figure belongs to the call in whose context it was
made; older ones, and those of the cell that waits, are left alone.
"""

from __future__ import annotations

import base64
import io
import sys
from typing import Any

from chatnb.kernel.outputs import ITEM_LIMIT, Outputs, current_outputs

_MARK = "_chatnb_outputs"


class Figures:
    """The figures of one call: made at its begin, asked at its end."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._are_marked = _hook_pyplot()
        self._before = {id(manager) for manager in _managers()}

    def take(self) -> None:
        """Put the call's open figures into its outputs as PNG; with the inline backend, close them."""
        for manager in _managers():
            if self._is_of_this_call(manager):
                take_figure(manager.canvas.figure, self._outputs)

    def _is_of_this_call(self, manager: Any) -> bool:
        if self._are_marked:
            return _is_of(manager, self._outputs)
        return id(manager) not in self._before


def take_figure(figure: Any, outputs: Outputs) -> None:
    """Put one figure into a call's outputs as PNG, unless it is there; with the inline backend, close it."""
    if not outputs.has_taken(figure):
        outputs.take(figure)
        outputs.show(_bundle(figure, outputs.room()))
    if _is_inline():
        _close(figure)


def is_open_figure_of(figure: Any, outputs: Outputs) -> bool:
    """Tell whether a figure is open in pyplot and was made by the call of these outputs."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    # Every call has new figures marked; without any mark, pyplot was loaded within this one, and so was it made.
    are_marked = pyplot is not None and getattr(pyplot.show, _MARK, False)
    return any(
        manager.canvas.figure is figure and (not are_marked or _is_of(manager, outputs)) for manager in _managers()
    )


def _bundle(figure: Any, room: int) -> dict[str, Any]:
    width, height = figure.get_size_inches()
    text = f"<Figure {width:g} x {height:g} in, {len(figure.axes)} axes>"
    png = _render(figure)
    limit = min(ITEM_LIMIT, room) * 3 // 4 - 300  # base64, and the text beside it
    if len(png) > limit > 0:
        png = _render(figure, figure.dpi * (limit / len(png)) ** 0.5 * 0.8)
    if len(png) > limit:
        return {"text/plain": f"{text} is too large to be shown."}
    return {"image/png": base64.b64encode(png).decode("ascii"), "text/plain": text}


def _render(figure: Any, dpi: float | None = None) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight", dpi="figure" if dpi is None else dpi)
    return buffer.getvalue()


def _is_of(manager: Any, outputs: Outputs) -> bool:
    return getattr(manager, _MARK, None) is outputs


def _managers() -> list[Any]:
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return [] if helpers is None else list(helpers.Gcf.figs.values())


def _inline_backend() -> Any:
    return sys.modules.get("matplotlib_inline.backend_inline")


def _is_inline() -> bool:
    matplotlib = sys.modules.get("matplotlib")
    return matplotlib is not None and "inline" in str(matplotlib.rcParams.get("backend", ""))


def _close(figure: Any) -> None:
    sys.modules["matplotlib.pyplot"].close(figure)
    backend = _inline_backend()
    to_draw = getattr(getattr(backend, "show", None), "_to_draw", None)
    if isinstance(to_draw, list) and figure in to_draw:
        to_draw.remove(figure)


def _hook_pyplot() -> bool:
    """Have new figures marked with the call that makes them, and `show()` in a call take that call's alone.

    Returns:
        False if pyplot is not loaded: then every figure there is at the call's end was made in it, or since.
    """
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    if pyplot is None or helpers is None or not hasattr(helpers.Gcf, "_set_new_active_manager"):
        return False
    if getattr(pyplot.show, _MARK, False):
        return True
    inner_show, inner_new = pyplot.show, helpers.Gcf._set_new_active_manager

    def show(*args: Any, **kwargs: Any) -> Any:
        outputs = current_outputs.get()
        if outputs is None:
            return inner_show(*args, **kwargs)
        for manager in _managers():
            if _is_of(manager, outputs):
                take_figure(manager.canvas.figure, outputs)
        return None

    def set_new_active_manager(manager: Any) -> Any:
        setattr(manager, _MARK, current_outputs.get())
        return inner_new(manager)

    show.__doc__ = inner_show.__doc__
    setattr(show, _MARK, True)
    pyplot.show = show
    helpers.Gcf._set_new_active_manager = staticmethod(set_new_active_manager)
    return True
