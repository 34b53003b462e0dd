"""Names in an export that are the store's own: of nodes, and of approvals that wait.

An export says them by place, and a loaded chat gets new ones. So what is loaded is decided on its own, and its export
is the same text as the one that it came from (spec/notebook.md, section 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ._ids import NewId
from ._json import JsonValue
from .history import Node, TreeEdit
from .messages import UIMessage, is_tool_part

WAITING = "waiting"


def waiting_ids(messages: Iterable[UIMessage]) -> list[str]:
    """Return the approval ids that calls wait for, in order."""
    found = {
        part.approval.id: None
        for message in messages
        for part in message.parts
        if is_tool_part(part) and part.state == "approval-requested" and part.approval is not None
    }
    return list(found)


def by_place(ids: Iterable[str]) -> dict[str, str]:
    """Return the names that an export gives to waiting approvals."""
    return {id_: f"{WAITING}-{number}" for number, id_ in enumerate(ids, 1)}


def renamed(message: UIMessage, names: Mapping[str, str]) -> UIMessage:
    """Return a message with other ids of waiting approvals; the very object where nothing changes."""
    if not names or not any(id_ in names for id_ in waiting_ids([message])):
        return message
    return UIMessage.from_wire(_renamed_wire(message.to_wire(), names))


def exported_tree(tree: JsonValue, names: Mapping[str, str]) -> JsonValue:
    """Return a tree with its nodes named by place."""
    nodes = {node["id"]: f"node-{number}" for number, node in enumerate(tree["nodes"], 1)}
    return {
        "head": nodes.get(tree["head"]),
        "nodes": [
            {
                **node,
                "id": nodes[node["id"]],
                "parent": nodes.get(node["parent"]),
                "shownChild": nodes.get(node["shownChild"]),
                "message": _renamed_wire(node["message"], names),
            }
            for node in tree["nodes"]
        ],
    }


def loaded_tree(nodes: Sequence[JsonValue], head: str | None, new_id: NewId) -> TreeEdit:
    """Return the edit that makes an exported tree that of a new chat."""
    messages = [UIMessage.from_wire(item["message"]) for item in nodes]
    approvals = {id_: new_id("approval") for id_ in waiting_ids(messages)}
    names = {item["id"]: new_id("node") for item in nodes}
    edit = TreeEdit(None, names[head] if head is not None else None)
    for ordinal, (item, message) in enumerate(zip(nodes, messages, strict=True)):
        name = names[item["id"]]
        node = Node(
            node_id=name,
            message_id=message.id,
            parent=names[item["parent"]] if item["parent"] is not None else None,
            ordinal=ordinal,
            content_id=name,
            role=message.role,
            shown_child=names.get(item.get("shownChild")),
        )
        edit.nodes.append((node, renamed(message, approvals)))
    return edit


def _renamed_wire(message: JsonValue, names: Mapping[str, str]) -> JsonValue:
    parts = [
        {**part, "approval": {**part["approval"], "id": names[part["approval"]["id"]]}}
        if part.get("state") == "approval-requested" and (part.get("approval") or {}).get("id") in names
        else part
        for part in message["parts"]
    ]
    return {**message, "parts": parts}
