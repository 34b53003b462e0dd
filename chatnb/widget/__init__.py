"""The view of a chat: `ChatWidget`, the frames between page and kernel, the widget site, transcripts in cells.

`protocol.py` says what is sent, `channel.py` when and to whom, `commands.py` and `deeds.py` what a view may ask for,
`site.py` what a person may do with actions. `panel.py` puts it together without a host, `view.py` as a Jupyter widget.
The built front end lies in `static/`. The kernel is the only owner of history: a view draws and asks. The law is
spec/widget.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .parts import tool_part_state

if TYPE_CHECKING:
    from .view import ChatWidget as ChatWidget
    from .view import show as show

__all__ = ["ChatWidget", "show", "tool_part_state"]


def __getattr__(name: str) -> object:
    """Loads the widget, and with it anywidget, when it is first used."""
    if name in ("ChatWidget", "show"):
        from . import view

        return getattr(view, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
