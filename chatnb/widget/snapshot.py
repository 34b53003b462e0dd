"""Everything at once: `reset` and `page` frames, and the snapshot that a saved notebook keeps. Pure.

A `reset` has the newest 50 messages; long texts are cut. It is cut into frames of one `seq`, the first of which has
everything but the messages that do not fit (spec/widget.md, 3.1, 3.3, 3.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..messages import UIMessage
from .cutting import ROOM, escaped
from .frames import FrameBuilder, branch_of
from .operations import JsonObject
from .protocol import VERSION
from .view_form import Form, ViewForm, cut_part

PAGE = 50
"""Messages of a `reset`, and of each page of earlier ones."""
SAVED_BYTES = 1024 * 1024
"""Bytes of a saved snapshot, at most."""
_SAVED_STATE = ("options", "usage")


def reset_frames(builder: FrameBuilder, epoch: str, to: str, reason: str) -> list[JsonObject]:
    """Return the frames of a `reset` for one view, as of the builder's number. They use up none."""
    picture = builder.picture
    keys = list(builder.keys)
    shown = keys[-PAGE:]
    usage = picture.state.get("usage") or {"total": None, "messages": {}}
    by_message = usage["messages"]
    state = {key: value for key, value in picture.state.items() if key not in _SAVED_STATE}
    state["usage"] = {**usage, "messages": {id: by_message[id] for id in shown if id in by_message}}
    head: Form = {
        "options": picture.state.get("options"),
        "state": state,
        "pending": list(picture.pending),
        "queue": list(picture.queue),
        "calls": list(picture.calls.values()),
        "notices": list(picture.notices.values()),
        "hasEarlier": len(keys) > len(shown),
    }
    batches = _batches(_entries(builder, shown), max(1024, ROOM - escaped(head)))
    frames = []
    for index, entries in enumerate(batches):
        snapshot = {**head, "messages": entries} if index == 0 else {"messages": entries}
        frames.append(
            {
                "v": VERSION,
                "epoch": epoch,
                "type": "reset",
                "to": to,
                "seq": builder.seq,
                "snapshot": snapshot,
                "reason": reason,
                "index": index,
                "count": len(batches),
            }
        )
    return frames


def page_frames(builder: FrameBuilder, epoch: str, to: str, before: str) -> list[JsonObject] | None:
    """Return the frames with the 50 messages before one; None when that one is not shown."""
    keys = list(builder.keys)
    if before not in keys:
        return None
    end = keys.index(before)
    start = max(0, end - PAGE)
    batches = _batches(_entries(builder, keys[start:end]), ROOM)
    return [
        {
            "v": VERSION,
            "epoch": epoch,
            "type": "page",
            "to": to,
            "before": before,
            "messages": entries,
            "hasEarlier": start > 0,
            "seq": builder.seq,
            "index": index,
            "count": len(batches),
        }
        for index, entries in enumerate(batches)
    ]


def reset_cost(builder: FrameBuilder) -> int:
    """Return about how many bytes a `reset` would need if it cut nothing."""
    return sum(escaped(builder.shown_form(key)) for key in builder.keys[-PAGE:])


def _entries(builder: FrameBuilder, keys: Iterable[str]) -> Iterator[Form]:
    picture = builder.picture
    for key in keys:
        form = builder.shown_form(key)
        growing = key == picture.growing
        last = len(form["parts"]) - 1
        parts = [cut_part(part, growing=growing and index == last) for index, part in enumerate(form["parts"])]
        entry: Form = {"message": {**form, "parts": parts}}
        branch = branch_of(picture, key)
        if branch is not None:
            entry["branch"] = branch
        yield from _split(entry)


def _split(entry: Form) -> Iterator[Form]:
    """Yield an entry in pieces that fit a frame each."""
    if escaped(entry) <= ROOM:
        yield entry
        return
    message = entry["message"]
    piece: list[Form] = []
    room, more = ROOM - 2048, False
    for part in message["parts"]:
        size = escaped(part) + 2
        if piece and size > room:
            yield {**entry, "message": {**message, "parts": piece}, "more": more}
            piece, room, more = [], ROOM - 2048, True
        piece.append(part)
        room -= size
    yield {**entry, "message": {**message, "parts": piece}, "more": more}


def _batches(entries: Iterable[Form], first_room: int) -> list[list[Form]]:
    batches: list[list[Form]] = [[]]
    room = first_room
    for entry in entries:
        size = escaped(entry) + 2
        if size > room:
            batches.append([])
            room = ROOM
        batches[-1].append(entry)
        room -= size
    return batches


def saved_snapshot(messages: tuple[UIMessage, ...], around: Mapping[str, Any], form: ViewForm) -> Form:
    """Return what a saved notebook keeps for a page without kernel: messages and looks, nothing that could decide.

    Args:
        messages: The settled history.
        around: `options`, the `total` of usage, and `branches` by message.
        form: One without a shelf, since there is no kernel to ask for assets.
    """
    options = {**(around["options"] or {}), "actions": [], "clientTools": [], "extras": {}}
    entries: list[Form] = []
    room = SAVED_BYTES - escaped(options) - 4096
    for message in reversed(messages[-PAGE:]):
        shown = form.message(message)
        shown["parts"] = [cut_part(part, growing=False) for part in shown["parts"]]
        entry: Form = {"message": shown}
        if branch := around["branches"].get(message.id):
            entry["branch"] = {"index": branch[0], "count": branch[1]}
        room -= escaped(entry) + 2
        if room < 0:
            break
        entries.append(entry)
    entries.reverse()
    return {
        "v": VERSION,
        "options": options,
        "state": {"status": "ready", "usage": {"total": around["total"]}},
        "messages": entries,
        "hasEarlier": len(entries) < len(messages),
    }
