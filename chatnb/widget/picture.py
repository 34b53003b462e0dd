"""What a widget shows at one moment, in the view's terms, and how a chat's state becomes it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .._json import JsonValue
from ..messages import UIMessage
from ..turns.records import CallView, ChatState, ClientTool, Pending, TurnError, Waiting
from . import budget
from .cutting import escaped
from .view_form import Form, ViewForm

Delivery = Literal["unknown", "parallel", "between-cells"]

REFUSED_STAGES = frozenset({"input", "on_validate_messages", "hydrate_messages", "store"})
"""Stages in which a message was not taken: it is not in the history, so nothing is there to be answered again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything a widget shows.

    Attributes:
        messages: The chain that is shown.
        branches: Per message id its sibling index and count.
        growing: The id of the message that is being written.
        usage: Per assistant message its tokens and cost.
    """

    messages: tuple[UIMessage, ...] = ()
    branches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    growing: str | None = None
    state: Form = field(default_factory=dict)
    pending: Sequence[Form] = ()
    queue: Sequence[Form] = ()
    calls: Mapping[str, Form] = field(default_factory=dict)
    notices: Mapping[str, Form] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WidgetFacts:
    """What a widget knows beyond the chat.

    Attributes:
        own: The origins that count as own: the widget's id, or None where every origin does (a `Chat`).
        held: The running turn is not shown yet (`resume=False`).
        messages: What `set_messages` put in the place of the history, or None.
        ready_to_continue: Every call is decided and the widget does not continue by itself.
        unsaved: The end of what is shown could not be written to the store.
        command_ids: Which command made which input.
        schemas: Per action name the schema of its arguments.
    """

    own: str | None = None
    held: bool = False
    messages: tuple[UIMessage, ...] | None = None
    ready_to_continue: bool = False
    unsaved: bool = False
    delivery: Delivery = "unknown"
    hello_every: int | None = None
    options: Form = field(default_factory=dict)
    command_ids: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[str, JsonValue] = field(default_factory=dict)
    client_tools: Sequence[ClientTool] = ()
    calls: Mapping[str, Form] = field(default_factory=dict)
    notices: Mapping[str, Form] = field(default_factory=dict)


def is_server_streaming(state: ChatState, own: str | None) -> bool:
    """Tell whether a foreign turn streams, or a client tool works (spec/widget.md, section 2)."""
    foreign = own is not None and state.own != own
    return (state.status == "streaming" and foreign) or bool(state.tool_phase)


def is_streaming(state: ChatState, own: str | None) -> bool:
    """Tell whether anything streams; "submitted" alone is not streaming."""
    return state.status == "streaming" or is_server_streaming(state, own)


def shown_messages(state: ChatState, facts: WidgetFacts) -> tuple[UIMessage, ...]:
    """Return the chain that the widget shows."""
    if facts.messages is not None:
        return facts.messages
    if facts.held:
        return tuple(message for message in state.messages if message.id != state.streaming_id)
    return state.messages


def make_picture(state: ChatState, facts: WidgetFacts, form: ViewForm) -> Picture:
    """Return what the widget shows of a chat's state."""
    streaming_id = None if facts.held else state.streaming_id
    total, by_message = usage_of(state)
    described: Form = {
        "status": state.status,
        "isStreaming": is_streaming(state, facts.own),
        "isServerStreaming": is_server_streaming(state, facts.own),
        "isToolContinuation": state.is_tool_continuation,
        "isRecovering": state.is_recovering,
        "error": _error(state.error, form),
        "streamingId": streaming_id,
        "held": facts.held,
        "readyToContinue": facts.ready_to_continue,
        "interruption": _interruption(state.interruption, form),
        "usage": {"total": total, "messages": by_message},
        "canUndo": state.can_undo,
        "canRedo": state.can_redo,
        "restorable": _restorable(state.restorable, form),
        "unsaved": facts.unsaved,
        "delivery": facts.delivery,
        "helloEvery": facts.hello_every,
        "closed": _closed(state.closed),
        "options": facts.options,
    }
    calls = {id: call for id, call in state.calls.items() if call.phase != "waiting"}
    room = budget.LOGS // max(1, len(calls))
    return Picture(
        messages=shown_messages(state, facts),
        branches=state.branches,
        growing=streaming_id,
        state=described,
        pending=_pending(state.pending, facts, form),
        queue=budget.first_that_fit((_waiting(item, facts, form) for item in state.queue), budget.QUEUE),
        calls={**{id: _call(call, form, room) for id, call in calls.items()}, **facts.calls},
        notices=budget.fitting_notices(facts.notices),
    )


