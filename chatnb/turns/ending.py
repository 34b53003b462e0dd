"""The second half of a turn: everything is settled, written in one transaction, and told (spec/turns.md, 6 and 7)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._clock import within
from .._killpoint import kill_point
from ..errors import LeaseLostError, StoreError
from ..history import Maker, TreeEdit
from ..messages import UIMessage, replace_parts
from ..models import sum_usage
from ..store.port import WriteTx
from .compaction import compact_between_turns
from .decisions import decisions_laid, lay_over
from .events import CompletionEvent
from .failure import StageError
from .inputs import Input
from .live import holds_content
from .moves import move_turn
from .records import CHAT_CLOSED, Outcome, TurnError
from .unfinished import ENDED, FAILED, STOPPED, settle_unfinished
from .usage import usage_to_json
from .wire import WireChunk

if TYPE_CHECKING:
    from .turn_run import TurnRun

DEFER_SECONDS = 5.0
FINISH_REASONS = frozenset({"stop", "length", "content-filter", "tool-calls", "other"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a turn ends."""

    status: Literal["completed", "awaiting", "stopped", "error"]
    error: TurnError | None = None


async def finish(run: TurnRun, verdict: Verdict) -> Outcome:
    """Bring a turn to its end and return the outcome.

    One terminal move, one `finish`, `abort` or `error` chunk, one `on_turn_complete`.
    """
    engine = run.engine
    if run.closing:
        return _interrupt(run)
    if run.lost is not None and run.is_written:
        outcome = _hand_over(run, run.lost)
        if outcome is not None:
            return outcome
        verdict = Verdict("error", TurnError("model", f"the attempt was broken off: {run.lost}", None, run.lost))
    if not run.is_written:
        return _never_began(run, verdict)
    try:
        run.live.end_blocks()
        raw = run.live.message
        if verdict.status in ("stopped", "error"):
            settle_unfinished(run, STOPPED if verdict.status == "stopped" else FAILED)
        elif verdict.status == "completed":
            settle_unfinished(run, ENDED)  # such as a call that a `run` has yielded and nobody runs
        run.live.end_step()
        if run.live.message != raw:
            run.raw_response = raw
        await run.ride_out(lambda: _capture(run, verdict))
        await _wait_for_deferred(run)
        if verdict.status == "completed":
            await compact_between_turns(engine, run)
        if verdict.status != "error":
            verdict = await _before_complete(run, verdict)
        _send_end(run, verdict)
        await run.ride_out(lambda: run.live.flush(durable=True))
        kill_point("turn.before_end")
        await run.ride_out(lambda: _write_end(run, verdict))
    except StoreError as error:
        verdict = Verdict("error", TurnError.of("store", error))
        engine.keep_unsaved(run, verdict)
    kill_point("turn.ended")
    run.live.close()
    engine.turn_ended(run, verdict)
    for submission in run.input.submissions:
        submission._log.end()
    await _after_complete(run, verdict)
    return _outcome(run, verdict)


def _never_began(run: TurnRun, verdict: Verdict) -> Outcome:
    """The turn's row could not be written: there is no turn, and no hook of one."""
    engine = run.engine
    try:
        with engine.write() as tx:
            tx.move_input(run.input.row.id, {"waiting"}, "done")
    except StoreError as failure:
        engine.log_failure("an input that failed could not be noted", failure)
    engine.turn = None
    engine.set_state(status="error", error=verdict.error)
    return Outcome(status="error", error=verdict.error)


def _capture(run: TurnRun, verdict: Verdict) -> None:
    """Take the response; from here on stop does nothing."""
    if run.state == "running":
        with run.engine.write() as tx:
            move_turn(tx, run.turn_id, "running", "finishing", finish_reason=finish_reason(run, verdict))
        run.state = "finishing"
    run.captured = message = run.live.message
    run.final = list(run.engine.tree.messages)
    if any(m.id == message.id for m in run.final):
        run.final = [message if m.id == message.id else m for m in run.final]
    elif run.live.has_content:
        run.final.append(message)
    run.engine.queue_leftover_sends()


def finish_reason(run: TurnRun, verdict: Verdict) -> str | None:
    """Return the outcome's finish reason."""
    if verdict.status == "error":
        return "error"
    if verdict.status == "stopped":
        return None
    if verdict.status == "awaiting":
        return "tool-calls"
    reason = run.finish_reason
    return reason if reason is None or reason in FINISH_REASONS else "other"


