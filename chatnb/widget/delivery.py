"""How commands reach the kernel: beside a cell, or only between cells (spec/widget.md, section 8).

It is found out, not configured. A subshell in a command's header shows that commands come while a cell blocks; one that
has waited on the main shell shows the opposite. Some places are known from the start.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .picture import Delivery

WAITED = 0.75
"""Seconds on its way after which a command has waited for a cell: no network that a person works over is so slow."""


class DeliveryFinder:
    """Finds out how the commands of one widget come.

    Attributes:
        found: What is known so far.
    """

    def __init__(self, found: Delivery = "unknown") -> None:
        self.found = found
        # The page's clock may be ahead of ours: then a command that came at once seems to come from the future.
        self._ahead = 0.0

    def note(self, header: object, *, is_hello: bool = False, now: datetime | None = None) -> Delivery:
        """Look at the header of a message, and return what is known now.

        Args:
            header: The Jupyter header; anything else tells nothing.
            is_hello: The first message of a page goes to the main shell even in JupyterLab, which makes the subshell
                then. So a hello that waited says nothing where others came in parallel.
            now: The time, if not now.
        """
        if not isinstance(header, Mapping):
            return self.found
        if header.get("subshell_id"):
            self.found = "parallel"
            return self.found
        sent = _moment(header.get("date"))
        if sent is not None:
            under_way = ((now or datetime.now(UTC)) - sent).total_seconds()
            self._ahead = min(self._ahead, under_way)
            if under_way - self._ahead > WAITED and not (is_hello and self.found == "parallel"):
                self.found = "between-cells"
        return self.found


def _moment(date: object) -> datetime | None:
    if isinstance(date, str):
        try:
            date = datetime.fromisoformat(date)
        except ValueError:
            return None
    if not isinstance(date, datetime):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def delivery_of_this_place() -> Delivery:
    """Return what the kernel itself tells: before ipykernel 7, and in the browser, commands wait for the cell."""
    if sys.platform == "emscripten":
        return "between-cells"
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    version = getattr(sys.modules.get("ipykernel"), "version_info", (7,))
    is_old = getattr(shell, "kernel", None) is not None and version[0] < 7
    return "between-cells" if is_old else "unknown"


def keep_route(comm: Any) -> None:
    """Let the commands of a comm arrive where the page sends them.

    From ipykernel 7.4 a comm's messages follow the shell of its last send, so that they would wait for a cell that
    blocks.
    """
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default
