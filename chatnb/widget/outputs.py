"""The static transcripts below a widget's views: an output each, updated when a turn settles (spec/widget.md, 9)."""

from __future__ import annotations

import contextvars
import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from .._ids import random_word
from ..messages import UIMessage
from .pacer import Handle, Timers

logger = logging.getLogger("chatnb.widget")

GAP = 1.0
"""Seconds between two updates of a transcript, at least."""
RATE = 100_000
"""Characters a second at most, over time: the page reads a long transcript anew each time, though it is hidden."""
KEPT = 20
"""Outputs that are kept up to date; a cell that ran again has made newer ones."""

Bundle = dict[str, Any]


def transcript_bundle(messages: Sequence[UIMessage], redact: Callable[[str], str] | None = None) -> Bundle:
    """Return the output that shows a history without a page: html, markdown and a fixed plain text."""
    from ..export.transcript import render_html, render_markdown

    return {
        "text/plain": "chat transcript",
        "text/html": render_html(messages, redact=redact),
        "text/markdown": render_markdown(messages, redact=redact),
    }


def is_in_marimo() -> bool:
    """Tell whether the notebook is marimo's, which shows no second output."""
    import sys

    marimo = sys.modules.get("marimo")
    running: Callable[[], bool] | None = getattr(marimo, "running_in_notebook", None)
    return bool(running is not None and running())


class TranscriptOutputs:
    """The transcripts of one widget.

    Args:
        render: Returns the bundle of the history as it is.
        publish: Publishes a bundle under a display id, as a new output or as an update.
        is_settled: Tells whether no turn runs: while one streams nothing is updated.
        on_runtime: Calls a function on the runtime and returns what it returns.
        is_seen: Tells whether a page is there, which hears of updates between cells too.
    """

    def __init__(
        self,
        render: Callable[[], Bundle],
        publish: Callable[[Bundle, str, bool], None],
        is_settled: Callable[[], bool] = lambda: True,
        on_runtime: Callable[[Callable[[], Bundle | None]], Bundle | None] = lambda function: function(),
        is_seen: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_seen = is_seen
        self._timers: Timers | None = None
        self._is_settled = is_settled
        self._on_runtime = on_runtime
        self._render = render
        self._publish = publish
        self._ids: OrderedDict[str, Bundle] = OrderedDict()
        """What each output shows, by display id."""
        self._last = float("-inf")
        self._due: Handle | None = None

    def add(self) -> str:
        """Show one more transcript, in the cell that runs, and return its id."""
        id = f"transcript-{random_word(16)}"
        bundle = self._render()
        self._publish(bundle, id, False)
        self._ids[id] = bundle
        while len(self._ids) > KEPT:
            self._ids.popitem(last=False)
        _watch_cells(self)
        return id

    def drop(self, id: str) -> None:
        """Update one no more: the output is gone."""
        self._ids.pop(id, None)

    def settled(self, timers: Timers) -> None:
        """A turn or chat action has ended; on the runtime."""
        self._timers = timers
        if self._ids and self._due is None:
            self._due = timers.call_at(max(timers.time(), self._last + self._gap()), lambda: self._update(timers))

    def cell_ended(self) -> None:
        """Make an update that is due now, as output of the cell that ends: who runs a notebook hears of no later one.

        On the main thread. `nbconvert --execute` saves what came while a cell ran, and leaves after the last.
        """
        bundle = self._on_runtime(self._take) if self._ids else None
        if bundle is not None:
            self._show(bundle)

    def close(self) -> None:
        """Update nothing any more."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._ids.clear()

    def _gap(self) -> float:
        size = sum(len(str(form)) for bundle in list(self._ids.values()) for form in bundle.values())
        return max(GAP, size / RATE)

    def _take(self) -> Bundle | None:
        """Return what is due, if anything is. Where a page is open it comes in its own time."""
        if self._due is None or self._timers is None:
            return None
        now = self._timers.time()
        if self._is_seen() and now < self._last + self._gap():
            return None
        self._due.cancel()
        self._last = now
        return self._renewed()

    def _renewed(self) -> Bundle | None:
        """Return the bundle of the history as it is now if some output shows another."""
        self._due = None
        if not self._is_settled():
            return None  # the end of the turn that runs now comes back here
        bundle = self._render()
        return bundle if any(shown != bundle for shown in list(self._ids.values())) else None

    def _show(self, bundle: Bundle) -> None:
        for id, shown in list(self._ids.items()):
            if shown != bundle and id in self._ids:
                self._ids[id] = bundle
                self._publish(bundle, id, True)

    def _update(self, timers: Timers) -> None:
        self._last = timers.time()
        try:
            bundle = self._renewed()
            if bundle is not None:
                # In an empty context: not as output of the cell or call that the turn came from, which may be over,
                # and whose output its host may not listen to any more, but of the cell that runs now.
                contextvars.Context().run(self._show, bundle)
        except Exception:
            logger.warning("the transcript could not be updated", exc_info=True)


def _watch_cells(outputs: TranscriptOutputs) -> None:
    """Have outputs hear of the end of each cell."""
    shell = current_shell()
    if shell is None:
        return
    shown: weakref.WeakSet[TranscriptOutputs] | None = getattr(shell, "_chatnb_transcripts", None)
    if shown is not None:  # it outlives a reload of this module
        shown.add(outputs)
        return
    all_shown = shell._chatnb_transcripts = weakref.WeakSet([outputs])

    def cell_ended(result: object = None) -> None:
        for one in list(all_shown):
            try:
                one.cell_ended()
            except Exception:
                logger.warning("the transcript could not be updated", exc_info=True)

    shell.events.register("post_run_cell", cell_ended)


def publish_output(bundle: Bundle, display_id: str, update: bool) -> None:
    """Publish an output through IPython, in a cell or, as an update, from any thread. Without IPython do nothing."""
    shell = current_shell()
    if shell is not None:
        shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": display_id}, update=update)


def current_shell() -> Any:
    """Return the IPython that runs here, or None; IPython is not loaded for it."""
    import sys

    module = sys.modules.get("IPython.core.getipython")
    return module.get_ipython() if module is not None else None
