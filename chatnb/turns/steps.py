"""The steps of a turn: one model call and its batch of calls each (spec/turns.md, section 6)."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._json import JsonValue
from .._killpoint import kill_point
from .._ports import Span, Tracer
from ..errors import ActionError, MessageError, ModelStreamError
from ..messages import UIMessage, check_emittable, is_plain_delta, replace_parts, to_model_messages
from ..models import ModelRequest, StepEnd, StepItem, resolve_model, stream_step
from ..models.variables import with_variables
from .compaction import compact_between_steps
from .failure import StageError, Stopped
from .io import Announced, CallsEnd, RefusedInput
from .offered import agent_specs
from .retrieval import keep_settled, replayed, retrieve
from .turn import EmittedChunk
from .view import complete_view, injected_messages, with_child_texts, with_images, without_unfinished
from .watch import StallWatch
from .wire import WireChunk

if TYPE_CHECKING:
    from .turn_run import TurnRun

MODEL_CHUNKS = frozenset(
    {
        "file",
        "reasoning-delta",
        "reasoning-end",
        "reasoning-start",
        "source-document",
        "source-url",
        "text-delta",
        "text-end",
        "text-start",
        "tool-input-available",
        "tool-input-delta",
        "tool-input-error",
        "tool-input-start",
        "tool-output-available",
        "tool-output-error",
    }
)


class Steps:
    """One run of `stream_text`: asks the model, runs what it calls, asks again."""

    def __init__(
        self,
        run: TurnRun,
        *,
        messages: Sequence[Mapping[str, JsonValue]] | None,
        model: Any,
        instructions: str | None,
        actions: Sequence[Any] | None,
        max_steps: int | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._run = run
        definition = run.definition
        self._view = [dict(m) for m in messages] if messages is not None else None
        self._model = definition.model if model is None else resolve_model(model)
        self._instructions = run.instructions if instructions is None else instructions
        self._specs = agent_specs(run, actions)
        self._max_steps = definition.max_steps if max_steps is None else max_steps
        self._settings = dict(settings)
        self._images: dict[str, list[JsonValue]] = {}
        self._base = 0

    async def chunks(self) -> AsyncIterator[WireChunk]:
        """Yield the chunks of all steps; those that have been sent already as `EmittedChunk`."""
        run = self._run
        # A recovered attempt that goes on in an open text block says the whole open step with each request.
        base = run.join_base
        self._base = len(run.live.message.parts) if base is None else base
        found = await retrieve(run, self._model, self._request()) if run.has_model_stash else None
        kept = keep_settled(run) if found is not None else frozenset[str]()
        join = run.take_join(is_replaced=found is not None)
        if join is None:
            self._base = len(run.live.message.parts)
        made = 0
        while True:
            run.step += 1
            made += 1
            request = self._request()
            run.has_asked = True
            run.engine.note_request(self._model, request)
            run.step_usages.append(None)
            if not run.live.is_step_open:
                yield {"type": "start-step"}
            kill_point("model.before_call")
            step = StepStream(run, {spec.name for spec in self._specs}, join=join, kept=kept)
            with span_beside(run.engine.tracer, f"step {run.step}"):
                async for chunk in step.chunks(self._model, request, found):
                    yield chunk
            join = found = None
            run.forget_model_stash()
            for chunk in step.unfinished():
                yield chunk
            run.finish_reason = step.end.finish_reason
            run.step_usages[-1] = step.end.usage
            run.raise_if_stopped()
            ended = await self._run_calls(step.announced)
            for sent in run.site_chunks.take():
                yield EmittedChunk(sent)
            run.raise_if_stopped()
            self._images.update(ended.images or {})
            yield {"type": "finish-step"}
            kill_point("step.between")
            called = step.called
            waiting = run.has_waiting_calls()
            breaker = ended.breaker
            if breaker is None and step.refused:
                breaker = run.site.count_refused(step.refused)
            if breaker is not None:
                code, text = breaker
                raise StageError("calls", ActionError(text, code=code), code)
            if ended.awaiting or waiting:
                run.awaiting = True
                return
            if not called or ended.ends_turn:
                return
            if made >= self._max_steps:
                run.finish_reason = "tool-calls"
                return
            await self._compact(step.end)
            for sent in await run.step_boundary():
                yield EmittedChunk(sent)

    async def _compact(self, end: StepEnd) -> None:
        """Let the agent's policy put a summary in the place of all that was said so far."""
        run = self._run
        if run.definition.compaction is None:
            return
        view = await compact_between_steps(run.engine, run, self._current_view(), end, self._specs)
        if view is not None:
            self._view, self._base = view, len(run.live.message.parts)

    async def _run_calls(self, announced: list[Announced]) -> CallsEnd:
        run = self._run
        if not announced:
            return CallsEnd()
        for call in announced:
            run.ensure_part(call)
        # What is about to run is in the log before it runs: a read leaves no other trace.
        await run.ride_out(run.live.flush)
        run.in_calls = True
        try:
            return await run.site.run_calls(run, announced)
        finally:
            run.in_calls = False

    def _current_view(self, *, with_injected: bool = False) -> list[dict[str, JsonValue]]:
        """Return what the model sees now: the view, and what this turn has produced since.

        Injected context stands where it was when it was placed, between whole steps.
        """
        run = self._run
        view = list(run.view if self._view is None else self._view)
        message = run.live.message
        start = self._base
        for placed in run.injected if with_injected else ():
            end = max(placed.place, start)
            view += self._converted(message, start, end)
            view += injected_messages([placed.messages])
            start = end
        return view + self._converted(message, start, len(message.parts))

    def _converted(self, message: UIMessage, start: int, end: int) -> list[dict[str, JsonValue]]:
        if start == end:
            return []
        piece = replace_parts(message, message.parts[start:end])
        view = to_model_messages([piece], convert_data=self._run.definition.convert_data)
        return with_child_texts(without_unfinished(view))

    def _request(self) -> ModelRequest:
        run = self._run
        view = with_images(self._current_view(with_injected=True), self._images)
        continuation = getattr(self._model, "continuation", "user-message")
        view = complete_view(view, continuation, has_note=run.has_tail_note)
        variables = run.variables()
        return ModelRequest(
            messages=tuple(with_variables(view, variables)),
            instructions=self._instructions,
            actions=self._specs,
            settings=self._settings,
            variables=variables,
            chat_id=run.engine.chat_id,
            turn_number=run.number,
            step=run.step,
            stash=run.keep_model_stash,
            sleep=run.clock.sleep,
        )


