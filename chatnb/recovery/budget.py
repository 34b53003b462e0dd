"""Budgets of an incident: when an interrupted turn is given up (spec/recovery.md, section 7)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ..errors import StoreError
from ..runtime.entry import is_async
from ..store.records import IncidentRow
from .case import Case
from .ends import put_incident
from .events import KeepRecoveringEvent

BEAT_SECONDS = 5.0
NO_PROGRESS = "no_progress_timeout"


def current(case: Case) -> IncidentRow:
    """Return the incident as of now: progress since the last attempt begins the count anew."""
    incident = _incident(case)
    if case.engine.progress > incident.progress_seen and incident.attempt:
        return replace(incident, attempt=0, quiet_seconds=0.0, progress_seen=case.engine.progress)
    return incident


def next_attempt(case: Case) -> int:
    """Return the number of the attempt that would be made now, from 1."""
    return current(case).attempt + 1


def work_of(case: Case) -> int:
    """Return the progress since the incident opened."""
    return max(0, case.engine.progress - _incident(case).progress_at_open)


def age_of(case: Case) -> float:
    """Return the seconds since the turn was first interrupted; never below 0, whatever the clock did."""
    since = _incident(case).created_at or case.interrupted_at
    return max(0.0, (case.engine.clock.now() - since).total_seconds())


def event_fields(case: Case) -> dict[str, Any]:
    """Return what the callbacks of the policy are told."""
    return {
        "incident_id": _incident(case).id,
        "turn_id": case.row.id,
        "chat_id": case.engine.chat_id,
        "trigger": case.row.trigger,
        "attempt": next_attempt(case),
        "max_attempts": case.policy.max_attempts,
        "kind": case.kind,
        "cause": case.cause,
        "work": work_of(case),
        "age": age_of(case),
    }


async def over_budget(case: Case) -> str | None:
    """Return why no further attempt is made, or None."""
    policy = case.policy
    if work_of(case) > policy.max_work:
        return "work_budget_exceeded"
    if current(case).quiet_seconds > policy.no_progress_timeout:
        return NO_PROGRESS
    if policy.should_keep_recovering is not None and case.row.attempt >= 2:
        try:
            event = KeepRecoveringEvent(**event_fields(case))
            if await ask(case, policy.should_keep_recovering, event) is False:
                return "recovery_aborted"
        except Exception as error:  # noqa: BLE001 - a user's code may raise anything; it counts as yes
            case.engine.log_failure("should_keep_recovering failed; recovery goes on", error)
    if next_attempt(case) > policy.max_attempts:
        return "max_attempts_exceeded"
    return None


async def ask(case: Case, function: Callable[[Any], Any], event: Any) -> Any:
    """Call a callback of the policy, sync or async."""
    if is_async(function):
        return await function(event)
    result = await case.engine.runtime.in_worker(case.engine.chat_id, function, event)
    return await result if inspect.isawaitable(result) else result


def count_attempt(case: Case) -> IncidentRow:
    """Return the incident with one more attempt; it is written with the update that puts the turn in line."""
    now = current(case)
    return replace(now, status="attempting", attempt=now.attempt + 1, progress_seen=case.engine.progress)


def watch_quiet(case: Case) -> Callable[[Callable[[str], None]], Awaitable[None]]:
    """Return what runs beside an attempt: it counts the quiet time, saves it, and ends an attempt that is too quiet."""

    async def watch(lose: Callable[[str], None]) -> None:
        engine, limit = case.engine, case.policy.no_progress_timeout
        seen, since = engine.progress, engine.clock.monotonic()
        quiet = _incident(case).quiet_seconds
        while quiet <= limit:
            await engine.clock.sleep(min(BEAT_SECONDS, max(0.05, limit - quiet + 0.05)))
            passed, since = engine.clock.monotonic() - since, engine.clock.monotonic()
            quiet = quiet + passed if engine.progress == seen else 0.0
            if engine.progress != seen:
                # Counted anew from here: an attempt that begins to say something and falls silent is quiet.
                seen = engine.progress
                case.incident = replace(_incident(case), attempt=0, progress_seen=seen)
            case.incident = replace(_incident(case), quiet_seconds=quiet)
            try:
                with engine.write(durable=False) as tx:
                    put_incident(tx, case.incident)
            except StoreError as failure:
                engine.log_failure("the quiet time could not be saved", failure)
        lose(NO_PROGRESS)

    return watch


def _incident(case: Case) -> IncidentRow:
    if case.incident is None:
        raise AssertionError("an interrupted turn has an incident")
    return case.incident
