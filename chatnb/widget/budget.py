"""What a frame's head may hold, so that all of it fits one frame (spec/widget.md, 3.1: 256 KiB).

Messages are cut into as many frames as they need. All else that a `reset` tells goes into its first frame, so each kind
has a share, in bytes of JSON with all but ASCII escaped. What does not fit is shortened, left out, or sent beside the
frame, in a way that a page can do with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .._json import JsonValue
from .cutting import escaped
from .view_form import Form, ViewForm

TEXT = 2 * 1024
"""A title, a placeholder, a line of a notice among many."""
ERROR = 8 * 1024
SUGGESTIONS = 12 * 1024
SCHEMAS = 36 * 1024
CLIENT_TOOLS = 16 * 1024
PENDING = 56 * 1024
QUEUE = 16 * 1024
LOGS = 16 * 1024
RESTORABLE = 12 * 1024
SITE_CALLS = 40 * 1024
NOTICES = 16 * 1024
NOTICE_ACTIONS = 24 * 1024
"""A button may carry a text to be copied."""
_ELLIPSIS = "…"


def shortened(text: str, room: int) -> str:
    """Return a text that fits, with an ellipsis where its end is missing."""
    if len(text) * 12 <= room or escaped(text) <= room:
        return text
    kept = text[:room]
    while (needed := escaped(kept)) > room - 12:
        kept = kept[: int(len(kept) * (room - 12) / needed) - 1]
    return kept.rstrip() + _ELLIPSIS


def first_that_fit(items: Iterable[Form], room: int) -> list[Form]:
    """Return the items from the first, as many as fit; the first in any case."""
    kept: list[Form] = []
    for item in items:
        room -= escaped(item)
        if room < 0 and kept:
            break
        kept.append(item)
    return kept


def fitting_names(names: Sequence[str], room: int) -> list[str]:
    """Return names, as many as fit, with an ellipsis where there are more."""
    kept: list[str] = []
    for name in names:
        room -= escaped(name) + 2
        if room < 0:
            return [*kept, _ELLIPSIS]
        kept.append(name)
    return kept


def last_lines(lines: Sequence[Mapping[str, JsonValue]], room: int, form: ViewForm, most: int = 200) -> list[Form]:
    """Return the last lines of a call's log, as many as fit."""
    kept: list[Form] = []
    for line in reversed(lines[-most:]):
        shown = {key: form.value(value) for key, value in line.items()}
        if isinstance(shown.get("text"), str):
            shown["text"] = shortened(shown["text"], TEXT)
        room -= escaped(shown)
        if room < 0 and kept:
            break
        kept.append(shown)
    kept.reverse()
    return kept


def fitting_notices(notices: Mapping[str, Form]) -> Mapping[str, Form]:
    """Return the notices: shorter where there are many long ones, without buttons whose texts are too long."""
    if sum(map(escaped, notices.values())) <= NOTICES:
        return notices
    share, room = NOTICES // len(notices), NOTICE_ACTIONS
    fitting: dict[str, Form] = {}
    for id, notice in notices.items():
        actions = notice.get("actions") or []
        if (size := escaped(actions)) > room:
            actions, size = [], 2
        room -= size
        fitting[id] = {**notice, "text": shortened(str(notice["text"]), max(100, share // 2)), "actions": actions}
    return fitting
