"""How commands reach the kernel: beside a cell, or only between cells (spec/widget.md, section 8).

It is found out, not configured. A subshell in a command's header shows that commands come while a cell blocks; one that
has waited on the main shell shows the opposite. Some places are known from the start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is known of a host from the start.

    Attributes:
        delivery: How commands come.
        hello_every: Milliseconds after which a view says hello again, because its host delivers nothing by itself.
        note: What a panel tells people of what does not work here as elsewhere.
    """

    delivery: Delivery = "unknown"
    hello_every: int | None = None
    note: str | None = None


COLAB = Place(
    delivery="between-cells",
    hello_every=2000,
    note="Colab shows what is new while a cell runs, else every 2 seconds. To see the chat in a later cell, use "
    "chat.view() there.",
)
BROWSER_NOTE = "This kernel runs in the browser: clicks wait for the cell that runs."
MEMORY_NOTE = " The chat is in memory only, and gone with the kernel: chat.export() keeps it."


def find_place(*, in_memory: bool = False) -> Place:
    """Find out what this kernel's host is, as far as that matters here.

    Args:
        in_memory: The chat's store lives in this process only.
    """
    if sys.platform == "emscripten":
        # Files of Pyodide are in memory too, but for JupyterLite's drive.
        is_lost = in_memory or not os.path.ismount("/drive")
        return Place(delivery="between-cells", note=BROWSER_NOTE + (MEMORY_NOTE if is_lost else ""))
    if "google.colab" in sys.modules:
        return COLAB
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    if getattr(shell, "kernel", None) is None:
        return Place()
    version = getattr(sys.modules.get("ipykernel"), "version_info", (7,))
    is_vs_code = "__vsc_ipynb_file__" in getattr(shell, "user_ns", {})
    return Place(delivery="between-cells" if version[0] < 7 or is_vs_code else "unknown")


def keep_route(comm: Any) -> None:
    """Let the commands of a comm arrive where the page sends them.

    From ipykernel 7.4 a comm's messages follow the shell of its last send, so that they would wait for a cell that
    blocks.
    """
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default
