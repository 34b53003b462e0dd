"""Compaction: a durable overlay of the model's view. The history that people see is untouched (spec/turns.md, 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._json import JsonValue
from ..errors import ModelStreamError
from ..messages import UIMessage, replace_parts, to_model_messages
from ..models import ActionSpec, ModelRequest, StepEnd, Usage, stream_step, sum_usage
from ..store.records import OverlayRow
from .beginning import prepared
from .engine_base import log
from .events import CompactedEvent
from .failure import StageError
from .hooks import Checkpoint, call_hook
from .kernel_notes import note_places, ui_note
from .offered import agent_specs
from .records import TurnError
from .view import with_child_texts, without_unfinished

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


def compacted_view(
    engine: EngineServices,
    messages: Sequence[UIMessage],
    chain: Sequence[str] | None = None,
    overlays: Sequence[OverlayRow] | None = None,
) -> list[dict[str, JsonValue]]:
    """Return the model's view of a chain: the newest overlay that fits, then the rest.

    Args:
        engine: The chat.
        messages: The chain.
        chain: Its nodes; default: those of now. The last message may have none yet.
        overlays: The compactions; default: those of now.
    """
    convert = engine.definition.convert_data
    chain = engine.tree.chain if chain is None else chain
    nodes = [engine.tree.node(node_id) for node_id in chain if node_id in engine.tree]
    has_actions = len(engine.definition.catalog) > 0
    notes = note_places(nodes, engine.kernel_id)[0] if has_actions else frozenset()

    def converted(rest: Sequence[UIMessage], first: int) -> list[dict[str, JsonValue]]:
        said: list[UIMessage] = []
        for place, message in enumerate(rest, first):
            said += [ui_note(), message] if place in notes else [message]
        return with_child_texts(without_unfinished(to_model_messages(said, convert_data=convert)))

    overlays = overlays_of(engine) if overlays is None else overlays
    places = {node: i for i, node in enumerate(chain)} if overlays else {}
    for overlay in reversed(overlays):
        index = places.get(overlay.node_id)
        if index is None or index >= len(messages):
            continue
        rest = list(messages[index + 1 :])
        if overlay.step:
            tail = _after_step(messages[index], overlay.step)
            rest = [tail, *rest] if tail is not None else rest
        return [_as_message(overlay.summary), *converted(rest, len(messages) - len(rest))]
    return converted(messages, 0)


def _after_step(message: UIMessage, step: int) -> UIMessage | None:
    """Return what follows a step of a message; steering messages behind the step are not part of it."""
    starts = [i for i, part in enumerate(message.parts) if part.type == "step-start"]
    first = starts[step] if step < len(starts) else len(message.parts)
    while first and message.parts[first - 1].type == "data-steering-message":
        first -= 1
    return replace_parts(message, message.parts[first:]) if first < len(message.parts) else None


async def compact_between_turns(engine: EngineServices, run: TurnRun) -> None:
    """Compact after a completed turn if the agent's policy asks for it. Failures are logged and shown, no more."""
    usage = sum_usage(run.step_usages)
    if run.definition.compaction is None or not run.step_usages or usage.input_tokens is None or run.is_compacted:
        return
    view = engine.model_view(run.final or ())
    event = _event(engine, run, view, usage.input_tokens, usage.output_tokens)
    node_id = run.node_id if run.live.has_content else engine.tree.head
    if node_id is not None:
        await _compact(engine, run, event, node_id, run.live.message_id, ())


async def compact_between_steps(
    engine: EngineServices,
    run: TurnRun,
    view: list[dict[str, JsonValue]],
    end: StepEnd,
    specs: Sequence[ActionSpec],
) -> list[dict[str, JsonValue]] | None:
    """Compact after a step whose calls are all settled if the agent's policy asks for it.

    Args:
        engine: The chat.
        run: The turn.
        view: What the model sees now.
        end: How the step ended.
        specs: The actions of the turn: a request that holds calls has to define them.

    Returns:
        The view from here on, the summary; None when nothing was compacted.
    """
    spent = end.usage or Usage()
    step = sum(part.type == "step-start" for part in run.live.message.parts)
    event = _event(engine, run, view, spent.input_tokens, spent.output_tokens, step=step)
    summary = await _compact(engine, run, event, run.node_id, run.live.message_id, specs)
    if summary is None:
        return None
    run.is_compacted = True
    return await prepared(run, [_as_message(summary)], "compaction")


