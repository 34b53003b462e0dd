"""Giving an interrupted turn up, in an order that may be repeated after a death at any point (spec/recovery.md, 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .._json import JsonValue
from .._killpoint import kill_point
from ..errors import StoreError
from ..store.records import IncidentRow
from ..turns import ChatEngine, Outcome, TurnError
from .budget import ask, event_fields
from .case import Case
from .ends import end_turn, put_incident
from .events import ExhaustedEvent


def seal_given_up(engine: ChatEngine, terminal: Mapping[str, JsonValue]) -> None:
    """Seal the incident of a turn that was given up by a process that died before it came to that.

    Args:
        engine: The chat's engine.
        terminal: The chat's terminal record, as it is stored.
    """
    reason = terminal.get("reason")
    if not isinstance(reason, str):
        return
    for incident in engine.store.load_incidents(engine.chat_id):
        if incident.turn_id == terminal.get("turn_id") and incident.status != "exhausted":
            _seal(engine, incident, reason)


def _seal(engine: ChatEngine, incident: IncidentRow, reason: str) -> None:
    try:
        with engine.write() as tx:
            put_incident(tx, replace(incident, status="exhausted", reason=reason))
    except StoreError as failure:
        engine.log_failure("an incident could not be sealed", failure)


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
        _seal(engine, case.incident, reason)
    return Outcome(status="error", error=error, turn=case.row.number, message=partial)
