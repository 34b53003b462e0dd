"""One turn from its row to its end: hooks, answer, the write that ends it. The order is that of spec/turns.md, 3.

What the agent site needs of a turn (`TurnIO`) is implemented here as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from .._clock import Clock, ride_out
from .._ids import NewId
from .._json import JsonValue
from .._ports import Calls
from ..errors import MessageValidationError, StoreError
from ..messages import UIMessage, freeze
from ..models import Usage
from ..store.port import WriteTx
from ..store.records import Trigger, TurnState
from .answering import answer
from .beginning import begin
from .context import Placed
from .definition import Definition
from .ending import Verdict, finish
from .failure import StageError, Stopped
from .hooks import Checkpoint, enter_context
from .inputs import Input
from .io import Announced, CallSite, TurnIdentity
from .live import LiveMessage
from .moves import move_turn
from .records import CallPhase, CallView, Outcome, TurnError, Update
from .resumed import Resumed
from .site_chunks import SiteChunks
from .steering import steer
from .submission import Submission
from .turn import Turn
from .usage import usage_to_json
from .wire import WireChunk

if TYPE_CHECKING:
    from .engine import ChatEngine

log = logging.getLogger("chatnb")
T = TypeVar("T")


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
        new_user_messages: User messages that are on the chain already and new in this turn.
        resumed: The interrupted turn that goes on.
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
        new_user_messages: tuple[UIMessage, ...] = (),
        resumed: Resumed | None = None,
    ) -> None:
        self.engine = engine
        self.definition: Definition = engine.definition
        self.input = input_
        self.trigger: Trigger = trigger
        self.incoming = incoming
        self.continues = continues
        self.by_decision = by_decision
        self.regenerates = regenerates
        self.after_action = after_action or (resumed is not None and resumed.trigger == "action-turn")
        self.resumed = resumed
        self.is_written = resumed is not None
        self.lost: str | None = None
        self._may_join = resumed is not None
        row = resumed.row if resumed is not None else None
        self.first_trigger: Trigger = row.trigger if row is not None else trigger
        self.turn_id = row.id if row else engine.new_id("turn")
        self.number = row.number if row else engine.next_number
        self.generation = input_.row.generation
        self.attempt = row.attempt if row else 1
        self.body: Mapping[str, JsonValue] | None = freeze(input_.row.body)
        offered = input_.row.client_tools or ()
        # An action goes before a client-side tool of its name: providers refuse a name that is there twice.
        self.client_tools: list[dict[str, JsonValue]] = [t for t in offered if t["name"] not in self.definition.catalog]
        self.client_data: Any = None
        self.stop = asyncio.Event()
        self.closing = False
        self.broken: Exception | None = None
        self.state: TurnState = "starting"
        self.turn = Turn(self)
        self.view: list[dict[str, JsonValue]] = []
        self.instructions: str | None = None
        self.step = 0
        self.step_usages: list[Usage | None] = []
        self.finish_reason: str | None = None
        self.awaiting = False
        self.in_calls = False
        self.is_compacted = False
        self.has_asked = False
        self.new_user_messages = new_user_messages
        self.injected: list[Placed] = []
        self.deferred: list[asyncio.Future[Any]] = []
        self.raw_response: UIMessage | None = None
        self.captured: UIMessage | None = None
        self.final: list[UIMessage] | None = None
        self.steered: list[Input] = []
        self.has_model_stash = row is not None and row.model_stash is not None
        self.has_tail_note = False
        self._site: CallSite | None = None
        self.site_chunks = SiteChunks()
        self._sent: list[WireChunk] = []
        self.live = self._open_message()
        self.live.client_tools = self.client_tool_names
        self.node_id = continues if continues is not None else engine.new_id("node")
        """The response's node, set aside before it is stored, so that a compaction can name it."""
        self.identity = TurnIdentity(
            chat_id=engine.chat_id,
            turn_id=self.turn_id,
            number=self.number,
            attempt=self.attempt,
            message_id=self.live.message_id,
        )
        self.checkpoint = Checkpoint(engine.chat_id, lambda: self.engine.read_chain())
        self.context = input_.context.copy()
        enter_context(self.context, self.checkpoint)
        self.goes_on = by_decision or continues is not None or trigger in ("continuation", "recovery")
        """Old calls of the message go on before the model is asked, and the view is made after them."""

    def _open_message(self) -> LiveMessage:
        """Return the response as this attempt finds it: new, a message that is continued, or what a log holds."""
        engine, resumed = self.engine, self.resumed
        message = engine.tree.message(self.continues) if self.continues is not None else None
        known = resumed.row.assistant_id if resumed is not None else None
        message_id = message.id if message is not None else known or engine.new_id("msg")
        if resumed is None:
            return LiveMessage(engine, self.turn_id, message_id, message)
        for submission in self.input.submissions:
            # Who reads a turn that goes on gets it from its first chunk.
            if not len(submission._log):
                for chunk in resumed.chunks:
                    submission._log.append(chunk)
        if resumed.fold is None:
            return LiveMessage(engine, self.turn_id, message_id, message)
        return LiveMessage(
            engine,
            self.turn_id,
            message_id,
            first_seq=resumed.next_seq,
            fold=resumed.fold,
            is_step_open=resumed.is_step_open,
        )

    # --- the whole ----------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Run the turn to its end and return the outcome; never raises for what happens in it."""
        with self.engine.tracer.span(
            f"chat turn {self.number}", **{"chat.id": self.engine.chat_id, "chat.trigger": self.trigger}
        ) as span:
            beside = self._beside()
            try:
                verdict = await self._work()
            finally:
                if beside is not None:
                    beside.cancel()
            outcome = await finish(self, verdict)
            span.set("chat.status", outcome.status)
            for name, value in usage_to_json(outcome.usage or Usage()).items():
                span.set(f"chat.usage.{name}", value)
            if outcome.error is not None:
                span.fail(outcome.error.message)
        return outcome

    def _beside(self) -> asyncio.Task[None] | None:
        watch = self.resumed.beside if self.resumed is not None else None
        return self.engine.start(watch(self.lose), f"watch beside {self.turn_id}") if watch is not None else None

    def lose(self, cause: str) -> None:
        """Break the attempt off: recovery decides whether the turn goes on."""
        if not self.stop.is_set():
            self.lost = cause
            self.stop.set()

    async def _work(self) -> Verdict:
        try:
            await begin(self)
            await self.ride_out(self._note_running)
            self.state = "running"
            await answer(self)
            self.engine.apply_checkpoint(self.checkpoint)
        except Stopped:
            return Verdict("stopped")
        except StageError as failure:
            return Verdict("error", failure.error)
        except StoreError as error:
            return Verdict("error", TurnError.of("store", error))
        except Exception as error:
            log.exception("chat %s: a turn failed where it should not", self.engine.chat_id)
            return Verdict("error", TurnError.of("run", error))
        finally:
            self.checkpoint.is_open = False
        return Verdict("awaiting" if self.awaiting else "completed")

    def _note_running(self) -> None:
        with self.engine.write() as tx:
            move_turn(tx, self.turn_id, "starting", "running", assistant_id=self.live.message_id)

    async def ride_out(self, write: Callable[[], T]) -> T:
        """Do a write of this turn; a database that does not answer is waited for, at most 30 s."""
        return await ride_out(
            self.clock, write, is_over=lambda: self.broken is not None or self.engine.closed is not None
        )

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

    @property
    def join_base(self) -> int | None:
        """Where the open step begins, if the attempt goes on inside its open text block."""
        if not self._may_join or self.live.joinable_text is None:
            return None
        return max(i for i, part in enumerate(self.live.message.parts) if part.type == "step-start")

    def take_join(self, *, is_replaced: bool = False) -> str | None:
        """Return the open text block that the model goes on in; else end what the log left open. Once.

        Args:
            is_replaced: A retrieved answer takes the place of what the open step has said.
        """
        if not self._may_join or is_replaced:
            self._may_join = False
            return None
        block = self.live.joinable_text
        self._may_join = False
        if block is None:
            self.live.end_blocks()
            self.live.end_step()
        return block

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
        self.site_chunks.note_input(call.tool_call_id)
        self.live.emit(chunk)

    def note_sent(self, chunk: WireChunk) -> None:
        """Keep a chunk for all who read this turn."""
        self._sent.append(chunk)
        for submission in self.input.submissions:
            submission._log.append(chunk)

    def join(self, submissions: list[Submission]) -> None:
        """Let further submissions share the turn: its chunks from the first, and its outcome."""
        for submission in submissions:
            for chunk in self._sent:
                submission._log.append(chunk)
            submission._admit(self.input)
        self.input.submissions.extend(submissions)

    def has_waiting_calls(self) -> bool:
        """Tell whether a call of the message waits for a person."""
        return bool(self.engine.waiting_in(self.live.message, self.client_tool_names))

    @property
    def client_tool_names(self) -> frozenset[str]:
        """The names of the client-side tools of this turn."""
        return frozenset(t["name"] for t in self.client_tools)

    async def step_boundary(self) -> list[WireChunk]:
        """Apply edits, steer and take injected context between two steps; return what was sent."""
        await self.ride_out(self.live.flush)
        self.engine.apply_checkpoint(self.checkpoint)
        sent = await steer(self)
        for chunk in sent:
            self.site_chunks.note_part(chunk)
        self.take_injected()
        return sent

    def take_injected(self) -> None:
        """Take the injected context that no turn has placed yet."""
        known = {placed.n for placed in self.injected}
        place = len(self.live.message.parts)
        self.injected += [
            Placed(r.n, r.messages, place) for r in self.engine.injected if r.n not in known and r.used_by is None
        ]

    def variables(self) -> Any:
        """Return the notebook variables that a request lists, or None."""
        return self.definition.variables(self) if self.definition.variables is not None else None

    def keep_model_stash(self, data: JsonValue) -> None:
        """Keep what a model wants to find again after a crash."""
        with self.engine.write() as tx:
            tx.set_turn(self.turn_id, model_stash=data)
        self.has_model_stash = data is not None

    def forget_model_stash(self) -> None:
        """The step is whole: what the model has kept is of no use any more."""
        if self.has_model_stash:
            self.has_model_stash = False
            with self.engine.write(durable=False) as tx:
                tx.set_turn(self.turn_id, model_stash=None)

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
        return self.engine.runtime.calls

    @property
    def message(self) -> UIMessage:
        """The message as it is now."""
        return self.live.message

    def emit(self, chunk: WireChunk) -> None:
        """Check, fold, log and show one chunk (the agent site's way)."""
        self.live.emit(chunk)
        if self.in_calls:
            self.site_chunks.add(chunk)

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
        chunk = dict(part) if isinstance(part, Mapping) else {}
        if not str(chunk.get("type", "")).startswith("data-"):
            raise MessageValidationError("write() sends data parts: the type begins with 'data-'")
        chunk.setdefault("data", None)
        self.engine.runtime.call(self.live.emit, chunk)