def _event(
    engine: EngineServices,
    run: TurnRun,
    view: Sequence[dict[str, JsonValue]],
    input_tokens: int | None,
    output_tokens: int | None,
    *,
    step: int | None = None,
) -> CompactionEvent:
    usage = sum_usage(run.step_usages)
    return CompactionEvent(
        messages=tuple(view),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        usage=usage,
        total_usage=engine.total_usage + usage,
        source="outer" if step is None else "inner",
        step=step,
        turn_number=run.number,
        client_data=run.client_data,
    )


async def _compact(
    engine: EngineServices,
    run: TurnRun,
    event: CompactionEvent,
    node_id: str,
    message_id: str,
    specs: Sequence[ActionSpec],
) -> str | None:
    """Ask, summarise, store and tell; return the summary, or None."""
    policy = run.definition.compaction
    assert policy is not None
    try:
        if not await _call(engine, policy.should_compact, event):
            return None
    except Exception as error:  # noqa: BLE001 - a user's code may raise anything; it is logged
        _note_failure(engine, error)
        return None
    part_id = engine.new_id("block")
    _tell(run, part_id, "compacting")
    try:
        summary, spent = await _summary(engine, run, event, specs)
        row = OverlayRow(node_id=node_id, step=event.step or 0, summary=summary, message_id=message_id)
        with engine.write() as tx:
            tx.add_overlay(row)
        overlays_of(engine).append(row)
    except Exception as error:  # noqa: BLE001 - a user's code may raise anything; it is logged
        _tell(run, part_id, "failed")
        _note_failure(engine, error)
        return None
    _tell(run, part_id, "complete")
    try:
        await engine.fire(
            run,
            "on_compacted",
            lambda: CompactedEvent(
                summary=summary,
                messages=event.messages,
                usage=spent,
                source=event.source,
                step=event.step,
                **engine.common(run),
            ),
        )
    except StageError as failure:
        engine.log_failure("on_compacted failed", failure.cause)
    return summary


def _as_message(summary: str) -> dict[str, JsonValue]:
    return {"role": "user", "content": [{"type": "text", "text": summary}]}


def _tell(run: TurnRun, part_id: str, status: str) -> None:
    run.live.emit({"type": "data-compaction", "id": part_id, "data": {"status": status}, "transient": True})


def _note_failure(engine: EngineServices, error: Exception) -> None:
    log.error("chat %s: compaction failed", engine.chat_id, exc_info=error)
    engine.compaction_error = TurnError.of("compaction", error)


async def _summary(
    engine: EngineServices, run: TurnRun, event: CompactionEvent, specs: Sequence[ActionSpec]
) -> tuple[str, Usage | None]:
    policy = run.definition.compaction
    if policy is not None and policy.summarize is not None:
        text = await _call(engine, policy.summarize, event)
        if not isinstance(text, str) or not text.strip():
            raise TypeError(f"summarize returns text, not {type(text).__name__}")
        return text, None
    request = ModelRequest(
        messages=(*event.messages, {"role": "user", "content": [{"type": "text", "text": SUMMARIZE}]}),
        actions=tuple(specs) or agent_specs(run),
        chat_id=engine.chat_id,
        turn_number=run.number,
        step=run.step + 1,
        sleep=run.clock.sleep,
    )
    pieces: list[str] = []
    usage: Usage | None = None
    try:
        async for item in stream_step(run.definition.model, request):
            if isinstance(item, StepEnd):
                usage = item.usage
            elif item is not None and item["type"] == "text-delta":
                pieces.append(item["delta"])
    finally:
        run.step_usages.append(usage)
    summary = "".join(pieces).strip()
    if not summary:
        raise ModelStreamError("The model gave no summary.", kind="incomplete")
    return summary, usage


async def _call(engine: EngineServices, function: Any, event: CompactionEvent) -> Any:
    checkpoint = Checkpoint(engine.chat_id, engine.read_chain, is_hook=True)
    result = await call_hook(engine.runtime, function, event, checkpoint=checkpoint)
    engine.apply_checkpoint(checkpoint)
    return result
