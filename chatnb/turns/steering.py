"""Steering: sends that arrive while a turn runs are taken into that turn (spec/turns.md, section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..messages import UIMessage
from .engine_base import log
from .hooks import Checkpoint, call_hook
from .inputs import Input
from .wire import WireChunk

if TYPE_CHECKING:
    from .engine_services import EngineServices
    from .turn_run import TurnRun


@dataclass(frozen=True, kw_only=True)
class SteeringBatch:
    """What the steering callbacks are asked about."""

    messages: tuple[UIMessage, ...]
    step: int
    turn_number: int
    client_data: Any


def is_steering(engine: EngineServices, input_: Input) -> bool:
    """Tell whether an input goes into the running turn: a send of text alone, with nothing else before it in line."""
    turn = engine.turn
    if turn is None or turn.definition.steering is None or input_.kind != "send":
        return False
    if turn.state not in ("starting", "running") or turn.generation != input_.row.generation:
        return False
    return not len(engine.queue) and all(part.type == "text" for part in input_.message.parts)


def accept_steering(engine: EngineServices, input_: Input) -> None:
    """Take a send into the list of steering messages."""
    turn = engine.turn
    assert turn is not None
    steering = turn.definition.steering
    assert steering is not None
    engine.steering.append(input_)
    if steering.on_received is not None:
        engine.runtime.spawn(
            _told(engine, steering.on_received, _batch(turn, [input_])), name=f"steering of {engine.chat_id}"
        )
    engine.queue_changed()


def _batch(run: TurnRun, inputs: list[Input]) -> SteeringBatch:
    return SteeringBatch(
        messages=tuple(i.message for i in inputs),
        step=run.step,
        turn_number=run.number,
        client_data=run.client_data,
    )


async def steer(run: TurnRun) -> list[WireChunk]:
    """Ask once for the whole list; if the answer is yes, send it as parts and let its submissions share the outcome."""
    engine, steering = run.engine, run.definition.steering
    if steering is None or not engine.steering:
        return []
    batch = list(engine.steering)
    try:
        wanted = await _call(engine, steering.should_inject, _batch(run, batch))
    except Exception:  # noqa: BLE001 - a user's code may raise anything; it is logged
        log.exception("chat %s: should_inject failed; the messages wait", engine.chat_id)
        return []
    if not wanted:
        return []
    texts = [i.message.text for i in batch]
    if steering.prepare is not None:
        try:
            prepared = await _call(engine, steering.prepare, _batch(run, batch))
            if isinstance(prepared, list | tuple) and len(prepared) == len(batch):
                texts = [p if isinstance(p, str) else p.text for p in prepared]
        except Exception:  # noqa: BLE001 - a user's code may raise anything; it is logged
            log.exception("chat %s: prepare of steering failed; the messages go in as they are", engine.chat_id)
    sent: list[WireChunk] = []
    for input_, text in zip(batch, texts, strict=True):
        chunk: WireChunk = {
            "type": "data-steering-message",
            "id": input_.message.id,
            "data": {"id": input_.message.id, "text": text},
        }
        run.live.emit(chunk)
        sent.append(chunk)
        run.join(input_.submissions)
        run.steered.append(input_)
        engine.steering.remove(input_)
    run.live.flush(durable=True)
    engine.queue_changed()
    if steering.on_injected is not None:
        await _told(engine, steering.on_injected, _batch(run, batch))
    return sent


def leftover_sends(engine: EngineServices) -> Input | None:
    """Return the steering messages that no boundary took as one input: the next turn, each its own message."""
    left, engine.steering[:] = list(engine.steering), []
    if not left:
        return None
    *before, last = left
    last.superseded = before
    last.submissions = [submission for one in left for submission in one.submissions]
    for submission in last.submissions:
        submission._admit(last)
    return last


async def _call(engine: EngineServices, function: Any, batch: SteeringBatch) -> Any:
    checkpoint = Checkpoint(engine.chat_id, engine.read_chain, is_hook=True)
    result = await call_hook(engine.runtime, function, batch, checkpoint=checkpoint)
    engine.apply_checkpoint(checkpoint)
    return result


async def _told(engine: EngineServices, function: Any, batch: SteeringBatch) -> None:
    try:
        await _call(engine, function, batch)
    except StoreError:
        raise
    except Exception:  # noqa: BLE001 - a user's code may raise anything; it is logged
        log.exception("chat %s: a steering callback failed", engine.chat_id)
