"""Going on with an answer that the provider has kept: `continuation="retrieve"` (spec/recovery.md, section 6)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from .._clock import within
from ..errors import ModelError
from ..history import is_settled
from ..messages import is_tool_part, replace_parts
from ..models import ModelRequest, StepItem, stream_step
from .engine_base import log
from .live import BASE_SEQ, base_note

if TYPE_CHECKING:
    from .turn_run import TurnRun


async def retrieve(run: TurnRun, model: Any, request: ModelRequest) -> list[StepItem] | None:
    """Return the whole step that a model has kept; None when it has not, or can't be asked."""
    stash = run.resumed.row.model_stash if run.resumed is not None else None
    ask = getattr(model, "retrieve", None)
    if stash is None or ask is None or getattr(model, "continuation", None) != "retrieve":
        return None
    limit = getattr(run.definition.recovery, "stall_timeout", None)
    items: list[StepItem] = []
    try:
        source = ask(stash, request)
        if inspect.isawaitable(source):
            source = await source
        if source is None:
            return None
        stream = stream_step(model, request, source=source)
        while True:
            step = anext(stream)
            items.append(await (step if limit is None else within(run.clock, limit, step)))
    except StopAsyncIteration:
        return items
    except (ModelError, TimeoutError, Exception) as error:  # noqa: BLE001 - a model is a user's code; it is logged
        log.warning("chat %s: an answer could not be retrieved (%s)", run.engine.chat_id, type(error).__name__)
        return None


async def replayed(items: list[StepItem]) -> AsyncIterator[StepItem]:
    """Yield what was retrieved like a model's stream."""
    for item in items:
        yield item


def keep_settled(run: TurnRun) -> frozenset[str]:
    """Take out of the open step what the retrieved answer says again; return the ids of the calls that stay.

    The log begins anew, since taking out is no chunk.
    """
    live, engine = run.live, run.engine
    if run.continues is None or not live.is_step_open:
        return frozenset()
    parts = live.message.parts
    start = max(i for i, part in enumerate(parts) if part.type == "step-start")
    kept = [p for p in parts[start + 1 :] if is_tool_part(p) and is_settled(p)]
    message = replace_parts(live.message, (*parts[: start + 1], *kept))
    edit = engine.tree.plan_head(engine.tree.head)
    edit.messages[run.continues] = message
    live.flush()
    with engine.write() as tx:
        engine.put_edit(tx, edit)
        tx.drop_chunks([run.turn_id])
        tx.add_chunks(run.turn_id, BASE_SEQ, [base_note(len(message.parts))])
    engine.tree.commit(edit)
    live.restart(message)
    engine.history_changed()
    return frozenset(p.tool_call_id for p in kept)
