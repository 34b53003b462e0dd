"""Chat actions: typed commands that edit the history; they cost no turn unless they answer (spec/turns.md, 5)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._json import JsonValue
from .._killpoint import kill_point
from ..errors import InputError
from ..history import TreeEdit, has_something_to_answer
from ..messages import UIMessage, freeze
from ..store.port import WriteTx
from ..store.records import InjectedRow
from .beginning import settle_list
from .events import ActionEvent
from .failure import StageError
from .history_backend import unknown_message
from .inputs import Input
from .records import Outcome, TurnError

if TYPE_CHECKING:
    from .definition import Definition
    from .engine import ChatEngine

BUILT_IN = ("clear", "edit", "redo", "regenerate", "remove", "rollback", "switch", "undo")


@dataclass(frozen=True, slots=True)
class Edit:
    """What a chat action makes of the history.

    Attributes:
        tree: The planned edit, or None when nothing changes.
        redo: The redo stack afterwards; None empties it if the head moves.
        answers: A turn follows.
        injected: Context that the handler has injected.
        clears: Injected context and the stored body go.
    """

    tree: TreeEdit | None
    redo: list[str | None] | None = None
    answers: bool = False
    injected: list[InjectedRow] = field(default_factory=list)
    clears: bool = False


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
    is_hydrated: bool = False
    stop: asyncio.Event = field(default_factory=asyncio.Event)


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
    run = ActionRun(engine, input_, engine.definition, engine.next_number, freeze(input_.row.body))
    payload: dict[str, Any] = dict(input_.row.payload["action"])
    kind = str(payload.get("type", ""))
    with engine.tracer.span("chat action", **{"chat.id": engine.chat_id, "chat.action.type": kind}) as span:
        try:
            outcome = await _store(run, await _apply(run, kind, payload))
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


async def _apply(run: ActionRun, kind: str, payload: dict[str, Any]) -> Edit:
    """Boot, parse, hydrate, and let the handler or the built-in edit the history; nothing of that edit is stored."""
    engine, definition = run.engine, run.definition
    await engine.boot(run)
    try:
        run.client_data = definition.parse_client_data(run.input.client_data)
    except Exception as error:
        raise StageError("client_data", error) from error
    own = kind in definition.action_types
    if not own and kind not in BUILT_IN:
        known = ", ".join(sorted({*BUILT_IN, *definition.action_types}))
        raise StageError("action", InputError(f"unknown chat action {kind!r}; known types: {known}"))
    action = _parse(run, kind, payload) if own else None
    if "hydrate_messages" in definition.hooks:
        chain = await engine.hydrate(run, (), None)
        if chain is not None:
            run.is_hydrated = True
            engine.apply_list(chain)
    if own:
        return await _edit_own(run, action)
    edit = _edit_built_in(run, kind, payload)
    if kind == "edit" and edit.answers and edit.tree is not None:
        # An edited message may mention other variables than before.
        edit.tree.nodes[:] = [
            (node, new if new is None else await engine.with_mentions(new, run.input)) for node, new in edit.tree.nodes
        ]
    return edit


def _parse(run: ActionRun, kind: str, payload: dict[str, Any]) -> Any:
    if "on_action" not in run.definition.hooks:
        raise StageError("action", InputError(f"the agent has no on_action hook for its chat action {kind!r}"))
    if run.definition.parse_action is None:
        raise AssertionError("an agent with chat action types can parse them")
    try:
        return run.definition.parse_action(payload if run.input.live is None else run.input.live)
    except Exception as error:
        raise StageError("action", error) from error


async def _edit_own(run: ActionRun, action: Any) -> Edit:
    engine = run.engine
    made: list[ActionEvent] = []

    def make_event() -> ActionEvent:
        event = ActionEvent(action=action, **engine.seen(engine.tree.messages), **engine.common(run))
        made.append(event)
        return event

    try:
        result, checkpoint = await engine.fire(run, "on_action", make_event, apply=False)
    except StageError as failure:
        raise StageError("action", failure.cause) from failure.cause
    if result is not None and result is not made[-1].request:
        raise StageError(
            "action",
            TypeError(f"on_action returns nothing or its own event.turn(), not {type(result).__name__}"),
        )
    pending = checkpoint.take()
    tree = engine.tree.plan_list(pending, lambda: engine.new_id("node")) if pending is not None else None
    return Edit(tree, answers=result is not None, injected=engine.number_injected(checkpoint))


def _edit_built_in(run: ActionRun, kind: str, payload: dict[str, Any]) -> Edit:
    edit = _PLANS[kind](run.engine, normalize(payload))
    if run.is_hydrated and edit.tree is not None and not edit.tree.is_empty:
        run.engine.warn_about_hydrate(kind)
    return edit


async def _store(run: ActionRun, edit: Edit) -> Outcome:
    """Write the edit, that the input is done, and the follow-up's input, in one transaction (W9); then answer."""
    engine, input_ = run.engine, run.input
    follow_up: Input | None = None
    if edit.answers and _has_something_to_answer(engine, edit.tree):
        row = input_.row
        follow_up = replace(
            input_,
            row=engine.new_row(
                "action-turn", {}, body=row.body, client_data=row.client_data, client_tools=row.client_tools
            ),
        )

    def also(tx: WriteTx) -> None:
        for injected in edit.injected:
            tx.add_injected(injected)
        if edit.clears:
            tx.drop_injected()
            tx.set_chat(body=None)
        tx.move_input(input_.row.id, {"waiting", "taken"}, "done")
        if follow_up is not None:
            tx.add_input(follow_up.row)

    kill_point("edit.before")
    engine.apply_edit(
        edit.tree or TreeEdit(engine.tree.head, engine.tree.head),
        redo=edit.redo,
        stored=not run.is_hydrated,
        also=also,
    )
    engine.injected += edit.injected
    if edit.clears:
        engine.forget_context()
    kill_point("edit.after")
    if follow_up is not None:
        return await engine.run_turn(follow_up, "action-turn", after_action=True)
    if edit.answers:
        error = InputError("there is nothing to answer: the conversation does not end in a message of the user")
        return _failed(run, TurnError.of("action", error))
    return Outcome(status="applied")


def _has_something_to_answer(engine: ChatEngine, edit: TreeEdit | None) -> bool:
    """Tell whether the chain has something to answer once it is edited: its last message says so."""
    head = edit.head if edit is not None else engine.tree.head
    if head is None:
        return False
    fresh = {node.node_id: message for node, message in edit.nodes} if edit is not None else {}
    last = fresh.get(head) or engine.tree.message(head)
    # What is pending is settled first, as not executed: then that is what there is to answer.
    return has_something_to_answer(settle_list([last])[0])


# --- the built-in edits -----------------------------------------------------------------------------------------


def _node_of(engine: ChatEngine, fields: dict[str, Any], *, anywhere: bool = False) -> str:
    id_ = fields.get("message_id")
    if not isinstance(id_, str):
        raise InputError("the chat action needs `messageId`, the id of a message, as text")
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
    return replace(_moved_back(engine, None), clears=True)


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
