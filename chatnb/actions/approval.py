"""Approval: who has to be asked, what an ask is, and when it ends (spec/actions.md, section 4)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from .._clock import Clock
from .._ids import NewId
from .._json import JsonValue
from ..errors import ActionError
from ..runtime.entry import is_async
from .audit import CallPlace
from .catalog import Catalog
from .context import ActionContext
from .guards import ask_guard, run_guard
from .ports import GrantRow
from .prepare import PreparedCall, prepare

_log = logging.getLogger("chatnb")

GRANT_LIFE = timedelta(minutes=10)
"""How long an approved grant is valid after the decision that completes its batch."""

EDITED_NOTE = "[arguments edited by the person]"


async def is_gated(prepared: PreparedCall, context: ActionContext, clock: Clock) -> bool:
    """Tell whether a person has to be asked. It fails closed: a predicate that raises or is too slow asks."""
    gate = prepared.action.needs_approval
    if isinstance(gate, bool):
        return gate
    call = ask_guard(gate, prepared.args, context)
    try:
        return bool(await run_guard(call, is_async=is_async(gate), clock=clock))
    except Exception as error:  # noqa: BLE001 - whatever went wrong, a person decides
        _log.warning("action %s: needs_approval failed (%s): asking", prepared.action.name, type(error).__name__)
        return True


def make_grant(
    prepared: PreparedCall, place: CallPlace, *, new_id: NewId, now: datetime, ttl: float | None
) -> GrantRow:
    """Make the row of a fresh ask; its id is the approval id."""
    return GrantRow(
        id=new_id("approval"),
        site=place.site,
        action=prepared.action.name,
        hash=prepared.hash,
        arguments=prepared.shown,
        asked_at=now,
        chat_id=place.chat_id,
        turn_id=place.turn_id,
        message_id=place.message_id,
        tool_call_id=place.tool_call_id,
        identity=place.identity.id if place.identity is not None else None,
        expires_at=None if ttl is None else now + timedelta(seconds=ttl),
    )


def is_expired(grant: GrantRow, now: datetime) -> bool:
    """Tell whether a pending ask is too old to be decided."""
    return grant.state == "pending" and grant.expires_at is not None and now >= grant.expires_at


Asleep = tuple[datetime, datetime]
"""When no kernel had the chat: from the last sign of life of its former owner to its opening."""


def is_overdue(decided: Iterable[GrantRow], now: datetime, asleep: Asleep | None = None) -> bool:
    """Tell whether the approved grants of a message are too old to be used.

    Args:
        decided: All decided grants of the message; the latest decision completed the batch.
        now: The time.
        asleep: A time that does not count.
    """
    times = [grant.decided_at for grant in decided if grant.decided_at is not None]
    if not times:
        return False
    age = now - max(times)
    if asleep is not None:
        age -= max(asleep[1] - max(asleep[0], *times), timedelta(0))
    return age > GRANT_LIFE


def prepare_decision(catalog: Catalog, grant: GrantRow, args: Mapping[str, JsonValue] | None = None) -> PreparedCall:
    """Return the call that an approval is about; compare its hash with the grant's.

    Without edits it is the call that was asked, as it was prepared; after a restart or a new definition of the agent
    the stored arguments are prepared again, and another hash means: ask anew. With edits, they are merged over the
    shown arguments and prepared; the grant is then bound to the new hash. Nothing of it runs.

    Args:
        catalog: The agent's actions.
        grant: The pending row.
        args: The edited arguments, or None.

    Raises:
        InvalidArgumentsError: The arguments do not fit the action's schema (any more).
        ActionError: Code `unknown_action`: the agent has no such action any more.
    """
    action = catalog.find(grant.action)
    if action is None:
        raise ActionError(f"The agent has no action {grant.action!r} now.", code="unknown_action", status_code=404)
    if args is None:
        kept = catalog.kept.find(grant.id, grant.hash)
        if kept is not None:
            return kept
    prepared = prepare(action, {**grant.arguments, **(args or {})})
    catalog.kept.keep(grant.id, prepared)
    return prepared
