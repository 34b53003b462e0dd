"""What is done at the opening of a chat about turns and inputs that a former owner left behind.

An interrupted turn's partial answer is rebuilt from the chunk log by the ordinary fold and kept, its open calls are
settled, and the turn is offered: a person continues or discards it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ..errors import MessageError
from ..history import is_settled, settle_open_calls
from ..messages import Fold, Part, ReasoningPart, TextPart, UIMessage, is_tool_part, replace_parts, validate_part
from ..store.port import OpenedChat
from ..store.records import InputRow, InputState, TurnRow
from ..turns import ChatEngine, Input, Submission, TurnError
from .records import Interruption

log = logging.getLogger("chatnb")

WAITING: tuple[InputState, ...] = ("waiting",)
UNKNOWN = "The call was interrupted; whether it took effect is unknown. It was not run again."


def scan(engine: ChatEngine, opened: OpenedChat) -> None:
    """Rebuild, keep and offer interrupted turns; put the inputs that waited back in line."""
    if opened.created:
        return
    terminal = opened.chat.terminal
    if isinstance(terminal, dict):
        engine.error = TurnError(str(terminal.get("stage")), str(terminal.get("text")), None, terminal.get("code"))
    for row in engine.store.load_turns(engine.chat_id, ("queued", "starting", "running", "finishing", "interrupted")):
        _take_up(engine, row)
    for waiting in engine.store.load_inputs(engine.chat_id, WAITING):
        requeue(engine, waiting)
    engine.runtime.post(engine.kick)


def rebuild(engine: ChatEngine, row: TurnRow) -> UIMessage | None:
    """Fold a turn's chunk log onto the message it continues; None when it holds no part."""
    chunks = engine.store.load_chunks(row.id)
    start: UIMessage | None = None
    if row.assistant_id is not None:
        node = engine.tree.on_chain(row.assistant_id)
        start = engine.tree.message(node) if node is not None else None
    fold = Fold(start, id=row.assistant_id or "", strict=False)
    for chunk in chunks:
        try:
            fold.feed(chunk)
        except MessageError as error:
            log.warning("chat %s: the chunk log of a turn is broken (%s)", engine.chat_id, type(error).__name__)
            break
    message = fold.message
    return message if any(part.type != "step-start" for part in message.parts) else None


def close_parts(message: UIMessage) -> UIMessage:
    """Mark text and reasoning that was cut off as done."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, TextPart | ReasoningPart) and part.state == "streaming":
            part = validate_part({**part.to_wire(), "state": "done"})
        parts.append(part)
    return replace_parts(message, tuple(parts))


def _take_up(engine: ChatEngine, row: TurnRow) -> None:
    partial = rebuild(engine, row)
    chain = list(engine.tree.messages)
    waiting = False
    if partial is not None:
        partial = close_parts(partial)
        waiting = any(is_tool_part(p) and p.state == "approval-requested" and not is_settled(p) for p in partial.parts)
        if not waiting:
            partial = settle_open_calls(partial, UNKNOWN)
    in_place: dict[str, UIMessage] = {}
    node = engine.tree.on_chain(partial.id) if partial is not None else None
    if partial is not None and node is not None:
        in_place[node] = partial
        chain = [partial if m.id == partial.id else m for m in chain]
    elif partial is not None:
        chain.append(partial)
    edit = engine.tree.plan_list(
        chain,
        lambda: engine.new_id("node"),
        in_place=in_place,
        made_by={partial.id: (row.id, engine.kernel_id)} if partial is not None else None,
    )
    with engine.write() as tx:
        engine.put_edit(tx, edit)
        if row.state in ("starting", "running", "finishing"):
            tx.move_turn(row.id, {row.state}, "interrupted")
        if waiting:
            tx.move_turn(row.id, {"interrupted"}, "awaiting")
        elif row.stop_requested:
            tx.move_turn(row.id, {"interrupted"}, "stopped")
        if row.input_id is not None:
            tx.move_input(row.input_id, {"taken"}, "done")
    engine.tree.commit(edit)
    if not waiting and not row.stop_requested:
        engine.interruption = Interruption(
            turn_id=row.id,
            message_id=partial.id if partial is not None else None,
            kind="continue" if partial is not None else "retry",
            cause="process_died",
            incident_id=None,
            created_at=row.started_at,
            interrupted_at=None,
        )


def requeue(engine: ChatEngine, row: InputRow) -> None:
    """Put an input that was written down and never run back in line."""
    if row.kind == "decision" or (row.kind == "save" and "messages" not in (row.payload or {})):
        with engine.write() as tx:
            tx.move_input(row.id, {"waiting"}, "skipped")
        return
    submission = Submission(engine.runtime, engine.chat_id, engine.stop_submission)
    input_ = Input(replace(row), [submission], origin="recovery", client_data=row.client_data)
    submission._admit(input_)
    engine.queue.put(input_)