async def _wait_for_deferred(run: TurnRun) -> None:
    waiting = {f for f in run.deferred if not f.done()}
    if waiting:
        with suppress(TimeoutError):
            await within(run.clock, DEFER_SECONDS, asyncio.wait(waiting))


def completion(run: TurnRun, verdict: Verdict, *, stream_open: bool) -> dict[str, Any]:
    """Return the fields of the completion events."""
    engine = run.engine
    response = _response(run)
    raw = run.raw_response if run.raw_response is not None and response is not None else response
    usage = sum_usage(run.step_usages)
    total = engine.total_usage if not stream_open else engine.total_usage + usage
    return {
        **engine.seen(engine.read_chain()),
        "new_ui_messages": (*run.new_user_messages, *((response,) if response is not None else ())),
        "response_message": response,
        "raw_response_message": raw,
        "status": verdict.status,
        "stopped": verdict.status == "stopped",
        "usage": usage,
        "total_usage": total,
        "finish_reason": finish_reason(run, verdict),
        "error": verdict.error,
        "send_part": run.write_part if stream_open else None,
        **engine.common(run),
    }


def _response(run: TurnRun) -> UIMessage | None:
    """Return the response: as stored, once it is; None when nothing was produced."""
    if not run.live.has_content:
        return None
    if run.live.is_closed:
        node_id = run.engine.tree.on_chain(run.live.message_id)
        if node_id is not None:
            return run.engine.tree.message(node_id)
    return run.live.message


def _had_content(run: TurnRun) -> bool:
    return run.captured is not None and holds_content(run.captured)


def _with_late_parts(run: TurnRun, edited: UIMessage) -> UIMessage:
    """Return the response for the store: as a hook has edited it, with what was written since it was captured."""
    live = run.live.message
    if run.captured is None or edited is run.captured:
        return live
    return replace_parts(edited, (*edited.parts, *live.parts[len(run.captured.parts) :]))


async def _before_complete(run: TurnRun, verdict: Verdict) -> Verdict:
    try:
        await run.engine.fire(
            run,
            "on_before_turn_complete",
            lambda: CompletionEvent(**completion(run, verdict, stream_open=True)),
        )
    except StageError as failure:
        return Verdict("error", failure.error)
    return verdict


def _send_end(run: TurnRun, verdict: Verdict) -> None:
    if verdict.status == "error" and verdict.error is not None:
        run.live.emit({"type": "error", "errorText": verdict.error.message})
    elif verdict.status == "stopped":
        run.live.emit({"type": "abort"})
    else:
        reason = finish_reason(run, verdict)
        chunk: WireChunk = {"type": "finish"}
        if reason is not None:
            chunk["finishReason"] = reason
        run.live.emit(chunk)


def _write_end(run: TurnRun, verdict: Verdict) -> None:
    """W10: message, head, verdict, usage, input and terminal record in one transaction."""
    engine = run.engine
    usage = sum_usage(run.step_usages)
    edit, continuation = _plan_end(run, verdict)
    with engine.write() as tx:
        engine.put_edit(tx, edit)
        if run.state == "running":
            move_turn(tx, run.turn_id, "running", "finishing")
        move_turn(
            tx,
            run.turn_id,
            "finishing" if run.state == "running" else run.state,
            verdict.status,
            finish_reason=finish_reason(run, verdict),
            error=verdict.error.to_json() if verdict.error is not None else None,
            usage={**usage_to_json(usage), "steps": run.step, "model": run.definition.model.name},
            ended_at=run.clock.now(),
            stash=None,
            model_stash=None,
        )
        _end_inputs(tx, run)
        if run.resumed is not None and run.resumed.seal is not None:
            run.resumed.seal(tx, verdict.status)
        tx.set_chat(
            usage=usage_to_json(engine.total_usage + usage),
            terminal=verdict.error.to_terminal(run.turn_id, run.clock.now()) if verdict.error is not None else None,
            recovering=False,
            progress=engine.progress,
        )
        if run.injected and run.has_asked:
            tx.use_injected([placed.n for placed in run.injected], run.turn_id)
        if continuation is not None:
            tx.add_input(continuation.row)
    decisions_laid(engine, continuation)
    engine.tree.commit(edit)
    engine.end_written(run, usage, continuation)


