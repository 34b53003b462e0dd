"""Compaction: a durable overlay of the model's view. The history that people see is untouched (spec/turns.md, 8)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._json import JsonValue
from ..messages import UIMessage, to_model_messages
from ..models import ModelRequest, StepEnd, Usage, stream_step, sum_usage
from ..store.records import OverlayRow
from .engine_base import log
from .events import CompactedEvent
from .failure import StageError
from .hooks import is_async
from .records import TurnError

if TYPE_CHECKING:
    from .engine_services import EngineServices
    from .turn_run import TurnRun

SUMMARIZE = (
    "Summarise the conversation so far for yourself, so that you can go on without it: the person's aims, what was "
    "found out and decided, names and numbers that matter, what is open. Write plain text, no greeting."
)


@dataclass(frozen=True, kw_only=True)
class CompactionEvent:
    """What `should_compact` and `summarize` are asked about."""

    messages: tuple[dict[str, JsonValue], ...]
    input_tokens: int | None
    output_tokens: int | None
    usage: Usage
    total_usage: Usage
    source: Literal["inner", "outer"]
    step: int | None
    turn_number: int
    client_data: Any


def overlays_of(engine: EngineServices) -> list[OverlayRow]:
    """Return the chat's compactions, oldest first."""
    if engine.overlays is None:
        engine.overlays = engine.store.load_overlays(engine.chat_id)
    overlays: list[OverlayRow] = engine.overlays
    return overlays


def compacted_view(engine: EngineServices, messages: Sequence[UIMessage]) -> list[dict[str, JsonValue]]:
    """Return the model's view of a chain: the newest overlay that fits, then the rest."""
    convert = engine.definition.convert_data
    if engine.definition.repair is not None:
        messages = engine.definition.repair(tuple(messages))
    chain = engine.tree.chain
    places = {node: i for i, node in enumerate(chain)}
    for overlay in reversed(overlays_of(engine)):
        index = places.get(overlay.node_id)
        if index is None or index >= len(messages):
            continue
        summary = {"role": "user", "content": [{"type": "text", "text": overlay.summary}]}
        rest = list(messages[index + 1 :])
        if overlay.step:
            tail = _after_step(messages[index], overlay.step)
            rest = [tail, *rest] if tail is not None else rest
        return [summary, *to_model_messages(rest, convert_data=convert)]
    return list(to_model_messages(messages, convert_data=convert))


def _after_step(message: UIMessage, step: int) -> UIMessage | None:
    from ..messages import replace_parts

    starts = [i for i, part in enumerate(message.parts) if part.type == "step-start"]
    if step >= len(starts):
        return None
    return replace_parts(message, message.parts[starts[step] :])


async def compact_between_turns(engine: EngineServices, run: TurnRun) -> None:
    """Compact after a completed turn if the agent's policy asks for it. Failures are logged and shown, no more."""
    compaction = run.definition.compaction
    usage = sum_usage(run.step_usages)
    if compaction is None or not run.step_usages or usage.input_tokens is None:
        return
    view = tuple(engine.model_view(engine.tree.messages))
    event = CompactionEvent(
        messages=view,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        usage=usage,
        total_usage=engine.total_usage + usage,
        source="outer",
        step=None,
        turn_number=run.number,
        client_data=run.client_data,
    )
    try:
        if not await _call(engine, compaction.should_compact, event):
            return
    except Exception as error:  # noqa: BLE001 - a user's code may raise anything; it is logged
        _note_failure(engine, error)
        return
    part_id = engine.new_id("block")
    _tell(run, part_id, "compacting")
    try:
        summary, spent = await _summary(engine, run, event)
        node_id = engine.tree.head
        if node_id is None:
            return
        row = OverlayRow(node_id=node_id, step=0, summary=summary, message_id=engine.tree.node(node_id).message_id)
        with engine.write() as tx:
            tx.add_overlay(row)
        overlays_of(engine).append(row)
        if spent is not None:
            run.step_usages.append(spent)
    except Exception as error:  # noqa: BLE001 - a user's code may raise anything; it is logged
        _tell(run, part_id, "failed")
        _note_failure(engine, error)
        return
    _tell(run, part_id, "complete")
    try:
        await engine.fire(
            run,
            "on_compacted",
            lambda: CompactedEvent(
                summary=summary, messages=view, usage=spent, source="outer", step=None, **engine.common(run)
            ),
        )
    except StageError as failure:
        engine.log_failure("on_compacted failed", failure.cause)


def _tell(run: TurnRun, part_id: str, status: str) -> None:
    run.live.emit({"type": "data-compaction", "id": part_id, "data": {"status": status}, "transient": True})


def _note_failure(engine: EngineServices, error: Exception) -> None:
    log.error("chat %s: compaction failed", engine.chat_id, exc_info=error)
    engine.compaction_error = TurnError.of("compaction", error)


async def _summary(engine: EngineServices, run: TurnRun, event: CompactionEvent) -> tuple[str, Usage | None]:
    compaction = run.definition.compaction
    if compaction is not None and compaction.summarize is not None:
        text = await _call(engine, compaction.summarize, event)
        if not isinstance(text, str) or not text.strip():
            raise TypeError(f"summarize returns text, not {type(text).__name__}")
        return text, None
    request = ModelRequest(
        messages=(*event.messages, {"role": "user", "content": [{"type": "text", "text": SUMMARIZE}]}),
        chat_id=engine.chat_id,
        turn_number=run.number,
        step=run.step + 1,
        sleep=run.clock.sleep,
    )
    pieces: list[str] = []
    usage: Usage | None = None
    async for item in stream_step(run.definition.model, request):
        if isinstance(item, StepEnd):
            usage = item.usage
        elif item is not None and item["type"] == "text-delta":
            pieces.append(item["delta"])
    return "".join(pieces), usage


async def _call(engine: EngineServices, function: Any, event: CompactionEvent) -> Any:
    if is_async(function):
        return await function(event)
    result = await engine.runtime.in_worker(engine.chat_id, function, event)
    return await result if inspect.isawaitable(result) else result
