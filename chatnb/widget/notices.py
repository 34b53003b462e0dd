"""The lines above the box: what the kernel has to say in passing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..turns.records import Update
from .view_form import Form, ViewForm

KEPT = 20
LONGEST = 4_000
ENDS = {
    "length": "The answer was cut off: the model had no tokens left for it. Ask it to go on, or give it more.",
    "content-filter": "The model declined to answer. Edit the message or undo it: what follows would be declined too.",
}
"""What is said of a finish reason."""


class Notices:
    """The notices of one widget. On the runtime.

    Args:
        form: Takes credentials out of texts.
        changed: Called after each change.
    """

    def __init__(self, form: ViewForm, changed: Callable[[], None]) -> None:
        self._form = form
        self._changed = changed
        self.shown: Mapping[str, Form] = {}

    def show(self, notice: Form) -> None:
        """Show a notice in the place of the one of its id; an empty text takes it away."""
        id = str(notice.get("id", ""))
        shown = {key: value for key, value in self.shown.items() if key != id}
        if notice.get("text"):
            text = self._form.text(str(notice["text"]))[:LONGEST]
            actions = [
                {key: self._form.text(value) if isinstance(value, str) else value for key, value in action.items()}
                for action in notice.get("actions") or []
            ]
            shown[id] = {"level": "info", **notice, "text": text, "actions": actions}
        if shown != self.shown:
            self.shown = dict(list(shown.items())[-KEPT:])
            self._changed()

    def drop(self, *ids: str) -> None:
        """Take notices away."""
        for id in ids:
            if id in self.shown:
                self.show({"id": id, "text": ""})

    def passing(self, update: Update) -> None:
        """Tell of a retry and of a compaction, as transient data parts announce them, while they last.

        An answer that the model has cut off or refused is told of until the next one begins: the words alone do not
        show it.
        """
        chunk: Any = update.chunk or {}
        kind, data = chunk.get("type"), chunk.get("data")
        if kind == "finish" and chunk.get("finishReason") in ENDS:
            self.show({"id": "finish", "text": ENDS[chunk["finishReason"]]})
            return
        if kind == "start":
            self.drop("finish")
        if data is None and not self.shown:
            return  # nearly all updates are deltas
        if kind == "data-retry" and isinstance(data, Mapping):
            text = f"The model did not answer. Trying again ({data.get('attempt')} of {data.get('of')})."
            self.show({"id": "data-retry", "text": text})
        elif kind == "data-compaction" and isinstance(data, Mapping):
            running = data.get("status") == "compacting"
            text = "Making room: the older part of the talk is being summed up." if running else ""
            self.show({"id": "data-compaction", "text": text})
        elif update.change is not None and "data-retry" in self.shown:
            self.drop("data-retry")
