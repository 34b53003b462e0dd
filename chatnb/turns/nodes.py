"""Nodes of the tree as the store keeps them."""

from __future__ import annotations

from ..history import Node
from ..messages import UIMessage
from ..store.records import NodeRow


def node_of(row: NodeRow) -> Node:
    """Return a stored node for the tree."""
    return Node(
        node_id=row.node_id,
        message_id=row.message_id,
        parent=row.parent,
        ordinal=row.ordinal,
        content_id=row.content_id,
        role=row.role,
        shown_child=row.shown_child,
        turn_id=row.turn_id,
        kernel_id=row.kernel_id,
    )


def row_of(node: Node) -> NodeRow:
    """Return a node as it is stored."""
    return NodeRow(
        node_id=node.node_id,
        message_id=node.message_id,
        parent=node.parent,
        ordinal=node.ordinal,
        content_id=node.content_id,
        role=node.role,
        shown_child=node.shown_child,
        turn_id=node.turn_id,
        kernel_id=node.kernel_id,
    )


def placeholder(node: Node) -> UIMessage:
    """Return what stands in the place of a message that can't be read. It is not sent to models."""
    return UIMessage.from_wire(
        {
            "id": node.message_id,
            "role": node.role,
            "parts": [{"type": "data-unreadable", "data": None}],
        }
    )
