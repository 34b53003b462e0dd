"""The answer of a turn: old calls go on, `run` or the model speaks, and a stop ends it all (spec/turns.md, 7 and 8)."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from .._clock import within
from ..errors import MessageError, RemoteStreamError, StoreError
from ..runtime.contain import contained
from ..runtime.entry import is_async
from .beginning import prepare_view
from .failure import StageError, Stopped
from .hooks import enter_context
from .mending import mend_live
from .turn import EmittedChunk, TextStream
from .wire import WireChunk

if TYPE_CHECKING:
    from .turn_run import TurnRun

ABANDON_SECONDS = 2.0
CALLS_SECONDS = 3.0
CLOSING_SECONDS = 0.2
FRAME_CHUNKS = frozenset({"start", "finish", "abort", "error"})
"""They are the turn's own; what a `run` yields of them is left out, and an `error` fails the turn."""


async def answer(run: TurnRun) -> None:
    """Let the answer be given. A stop cancels it, and abandons it after 2 s if it does not end.

    Raises:
        Stopped: A stop was asked for.
        StageError: `run`, the model, a loop breaker or the chunk log failed.
        StoreError: The store can't be written.
    """
    run.raise_if_stopped()
    context = contextvars.copy_context()
    enter_context(context, run.checkpoint)
    run.context = context
    spawn = run.engine.runtime.spawn
    body = spawn(contained(_body(run)), name=f"run of {run.turn_id}", context=context)
    stop = spawn(run.stop.wait(), name=f"stop of {run.turn_id}")
    try:
        await asyncio.wait({body, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not body.done():
            await _give_up(run, body)
    finally:
        stop.cancel()
        body.cancel()
    if run.broken is not None:
        raise StageError("store", run.broken)
    try:
        await body
    except asyncio.CancelledError:
        raise Stopped from None
    except (StageError, Stopped, StoreError):
        raise
    except Exception as error:
        raise StageError("run", error) from error


async def _give_up(run: TurnRun, body: asyncio.Task[None]) -> None:
    """Cancel the answer; leave it behind if it does not end."""
    if run.closing:
        await _wait_real(body)
        body.cancel()
        await _wait_real(body)
        raise Stopped
    if run.in_calls:
        await _wait(run, body, CALLS_SECONDS)
    if not body.done():
        body.cancel()
        await _wait(run, body, ABANDON_SECONDS)
    if run.broken is not None:
        raise StageError("store", run.broken)
    if body.done() and not body.cancelled():
        body.exception()  # retrieved: the stop is what ends the turn
    raise Stopped


async def _wait(run: TurnRun, task: asyncio.Future[Any], seconds: float) -> None:
    with suppress(TimeoutError):
        await within(run.clock, seconds, asyncio.wait({task}))


async def _wait_real(task: asyncio.Future[Any]) -> None:
    """Wait a moment for something that was stopped: the chat is being closed, and nobody waits long for that."""
    await asyncio.wait({task}, timeout=CLOSING_SECONDS)


async def _body(run: TurnRun) -> None:
    if run.continues is not None:
        await mend_live(run)
    if run.goes_on and not await _resume_calls(run):
        return
    custom = run.definition.hooks.get("run")
    if custom is None:
        await _consume(run, run.turn.stream_text(), "model")
        return
    run.engine.note_hook("run", run.turn)
    with run.engine.tracer.span("hook run") as span:
        try:
            await _take(run, await _call_run(run, custom))
        except (Stopped, asyncio.CancelledError):
            raise
        except Exception as error:
            cause = error.cause if isinstance(error, StageError) else error
            span.fail(type(cause).__name__)
            raise


async def _resume_calls(run: TurnRun) -> bool:
    """Let the old calls of a continued message go on; False when the turn ends here."""
    run.in_calls = True
    try:
        ended = await run.site.resume_calls(run)
    finally:
        run.in_calls = False
    run.site_chunks.take()
    run.raise_if_stopped()
    if ended.awaiting or run.has_waiting_calls():
        run.awaiting = True
        return False
    if ended.ends_turn:
        run.finish_reason = "tool-calls"
        return False
    await prepare_view(run)
    run.raise_if_stopped()
    return True


async def _call_run(run: TurnRun, custom: Callable[..., Any]) -> Any:
    if inspect.isasyncgenfunction(custom):
        return custom(run.turn)
    if is_async(custom):
        return await custom(run.turn)
    engine = run.engine
    result = await engine.runtime.in_worker(engine.chat_id, contextvars.copy_context().run, custom, run.turn)
    is_stream = hasattr(result, "__aiter__")  # a TextStream that is returned is not awaited
    return await result if inspect.isawaitable(result) and not is_stream else result


async def _take(run: TurnRun, result: Any) -> None:
    if result is None:
        return
    if isinstance(result, str):
        await _consume(run, _text_chunks(result), "run")
    elif isinstance(result, TextStream) or hasattr(result, "__aiter__"):
        await _consume(run, result, "run")
    else:
        kind = type(result).__name__
        raise StageError("run", TypeError(f"run returns a stream, text or None, or yields chunks; it returned {kind}"))


async def _consume(run: TurnRun, source: Any, stage: str) -> None:
    chunks = aiter(source)
    async with aclosing(chunks) if hasattr(chunks, "aclose") else nullcontext():
        async for chunk in chunks:
            run.raise_if_stopped()
            if isinstance(chunk, EmittedChunk):
                continue
            if not isinstance(chunk, dict):
                raise StageError("run", TypeError(f"run yields chunks (dicts), not {type(chunk).__name__}"))
            kind = chunk.get("type")
            if kind == "error":
                raise StageError(stage, RemoteStreamError(str(chunk.get("errorText") or "the stream failed")))
            if kind in FRAME_CHUNKS or run.site_chunks.has(chunk):
                continue
            run.take_join()
            try:
                if kind in ("start-step", "finish-step"):
                    run.live.end_blocks()
                    run.live.end_step()
                if kind != "finish-step":
                    run.live.emit(chunk)
            except MessageError as error:
                raise StageError(stage, error) from error


async def _text_chunks(text: str) -> AsyncIterator[WireChunk]:
    yield {"type": "start-step"}
    yield {"type": "text-start", "id": "text"}
    yield {"type": "text-delta", "id": "text", "delta": text}
    yield {"type": "text-end", "id": "text"}
    yield {"type": "finish-step"}
