"""Asks that are too old: found when anyone decides, and before any turn starts (spec/actions.md, 4.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actions.approval import is_expired
from ..actions.audit import audit_rejection
from ..actions.ports import GrantRow
from ..errors import ApprovalExpiredError
from ..messages import Fold, decide_call, is_tool_part
from .inputs import Input
from .records import Pending

if TYPE_CHECKING:
    from .engine_services import EngineServices


def check_expiry(engine: EngineServices, target: Pending, grant: GrantRow, origin: str | None) -> None:
    """Settle an ask that somebody wants to decide too late.

    Raises:
        ApprovalExpiredError: It is too old.
    """
    if is_expired(grant, engine.clock.now()):
        expire(engine, target, grant, origin=origin)
        raise ApprovalExpiredError(f"the approval of {target.action} has expired; the call is settled as denied")


def expire_old_asks(engine: EngineServices) -> None:
    """Settle all asks that are too old, before a turn starts (spec/actions.md, 4.7)."""
    for target in engine.pending():
        grant = engine.grants.get(target.id)
        if grant is not None and is_expired(grant, engine.clock.now()):
            expire(engine, target, grant)


def expire(engine: EngineServices, target: Pending, grant: GrantRow, *, origin: str | None = None) -> None:
    """Settle an ask that is too old: `output-denied`, reason `expired`.

    Args:
        engine: The chat.
        target: The ask.
        grant: Its row.
        origin: If it was the last undecided call of its message and others are decided, these go on.
    """
    node_id = engine.tree.on_chain(target.message_id)
    if node_id is None:
        return
    message = decide_call(engine.tree.message(node_id), target.id, False, "expired")
    fold = Fold(message)
    fold.feed({"type": "tool-output-denied", "toolCallId": target.tool_call_id})
    message = fold.message
    action = engine.definition.catalog.find(grant.action)
    line = (
        audit_rejection(action, grant, new_id=engine.new_id, now=engine.clock.now(), code="expired") if action else None
    )
    continuation: Input | None = None
    is_last = origin is not None and not engine.waiting_in(message, engine.client_tool_names)
    if is_last and any(is_tool_part(part) and part.state == "approval-responded" for part in message.parts):
        continuation = engine.new_continuation(message.id, [], origin or "chat")
    with engine.write() as tx:
        if tx.move_grant(grant.id, {"pending"}, "expired", reason="expired") and line is not None:
            tx.add_audit(line)
        content_id = tx.set_message(node_id, message.to_wire())
        if continuation is not None:
            tx.add_input(continuation.row)
    engine.replace_message(node_id, message, content_id)
    if continuation is not None:
        engine.queue_continuation(continuation)
