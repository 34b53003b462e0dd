"""What stands in the tree for a message that can't be read."""

from __future__ import annotations

from ..history import Node
from ..messages import UIMessage


def placeholder(node: Node) -> UIMessage:
    """Return what stands in the place of a message that can't be read. It is not sent to models."""
    return UIMessage.from_wire(
        {
            "id": node.message_id,
            "role": node.role,
            "parts": [{"type": "data-unreadable", "data": None}],
        }
    )
