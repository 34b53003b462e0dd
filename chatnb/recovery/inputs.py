"""The inputs that waited behind an interrupted turn: put back in line, chosen, or left out (spec/recovery.md, 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError, MessageError
from ..messages import UIMessage
from ..turns import ChatEngine, Input, user_message
from .case import Case, new_input
from .events import InFlightInput


def choose_inputs(case: Case, wanted: Sequence[Any] | None) -> None:
    """Run exactly the wanted inputs, in that order; the others end `skipped`. None: all of them as they are.

    An item is an in-flight input, its id, a message of one, or an invented message (text, dict, message), which gets
    the turn's body. A message whose id is in the history already is not run again.
    """
    if wanted is None:
        return
    engine = case.engine
    waiting = [i for i in case.in_flight if i in tuple(engine.queue)]
    chosen: list[Input] = []
    for item in wanted:
        found = _find(waiting, item)
        if found is None:
            found = _invent(case, item)
        if found is not None and found not in chosen:
            chosen.append(found)
    for input_ in waiting:
        engine.queue.remove(input_)
        if input_ not in chosen:
            engine.skip(input_)
    engine.queue.put_behind_first(chosen)
    engine.queue_changed()


def _find(waiting: Sequence[Input], item: Any) -> Input | None:
    wanted = item.id if isinstance(item, InFlightInput | UIMessage) else item
    if isinstance(item, dict):
        wanted = item.get("id")
    for input_ in waiting:
        ids = {input_.row.id}
        if input_.kind == "send":
            ids.add(input_.message.id)
        if wanted in ids:
            return input_
    return None


def _invent(case: Case, item: Any) -> Input | None:
    engine = case.engine
    if isinstance(item, InFlightInput):
        item = item.message
    if item is None:
        return None
    try:
        message = user_message(item, new_id=engine.new_id)
    except (InputError, MessageError) as error:
        engine.log_failure("an input that on_chat_recovery gave is no message; it is left out", error)
        return None
    if any(known.id == message.id for known in engine.tree.messages):
        return None
    row = engine.new_row(
        "send",
        {"message": message.to_wire()},
        body=case.row.body,
        client_data=case.row.client_data,
        client_tools=case.row.client_tools,
    )
    with engine.write() as tx:
        tx.add_input(row)
    return new_input(engine, row)


def requeue(engine: ChatEngine, inputs: Sequence[Input]) -> None:
    """Put inputs back in line, in their order."""
    for input_ in inputs:
        engine.queue.put(input_)
