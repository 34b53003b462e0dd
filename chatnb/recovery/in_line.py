"""Putting an interrupted turn back in line by a conditional update (spec/recovery.md, sections 4 and 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._killpoint import kill_point
from ..messages import UIMessage, replace_parts
from ..store.port import WriteTx
from ..turns import Outcome
from ..turns.limits import fit_message
from ..turns.resumed import Resumed
from .budget import count_attempt, watch_quiet
from .case import Case
from .ends import put_incident
from .rebuild import close_parts


def store_partial(case: Case) -> None:
    """Store the partial as it is, with its blocks closed; the log stays, and says where the message began."""
    if case.partial is None:
        return
    message = fit_message(close_parts(case.partial))
    edit = case.plan_store(message)
    engine = case.engine
    with engine.write() as tx:
        engine.put_edit(tx, edit)
        case.put_log(tx)
    engine.partial = None
    engine.tree.commit(edit)
    engine.history_changed()


def drop_partial(case: Case) -> None:
    """Take a partial that is not wanted out of the chain again, if an earlier attempt had stored it."""
    engine, node_id = case.engine, case.node_id
    engine.partial = None
    if node_id is not None and engine.tree.head == node_id:
        if case.rebuilt.base_parts:
            stored = engine.tree.message(node_id)
            base = replace_parts(stored, stored.parts[: case.rebuilt.base_parts])
            if base != stored:
                edit = engine.tree.plan_head(engine.tree.head)
                edit.messages[node_id] = base
                engine.apply_edit(edit)
        else:
            engine.apply_edit(engine.tree.plan_head(engine.tree.node(node_id).parent))
            case.row = replace(case.row, assistant_id=engine.new_id("msg"), leaf_id=engine.tree.head)
            case.node_id = None
    engine.history_changed()


def put_in_line(
    case: Case, *, is_retry: bool, body: Any = None, client_tools: Any = None, accepted_by: str | None = None
) -> Resumed | Outcome:
    """Count an attempt and put the turn back in line.

    Args:
        case: The turn, its partial stored.
        is_retry: The log is dropped and the answer begins anew.
        body: Replaces the turn's body when it is not None.
        client_tools: Replace the turn's client tools when they are not None.
        accepted_by: The input by which a person has accepted an offer; it is used up.

    Returns:
        What the engine runs; or the outcome `skipped` when somebody else has moved the turn.
    """
    engine = case.engine
    incident = count_attempt(case)
    row = replace(
        case.row,
        attempt=case.row.attempt + 1,
        state="queued",
        body=case.row.body if body is None else body,
        client_tools=case.row.client_tools if client_tools is None else client_tools,
    )
    with engine.write() as tx:
        won = tx.move_turn(
            row.id,
            {"interrupted"},
            "queued",
            attempt=row.attempt,
            assistant_id=row.assistant_id,
            leaf_id=row.leaf_id,
            body=row.body,
            client_tools=row.client_tools,
        )
        if won:
            put_incident(tx, incident)
            tx.set_chat(recovering=True)
            if accepted_by is not None:
                tx.move_input(accepted_by, {"waiting"}, "taken")
            if is_retry:
                tx.drop_chunks([row.id])
    if not won:
        return Outcome(status="skipped")
    case.row, case.incident = row, incident
    engine.set_state(is_recovering=True, interruption=None)
    kill_point("recovery.requeued")
    incoming, regenerates = _anew(case)
    return Resumed(
        row=row,
        continues=case.node_id if not is_retry or _extends(case) else None,
        fold=None if is_retry else case.rebuilt.fold,
        next_seq=0 if is_retry else case.rebuilt.next_seq,
        is_step_open=not is_retry and case.rebuilt.is_step_open,
        is_anew=case.is_before_w3,
        incoming=incoming,
        regenerates=regenerates,
        inputs=case.finished_inputs(),
        chunks=() if is_retry else case.rebuilt.chunks,
        seal=lambda tx, status: _seal(case, tx),
        beside=watch_quiet(case),
    )


def _extends(case: Case) -> bool:
    """Tell whether the turn goes on with a message that was there before it."""
    return case.node_id is not None and (case.rebuilt.base_parts > 0 or case.row.trigger == "continuation")


def _seal(case: Case, tx: WriteTx) -> None:
    if case.incident is not None:
        put_incident(tx, replace(case.incident, status="completed"))


def _anew(case: Case) -> tuple[tuple[UIMessage, ...], str | None]:
    """Return what its input brought, for a turn whose chain was not written."""
    own = case.own_input
    if not case.is_before_w3 or own is None:
        return (), None
    payload = own.payload or {}
    return case.incoming(), payload.get("messageId") if own.kind == "regenerate" else None
