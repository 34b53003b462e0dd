"""What waits for a person in a message: asked approvals and client-side calls (spec/turns.md, section 1)."""

from __future__ import annotations

from collections.abc import Callable

from ..actions.ports import GrantRow
from ..messages import ToolPart, UIMessage, is_tool_part
from .records import Pending


def list_pending(
    message: UIMessage,
    grants: Callable[[str], GrantRow | None],
    client_tools: frozenset[str],
    title: Callable[[str], str],
) -> list[Pending]:
    """Return the calls of a message that wait for a person, in order."""
    found: list[Pending] = []
    for part in message.parts:
        if not is_tool_part(part):
            continue
        pending = _to_pending(part, message.id, grants, client_tools, title)
        if pending is not None:
            found.append(pending)
    return found


def _to_pending(
    part: ToolPart,
    message_id: str,
    grants: Callable[[str], GrantRow | None],
    client_tools: frozenset[str],
    title: Callable[[str], str],
) -> Pending | None:
    if part.state == "approval-requested" and part.approval is not None:
        grant = grants(part.approval.id)
        if grant is not None and grant.state != "pending":
            return None
        return Pending(
            kind="approval",
            id=part.approval.id,
            tool_call_id=part.tool_call_id,
            action=part.tool_name,
            title=title(part.tool_name),
            args=grant.arguments if grant else part.input,
            hash=grant.hash if grant else None,
            message_id=message_id,
            asked_at=grant.asked_at if grant else None,
            expires_at=grant.expires_at if grant else None,
        )
    if part.state == "input-available" and part.tool_name in client_tools:
        return Pending(
            kind="client-tool",
            id=part.tool_call_id,
            tool_call_id=part.tool_call_id,
            action=part.tool_name,
            title=part.tool_name,
            args=part.input,
            hash=None,
            message_id=message_id,
        )
    return None
