"""Where a widget is shown, and what becomes of it once the cells that showed it have run again (spec/widget.md, 1).

A chat that is the last line of a cell makes a widget each time the cell runs, and nothing but the host's own registry
may know the one before. It would go on for ever: a comm, listeners, a transcript of the whole history with each turn, a
copy of the panel in every page that opens. So it is put to rest: its comm ends, and it hears of nothing. Whoever still
holds it loses nothing: shown or observed, it is there again.
"""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import anywidget

from .._ids import random_word
from ..kernel.host import is_text_terminal
from .assets import NOT_BUILT
from .delivery import keep_route
from .outputs import TranscriptOutputs, current_shell, publish_output

if TYPE_CHECKING:
    from .panel import Panel
    from .settings import Settings

logger = logging.getLogger("chatnb.widget")

FORMER = 2
"""Runs of a cell before its last one whose widgets stay awake: a page that was not saved since shows them again."""
SAVED_AFTER = 300.0
"""Seconds after which a page has saved itself (JupyterLab: two minutes), so that they can rest too."""

Place = tuple[str, str]
"""A cell's id, and the request that ran it."""


@dataclass(eq=False, slots=True)
class _Run:
    """What one run of a cell has shown: widgets, each with the id of its transcript, if any."""

    request: str
    replaced_at: float | None = None
    shown: list[tuple[weakref.ref[Displayed], str | None]] = field(default_factory=list)


class CellOutputs:
    """What the cells of a kernel show. On the main thread."""

    def __init__(self) -> None:
        self._cells: dict[str, list[_Run]] = {}

    def add(self, place: Place, widget: Displayed, transcript: str | None) -> None:
        """Note that a widget is shown by the cell that runs."""
        cell, request = place
        runs = self._cells.setdefault(cell, [])
        if not runs or runs[-1].request != request:
            runs.append(_Run(request))
        runs[-1].shown.append((weakref.ref(widget), transcript))
        widget._set_former(False)

    def ended(self, place: Place) -> None:
        """A cell has run: what it showed before is gone from the page."""
        cell, request = place
        runs = self._cells.get(cell)
        if runs is not None:
            if runs[-1].request != request:
                runs.append(_Run(request))
            self._replace(runs[:-1])
        self._let_rest()

    def _replace(self, former: list[_Run]) -> None:
        shown_now = {id(ref()) for runs in self._cells.values() for ref, _ in runs[-1].shown}
        for run in former:
            run.replaced_at = run.replaced_at or monotonic()
            for ref, transcript in run.shown:
                widget = ref()
                if widget is not None:
                    widget._set_former(id(widget) not in shown_now)
                    if widget._outputs is not None and transcript is not None:
                        widget._outputs.drop(transcript)

    def _let_rest(self) -> None:
        """Put to rest what was replaced often or long ago."""
        saved, old = monotonic() - SAVED_AFTER, list[_Run]()
        for cell, runs in list(self._cells.items()):
            kept = [run for run in runs[-FORMER - 1 : -1] if run.replaced_at is None or run.replaced_at > saved]
            old += [run for run in runs[:-1] if run not in kept]
            self._cells[cell] = [*kept, runs[-1]]
            if not any(run.shown for run in self._cells[cell]):
                del self._cells[cell]
        kept_ids = {id(ref()) for runs in self._cells.values() for run in runs for ref, _ in run.shown}
        for widget in {w for run in old for ref, _ in run.shown if (w := ref()) is not None}:
            if id(widget) not in kept_ids:
                widget._replaced()


def _cell_outputs(shell: Any) -> CellOutputs:
    """Return what is known of a shell's cells; it outlives a reload of this module."""
    found: CellOutputs | None = getattr(shell, "_chatnb_cells", None)
    if found is None:
        found = shell._chatnb_cells = CellOutputs()

        def cell_ended(result: object = None) -> None:
            place = _current_place(shell)
            if place is not None:
                try:
                    shell._chatnb_cells.ended(place)
                except Exception:
                    logger.warning("a widget that was replaced could not be put to rest", exc_info=True)

        shell.events.register("post_run_cell", cell_ended)
    return found


def _current_place(shell: Any) -> Place | None:
    """Return the cell that runs; None where the host does not tell which one it is."""
    get_parent = getattr(shell, "get_parent", None)
    parent = get_parent() if get_parent is not None else None
    if not isinstance(parent, Mapping):
        return None
    cell, request = (parent.get("metadata") or {}).get("cellId"), (parent.get("header") or {}).get("msg_id")
    return (str(cell), str(request)) if cell and request else None