def _error(error: TurnError | None, form: ViewForm) -> Form | None:
    if error is None:
        return None
    return {
        "stage": error.stage,
        "message": budget.shortened(form.text(error.message), budget.ERROR),
        "code": error.code,
        # A chat action that failed itself left nothing to be answered.
        "retry": error.stage not in REFUSED_STAGES and error.stage != "action",
    }


def _pending(items: Sequence[Pending], facts: WidgetFacts, form: ViewForm) -> list[Form]:
    """Return what waits for a person. Where much waits, arguments go beside the frame and schemas stay out of it."""
    inline = max(1024, min(32 * 1024, budget.PENDING // (2 * max(1, len(items)))))
    room = budget.PENDING // 2
    described = []
    for item in items:
        form_of_item = _pending_item(item, facts, form, inline)
        asked = form_of_item.get("form")
        room -= escaped(form_of_item.get("schema")) + escaped(asked)
        if room < 0:  # a form is a box for JSON then
            form_of_item |= (
                {"schema": None, "form": {"type": "object"}} if isinstance(asked, dict) else {"schema": None}
            )
        described.append(form_of_item)
    return budget.first_that_fit(described, budget.PENDING)


def _waiting(item: Waiting, facts: WidgetFacts, form: ViewForm) -> Form:
    described: Form = {"id": item.id, "kind": item.kind, "text": form.text(item.text)}
    if item.id in facts.command_ids:
        described["commandId"] = facts.command_ids[item.id]
    return described


def _pending_item(item: Pending, facts: WidgetFacts, form: ViewForm, inline: int) -> Form:
    described: Form = {
        "kind": item.kind,
        "id": item.id,
        "toolCallId": item.tool_call_id,
        "action": item.action,
        "title": budget.shortened(form.text(item.title), budget.TEXT),
        "args": form.value(item.args, inline=inline),
        "messageId": item.message_id,
        "askedAt": _iso(item.asked_at),
        "expiresAt": _iso(item.expires_at),
    }
    if item.kind == "approval":
        described |= {"approvalId": item.id, "hash": item.hash, "schema": form.clean(facts.schemas.get(item.action))}
    for tool in facts.client_tools:
        if item.kind == "client-tool" and tool.name == item.action and tool.form:
            # Without a schema of its own the answer is checked by that of the call: the fields are those.
            schema = form.clean(tool.form if isinstance(tool.form, dict) else tool.parameters)
            described |= {"form": schema if isinstance(tool.form, dict) else True, "schema": schema}
    return described


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _call(call: CallView, form: ViewForm, room: int) -> Form:
    described: Form = {
        "toolCallId": call.tool_call_id,
        "phase": "waiting" if call.phase in ("waiting", "busy") else call.phase,
    }
    if call.progress is not None:
        described["progress"] = {
            key: budget.shortened(form.text(value), max(100, min(budget.TEXT, room // 2)))
            if isinstance(value, str)
            else value
            for key, value in call.progress.items()
        }
    if call.log:
        described["log"] = budget.last_lines(call.log, room, form)
    if call.duration_ms is not None:
        described["durationMs"] = call.duration_ms
    return described


def usage_of(state: ChatState) -> tuple[JsonValue, Mapping[str, JsonValue]]:
    """Return what a chat has used: in all, and by message."""
    usage = state.usage
    if not usage:
        return None, {}
    if "total" not in usage:
        return dict(usage), {}
    by_message = usage.get("messages")
    return usage["total"], by_message if isinstance(by_message, Mapping) else {}


def _interruption(interruption: Any, form: ViewForm) -> Form | None:
    if interruption is None:
        return None
    return {
        "messageId": getattr(interruption, "message_id", None),
        "cause": budget.shortened(form.text(str(getattr(interruption, "cause", "") or "interrupted")), budget.TEXT),
        "offered": bool(getattr(interruption, "offered", True)),
    }


def _restorable(items: Sequence[Any], form: ViewForm) -> list[Form]:
    room = budget.RESTORABLE // max(1, min(10, len(items)))
    described: list[Form] = []
    for item in items:
        names: Collection[str] = getattr(item, "names", None) or ()
        call = str(getattr(item, "tool_call_id", item))
        described.append({"toolCallId": call, "names": budget.fitting_names(form.clean(list(names)), room - 500)})
    return budget.first_that_fit(described, budget.RESTORABLE)


def _closed(closed: str | None) -> Form | None:
    if closed is None:
        return None
    # The engine's words: "taken over: WHO", or why the chat is closed.
    reason, _, who = closed.partition(": ")
    if reason != "taken over":
        return {"reason": "closed"}
    return {"reason": "lease-lost", "by": who[:1].upper() + who[1:] if who.startswith("process ") else who}
