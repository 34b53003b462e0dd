"""Asking a person about calls, and settling those that nobody needs to decide any more."""

from __future__ import annotations

from collections.abc import Sequence

from ..actions.failures import failure
from ..actions.variables import meant_objects
from .agent_site_call import CallDesk, SiteCall
from .wire import WireChunk

STOPPED = "Not executed: stopped."
PLAN_MODE = "Not executed: plan mode only lets calls run that change nothing. (plan_mode_blocked)"


def ask_person(desk: CallDesk, calls: Sequence[SiteCall]) -> None:
    """Write the asks of these calls and show them, in one transaction. One that is only held says what it waits for."""
    before: str | None = None
    with desk.io.write() as books:
        for call in calls:
            assert call.prepared is not None
            grant, audit = desk.road.ask(call.prepared, call.place)
            books.add_grant(grant)
            if audit is not None:
                books.add_audit(audit)
            ask: WireChunk = {
                "type": "tool-approval-request",
                "toolCallId": call.tool_call_id,
                "approvalId": grant.id,
            }
            if call.is_gated:
                before = call.name
            elif before is not None:
                ask["reason"] = f"It waits for {before} before it."
            desk.io.emit(ask)
            call.grant = grant
            call.is_gated = True
            desk.catalog.kept.keep(grant.id, call.prepared)
            names = _variable_names(call)
            if names:
                resolve = desk.environment.resolve
                meant_objects.note(grant.id, {name: resolve.remember(name) for name in names})


def settle_rest(desk: CallDesk, calls: Sequence[SiteCall], why: str) -> None:
    """Settle calls that come after the end of the turn: not executed, and no error."""
    text = f"Not executed: {why}."
    for call in calls:
        if call.grant is not None and call.is_gated:
            desk.settle_asked(call, text)
        else:
            desk.refuse(call, failure("not_executed", text), as_text=True)


def _variable_names(call: SiteCall) -> list[str]:
    if call.prepared is None:
        return []
    args = call.prepared.args
    wanted = [p.name for p in call.prepared.action.signature.parameters if p.variable is not None]
    return [args[name] for name in wanted if isinstance(args[name], str)]
