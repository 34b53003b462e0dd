"""What a model is told when the kernel was restarted: earlier variables are gone (spec/recovery.md, section 9).

The note is in requests alone: no message of the history, no view, no export has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._json import JsonValue
from ..history import Node
from ..messages import UIMessage
from ..models import EPHEMERAL_OPTIONS

NOTE = (
    "[chatnb] The kernel was restarted here: variables, imports and open files from before are gone. Make again what "
    "you need of them."
)


def note_item() -> dict[str, JsonValue]:
    """Return the note as a content item."""
    return {"type": "text", "text": NOTE, "providerOptions": dict(EPHEMERAL_OPTIONS)}


def note_message() -> dict[str, JsonValue]:
    """Return the note as a model message of its own."""
    return {"role": "user", "content": [note_item()]}


def ui_note() -> UIMessage:
    """Return the note as a message to be converted with a history, which never holds it."""
    part = {"type": "text", "text": NOTE, "providerMetadata": dict(EPHEMERAL_OPTIONS)}
    return UIMessage.from_wire({"id": "kernel-note", "role": "user", "parts": [part]})


def note_places(nodes: Sequence[Node], kernel_id: str | None) -> tuple[frozenset[int], bool]:
    """Return before which messages of a chain the note stands, and whether it stands at the end.

    Args:
        nodes: The chain's nodes, in order.
        kernel_id: The kernel that answers now.
    """
    places: set[int] = set()
    former: str | None = None
    asked: int | None = None
    for index, node in enumerate(nodes):
        if node.role != "assistant":
            asked = index
            continue
        if node.kernel_id is not None:
            if former is not None and node.kernel_id != former:
                places.add(index if asked is None else asked)
            former = node.kernel_id
        asked = None
    is_new = former is not None and kernel_id is not None and former != kernel_id
    if is_new and asked is not None:
        places.add(asked)
    return frozenset(places), is_new and asked is None
