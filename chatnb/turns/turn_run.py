"""One turn from its row to its end: hooks, answer, the write that ends it. The order is that of spec/turns.md, 3.

What the agent site needs of a turn (`TurnIO`) is implemented here as well.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._clock import Clock
from .._ids import NewId
from .._json import JsonValue
from .._ports import Calls
from ..errors import MessageError, StoreError
from ..messages import Part, UIMessage, replace_parts, to_model_messages
from ..models import ModelRequest, Usage
from ..store.port import WriteTx
from ..store.records import Trigger, TurnRow
from .beginning import begin
from .definition import Definition
from .ending import Verdict, finish, settle_unfinished
from .failure import StageError, Stopped
from .hooks import Checkpoint, enter_context, is_async
from .inputs import Input
from .io import Announced, CallSite, TurnIdentity
from .live import LiveMessage
from .moves import move_turn
from .records import CallPhase, CallView, Outcome, TurnError, Update
from .turn import EmittedChunk, TextStream, Turn
from .view import injected_messages
from .wire import WireChunk

if TYPE_CHECKING:
    from .engine import ChatEngine

ABANDON_SECONDS = 2.0
CALLS_SECONDS = 3.0


class TurnRun:
    """One turn.

    Args:
        engine: The chat's engine.
        input_: The input that it answers.
        trigger: Why it runs.
        incoming: The new user messages, superseded ones first.
        continues: The node whose message the response extends, or None.
        by_decision: A continuation because a person has decided; pending calls are not settled.
        regenerates: The message id a regenerate names.
        after_action: It follows a chat action: no second hydrate.
    """

    def __init__(
        self,
        engine: ChatEngine,
        input_: Input,
        trigger: Trigger,
        *,
        incoming: tuple[UIMessage, ...] = (),
        continues: str | None = None,
        by_decision: bool = False,
        regenerates: str | None = None,
        after_action: bool = False,
        row: TurnRow | None = None,
    ) -> None:
        self.engine = engine
        self.definition: Definition = engine.definition
        self.input = input_
        self.trigger: Trigger = trigger
        self.incoming = incoming
        self.continues = continues
        self.by_decision = by_decision
        self.regenerates = regenerates
        self.after_action = after_action
        self.recovered = row is not None
        self.turn_id = row.id if row else engine.new_id("turn")
        self.number = row.number if row else engine.next_number
        self.attempt = row.attempt if row else 1
        self.body: Mapping[str, JsonValue] | None = input_.row.body
        self.client_tools: list[dict[str, JsonValue]] = list(input_.row.client_tools or ())
        self.client_data: Any = None
        self.stop = asyncio.Event()
        self.closing = False
        self.broken: Exception | None = None
        self.state = "starting"
        self.turn = Turn(self)
        self.view: list[dict[str, JsonValue]] = []
        self.instructions: str | None = None
        self.step = 0
        self.step_usages: list[Usage | None] = []
        self.finish_reason: str | None = None
        self.awaiting = False
        self.in_calls = False
        self.requests: list[ModelRequest] = []
        self.new_user_messages: tuple[UIMessage, ...] = ()
        self.injected: list[tuple[int, JsonValue]] = []
        self.deferred: list[asyncio.Future[Any]] = []
        self.raw_response: UIMessage | None = None
        self.final: list[UIMessage] | None = None
        self.steered: list[Input] = []
        self._site: CallSite | None = None
        self._site_chunks: list[WireChunk] = []
        self._forced: list[WireChunk] = []
        self._cancel_body: Callable[[], None] | None = None
        message = engine.tree.message(continues) if continues is not None else None
        message_id = message.id if message is not None else engine.new_id("msg")
        self.live = LiveMessage(engine, self.turn_id, message_id, message)
        self.identity = TurnIdentity(
            chat_id=engine.chat_id,
            turn_id=self.turn_id,
            number=self.number,
            attempt=self.attempt,
            message_id=message_id,
        )
        self.checkpoint = Checkpoint(engine.chat_id, lambda: self.engine.read_chain())
        self.context = input_.context.copy()
        enter_context(self.context, self.checkpoint)

    # --- the whole ----------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Run the turn to its end and return the outcome; never raises for what happens in it."""
        with self.engine.tracer.span(
            f"chat turn {self.number}", **{"chat.id": self.engine.chat_id, "chat.trigger": self.trigger}
        ) as span:
            verdict = await self._work()
            outcome = await finish(self, verdict)
            span.set("chat.status", outcome.status)
            if outcome.error is not None:
                span.fail(outcome.error.message)
        return outcome

    async def _work(self) -> Verdict:
        try:
            await begin(self)
            with self.engine.write() as tx:
                move_turn(tx, self.turn_id, "starting", "running", assistant_id=self.live.message_id)
            self.state = "running"
            await self._answer()
            self.engine.apply_checkpoint(self.checkpoint)
        except Stopped:
            return Verdict("stopped")
        except StageError as failure:
            return Verdict("error", failure.error)
        except StoreError as error:
            return Verdict("error", TurnError.of("store", error))
        return Verdict("awaiting" if self.awaiting else "completed")

    async def _answer(self) -> None:
        if self.stop.is_set():
            raise Stopped
        body = self.engine.runtime.spawn(self._body(), name=f"run of {self.turn_id}", context=self.context)
        stop = self.engine.runtime.spawn(self.stop.wait(), name=f"stop of {self.turn_id}")
        try:
            await asyncio.wait({body, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not body.done():
                if self.in_calls:
                    await self._wait(body, CALLS_SECONDS)
                if not body.done():
                    body.cancel()
                    await self._wait(body, ABANDON_SECONDS)
                if self.broken is not None:
                    raise StageError("store", self.broken)
                if body.done() and not body.cancelled():
                    body.exception()
                raise Stopped
        finally:
            stop.cancel()
            body.cancel()
        if self.broken is not None:
            raise StageError("store", self.broken)
        try:
            await body
        except asyncio.CancelledError:
            raise Stopped from None
        except (StageError, Stopped, StoreError):
            raise
        except Exception as error:
            raise StageError("run", error) from error

    async def _wait(self, task: asyncio.Future[Any], seconds: float) -> None:
        limit = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()

    # --- the answer ---------------------------------------------------------------------------------------------

    async def _body(self) -> None:
        if self.by_decision or self.trigger in ("continuation", "recovery"):
            self.in_calls = True
            try:
                ended = await self.site.resume_calls(self)
            finally:
                self.in_calls = False
            self._site_chunks.clear()
            self.raise_if_stopped()
            if ended.awaiting or self.has_waiting_calls():
                self.awaiting = True
                return
            if ended.ends_turn:
                self.finish_reason = "tool-calls"
                return
            await self._look_again()
        custom = self.definition.hooks.get("run")
        if custom is None:
            await self._consume(self.turn.stream_text(), "model")
            return
        self.engine.note_hook("run", self.turn)
        with self.engine.tracer.span("hook run"):
            result = custom(self.turn) if _is_streaming(custom) else await self._call_run(custom)
            await self._take(result)

    async def _call_run(self, custom: Callable[..., Any]) -> Any:
        if is_async(custom):
            return await custom(self.turn)
        result = await self.engine.runtime.in_worker(
            self.engine.chat_id, contextvars.copy_context().run, custom, self.turn
        )
        return await result if inspect.isawaitable(result) else result

    async def _take(self, result: Any) -> None:
        if result is None:
            return
        if isinstance(result, str):
            await self._consume(_text_chunks(result), "run")
        elif isinstance(result, TextStream) or hasattr(result, "__aiter__"):
            await self._consume(result, "run")
        else:
            raise StageError(
                "run",
                TypeError(f"run returns a stream, text or None, or yields chunks; it returned {type(result).__name__}"),
            )

    async def _consume(self, chunks: Any, stage: str) -> None:
        async for chunk in chunks:
            self.raise_if_stopped()
            if isinstance(chunk, EmittedChunk) or any(chunk is forced for forced in self._forced):
                continue
            if not isinstance(chunk, dict):
                raise StageError("run", TypeError(f"run yields chunks (dicts), not {type(chunk).__name__}"))
            if chunk.get("type") in ("start", "finish"):
                continue
            try:
                self.live.emit(chunk)
            except MessageError as error:
                raise StageError(stage, error) from error

    async def _look_again(self) -> None:
        """Rebuild the view of a continued message once its calls have their results."""
        chain = [*self.engine.tree.messages[:-1], self.live.message]
        self.view = list(to_model_messages(chain, convert_data=self.definition.convert_data))

    # --- for the steps ------------------------------------------------------------------------------------------

    @property
    def site(self) -> CallSite:
        """The agent site of this turn."""
        if self._site is None:
            if self.definition.make_site is None:
                raise AssertionError("the composition has bound no agent site")
            self._site = self.definition.make_site(self)
        return self._site

    def cut_off_turns(self) -> list[str]:
        """Return the stopped and failed turns whose message this turn extends: what they did is not done again."""
        if self.continues is None:
            return []
        rows = self.engine.store.load_turns(self.engine.chat_id, ("stopped", "error"))
        return [row.id for row in rows if row.assistant_id == self.live.message_id]

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` once a stop has been asked for."""
        if self.stop.is_set():
            raise Stopped

    def alive(self) -> None:
        """Take note of a sign of life of the model."""
        self.engine.note_sign_of_life()

    def ensure_part(self, call: Announced) -> None:
        """Make sure that the message holds a call which is about to run, even if `run` has not passed it on."""
        if any(getattr(p, "tool_call_id", None) == call.tool_call_id for p in self.live.message.parts):
            return
        chunk: WireChunk = {
            "type": "tool-input-available",
            "toolCallId": call.tool_call_id,
            "toolName": call.name,
            "input": call.input,
        }
        self.live.emit(chunk)

    def take_site_chunks(self) -> list[WireChunk]:
        """Return what the agent site has sent since the last call."""
        taken, self._site_chunks = self._site_chunks, []
        return taken

    def has_waiting_calls(self) -> bool:
        """Tell whether a call of the message waits for a person."""
        return bool(self.engine.waiting_in(self.live.message, self.client_tool_names))

    @property
    def client_tool_names(self) -> frozenset[str]:
        """The names of the client-side tools of this turn."""
        return frozenset(t["name"] for t in self.client_tools)

    async def step_boundary(self) -> list[WireChunk]:
        """Apply edits, steer and take injected context between two steps; return what was sent."""
        self.engine.apply_checkpoint(self.checkpoint)
        sent = await self.engine.steer(self)
        self.take_injected()
        return sent

    def take_injected(self) -> None:
        """Take the injected context that no turn has placed yet."""
        known = {n for n, _ in self.injected}
        self.injected += [(r.n, r.messages) for r in self.engine.injected if r.n not in known and r.used_by is None]

    def injected_view(self) -> list[dict[str, JsonValue]]:
        """Return the injected context of this turn as model messages."""
        return injected_messages([messages for _, messages in self.injected])

    def with_parts(self, message: UIMessage, parts: tuple[Part, ...]) -> UIMessage:
        """Return a message with other parts."""
        return replace_parts(message, parts)

    def variables(self) -> Any:
        """Return the notebook variables that a request lists, or None."""
        return self.definition.variables(self) if self.definition.variables is not None else None

    def keep_model_stash(self, data: JsonValue) -> None:
        """Keep what a model wants to find again after a crash."""
        with self.engine.write() as tx:
            tx.set_turn(self.turn_id, model_stash=data)

    # --- TurnIO -------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.engine.clock

    @property
    def new_id(self) -> NewId:
        """Makes ids."""
        return self.engine.new_id

    @property
    def calls(self) -> Calls:
        """Runs functions."""
        return self.engine.runtime.calls  # type: ignore[no-any-return]

    @property
    def message(self) -> UIMessage:
        """The message as it is now."""
        return self.live.message

    def emit(self, chunk: WireChunk) -> None:
        """Check, fold, log and show one chunk (the agent site's way)."""
        self.live.emit(chunk)
        if self.in_calls:
            self._site_chunks.append(chunk)

    def write(self) -> AbstractContextManager[WriteTx]:
        """Open one durable transaction; the open batch of chunks goes with it."""
        return self.live.write()

    def edit(self, change: Callable[[UIMessage], UIMessage]) -> None:
        """Replace the message by an edit that is no chunk."""
        self.live.edit(change)

    def show_call(self, tool_call_id: str, phase: CallPhase, **fields: Any) -> None:
        """Tell the views about a running call."""
        former = self.engine.calls.get(tool_call_id) or CallView(tool_call_id=tool_call_id, phase="waiting")
        if "durationMs" in fields:
            fields["duration_ms"] = fields.pop("durationMs")
        if "log" in fields:
            fields["log"] = tuple(fields["log"])
        self.engine.calls[tool_call_id] = replace(former, phase=phase, **fields)
        self.engine.publish(Update(kind="call", tool_call_id=tool_call_id))

    def write_part(self, part: Mapping[str, JsonValue]) -> None:
        """Send a data part from a hook or `run`, on any thread."""
        chunk = dict(part)
        if not str(chunk.get("type", "")).startswith("data-"):
            raise MessageError("write() sends data parts: the type begins with 'data-'")
        self.engine.runtime.call(self.live.emit, chunk)

    def settle_unfinished(self, text: str) -> None:
        """End blocks, settle the calls that did not finish, end the step."""
        settle_unfinished(self, text)


def _is_streaming(function: Callable[..., Any]) -> bool:
    return inspect.isasyncgenfunction(function)


async def _text_chunks(text: str) -> AsyncIterator[WireChunk]:
    yield {"type": "start-step"}
    yield {"type": "text-start", "id": "text"}
    yield {"type": "text-delta", "id": "text", "delta": text}
    yield {"type": "text-end", "id": "text"}
    yield {"type": "finish-step"}
