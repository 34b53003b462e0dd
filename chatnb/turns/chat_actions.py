"""Chat actions: typed commands that edit the history; they cost no turn unless they answer (spec/turns.md, 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._json import JsonValue
from .._killpoint import kill_point
from ..errors import InputError
from ..history import TreeEdit, has_something_to_answer
from ..messages import UIMessage
from .events import ActionEvent
from .failure import StageError
from .history_backend import unknown_message
from .inputs import Input
from .records import Outcome, TurnError

if TYPE_CHECKING:
    from .definition import Definition
    from .engine import ChatEngine

BUILT_IN = ("clear", "edit", "redo", "regenerate", "remove", "rollback", "switch", "undo")
NEEDS_MESSAGE = frozenset({"edit", "remove", "rollback", "switch"})


@dataclass(frozen=True, slots=True)
class Edit:
    """What a chat action makes of the history.

    Attributes:
        tree: The planned edit, or None when nothing changes.
        redo: The redo stack afterwards; None empties it if the head moves.
        answers: A turn follows.
    """

    tree: TreeEdit | None
    redo: list[str | None] | None = None
    answers: bool = False


@dataclass(eq=False)
class ActionRun:
    """One chat action in the slot; what hooks see of it."""

    engine: ChatEngine
    input: Input
    definition: Definition
    number: int
    body: Mapping[str, JsonValue] | None
    trigger: str = "action"
    client_data: Any = None
    stop: Any = field(default=None)

    def __post_init__(self) -> None:
        import asyncio

        self.stop = asyncio.Event()


def normalize(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat action's payload with snake_case field names."""
    return {re.sub(r"([a-z0-9])([A-Z])", lambda m: f"{m[1]}_{m[2].lower()}", str(k)): v for k, v in payload.items()}


def is_clear(definition: Definition, input_: Input) -> bool:
    """Tell whether an input is the built-in `clear`."""
    if input_.kind != "action" or "clear" in definition.action_types:
        return False
    return bool(input_.row.payload["action"].get("type") == "clear")


async def run_chat_action(engine: ChatEngine, input_: Input) -> Outcome:
    """Run one chat action; return `applied`, `error`, or the outcome of the turn it asked for."""
    run = ActionRun(engine, input_, engine.definition, engine.next_number, input_.row.body)
    payload: dict[str, Any] = dict(input_.row.payload["action"])
    kind = str(payload.get("type", ""))
    engine.set_state(error=None, status="ready" if engine.status == "error" else engine.status)
    with engine.tracer.span("chat action", **{"chat.id": engine.chat_id, "action.type": kind}) as span:
        try:
            answers = await _apply(run, kind, payload)
            if answers:
                outcome = await _answer(run)
            else:
                outcome = engine.finish_input(input_, Outcome(status="applied"))
        except StageError as failure:
            outcome = _failed(run, failure.error)
        except InputError as failure:
            outcome = _failed(run, TurnError.of("action", failure))
        span.set("chat.status", outcome.status)
        if outcome.error is not None and outcome.turn is None:
            span.fail(outcome.error.message)
    return outcome


def _failed(run: ActionRun, error: TurnError) -> Outcome:
    return run.engine.finish_input(run.input, Outcome(status="error", error=error))


async def _apply(run: ActionRun, kind: str, payload: dict[str, Any]) -> bool:
    engine, definition = run.engine, run.definition
    await engine.boot(run)
    try:
        run.client_data = definition.parse_client_data(run.input.client_data)
    except Exception as error:
        raise StageError("client_data", error) from error
    own = kind in definition.action_types
    action = _parse(run, kind, payload) if own else None
    hydrated = False
    if "hydrate_messages" in definition.hooks:
        chain = await engine.hydrate(run, (), None)
        if chain is not None:
            hydrated = True
            engine.apply_list(chain)
    if own:
        return await _apply_own(run, action, stored=not hydrated)
    return _apply_built_in(run, kind, payload, stored=not hydrated)


def _parse(run: ActionRun, kind: str, payload: dict[str, Any]) -> Any:
    if "on_action" not in run.definition.hooks:
        raise StageError("action", InputError(f"the agent has no on_action hook for its chat action {kind!r}"))
    if run.input.live is not None:
        return run.input.live
    if run.definition.parse_action is None:
        raise AssertionError("an agent with chat action types can parse them")
    try:
        return run.definition.parse_action(payload)
    except Exception as error:
        raise StageError("action", error) from error


async def _apply_own(run: ActionRun, action: Any, *, stored: bool) -> bool:
    engine = run.engine
    made: list[ActionEvent] = []

    def make_event() -> ActionEvent:
        made.append(
            ActionEvent(
                action=action,
                ui_messages=engine.tree.messages,
                send_part=None,
                **engine.common(run),  # type: ignore[arg-type]
            )
        )
        return made[-1]

    try:
        result, checkpoint = await engine.fire(run, "on_action", make_event, apply=False)
    except StageError as failure:
        raise StageError("action", failure.cause) from failure.cause
    if result is not None and result is not made[-1].request:
        raise StageError(
            "action",
            TypeError(f"on_action returns nothing or its own event.turn(), not {type(result).__name__}"),
        )
    kill_point("edit.before")
    pending = checkpoint.take()
    if pending is not None:
        engine.apply_list(pending, stored=stored)
    for messages in checkpoint.injected:
        engine.keep_injected(messages)
    kill_point("edit.after")
    return result is not None


