"""The calls in a history: which wait, which are resolved, and how what is open is settled.

Pure functions of messages (spec/turns.md, sections 4, 6 and 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .._json import JsonValue
from ..messages import TextPart, ToolPart, UIMessage, is_tool_part, settle_call

SETTLED = frozenset({"output-available", "output-error", "output-denied"})
RESOLVED = frozenset({"output-available", "output-error"})
MOVED_ON = "Not executed: the conversation moved on."


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call in the history."""

    tool_call_id: str
    tool_name: str
    message_id: str


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """One new result, as `extract_new_tool_results` gives it. `output` is None where there is an `error_text`."""

    tool_call_id: str
    tool_name: str
    output: JsonValue
    error_text: str | None


def calls_of(message: UIMessage) -> list[ToolPart]:
    """Return a message's tool parts that have a call id."""
    return [part for part in message.parts if is_tool_part(part) and part.tool_call_id]


def is_settled(part: ToolPart) -> bool:
    """Tell whether a call is in a terminal state."""
    return part.state in SETTLED and not (part.state == "output-available" and part.preliminary)


def pending_calls(messages: Sequence[UIMessage]) -> list[ToolCall]:
    """Return the calls in `input-available` on the last assistant message, whatever follows it."""
    last = next((m for m in reversed(messages) if m.role == "assistant"), None)
    if last is None:
        return []
    return [ToolCall(p.tool_call_id, p.tool_name, last.id) for p in calls_of(last) if p.state == "input-available"]


def waiting_calls(message: UIMessage) -> list[ToolPart]:
    """Return the calls of a message that wait for a person: asks, and client-side calls without output."""
    return [p for p in calls_of(message) if p.state in ("approval-requested", "input-available")]


def resolved_calls(messages: Iterable[UIMessage]) -> list[ToolCall]:
    """Return all calls that have an output or an error."""
    return [
        ToolCall(p.tool_call_id, p.tool_name, m.id)
        for m in messages
        if m.role == "assistant"
        for p in calls_of(m)
        if p.state in RESOLVED
    ]


def new_tool_results(messages: Iterable[UIMessage], message: UIMessage) -> list[ResolvedCall]:
    """Return the resolved calls of a message that are not resolved on the chain; the first of duplicates."""
    if message.role != "assistant":
        return []
    known = {call.tool_call_id for call in resolved_calls(messages)}
    found: list[ResolvedCall] = []
    for part in calls_of(message):
        if part.state not in RESOLVED or part.tool_call_id in known:
            continue
        known.add(part.tool_call_id)
        failed = part.state == "output-error"
        found.append(
            ResolvedCall(
                part.tool_call_id,
                part.tool_name,
                None if failed else part.output,
                part.error_text if failed else None,
            )
        )
    return found


def has_something_to_answer(messages: Sequence[UIMessage]) -> bool:
    """Tell whether the chain ends in a user message, or in settled calls that no later text followed."""
    if not messages:
        return False
    last = messages[-1]
    if last.role == "user":
        return True
    if last.role != "assistant":
        return False
    settled = False
    for part in last.parts:
        if part.type == "step-start":
            settled = False
        elif is_tool_part(part):
            settled = settled or is_settled(part)
        elif isinstance(part, TextPart) and part.text:
            settled = False
    return settled


def settle_open_calls(
    message: UIMessage,
    text: str = MOVED_ON,
    *,
    deny: Callable[[UIMessage, ToolPart], UIMessage] | None = None,
    keep_approved: bool = False,
) -> UIMessage:
    """Settle every call of a message that is not in a terminal state: `output-error` with this text.

    Args:
        message: The message; the same object comes back when nothing is open.
        text: The error text.
        deny: Settles a call that a person has rejected already.
        keep_approved: Leave calls that a person has decided; they run or are denied next.
    """
    for part in calls_of(message):
        if is_settled(part):
            continue
        approval = part.approval
        if keep_approved and part.state == "approval-responded":
            continue
        if deny is not None and part.state == "approval-responded" and approval is not None and not approval.approved:
            message = deny(message, part)
        else:
            message = settle_call(message, part.tool_call_id, text)
    return message
