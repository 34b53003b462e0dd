"""An approved call of a task is replayed once, under a lease (spec/actions.md, 11.5).

The lease is the chat's, and its token stands in the row that the decision, the task and the call's entry are written
under: in one transaction each, and only while the token is ours. It is renewed every 5 s. It is lost when its process
has died, or has not renewed it for 60 s; then another server takes it, and with it the task:

- before the entry the stored call is still approved, and runs there, once;
- after the entry nobody knows what it did: the turn ends there, and the task has failed, "outcome unknown".
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from ..actions import Catalog
from ..actions.exposure import is_exposed
from ..history.repair import UNKNOWN
from ..messages import Part, ToolPart, is_tool_part
from ..recovery import RecoveryDecision, RecoveryEvent

if TYPE_CHECKING:
    from ..agent import Agent
    from ..chat import Chat

ASK_SECONDS = 15 * 60
"""How long a task waits for a decision."""
LEASE_SECONDS = 60.0
"""How long a lease that is not renewed holds."""
LOST = (
    "Outcome unknown: the approved call was started, and no result of it was recorded. Whether it took effect is "
    "unknown. It was not run again."
)


def shown_agent(agent: Agent) -> Agent:
    """Return the agent as A2A shows it: the exposed actions alone, asks that expire, calls that are replayed once."""
    shown = copy.copy(agent)
    shown.catalog = Catalog.of([action for action in agent.actions if is_exposed(action, "a2a")])
    shown._approval_ttl = min(agent._approval_ttl or ASK_SECONDS, ASK_SECONDS)
    shown._hooks = {**agent._hooks, "on_chat_recovery": _ending_lost_calls(agent._hooks.get("on_chat_recovery"))}
    return shown


def _ending_lost_calls(theirs: Callable[..., Any] | None) -> Callable[[RecoveryEvent], Any]:
    """Return the recovery hook of tasks: a turn whose approved call was cut off ends; else the agent's own decides."""

    async def on_chat_recovery(event: RecoveryEvent) -> RecoveryDecision | None:
        answers = [event.partial_parts, *(m.parts for m in event.messages[-1:] if m.role == "assistant")]
        if any(find_lost_calls(parts, event.chat, [event.turn_id]) for parts in answers):
            return RecoveryDecision(continue_=False)
        if theirs is None:
            return None
        found: RecoveryDecision | None
        if inspect.iscoroutinefunction(theirs):
            found = await theirs(event)
        else:
            found = await asyncio.to_thread(theirs, event)
        return found

    return on_chat_recovery


def find_lost_calls(parts: Sequence[Part], chat: Chat, turn_ids: Collection[str]) -> list[str]:
    """Return the ids of the approved calls of an answer that were entered, and whose outcome nobody knows.

    Args:
        parts: The answer's parts.
        chat: Its chat.
        turn_ids: The turns that wrote it; none of them runs.
    """
    cut = {
        part.tool_call_id
        for part in parts
        if is_tool_part(part) and part.approval is not None and part.approval.approved is True and _is_cut(part)
    }
    if not cut:
        return []
    rows = chat._engine.store.load_calls(chat.id, list(turn_ids))
    return [row.tool_call_id for row in rows if row.state in ("entered", "unknown") and row.tool_call_id in cut]


def _is_cut(part: ToolPart) -> bool:
    """Tell whether a call has no result, or the one that recovery has put in its place."""
    return not part.state.startswith("output-") or (
        part.state == "output-error" and (part.error_text or "").startswith(UNKNOWN)
    )