def _apply_built_in(run: ActionRun, kind: str, payload: dict[str, Any], *, stored: bool) -> bool:
    engine = run.engine
    if kind not in BUILT_IN:
        known = ", ".join(sorted({*BUILT_IN, *run.definition.action_types}))
        raise StageError("action", InputError(f"unknown chat action {kind!r}; known types: {known}"))
    fields = normalize(payload)
    edit = _PLANS[kind](engine, fields)
    kill_point("edit.before")
    if not stored and edit.tree is not None and not edit.tree.is_empty:
        engine.warn_about_hydrate(kind)
    if edit.tree is not None:
        engine.apply_edit(edit.tree, redo=edit.redo, stored=stored)
    if kind == "clear":
        engine.forget_context()
    kill_point("edit.after")
    return edit.answers


async def _answer(run: ActionRun) -> Outcome:
    """Run the turn that a chat action asked for, in the same slot."""
    engine = run.engine
    if not has_something_to_answer(engine.tree.messages):
        error = InputError("there is nothing to answer: the conversation does not end in a message of the user")
        return _failed(run, TurnError.of("action", error))
    row = engine.new_row(
        "action-turn",
        {},
        body=run.input.row.body,
        client_data=run.input.row.client_data,
        client_tools=run.input.row.client_tools,
    )
    with engine.write() as tx:
        tx.move_input(run.input.row.id, {"waiting", "taken"}, "done")
        tx.add_input(row)
    follow_up = replace(run.input, row=row)
    return await engine.run_turn(follow_up, "action-turn", after_action=True)


# --- the built-in edits -----------------------------------------------------------------------------------------


def _node_of(engine: ChatEngine, fields: dict[str, Any], *, anywhere: bool = False) -> str:
    id_ = fields.get("message_id")
    if not isinstance(id_, str):
        raise InputError("the chat action needs messageId, a text")
    node = engine.tree.find(id_) if anywhere else engine.tree.on_chain(id_)
    if node is None:
        raise unknown_message(id_)
    return node


def _undo(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    chain = engine.tree.chain
    if not chain:
        return Edit(None)
    index = next((i for i in reversed(range(len(chain))) if engine.tree.node(chain[i]).role == "user"), 0)
    return _moved_back(engine, chain[index - 1] if index > 0 else None)


def _moved_back(engine: ChatEngine, head: str | None) -> Edit:
    """Move the head back and keep the way forward."""
    if head == engine.tree.head:
        return Edit(None)
    return Edit(engine.tree.plan_head(head), redo=[*engine.redo, engine.tree.head])


def _redo(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    if not engine.redo:
        return Edit(None)
    *rest, head = engine.redo
    return Edit(engine.tree.plan_head(head), redo=rest)


def _rollback(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    return _moved_back(engine, _node_of(engine, fields))


def _clear(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    return _moved_back(engine, None)


def _switch(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    node = _node_of(engine, fields, anywhere=True)
    return Edit(engine.tree.plan_head(engine.tree.leaf_shown_below(node)))


def _remove(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    node = _node_of(engine, fields)
    id_ = engine.tree.node(node).message_id
    kept = [m for m in engine.tree.messages if m.id != id_]
    return Edit(engine.tree.plan_list(kept, lambda: engine.new_id("node")))


def _edit(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    node = _node_of(engine, fields)
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InputError("edit needs a text that is not empty")
    old = engine.tree.message(node)
    new = with_text(old, text, engine.new_id("msg"))
    chain = engine.tree.chain
    before = [engine.tree.message(n) for n in chain[: chain.index(node)]]
    plan = engine.tree.plan_list([*before, new], lambda: engine.new_id("node"))
    return Edit(plan, answers=old.role == "user")


def with_text(message: UIMessage, text: str, id_: str) -> UIMessage:
    """Return a message with another id and text; parts that are no text stay where they are."""
    parts: list[JsonValue] = []
    placed = False
    for part in message.parts:
        if part.type != "text":
            parts.append(part.to_wire())
        elif not placed:
            placed = True
            parts.append({"type": "text", "text": text})
    if not placed:
        parts.insert(0, {"type": "text", "text": text})
    return UIMessage.from_wire({**message.to_wire(), "id": id_, "parts": parts})


def _regenerate(engine: ChatEngine, fields: dict[str, Any]) -> Edit:
    id_ = fields.get("message_id")
    if id_ is not None and not isinstance(id_, str):
        raise InputError("the chat action takes messageId, a text")
    wanted = engine.chain_to_answer(id_)
    chain = engine.tree.chain
    return Edit(engine.tree.plan_head(chain[len(wanted) - 1]), answers=True)


_PLANS = {
    "clear": _clear,
    "edit": _edit,
    "redo": _redo,
    "regenerate": _regenerate,
    "remove": _remove,
    "rollback": _rollback,
    "switch": _switch,
    "undo": _undo,
}
