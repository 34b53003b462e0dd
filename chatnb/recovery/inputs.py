"""The inputs that waited behind an interrupted turn: put back in line, chosen, or left out (spec/recovery.md, 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..messages import UIMessage
from ..store.records import InputRow
from ..turns import ChatEngine, Input, user_message
from .case import Case, new_input
from .events import InFlightInput


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
