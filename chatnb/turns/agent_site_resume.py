"""Going on with the calls of a continued message: approved, rejected and held ones (spec/actions.md, 4.3 and 8.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from ..actions.approval import Asleep, is_overdue, prepare_decision
from ..actions.audit import audit_rejection
from ..actions.batches import class_of
from ..actions.catalog import Catalog
from ..actions.failures import failure, failure_of
from ..actions.ports import GrantRow
from ..actions.prepare import PreparedCall, prepare
from ..errors import ActionError
from ..messages import StepStartPart, ToolPart, UIMessage, is_tool_part
from .agent_site_asks import PLAN_MODE, STOPPED, ask_person, settle_rest
from .agent_site_call import CallDesk, SiteCall, is_edited
from .io import CallsEnd


@dataclass(frozen=True, slots=True)
class Resumable:
    """A call of a message that is decided, or held, or stands before one that is held.

    Attributes:
        step: The number of its step, from 1.
        is_behind: An approval stands before it in its step.
    """

    part: ToolPart
    step: int
    is_behind: bool


def find_resumable(message: UIMessage) -> Iterator[Resumable]:
    """Yield the calls of a message, in model order."""
    step, is_behind = 0, False
    for part in message.parts:
        if isinstance(part, StepStartPart):
            step, is_behind = step + 1, False
        elif is_tool_part(part):
            yield Resumable(part, max(step, 1), is_behind)
            is_behind = is_behind or part.approval is not None


def held_calls(message: UIMessage, catalog: Catalog) -> set[str]:
    """Return the ids of the calls that are held behind an approval: transcript repair leaves them alone."""
    found: set[str] = set()
    for call in find_resumable(message):
        if call.is_behind and call.part.state == "input-available":
            action = catalog.find(call.part.tool_name)
            if action is not None and (action.fixed_read is not True and not action.parallel_safe):
                found.add(call.part.tool_call_id)
    return found


async def resume_calls(desk: CallDesk, *, at: datetime | None, asleep: Asleep | None) -> CallsEnd:
    """Run approved and held calls in model order; rejected ones become `output-denied`.

    Args:
        desk: The turn's calls.
        at: The time to which approvals have grown old; None: they do not.
        asleep: A time in which they did not.
    """
    grants = _find_grants(desk)
    if at is not None:
        _expire(desk, grants, at, asleep)
    awaiting = False
    is_broken: set[int] = set()
    is_open: set[int] = set()
    for found in list(find_resumable(desk.io.message)):
        part, step = found.part, found.step
        state = part.state
        if state == "approval-requested":
            awaiting = True
            is_open.add(step)
            continue
        if state == "output-denied" or (state == "approval-responded" and part.approval and not part.approval.approved):
            is_broken.add(step)
            if state == "approval-responded":
                _deny(desk, part, grants)
            continue
        call = _read(desk, found, grants)
        if call is None or call.settled is not None:
            if call is not None and call.is_gated:
                is_broken.add(step)
            continue
        if desk.halt is not None:
            call.is_gated = False
            settle_rest(desk, [call], desk.halt)
        elif desk.is_stopped:
            desk.refuse(call, failure("cancelled", STOPPED))
        elif call.is_held and step in is_open:
            awaiting = True
        elif step in is_broken and (call.is_held or await _is_held_ask(desk, call)):
            desk.refuse(call, failure("not_executed", _HELD))
        elif desk.environment.plan_mode and call.prepared is not None and call.prepared.is_write:
            desk.refuse(call, failure("plan_mode_blocked", PLAN_MODE))
        elif (call.is_gated and call.grant is None) or await _has_become_gated(desk, call):
            _ask_anew(desk, call, grants.get(part.approval.id) if part.approval else None)
            awaiting = True
            is_open.add(step)
        else:
            await desk.run(call, overlap=False)
    return desk.end(awaiting=awaiting)


async def _is_held_ask(desk: CallDesk, call: SiteCall) -> bool:
    """Tell whether an approved call has no gate of its own: it only asked because it was held (HTTP)."""
    if call.prepared is None or call.grant is None or class_of(call.prepared) != "serial":
        return False
    return not await desk.road.is_gated(call.prepared, call.place, desk.io.client_data)


async def _has_become_gated(desk: CallDesk, call: SiteCall) -> bool:
    """Tell whether a held call that was prepared again, by another definition perhaps, has a gate now."""
    if not call.is_held or call.prepared is None or desk.catalog.kept.find_any(call.held_key) is call.prepared:
        return False
    return await desk.road.is_gated(call.prepared, call.place, desk.io.client_data)


def _find_grants(desk: CallDesk) -> dict[str, GrantRow]:
    ids = [found.part.approval.id for found in find_resumable(desk.io.message) if found.part.approval is not None]
    if not ids:
        return {}
    with desk.io.write() as books:
        rows = [books.find_grant(grant_id) for grant_id in ids]
    return {row.id: row for row in rows if row is not None}


def _expire(desk: CallDesk, grants: dict[str, GrantRow], at: datetime, asleep: Asleep | None) -> None:
    """Let approvals go that were given too long ago: nothing of them is used any more."""
    approved = [grant for grant in grants.values() if grant.state == "approved"]
    if not approved or not is_overdue(grants.values(), at, asleep):
        return
    with desk.io.write() as books:
        for grant in approved:
            books.move_grant(grant.id, {"approved"}, "expired", reason="expired")
    for grant in approved:
        grants[grant.id] = replace(grant, state="expired", reason="expired")


def _deny(desk: CallDesk, part: ToolPart, grants: Mapping[str, GrantRow]) -> None:
    grant = grants.get(part.approval.id) if part.approval is not None else None
    action = desk.catalog.find(part.tool_name)
    row = None
    if grant is not None and action is not None and grant.state == "rejected":
        row = audit_rejection(
            action, grant, new_id=desk.io.new_id, now=desk.io.clock.now(), by=desk.environment.identity
        )
    with desk.io.write() as books:
        if row is not None:
            books.add_audit(row)
        desk.io.emit({"type": "tool-output-denied", "toolCallId": part.tool_call_id})


def _read(desk: CallDesk, found: Resumable, grants: Mapping[str, GrantRow]) -> SiteCall | None:
    """Return a call that has to go on, or None; a call that can't run is settled here."""
    part = found.part
    is_approved = part.state == "approval-responded"
    if not is_approved and not (part.state == "input-available" and found.is_behind):
        return None
    action = desk.catalog.find(part.tool_name)
    if action is None and not is_approved:
        return None
    call = SiteCall(part.tool_call_id, part.tool_name, part.input, desk.place(part.tool_call_id), action)
    return _read_approved(desk, call, part, grants) if is_approved else _read_held(desk, call)


