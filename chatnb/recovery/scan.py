"""The scan: what is done at the opening of a chat about what a former owner left behind (spec/recovery.md, section 4).

It runs once per opening, on the runtime, before `agent.chat()` returns. What has to be decided by a hook, or runs, is
put in line here and happens in the slot, like any input.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

from ..errors import StoreError
from ..messages import UIMessage
from ..store.port import OpenedChat
from ..store.records import IncidentRow, InputRow, InputState, Owner, TurnRow, TurnState
from ..turns import ChatEngine, Input, Outcome, TurnError
from ..turns.resumed import Resumed
from .case import Case, new_input
from .ends import End, end_turn, tell_completions
from .exhaustion import seal_given_up
from .inputs import join_own, joined, move_inputs, pass_over, requeue
from .offer import make_offer
from .rebuild import rebuild
from .records import Cause
from .take_up import TakeUpTurn

log = logging.getLogger("chatnb")

OPEN: tuple[TurnState, ...] = ("queued", "starting", "running", "finishing", "interrupted")
INTERRUPTED: tuple[TurnState, ...] = ("interrupted",)
LEFT: tuple[InputState, ...] = ("waiting", "held", "taken")
SKIPPED: tuple[InputState, ...] = ("skipped",)
STEERING = "data-steering-message"


def kernel_of(owner: Owner) -> str:
    """Return what names a kernel process: its kernel and its start."""
    return f"{owner.kernel_id or owner.host}/{owner.start}"


def scan(engine: ChatEngine, opened: OpenedChat, *, last_sign: datetime | None = None) -> None:
    """Find what was interrupted and what waited, and put it in line.

    Args:
        engine: The chat's engine.
        opened: The chat's lease, with its row as it was found.
        last_sign: Its owner's last sign of life, where the heartbeat does not tell.
    """
    if opened.created:
        return
    terminal = opened.chat.terminal
    if isinstance(terminal, dict):
        engine.error = TurnError.from_terminal(terminal)
        seal_given_up(engine, terminal)
    rows = engine.store.load_turns(engine.chat_id, OPEN)
    inputs = engine.store.load_inputs(engine.chat_id, LEFT)
    case = _take_in(engine, opened, rows, inputs, last_sign) if rows else None
    if case is not None:
        join_own(case, inputs)
    waiting = _in_flight(engine, inputs, case)
    if case is None:
        waiting = pass_over(engine, waiting)
    if case is None or not _is_offered_again(engine, case):
        _release(engine, [i for i in waiting if i.row.state == "held"])
    requeue(engine, [i for i in waiting if i.row.state == "waiting"])
    if case is not None:
        case.in_flight = waiting
        _place(engine, case)
    elif opened.chat.recovering:
        with engine.write() as tx:
            tx.set_chat(recovering=False)
    if "on_turn_complete" in engine.definition.hooks and engine.store.load_unhooked_turns(engine.chat_id):
        _put_first(engine, _Replay(engine))
    engine.runtime.post(engine.kick)
    engine.runtime.post(engine.tidy)


# --- the turn -------------------------------------------------------------------------------------------------------


def _take_in(
    engine: ChatEngine,
    opened: OpenedChat,
    rows: list[TurnRow],
    inputs: list[InputRow],
    last_sign: datetime | None,
) -> Case | None:
    """Mark what was found as interrupted; return the case of the last turn, the only one that may go on."""
    incidents = {row.turn_id: row for row in engine.store.load_incidents(engine.chat_id)}
    case: Case | None = None
    for row in rows:
        if case is not None:
            end_turn(case, "stopped", reason="conversation_changed")
        cause = _cause(opened, row)
        sign = last_sign or opened.chat.heartbeat_at
        owner = opened.chat.last_owner
        case = open_case(
            engine,
            row,
            cause=cause,
            last_sign=sign,
            inputs=inputs,
            incident=incidents.get(row.id),
            kernel_id=kernel_of(owner) if owner is not None else None,
        )
    return case


def _cause(opened: OpenedChat, row: TurnRow) -> Cause:
    if opened.owner_was == "taken_over":
        return "taken_over"
    if opened.owner_was == "dead":
        return "process_died"
    # A lease given back in order with a turn that is not marked: its last writes had failed.
    return "kernel_restarted" if row.state in ("interrupted", "queued") else "store_error"


def open_case(
    engine: ChatEngine,
    row: TurnRow,
    *,
    cause: Cause,
    last_sign: datetime | None,
    inputs: list[InputRow],
    incident: IncidentRow | None,
    kernel_id: str | None,
    is_in_process: bool = False,
) -> Case:
    """Mark a turn as interrupted, its entered calls as unknown; rebuild its partial; open its incident."""
    decisions = [i for i in inputs if i.kind == "decision" and i.state == "waiting"]
    message_id = row.assistant_id or engine.new_id("msg")
    node_id = engine.tree.on_chain(message_id) or engine.tree.newest(message_id)
    stored = engine.tree.message(node_id) if node_id is not None else None
    made = rebuild(engine.store.load_chunks(row.id), message_id, stored, decisions)
    if made.message.id != message_id:
        # Its message id is the one in its own start chunk.
        message_id = made.message.id
        node_id = engine.tree.on_chain(message_id)
    calls = engine.store.load_calls(engine.chat_id, [row.id])
    if not is_in_process:
        calls = [replace(call, state="unknown") if call.state == "entered" else call for call in calls]
    times = [t for c in calls for t in (c.entered_at, c.ended_at) if t is not None]
    if incident is not None and incident.status == "open" and incident.created_at is not None:
        interrupted_at = incident.created_at
    else:
        interrupted_at = max(
            [t for t in (last_sign, row.started_at, *times) if t is not None], default=engine.clock.now()
        )
    case = Case(
        engine=engine,
        row=replace(row, state="interrupted", assistant_id=message_id),
        rebuilt=made,
        cause=cause,
        interrupted_at=interrupted_at,
        node_id=node_id,
        calls=calls,
        own_input=next((i for i in inputs if i.id == row.input_id), None),
        steered=_steered(made.message, inputs),
        kernel_id=kernel_id,
        is_in_process=is_in_process,
        incident=incident,
    )
    policy = case.policy
    age = max(0.0, (engine.clock.now() - interrupted_at).total_seconds())
    case.is_old = not policy.auto or age > policy.auto_within
    _mark(case, row)
    return case


def _mark(case: Case, row: TurnRow) -> None:
    engine = case.engine
    runs = case.classified in ("retry", "continue")
    if runs and case.incident is None:
        case.incident = IncidentRow(
            id=engine.new_id("incident"),
            turn_id=row.id,
            status="open",
            kind=case.kind,
            cause=case.cause,
            progress_at_open=engine.progress,
            progress_seen=engine.progress,
            created_at=case.interrupted_at,
        )
        is_new = True
    else:
        is_new = False
    will_run = runs and not case.is_old
    with engine.write() as tx:
        if row.state != "interrupted":
            tx.move_turn(row.id, {row.state}, "interrupted")
        for call in case.calls:
            if call.state == "unknown":
                tx.settle_call(call.id, {"entered"}, call)
        if is_new and case.incident is not None:
            tx.put_incident(case.incident, None)
        elif case.incident is not None and case.incident.status == "attempting":
            case.incident = replace(case.incident, kind=case.kind, cause=case.cause)
            tx.put_incident(case.incident, ("attempting",))
        tx.set_chat(recovering=will_run)


def _place(engine: ChatEngine, case: Case) -> None:
    """Give the turn what its class demands."""
    found = case.classified
    if _is_stale(engine, case):
        end_turn(case, "stopped", reason="conversation_changed")
    elif found == "ended":
        _end_as_logged(case)
    elif found == "parked":
        end_turn(case, "awaiting", incident="completed")
    elif case.incident is not None and _is_offered_again(engine, case):
        make_offer(case, status=case.incident.status, reason=case.incident.reason, is_again=True)
    else:
        engine.partial = case.partial
        engine.is_recovering = not case.is_old
        _put_first(engine, TakeUpTurn(case), case)


def _is_stale(engine: ChatEngine, case: Case) -> bool:
    return case.own_input is not None and case.own_input.generation < engine.generation


def _is_offered_again(engine: ChatEngine, case: Case) -> bool:
    """Tell whether a turn waits for a person as it did before this opening."""
    waits = case.incident is not None and case.incident.status in ("offered", "failed")
    return waits and case.classified in ("retry", "continue") and not _is_stale(engine, case)


def _end_as_logged(case: Case) -> None:
    """Make up the end that was not written: stopped, else as the log says."""
    made = case.rebuilt
    to: End = "stopped"
    error: TurnError | None = None
    if not case.row.stop_requested and made.end == "finish":
        to = "awaiting" if case.has_waiting_calls or _was_awaiting(case) else "completed"
    elif not case.row.stop_requested and made.end == "error":
        to, error = "error", TurnError("run", made.error_text or "the turn failed")
    end_turn(case, to, error=error, incident="completed")


def _was_awaiting(case: Case) -> bool:
    """The turn ended waiting for a person, who has decided since."""
    return bool(case.rebuilt.laid) and case.rebuilt.finish_reason == "tool-calls"


def _steered(message: UIMessage, inputs: list[InputRow]) -> tuple[str, ...]:
    """Return the waiting sends that were taken into the turn: their messages are parts of it."""
    taken = {part.wire.get("id") for part in message.parts if part.type == STEERING}
    return tuple(i.id for i in inputs if i.kind == "send" and i.payload["message"].get("id") in taken)


# --- the inputs -----------------------------------------------------------------------------------------------------


def _in_flight(engine: ChatEngine, inputs: list[InputRow], case: Case | None) -> list[Input]:
    """Return the inputs that still have to run, in their order; note those that will not."""
    done: set[str] = set(case.finished_inputs()) if case is not None else set()
    lost: list[InputRow] = []
    found: list[InputRow] = []
    for row in inputs:
        if row.id in done:
            continue
        cannot = row.kind == "decision" or (row.kind == "save" and "messages" not in (row.payload or {}))
        if cannot or row.generation < engine.generation or row.state == "taken":
            lost.append(row)
        else:
            found.append(row)
    if lost:
        with engine.write() as tx:
            for row in lost:
                tx.move_input(row.id, {"waiting", "held", "taken"}, "skipped")
    found.sort(key=lambda row: row.kind != "action-turn")  # the turn of a chat action that had the slot
    sends = any(row.kind == "send" for row in found)
    return joined(engine, found, engine.store.load_inputs(engine.chat_id, SKIPPED) if sends else ())


def _release(engine: ChatEngine, held: list[Input]) -> None:
    """Let inputs wait again that were held behind an offer that is none any more."""
    if held:
        with engine.write() as tx:
            move_inputs(tx, held, "held", "waiting")
    for input_ in held:
        input_.row = replace(input_.row, state="waiting")


def _put_first(engine: ChatEngine, take_up: TakeUpTurn | _Replay, case: Case | None = None) -> None:
    row = case.own_input if case is not None else None
    if case is not None and row is not None:
        # The turn's row has the last word: a continuation may have brought another body.
        row = replace(row, body=case.row.body, client_tools=case.row.client_tools, client_data=case.row.client_data)
    if row is None:
        turn = case.row if case is not None else None
        row = InputRow(
            id=engine.new_id("input"),
            arrival=-1,
            kind="recovery",
            payload={},
            generation=engine.generation,
            body=turn.body if turn is not None else None,
            client_data=turn.client_data if turn is not None else None,
            client_tools=turn.client_tools if turn is not None else None,
        )
    row = replace(row, generation=engine.generation)
    joins = {"superseded": [*case.before], "absorbed": case.absorbed} if case is not None else {}
    engine.queue.put_first(new_input(engine, row, take_up=take_up, stored=False, **joins))


class _Replay:
    """Calls `on_turn_complete` again for turns that ended without it."""

    def __init__(self, engine: ChatEngine) -> None:
        self._engine = engine

    def drop(self, reason: str) -> None:
        """Nothing has to be ended."""

    async def tell(self, input_: Input) -> None:
        """Call them."""
        await tell_completions(self._engine, input_)

    async def __call__(self, input_: Input) -> Resumed | Outcome:
        """Call them."""
        await self.tell(input_)
        return Outcome(status="applied")


# --- in the same process --------------------------------------------------------------------------------------------


def take_up_interrupted(engine: ChatEngine, turn_id: str, cause: str) -> bool:
    """Put in line a turn whose attempt was broken off in this process: a stall, a lost connection.

    Returns:
        Whether it was; else the turn is where it was.
    """
    if engine.turn is None:
        return False
    input_ = engine.turn.input
    try:
        rows = engine.store.load_turns(engine.chat_id, INTERRUPTED)
        row = next((r for r in rows if r.id == turn_id), None)
        if row is None:
            return False
        incident = next((i for i in engine.store.load_incidents(engine.chat_id) if i.turn_id == turn_id), None)
        known: Cause = incident.cause if incident is not None and cause not in _CAUSES else cause  # type: ignore[assignment]
        case = open_case(
            engine,
            row,
            cause=known,
            last_sign=engine.clock.now(),
            inputs=engine.store.load_inputs(engine.chat_id, LEFT),
            incident=incident,
            kernel_id=engine.kernel_id,
            is_in_process=True,
        )
    except StoreError as failure:
        engine.log_failure("an interrupted turn could not be taken up", failure)
        return False
    case.in_flight = [i for i in engine.queue if i.take_up is None]
    engine.partial = case.partial
    input_.take_up = TakeUpTurn(case)
    engine.queue.put_first(input_)
    engine.set_state(is_recovering=not case.is_old)
    return True


_CAUSES = frozenset({"stalled", "connection_lost"})
