"""The records of the message tree: nodes, branches, and edits that are planned before they are stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..messages import UIMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. Its message is kept by the tree.

    Attributes:
        ordinal: Unique in the chat, in order of making.
        content_id: Names the stored message; nodes may share one.
        shown_child: The child that was last on the chain.
        turn_id, kernel_id: Which turn wrote it, in which kernel; None for messages of people.
    """

    node_id: str
    message_id: str
    parent: str | None
    ordinal: int
    content_id: str
    role: str
    shown_child: str | None = None
    turn_id: str | None = None
    kernel_id: str | None = None


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made a message: the turn, the kernel, and the node id that was set aside for it, if any."""

    turn_id: str | None
    kernel_id: str | None
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """One sibling of a message: what `history.branches` lists.

    Attributes:
        node_id: Names this version for `switch`.
        message: The message.
        index: The sibling index, from 0, in order of making.
        active: It is on the chain now.
    """

    node_id: str
    message: UIMessage
    index: int
    active: bool


@dataclass(slots=True)
class TreeEdit:
    """What has to be stored, then committed: new nodes, changed messages, shown children, the head."""

    expect: str | None
    head: str | None
    nodes: list[tuple[Node, UIMessage | None]] = field(default_factory=list)
    """New nodes; None where the content is stored already."""
    messages: dict[str, UIMessage] = field(default_factory=dict)
    """Messages that change in place, by node id."""
    shown: dict[str, str | None] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    """The content ids of messages that were stored in place: a new one where content had been shared."""

    @property
    def is_empty(self) -> bool:
        """Nothing would change."""
        return not self.nodes and not self.messages and not self.shown and self.expect == self.head


def placeholder(node: Node) -> UIMessage:
    """Return what stands in the place of a message that can't be read. It is not sent to models."""
    return UIMessage.from_wire(
        {"id": node.message_id, "role": node.role, "parts": [{"type": "data-unreadable", "data": None}]}
    )