def _read_approved(desk: CallDesk, call: SiteCall, part: ToolPart, grants: Mapping[str, GrantRow]) -> SiteCall | None:
    grant = grants.get(part.approval.id) if part.approval is not None else None
    call.is_gated = True
    call.is_edited = is_edited(part)
    if grant is not None and grant.state not in ("approved", "expired"):
        return None  # it ran, or was superseded: transcript repair knows what became of it
    if call.action is None:
        problem = failure("unknown_action", f"Not executed: the agent has no action {call.name} now.")
        desk.settle_unknown(call, problem)
        return call
    if grant is not None and grant.state == "expired":
        desk.refuse(call, failure("expired", "Not executed: the approval has expired."))
        return call
    try:
        if grant is None:  # a history that came with an answer this chat has not asked for: it asks
            call.prepared = prepare(call.action, call.raw)
        else:
            call.prepared = prepare_decision(desk.catalog, grant)
    except ActionError as error:
        desk.refuse(call, failure_of(error))
        return call
    call.grant = grant if grant is not None and call.prepared.hash == grant.hash else None
    return call


def _read_held(desk: CallDesk, call: SiteCall) -> SiteCall | None:
    assert call.action is not None
    prepared: PreparedCall | None = desk.catalog.kept.find_any(call.held_key)
    if prepared is None:
        try:
            prepared = prepare(call.action, call.raw)
        except ActionError as error:
            desk.refuse(call, failure_of(error))
            return call
    if class_of(prepared) != "serial":
        return None
    call.prepared = prepared
    call.is_held = True
    return call


def _ask_anew(desk: CallDesk, call: SiteCall, former: GrantRow | None) -> None:
    """Void an approval whose hash no longer fits, and ask again."""
    if former is not None:
        with desk.io.write() as books:
            books.move_grant(former.id, {"approved"}, "superseded", reason="the arguments' hash changed")
    ask_person(desk, [call])


_HELD = "Not executed: a call before it was not approved. (not_executed)"