class StepStream:
    """The model's chunks of one step, checked and completed."""

    def __init__(
        self, run: TurnRun, known: set[str], *, join: str | None = None, kept: frozenset[str] = frozenset()
    ) -> None:
        self._run = run
        self._known = known
        self._join = join
        self._joined: str | None = None
        self._kept = kept
        self._open: dict[tuple[str, str], None] = {} if join is None else {("text-end", join): None}
        self._begun: dict[str, str] = {}
        self._buffers: dict[str, list[str]] = {}
        self._ended = False
        self.end = StepEnd("other")
        self.announced: list[Announced] = []
        self.refused: list[RefusedInput] = []
        self.called = False

    async def chunks(
        self, model: Any, request: ModelRequest, found: list[StepItem] | None = None
    ) -> AsyncIterator[WireChunk]:
        """Yield the step's chunks; of an answer that was retrieved, if there is one.

        Raises:
            StageError: The model failed, or yields what a model must not (stage `model`).
        """
        stream = stream_step(model, request, source=None if found is None else replayed(found))
        watch = StallWatch(self._run, model)
        try:
            while True:
                watch.waits()
                item = await anext(stream, _OVER)
                watch.came(is_chunk=item is not None)
                if item is _OVER:
                    break
                if item is None:
                    continue
                if self._join is None and is_plain_delta(item):
                    yield item  # nearly all chunks are; nothing of the following is about them
                    continue
                if isinstance(item, StepEnd):
                    self.end, self._ended = item, True
                    continue
                for chunk in self._admit(item):
                    yield chunk
        except (StageError, Stopped, asyncio.CancelledError, GeneratorExit):
            raise
        except ModelStreamError as error:
            if error.kind == "connection_lost" and watch.has_begun:
                self._run.lose("connection_lost")
                raise Stopped from error
            raise StageError("model", error) from error
        except Exception as error:
            raise StageError("model", error) from error
        finally:
            watch.end()
            await _close(stream)
        if not self._ended:
            raise StageError("model", ModelStreamError("The model's stream has no end.", kind="incomplete"))

    def _admit(self, chunk: WireChunk) -> list[WireChunk]:
        if self._join is not None and isinstance(chunk, dict):
            joined = self._rejoined(chunk)
            if joined is None:
                return []
            chunk = joined
        if self._kept and isinstance(chunk, dict) and chunk.get("toolCallId") in self._kept:
            return []
        return [self._titled(one) for one in self._checked(chunk)]

    def _rejoined(self, chunk: WireChunk) -> WireChunk | None:
        """Let the model's first text go on in the block that was open; its start is dropped."""
        kind = chunk.get("type")
        if kind == "text-start" and self._joined is None:
            self._joined = chunk["id"]
            return None
        if kind in ("text-delta", "text-end") and chunk.get("id") == self._joined:
            return {**chunk, "id": self._join}
        return chunk

    def _titled(self, chunk: WireChunk) -> WireChunk:
        """Give a call the title that its action has for people."""
        if chunk["type"] not in ("tool-input-start", "tool-input-available") or chunk.get("title"):
            return chunk
        action = self._run.definition.catalog.find(chunk["toolName"])
        return chunk if action is None or not action.title else {**chunk, "title": action.title}

    def _checked(self, chunk: WireChunk) -> list[WireChunk]:
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if not isinstance(kind, str):
            raise StageError("model", TypeError(f"a model yields chunks, not {type(chunk).__name__}"))
        if kind.startswith("data-"):
            return [chunk]
        if kind not in MODEL_CHUNKS:
            raise StageError("model", MessageError(f"a model can't send a chunk of type {kind!r}"))
        check_emittable(chunk)
        if kind in ("text-start", "reasoning-start"):
            self._open[kind.replace("start", "end"), chunk["id"]] = None
        elif kind in ("text-end", "reasoning-end"):
            self._open.pop((kind, chunk.get("id", "")), None)
        elif kind == "tool-input-start":
            self._begun[chunk["toolCallId"]] = chunk["toolName"]
            self._buffers[chunk["toolCallId"]] = []
        elif kind == "tool-input-delta":
            self._buffers.setdefault(chunk["toolCallId"], []).append(chunk["inputTextDelta"])
        elif kind == "tool-input-error":
            self._begun.pop(chunk["toolCallId"], None)
            self._refuse(chunk)
        elif kind == "tool-input-available":
            return self._available(chunk)
        return [chunk]

    def _available(self, chunk: WireChunk) -> list[WireChunk]:
        call_id, name = chunk["toolCallId"], chunk["toolName"]
        before: list[WireChunk] = []
        if call_id not in self._begun:
            before = [{"type": "tool-input-start", "toolCallId": call_id, "toolName": name}]
        self._begun.pop(call_id, None)
        if chunk.get("providerExecuted"):
            return [chunk]
        self.called = True
        if name not in self._known:
            known = ", ".join(sorted(self._known)) or "none"
            refusal: WireChunk = {
                "type": "tool-input-error",
                "toolCallId": call_id,
                "toolName": name,
                "input": chunk["input"],
                "errorText": f"There is no action called {name}. Known actions: {known}.",
            }
            self._refuse(refusal)
            return [*before, refusal]
        if name not in self._run.client_tool_names:
            self.announced.append(Announced(tool_call_id=call_id, name=name, input=chunk["input"]))
        return [*before, chunk]

    def unfinished(self) -> list[WireChunk]:
        """Return what ends the blocks and inputs that the model left open."""
        ends: list[WireChunk] = [{"type": end, "id": block} for end, block in self._open]
        for call_id, name in self._begun.items():
            chunk: WireChunk = {
                "type": "tool-input-error",
                "toolCallId": call_id,
                "toolName": name,
                "input": "".join(self._buffers.get(call_id, ())),
                "errorText": "The call was not said in full, so it was not run.",
            }
            self._refuse(chunk)
            ends.append(chunk)
        return ends

    def _refuse(self, chunk: WireChunk) -> None:
        """Take note of a call that does not come to the agent site: the next step follows, and it may be a loop."""
        self.called = True
        if not chunk.get("providerExecuted"):
            refused = RefusedInput(name=chunk["toolName"], input=chunk["input"], text=chunk["errorText"])
            self.refused.append(refused)


@contextmanager
def span_beside(tracer: Tracer, name: str) -> Iterator[None]:
    """Open a span around a block that yields: it is the current one of a context of its own, so no other is torn."""
    context = contextvars.copy_context()
    manager = tracer.span(name)
    span: Span = context.run(manager.__enter__)
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        cause = error.cause if isinstance(error, StageError) else error
        if isinstance(cause, Exception) and not isinstance(cause, Stopped):
            span.fail(type(cause).__name__)
        raise
    finally:
        context.run(manager.__exit__, None, None, None)


_OVER: Any = object()
"""What stands for the end of a stream."""


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
