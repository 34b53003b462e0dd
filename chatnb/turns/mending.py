"""Transcript repair in a turn: before every request the history has a result for every call (spec/recovery.md, 8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._json import JsonValue
from ..actions.ports import CallRow, GrantState
from ..actions.prepare import prepare
from ..errors import ActionError
from ..history import TreeEdit
from ..history.repair import (
    ActionFacts,
    Known,
    LedgerRow,
    Orphan,
    Records,
    checked_replacement,
    find_orphans,
    has_unfinished,
    normalise_message,
    settle_orphan,
)
from ..messages import Part, ToolPart, UIMessage, is_tool_part
from .agent_site_resume import held_calls
from .events import HookEvent
from .failure import StageError
from .wire import WireChunk

if TYPE_CHECKING:
    from .engine_base import EngineBase
    from .turn_run import TurnRun


CONSUMED: tuple[GrantState, ...] = ("consumed",)


@dataclass(frozen=True, kw_only=True)
class ToolRepairEvent(HookEvent):
    """`on_tool_repair`: a call without a result is about to be settled.

    Return a tool part with the same call id in a terminal state, or a text part, to put it in its place.

    Attributes:
        part: The call, its input an object.
        ledger: `"none"`: it was not entered, as far as the ledger knows; `"unknown"`: it was, and no result is known.
    """

    part: ToolPart
    ledger: Known


def records_for(
    engine: EngineBase,
    message: UIMessage | Sequence[UIMessage],
    calls: Iterable[CallRow],
    client_tools: Collection[str],
) -> Records:
    """Return what is known of the calls of messages."""
    messages = [message] if isinstance(message, UIMessage) else message
    catalog = engine.definition.catalog

    def facts(name: str, given: JsonValue) -> ActionFacts:
        action = catalog.find(name)
        if action is None:
            return ActionFacts()
        is_read = action.fixed_read
        if is_read is None:
            try:
                is_read = not prepare(action, given).is_write
            except ActionError:
                is_read = False
        return ActionFacts(is_read=is_read, is_idempotent=action.idempotent)

    approved = any(is_tool_part(p) and p.state == "approval-responded" for m in messages for p in m.parts)
    used = {g.id for g in engine.store.load_grants(engine.chat_id, CONSUMED)} if approved else set()
    held = {call_id for m in messages if m.role == "assistant" for call_id in held_calls(m, catalog)}
    rows: list[LedgerRow] = list(calls)
    return Records(rows=rows, used=used, client_tools=tuple(client_tools), held=held, facts=facts)


async def mend_history(run: TurnRun) -> None:
    """Repair the chain, but for the message that goes on; store and show what changed, once."""
    engine = run.engine
    chain = [
        (node_id, engine.tree.message(node_id))
        for node_id in engine.tree.chain
        if node_id != run.continues and engine.tree.node(node_id).role == "assistant"
    ]
    broken = [(node_id, message) for node_id, message in chain if has_unfinished([message])]
    if not broken:
        return
    # Client-side calls of an older message wait for nobody: a new message has settled them already.
    names = engine.client_tool_names
    records = records_for(engine, [m for _, m in broken], engine.store.load_calls(engine.chat_id), names)
    edit = TreeEdit(engine.tree.head, engine.tree.head)
    for node_id, message in broken:
        mended = message
        for orphan in find_orphans(message, records):
            mended = settle_orphan(mended, orphan, await _ask(run, orphan))
        mended = normalise_message(mended)
        if mended != message:
            edit.messages[node_id] = mended
    if edit.messages:
        engine.apply_edit(edit)


async def mend_live(run: TurnRun) -> None:
    """Settle what was cut off in the message that goes on, by chunks, before anything is added to it."""
    live = run.live
    live.end_reasoning()
    message = live.message
    if not has_unfinished([message]):
        return
    calls = run.engine.store.load_calls(run.engine.chat_id)
    records = records_for(run.engine, message, calls, run.client_tool_names)
    with live.without_progress():
        for orphan in find_orphans(message, records):
            replacement = await _ask(run, orphan)
            part = orphan.result if replacement is None else replacement
            if is_tool_part(part):
                for chunk in _chunks(orphan, part):
                    live.emit(chunk)
            else:
                _replace(run, orphan, part)
    normal = normalise_message(live.message)
    if normal != live.message:
        with live.write():
            live.edit(lambda message: normal)


def _chunks(orphan: Orphan, part: ToolPart) -> list[WireChunk]:
    """Return the chunks that make a settled call of an open one."""
    call_id = part.tool_call_id
    known = part.input if isinstance(part.input, dict) else {}
    if part.state == "output-error":
        if orphan.part.state == "input-streaming":
            return [
                {
                    "type": "tool-input-error",
                    "toolCallId": call_id,
                    "toolName": part.tool_name,
                    "input": known,
                    "errorText": part.error_text or "",
                }
            ]
        return [{"type": "tool-output-error", "toolCallId": call_id, "errorText": part.error_text or ""}]
    before: list[WireChunk] = []
    if orphan.part.state == "input-streaming":
        before = [{"type": "tool-input-available", "toolCallId": call_id, "toolName": part.tool_name, "input": known}]
    if part.state == "output-denied":
        return [*before, {"type": "tool-output-denied", "toolCallId": call_id}]
    return [*before, {"type": "tool-output-available", "toolCallId": call_id, "output": part.output}]


def _replace(run: TurnRun, orphan: Orphan, part: Part) -> None:
    with run.live.write():
        run.live.edit(lambda message: settle_orphan(message, orphan, part))


async def _ask(run: TurnRun, orphan: Orphan) -> Part | None:
    """Ask `on_tool_repair`; None stands for the default."""
    if orphan.is_recorded or "on_tool_repair" not in run.definition.hooks:
        return None
    engine = run.engine
    try:
        value = await engine.fire(
            run,
            "on_tool_repair",
            lambda: ToolRepairEvent(part=orphan.part, ledger=orphan.ledger, **engine.common(run)),
        )
    except StageError as failure:
        engine.log_failure("on_tool_repair failed; the call is settled as usual", failure.cause)
        return None
    return checked_replacement(orphan, value)