def _plan_end(run: TurnRun, verdict: Verdict) -> tuple[TreeEdit, Input | None]:
    """Plan the chain with the response and the decisions that came meanwhile; return what goes on because of them."""
    engine = run.engine
    final, response_id = list(run.final or ()), run.live.message_id
    response = next((_with_late_parts(run, m) for m in final if m.id == response_id), None)
    if response is None and run.live.has_content and not _had_content(run):
        response = run.live.message  # late data parts alone make a message
        final.append(response)
    goes_on = response is not None and verdict.status == "awaiting"
    decided, continuation = lay_over(engine, run, response or run.live.message, goes_on=goes_on)
    final = [decided if m.id == response_id else m for m in final]
    in_place: dict[str, UIMessage] = {}
    if run.continues is not None and response is not None:
        in_place[engine.tree.on_chain(response_id) or run.continues] = decided
    edit = engine.tree.plan_list(
        final,
        lambda: engine.new_id("node"),
        in_place=in_place,
        made_by={response_id: Maker(run.turn_id, engine.kernel_id, run.node_id)},
    )
    return edit, continuation


def _end_inputs(tx: WriteTx, run: TurnRun) -> None:
    """Mark all inputs that the turn has answered as done."""
    if run.input.stored:
        tx.move_input(run.input.row.id, {"taken"}, "done")
    resumed = run.resumed.inputs if run.resumed is not None else ()
    for id_ in (*resumed, *run.input.other_rows, *(i.row.id for i in run.steered)):
        tx.move_input(id_, {"waiting", "held", "taken"}, "done")
    for row in run.engine.applied_decisions:
        tx.move_input(row, {"waiting"}, "done")


def settle_interrupted(run: TurnRun) -> bool:
    """Flush an attempt and mark its turn `interrupted`; False when it could not be written."""
    try:
        run.live.flush(durable=True)
        if run.is_written:
            with run.engine.write() as tx:
                tx.move_turn(run.turn_id, {"starting", "running", "finishing"}, "interrupted")
    except LeaseLostError:
        return False  # whoever has the chat now finds the turn, and takes it up
    except StoreError as failure:
        run.engine.log_failure("an attempt could not be ended in order", failure)
        return False
    finally:
        run.live.close()
    return True


def _hand_over(run: TurnRun, cause: str) -> Outcome | None:
    """End the attempt as interrupted and let recovery take the turn up; None when that is not possible."""
    if not settle_interrupted(run):
        return None
    run.engine.queue_leftover_sends()  # the turn is put before them
    if not run.engine.hand_over(run, cause):
        return None
    return Outcome(status="stopped", turn=run.number)


def write_late(run: TurnRun, verdict: Verdict) -> None:
    """Write the end of a turn whose end could not be written.

    Raises:
        StoreError: It still can't be.
    """
    run.live.flush(durable=True)
    if run.final is None:
        run.captured = run.live.message
        run.final = list(run.engine.tree.messages)
        if run.live.has_content:
            run.final = [m for m in run.final if m.id != run.live.message_id] + [run.live.message]
    _write_end(run, verdict)


def _interrupt(run: TurnRun) -> Outcome:
    """End the attempt because the chat is closed: flushed, `interrupted`, to be taken up at the next opening."""
    settle_interrupted(run)
    why = run.engine.closed_error()
    error = TurnError.of("store", why) if isinstance(why, LeaseLostError) else CHAT_CLOSED
    return Outcome(status="stopped", error=error, turn=run.number, message=_response(run))


async def _after_complete(run: TurnRun, verdict: Verdict) -> None:
    """Call `on_turn_complete`; its edits and that it is over are written together (W11)."""
    engine = run.engine
    has_hook = "on_turn_complete" in run.definition.hooks
    checkpoint = None
    try:
        _, checkpoint = await engine.fire(
            run,
            "on_turn_complete",
            lambda: CompletionEvent(**completion(run, verdict, stream_open=False)),
            apply=False,
        )
    except StageError as failure:
        engine.hook_failed(failure)
    try:
        engine.apply_checkpoint(checkpoint, also=lambda tx: tx.set_turn(run.turn_id, hooks_done=True), durable=has_hook)
    except StoreError as failure:
        engine.log_failure("a turn's end could not be noted", failure)


def _outcome(run: TurnRun, verdict: Verdict) -> Outcome:
    engine = run.engine
    return Outcome(
        status=verdict.status,
        message=_response(run),
        pending=engine.pending() if verdict.status == "awaiting" else (),
        usage=sum_usage(run.step_usages),
        error=verdict.error,
        turn=run.number,
        finish_reason=finish_reason(run, verdict),
        steps=run.step,
    )
