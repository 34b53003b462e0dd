"""Giving an interrupted turn up, in an order that may be repeated after a death at any point (spec/recovery.md, 7)."""

from __future__ import annotations

from dataclasses import replace

from .._killpoint import kill_point
from ..errors import StoreError
from ..turns import Outcome, TurnError
from .budget import ask, event_fields
from .case import Case
from .ends import end_turn, put_incident
from .events import ExhaustedEvent


async def exhaust(case: Case, reason: str) -> Outcome:
    """Store the partial, tell `on_exhausted`, write the end with the terminal record, show it, seal the incident."""
    engine, policy = case.engine, case.policy
    fields = event_fields(case)
    partial = case.settled_partial()
    if partial is not None:
        edit = case.plan_store(partial)
        with engine.write() as tx:
            engine.put_edit(tx, edit)
            case.put_log(tx)
        engine.tree.commit(edit)
    kill_point("exhausted.stored")
    if policy.on_exhausted is not None:
        event = ExhaustedEvent(
            **fields,
            reason=reason,
            partial_text=partial.text if partial is not None else "",
            partial_parts=partial.parts if partial is not None else (),
            terminal_message=policy.terminal_message,
        )
        try:
            await ask(case, policy.on_exhausted, event)
        except Exception as failed:  # noqa: BLE001 - a user's code may raise anything; it is logged
            engine.log_failure("on_exhausted failed", failed)
    error = TurnError("interrupted", policy.terminal_message, None, reason)
    end_turn(case, "error", error=error, terminal_reason=reason, incident=None)
    kill_point("exhausted.recorded")
    engine.set_state(status="error", error=error, interruption=None)
    if case.incident is not None:
        case.incident = replace(case.incident, status="exhausted", reason=reason)
        try:
            with engine.write() as tx:
                put_incident(tx, case.incident)
        except StoreError as failure:
            engine.log_failure("an incident could not be sealed", failure)
    return Outcome(status="error", error=error, turn=case.row.number, message=partial)
