"""The history of a chat: the message tree, the chain that is shown, edits of it, and the repair of transcripts.

Nothing here is ever destroyed: an edit moves the head or adds a branch (spec/turns.md, section 4). All of it works in
memory on frozen messages; what has to be stored comes out as a `TreeEdit`, which `turns/` writes and then commits.
"""

from .api import Backend, History
from .calls import (
    ResolvedCall,
    ToolCall,
    has_something_to_answer,
    is_settled,
    new_tool_results,
    pending_calls,
    resolved_calls,
    settle_open_calls,
    waiting_calls,
)
from .nodes import Branch, Maker, Node, TreeEdit
from .tree import Tree

__all__ = [
    "Backend",
    "Branch",
    "History",
    "Maker",
    "Node",
    "ResolvedCall",
    "ToolCall",
    "Tree",
    "TreeEdit",
    "has_something_to_answer",
    "is_settled",
    "new_tool_results",
    "pending_calls",
    "resolved_calls",
    "settle_open_calls",
    "waiting_calls",
]
