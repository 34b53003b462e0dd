"""The inputs that waited behind an interrupted turn: put back in line, chosen, or left out (spec/recovery.md, 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..messages import UIMessage
from ..store.port import WriteTx
from ..store.records import InputRow, InputState
from ..turns import ChatEngine, Input, user_message
from .case import Case, new_input
from .events import InFlightInput


def joined(engine: ChatEngine, rows: Sequence[InputRow], skipped: Sequence[InputRow] = ()) -> list[Input]:
    """Return stored inputs as their policy had put them together: each is one turn, or nothing but history.

    Args:
        engine: The chat.
        rows: What waits, by arrival.
        skipped: What does not any more; a message that one of these had superseded is not answered all the same.
    """
    found: dict[str, Input] = {}
    for row in rows:
        input_ = new_input(engine, row)
        for id_ in _joined_by(row, "merges"):
            if id_ in found:
                input_ = found.pop(id_).merged_with(input_)
        before = [found.pop(id_) for id_ in _joined_by(row, "supersedes") if id_ in found]
        input_.superseded = [one for former in before for one in flat(former)]
        found[row.id] = input_
    for row in skipped:
        left = [found[id_] for id_ in _joined_by(row, "supersedes") if id_ in found]
        if left:
            *before, last = left
            for former in before:
                del found[former.row.id]
            last.superseded = [*(one for former in before for one in flat(former)), *last.superseded]
            last.is_unanswered = True
    return list(found.values())


def join_own(case: Case, rows: Sequence[InputRow]) -> None:
    """Give a turn whose chain was not written what its send was joined with, and what an offer before it had held."""
    own = case.own_input
    if own is None or own.kind != "send" or not case.is_before_w3:
        return
    sends = [row for row in rows if row.kind == "send" and row.arrival < own.arrival]
    wanted = {*_joined_by(own, "merges"), *_joined_by(own, "supersedes")}
    for row in reversed(sends):
        if row.id in wanted:
            wanted |= {*_joined_by(row, "merges"), *_joined_by(row, "supersedes")}
    held = joined(case.engine, [row for row in sends if row.state == "held" and row.id not in wanted])
    *_, input_ = joined(case.engine, [*(row for row in sends if row.id in wanted), own])
    case.own_input, case.absorbed = input_.row, input_.absorbed
    case.before = [*(one for former in held for one in flat(former)), *input_.superseded]


def pass_over(engine: ChatEngine, inputs: list[Input]) -> list[Input]:
    """Let a message that had ended an offer take in what the offer had held; return what is in line then.

    The process died after the offer's end and before the message's turn had a row.
    """
    held = [i for i in inputs if i.row.state == "held"]
    first = next((i for i in inputs if i.row.state != "held"), None)
    if not held or first is None or first.kind == "continue" or not _was_passed_over(engine):
        return inputs
    if first.kind == "send":
        first.superseded[:0] = [one for i in held if i.kind == "send" for one in flat(i)]
        held = [i for i in held if i.kind != "send"]
    for input_ in held:
        engine.skip(input_)
    return [i for i in inputs if i.row.state != "held"]


def _was_passed_over(engine: ChatEngine) -> bool:
    last = engine.store.load_last_turn(engine.chat_id)
    ended = [i for i in engine.store.load_incidents(engine.chat_id) if last is not None and i.turn_id == last.id]
    return any(i.reason == "conversation_changed" for i in ended)


def _joined_by(row: InputRow, how: str) -> Sequence[str]:
    payload = row.payload if row.kind == "send" and isinstance(row.payload, Mapping) else {}
    return tuple(payload.get(how, ()))


def flat(input_: Input) -> list[Input]:
    """Return a send and what it has superseded, in their order, each for itself."""
    return [*input_.superseded, replace(input_, superseded=[])]


def move_inputs(tx: WriteTx, inputs: Sequence[Input], expect: InputState, to: InputState) -> None:
    """Move inputs between states, and what they were joined with."""
    for input_ in inputs:
        for id_ in (*input_.other_rows, input_.row.id):
            tx.move_input(id_, {expect}, to)


def plan_inputs(case: Case, wanted: Sequence[Any]) -> list[Input | UIMessage]:
    """Return what a hook's `recovered_inputs` name: in-flight inputs, and invented messages. Changes nothing.

    An item is an in-flight input, its id, a message of one, or an invented message (text, dict, message, parts). A
    message whose id is in the history already is not run again.

    Raises:
        InputError: An item is none of these.
        MessageError: An invented message is not valid.
    """
    engine = case.engine
    waiting = [i for i in case.in_flight if i in tuple(engine.queue)]
    known = {message.id for message in engine.tree.messages}
    if case.own_input is not None and case.own_input.kind == "send":
        known.add(case.own_input.payload["message"].get("id"))
    plan: list[Input | UIMessage] = []
    for item in wanted:
        found = _find(waiting, item)
        if found is not None:
            if found not in plan:
                plan.append(found)
            continue
        if isinstance(item, InFlightInput):
            # One that does not wait any more; its message may be run again, unless it has been.
            item = item.message
            if item is None:
                continue
        message = user_message(item, new_id=engine.new_id)
        if message.id not in known:
            known.add(message.id)
            plan.append(message)
    return plan


def choose_inputs(case: Case, wanted: Sequence[Any] | None) -> None:
    """Run exactly the wanted inputs, in that order; the others end `skipped`. None: all of them as they are.

    Invented messages get the turn's body.
    """
    if wanted is None:
        return
    engine = case.engine
    chosen: list[Input] = []
    with engine.write() as tx:
        for item in plan_inputs(case, wanted):
            if isinstance(item, UIMessage):
                row = _row_of(case, item)
                tx.add_input(row)
                chosen.append(new_input(engine, row))
            else:
                chosen.append(item)
    for input_ in [i for i in case.in_flight if i in tuple(engine.queue)]:
        engine.queue.remove(input_)
        if input_ not in chosen:
            engine.skip(input_)
    engine.queue.put_behind_first(chosen)
    engine.queue_changed()


def _find(waiting: Sequence[Input], item: Any) -> Input | None:
    wanted = item.id if isinstance(item, InFlightInput | UIMessage) else item
    if isinstance(item, dict):
        wanted = item.get("id")
    if not isinstance(wanted, str):
        return None
    for input_ in waiting:
        ids = {input_.row.id}
        if input_.kind == "send":
            ids.add(input_.message.id)
        if wanted in ids:
            return input_
    return None


def _row_of(case: Case, message: UIMessage) -> InputRow:
    return case.engine.new_row(
        "send",
        {"message": message.to_wire()},
        body=case.row.body,
        client_data=case.row.client_data,
        client_tools=case.row.client_tools,
    )


def requeue(engine: ChatEngine, inputs: Sequence[Input]) -> None:
    """Put inputs back in line, in their order."""
    for input_ in inputs:
        engine.queue.put(input_)