class Displayed(anywidget.AnyWidget):
    """The side of a `ChatWidget` that its host shows."""

    _panel: Panel | None = None
    _outputs: TranscriptOutputs | None = None
    _settings: Settings
    _is_closed = False
    _is_resting = False
    _in_marimo = False
    _was_replaced = False

    def _ipython_display_(self) -> None:
        """Show the widget and, below it, the transcript: two outputs. A terminal gets one line.

        Raises:
            NotImplementedError: The caller wants it as data, and shows that itself.
        """
        if _is_wanted_as_data():
            raise NotImplementedError
        if is_text_terminal():
            print("ChatWidget: a terminal can't draw it; chat.send(text).result() talks to the chat.")  # noqa: T201
            return
        publish_output(self._bundle(), f"view-{random_word(12)}", False)
        if _is_inside_output():
            return
        transcript = None
        if self._outputs is not None and self._settings.transcript and not self._in_marimo and not self._is_closed:
            transcript = self._outputs.add()
        shell = current_shell()
        place = _current_place(shell) if shell is not None else None
        if place is not None:
            _cell_outputs(shell).add(place, self, transcript)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        return self._bundle(), {}

    def _bundle(self) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": "ChatWidget"}
        if self._is_closed:
            bundle["text/html"] = "<p>This panel is closed; make another with <code>chat.view()</code>.</p>"
        elif self._is_built():
            view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
            bundle["application/vnd.jupyter.widget-view+json"] = view
        else:
            bundle["text/html"] = f"<p>{NOT_BUILT}</p>"
        return bundle

    @property
    def model_id(self) -> str:
        """The id by which a page knows it; asking wakes it."""
        self._wake()
        id: str = super().model_id
        return id

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a ChatWidget is bound to its kernel and can't be pickled; chat.export() gives what it shows")

    def _is_built(self) -> bool:
        raise NotImplementedError

    def _is_observed(self) -> bool:
        raise NotImplementedError

    # --- rest -------------------------------------------------------------------------------------------------------

    def _replaced(self) -> None:
        """No output shows it any more; once no view does either, it rests."""
        self._was_replaced = True
        self._rest()

    def _set_former(self, is_former: bool) -> None:
        if self._panel is not None:
            self._panel.set_former(is_former)

    def _unseen(self) -> None:
        """The last view has gone; on the runtime."""
        if self._was_replaced and self._panel is not None:
            self._panel.seam.notify(self._rest)

    def _rest(self) -> None:
        panel = self._panel
        if self._is_closed or self._is_resting or panel is None or not self._was_replaced:
            return
        if panel.channel.views or _is_inside_another(self):
            return
        if self._outputs is not None:
            self._outputs.close()
        panel.rest(listens=self._is_observed())
        self._close_comm()
        self._is_resting = True

    def _wake(self) -> None:
        if self._is_resting and not self._is_closed and self._panel is not None:
            self._is_resting = self._was_replaced = False
            self._panel.wake()
            self.layout.open()
            self.open()
            keep_route(self.comm)

    def _close_comm(self) -> None:
        """End the comm, and that of the layout, which every widget has; each may be opened again."""
        others = [other for other in _living() if other is not self]
        if all(getattr(other, "layout", None) is not self.layout for other in others):
            self.layout.close()
        super().close()
        for widget in (self, self.layout):
            widget.__dict__.pop("_repr_mimebundle_", None)  # `close` has hidden the method


def _is_wanted_as_data() -> bool:
    """Tell whether this is `Output.append_display_data`, which keeps what it is given, and has no use for outputs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "append_display_data":
            return True
        frame = frame.f_back
    return False


def _is_inside_output() -> bool:
    """Tell whether outputs go into an `Output` widget now: a page finds none of them there to be updated."""
    registry = sys.modules.get("ipywidgets.widgets.widget_output")
    kind = getattr(registry, "Output", ())
    return any(isinstance(widget, kind) and bool(widget.msg_id) for widget in _living())


def _living() -> list[Any]:
    registry = sys.modules.get("ipywidgets.widgets.widget")
    return list(getattr(registry, "_instances", {}).values())


def _is_inside_another(widget: Displayed) -> bool:
    """Tell whether a box or tab of widgets holds it, which may be shown anywhere."""
    return any(widget in (getattr(other, "children", None) or ()) for other in _living() if other is not widget)
