"""Audit rows (spec/actions.md, section 12). The recorder never raises and never changes a result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from .._ids import NewId
from .._json import JsonValue
from .definition import Action
from .guards import ask_guard
from .identity import Identity
from .ports import AuditRow, Effect, GrantRow, Site
from .prepare import PreparedCall
from .redaction import redact

_log = logging.getLogger("chatnb")

Status = Literal["success", "error", "denied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Where a call stands.

    Attributes:
        step: The number of the step of its message, from 1, or None.
        attempt: Which attempt of the turn.
    """

    site: Site
    identity: Identity | None = None
    chat_id: str | None = None
    turn_id: str | None = None
    message_id: str | None = None
    step: int | None = None
    tool_call_id: str | None = None
    attempt: int = 1


def is_audited(action: Action, *, is_write: bool, status: Status) -> bool:
    """Tell whether a call leaves a row: writes and denials by default, reads only when asked for."""
    enabled = action.audited.enabled
    if enabled is not None:
        return enabled
    return is_write or status == "denied"


def audit_call(
    action: Action,
    place: CallPlace,
    *,
    new_id: NewId,
    now: datetime,
    status: Status,
    prepared: PreparedCall | None = None,
    is_write: bool = True,
    effect: Effect = "none",
    error_code: str | None = None,
    duration_ms: int | None = None,
    raw: JsonValue = None,
) -> AuditRow | None:
    """Make the row of one call, or None if it leaves none. Never raises.

    `prepared` is None for a call whose input was invalid; then `raw` is its input as it came.
    """
    is_write = prepared.is_write if prepared is not None else is_write
    if not is_audited(action, is_write=is_write, status=status):
        return None
    options = action.audited
    try:
        shown = prepared.shown if prepared is not None else raw
        row_input = redact(shown) if options.inputs else None
    except Exception as error:  # noqa: BLE001 - the recorder never raises
        _log.warning("action %s: its input can't be audited (%s)", action.name, type(error).__name__)
        row_input = None
    kind, actor = _actor(place)
    return AuditRow(
        id=new_id("row"),
        at=now,
        action=action.name,
        site=place.site,
        actor_kind=kind,
        actor_id=actor,
        status=status,
        chat_id=place.chat_id,
        turn_id=place.turn_id,
        tool_call_id=place.tool_call_id,
        hash=prepared.hash if prepared is not None else None,
        effect_class="write" if is_write else "read",
        effect=effect,
        error_code=error_code,
        duration_ms=duration_ms,
        summary=_said(action, options.summary, prepared, 500),
        target=_said(action, options.target, prepared, 500),
        input=row_input,
    )


def audit_rejection(
    action: Action, grant: GrantRow, *, new_id: NewId, now: datetime, by: Identity | None = None, code: str = "rejected"
) -> AuditRow | None:
    """Make the row of an ask that a person rejected, or that expired (code `expired`). Never raises."""
    place = CallPlace(
        site=grant.site,
        identity=by,
        chat_id=grant.chat_id,
        turn_id=grant.turn_id,
        message_id=grant.message_id,
        tool_call_id=grant.tool_call_id,
    )
    row = audit_call(action, place, new_id=new_id, now=now, status="denied", error_code=code, raw=grant.arguments)
    if row is None:
        return None
    if by is None:
        return replace(row, hash=grant.hash, actor_kind="system", actor_id=None)
    return replace(row, hash=grant.hash, actor_kind=by.kind, actor_id=by.id)


def _actor(place: CallPlace) -> tuple[Literal["agent", "user", "service", "system"], str | None]:
    actor = place.identity.id if place.identity is not None else None
    if place.site == "agent":
        return "agent", actor
    return (place.identity.kind, actor) if place.identity is not None else ("system", None)


def _said(
    action: Action, option: str | Callable[..., Any] | None, prepared: PreparedCall | None, limit: int
) -> str | None:
    if option is None or isinstance(option, str):
        return option[:limit] if option else None
    if prepared is None:
        return None
    try:
        said = ask_guard(option, prepared.args, None)()
    except Exception as error:  # noqa: BLE001 - the recorder never raises
        _log.warning("action %s: its audit function failed (%s)", action.name, type(error).__name__)
        return None
    shown = redact(said) if isinstance(said, str) else None
    return shown[:limit] if isinstance(shown, str) else None
