"""How an interrupted turn ends without running again: what is written then, and who is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from ..errors import StoreError
from ..models import Usage
from ..store.port import WriteTx
from ..store.records import IncidentRow, TurnRow
from ..turns import ChatEngine, Input, Outcome, TurnError
from ..turns.events import CompletionEvent
from ..turns.failure import StageError
from ..turns.usage import usage_from_json
from .case import Case, HookRun

End = Literal["completed", "awaiting", "stopped", "error"]


def end_turn(
    case: Case,
    to: End,
    *,
    reason: str | None = None,
    error: TurnError | None = None,
    terminal_reason: str | None = None,
    incident: str | None = "skipped",
    keep: bool = True,
) -> Input | None:
    """Write the end of an interrupted turn in one transaction (W10), and show it.

    Args:
        case: The turn.
        to: Its state.
        reason: Why, for the incident.
        error: Why it failed; it becomes the terminal record too.
        terminal_reason: Why it was given up, for the terminal record.
        incident: The incident's last status; None leaves it as it is.
        keep: Store the partial.

    Returns:
        The continuation that is due because every call was decided meanwhile, already in line; or None.
    """
    engine, row = case.engine, case.row
    partial = case.settled_partial() if keep else None
    edit = case.plan_store(partial) if partial is not None else case.plan_message()
    continuation = _continuation(case, partial) if to == "awaiting" and partial is not None else None
    now = engine.clock.now()
    with engine.write() as tx:
        if edit is not None:
            engine.put_edit(tx, edit)
        tx.move_turn(
            row.id,
            {"interrupted", "queued"},
            to,
            finish_reason="error" if to == "error" else case.rebuilt.finish_reason if to != "stopped" else None,
            error=error.to_json() if error is not None else None,
            hooks_done="on_turn_complete" not in engine.definition.hooks,
            ended_at=now,
            stash=None,
            model_stash=None,
        )
        case.finish_inputs(tx)
        tx.set_chat(recovering=False)
        if to != "awaiting":
            terminal = error.to_terminal(case.row.id, now, terminal_reason) if error is not None else None
            tx.set_chat(terminal=terminal)
        if case.incident is not None and incident is not None:
            case.incident = replace(case.incident, status=incident, reason=reason)
            put_incident(tx, case.incident)
        if continuation is not None:
            tx.add_input(continuation.row)
    engine.partial = None
    if edit is not None:
        engine.tree.commit(edit)
    engine.history_changed()
    engine.set_state(is_recovering=False)
    if continuation is not None:
        engine.queue_continuation(continuation, kick=False)
    return continuation


def _continuation(case: Case, partial: Any) -> Input | None:
    if not case.rebuilt.laid or case.has_waiting_calls:
        return None
    return case.engine.new_continuation(partial.id, [], "recovery")


def put_incident(tx: WriteTx, row: IncidentRow) -> None:
    """Replace an incident that is not sealed."""
    tx.put_incident(row, ("open", "offered", "attempting", "failed"))


def interrupted_outcome(case: Case, text: str) -> Outcome:
    """Return the outcome of a turn that is not running again."""
    error = TurnError("interrupted", text, None, case.cause)
    return Outcome(status="stopped", error=error, turn=case.row.number, message=case.partial)


async def tell_completions(engine: ChatEngine, input_: Input) -> None:
    """Call `on_turn_complete` for every ended turn for which it has not returned, with `replayed` true (W11)."""
    if "on_turn_complete" not in engine.definition.hooks:
        return
    for row in engine.store.load_unhooked_turns(engine.chat_id):
        await _tell(engine, row, input_)


async def _tell(engine: ChatEngine, row: TurnRow, input_: Input) -> None:
    run = HookRun.of(engine, row, input_)
    checkpoint: Any = None
    try:
        _, checkpoint = await engine.fire(run, "on_turn_complete", lambda: _completion(engine, row, run), apply=False)
    except StageError as failure:
        engine.hook_failed(failure)
    try:
        engine.apply_checkpoint(checkpoint, also=lambda tx: tx.set_turn(row.id, hooks_done=True), durable=True)
    except StoreError as failure:
        engine.log_failure("a turn's end could not be noted", failure)


def _completion(engine: ChatEngine, row: TurnRow, run: HookRun) -> CompletionEvent:
    chain = engine.tree.messages
    index = next((i for i, m in enumerate(chain) if m.id == row.assistant_id), None)
    response = chain[index] if index is not None else None
    before = chain[:index] if index is not None else chain
    asked = before[-1:] if row.trigger == "submit-message" and before and before[-1].role == "user" else ()
    error = row.error if isinstance(row.error, dict) else None
    return CompletionEvent(
        **engine.seen(chain),
        new_ui_messages=(*asked, *((response,) if response is not None else ())),
        response_message=response,
        raw_response_message=response,
        status=row.state,
        stopped=row.state == "stopped",
        usage=usage_from_json(row.usage) if row.usage else Usage(complete=False),
        total_usage=engine.total_usage,
        finish_reason=row.finish_reason,
        error=TurnError.from_json(error) if error else None,
        replayed=True,
        **engine.common(run),  # type: ignore[arg-type]
    )
