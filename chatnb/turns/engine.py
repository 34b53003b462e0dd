"""The engine of one chat: takes inputs in, gives them the slot one by one, stops, clears, closes.

Everything here happens on the runtime's loop; `chat.py` brings calls from other threads here. The order of inputs is
that of spec/turns.md, section 2; what a turn does is in `turn_run.py`, what a chat action does in `chat_actions.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from dataclasses import replace
from typing import Any

from .._json import JsonValue
from .._killpoint import kill_point
from ..errors import ChatnbError, InputError, StoreError
from ..history import has_something_to_answer
from ..messages import UIMessage
from ..runtime.contain import contained
from ..runtime.entry import is_async
from .chat_actions import ActionRun, is_clear, run_chat_action
from .engine_base import log
from .engine_recovery import EngineRecovery
from .failure import StageError
from .hooks import Checkpoint, call_hook
from .inputs import Input
from .records import Outcome, TurnError, Update
from .resumed import Offer, Resumed
from .steering import accept_steering, is_steering, leftover_sends
from .submission import Submission
from .withdrawing import cancel_input, keep_unanswered, stop_submission


class ChatEngine(EngineRecovery):
    """The engine of one chat."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._timer: asyncio.Future[Any] | None = None

    # --- taking in ----------------------------------------------------------------------------------------------

    def admit(self, input_: Input) -> None:
        """Write an input down, then put it in line (W1). A failed write settles it `error`, stage `input`."""
        submission = input_.submissions[0]
        error = self.closed_error()
        if error is not None:
            submission._settle(Outcome(status="error", error=TurnError.of("input", error)))
            return
        policy = self.definition.concurrency
        steers = is_steering(self, input_)
        if input_.kind == "send" and not steers and self.queue.would_refuse(policy, self.generation):
            submission._settle(Outcome(status="skipped"))
            return
        clears = input_.clears = is_clear(self.definition, input_)
        if clears:
            input_.row = replace(input_.row, generation=self.generation + 1)
        joined = {} if steers else self.queue.joined_by(input_, policy)
        if joined:
            input_.row = replace(input_.row, payload={**input_.row.payload, **joined})
        kill_point("input.before")
        try:
            self.save_unsaved()
            with self.write() as tx:
                tx.add_input(input_.row)
                if self.error is not None:
                    tx.set_chat(terminal=None)
                if clears:
                    tx.set_chat(generation=self.generation + 1)
        except (StoreError, AssertionError) as failure:
            submission._settle(Outcome(status="error", error=TurnError.of("input", failure)))
            return
        kill_point("input.after")
        input_.arrived_at = self.clock.now()
        submission._admit(input_)
        if clears:
            self.generation += 1
            self._drop_stale()
        if steers:
            accept_steering(self, input_)
            return
        admitted = self.queue.admit(input_, policy)
        for former in admitted.superseded:
            if not all(s.done for s in former.submissions):
                former.settle(Outcome(status="skipped"))
        if admitted.merged is not None:
            for one in admitted.merged.submissions:
                one._admit(admitted.merged)
        self.queue_changed()
        self.kick()

    def _drop_stale(self) -> None:
        for stale in [*self.queue.drop_older_than(self.generation), *self.steering]:
            self.skip(stale)
        self.steering.clear()
        self.end_offer()
        if self.queue.running is not None:
            self.stop()
        self.set_state(is_recovering=False, is_tool_continuation=False)

    def skip(self, input_: Input, error: TurnError | None = None) -> None:
        """Settle an input that will not run."""
        if input_.take_up is not None:
            input_.take_up.drop("conversation_changed")
            self.tell_first(input_.take_up)
        try:
            with self.write() as tx:
                for id_ in (*input_.other_rows, input_.row.id):
                    tx.move_input(id_, {"waiting", "held", "taken"}, "skipped")
        except StoreError as failure:
            self.log_failure("a skipped input could not be noted", failure)
        input_.settle(Outcome(status="skipped", error=error))
        self._note_continuation()

    def _note_continuation(self) -> None:
        """A continuation that did not run is none any more."""
        if self.is_tool_continuation and self.turn is None:
            self.set_state(is_tool_continuation=self.continuation_waits())

    # --- the slot -----------------------------------------------------------------------------------------------

    def kick(self) -> None:
        """Give the slot to the next input if it is free."""
        if self.queue.running is not None or self.closed is not None:
            return
        delay = self.queue.peek_delay()
        if delay is None:
            self.wake()
            return
        if delay > 0:
            if self._timer is None or self._timer.done():
                self._timer = self.runtime.spawn(self._kick_later(delay), name=f"debounce of {self.chat_id}")
            return
        input_ = self.queue.take()
        self._stop_next = False
        task = self.runtime.spawn(self._process(input_), name=f"input {input_.row.id}", context=input_.context.copy())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        self.queue_changed()

    async def _kick_later(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        self._timer = None
        self.kick()

    async def _process(self, input_: Input) -> None:
        outcome = Outcome(status="error", error=TurnError("run", "the engine failed; see the log of `chatnb`"))
        try:
            outcome = await self._run(input_)
        except StoreError as failure:
            outcome = Outcome(status="error", error=TurnError.of("store", failure))
        except Exception as failure:  # noqa: BLE001 - a user's code may raise anything; it is logged
            log.exception("chat %s: an input failed", self.chat_id)
            outcome = Outcome(status="error", error=TurnError.of("run", failure))
        finally:
            self.turn = None
            self.queue.release()
            if outcome.status == "error" and input_.take_up is not None:
                self.set_state(is_recovering=False)
            if self.is_handed_over:  # the turn of the input, or that of the chat action which it is
                self.is_handed_over = False
                self.set_state(status="submitted")
            else:
                self._settle(input_, outcome)
            self._note_continuation()
            self.publish(Update(kind="settled"))
            self.queue_leftover_sends()
            self.queue_changed()
            self.kick()

    def _settle(self, input_: Input, outcome: Outcome) -> None:
        if self.status in ("submitted", "streaming"):
            self.set_state(status="error" if outcome.status == "error" else "ready", error=outcome.error)
        input_.settle(outcome)

    def queue_leftover_sends(self) -> None:
        """Put the steering messages that no boundary took at the head of the line."""
        left = leftover_sends(self)
        if left is not None:
            self.queue.put_first(left)

    async def _run(self, input_: Input) -> Outcome:
        if input_.is_unanswered:
            return keep_unanswered(self, input_)
        if input_.take_up is not None:
            taken = await input_.take_up(input_)
            return taken if isinstance(taken, Outcome) else await self._resume(input_, taken)
        kind = input_.kind
        self.set_state(error=None, status="ready" if self.status == "error" else self.status)
        if kind == "action":
            return await run_chat_action(self, input_)
        if kind == "save":
            return await self._run_save(input_)
        if kind == "continue":
            self.inherit(input_)
        if kind == "continue" and self.offer is not None:
            return await self._accept(input_, self.offer)
        if kind in ("continue", "continuation"):
            return await self._run_continuation(input_)
        if kind == "regenerate":
            return await self._run_regenerate(input_)
        if kind == "action-turn":
            return await self.run_turn(input_, "action-turn", after_action=True)
        if kind == "send":
            input_.superseded[:0] = await self.pass_over_offer(input_)
            incoming = tuple([await self.with_mentions(i.message, i) for i in (*input_.superseded, input_)])
            return await self.run_turn(input_, "submit-message", incoming=incoming)
        raise AssertionError(f"no way to run an input of kind {kind!r}")

    async def _accept(self, input_: Input, offer: Offer) -> Outcome:
        """Take up an offered turn for a person."""
        taken = await offer.accept(input_)
        if isinstance(taken, Outcome):
            return self.finish_input(input_, taken)
        if input_.client_data is None:
            input_.client_data = taken.row.client_data
        return await self._resume(input_, taken)

    async def _resume(self, input_: Input, resumed: Resumed) -> Outcome:
        """Run an interrupted turn that recovery has put back in line."""
        return await self.run_turn(
            input_,
            "recovery",
            resumed=resumed,
            incoming=resumed.incoming,
            continues=resumed.continues,
            by_decision=input_.kind == "continuation",
            regenerates=resumed.regenerates,
        )

    async def with_mentions(self, message: UIMessage, input_: Input) -> UIMessage:
        """Return a message with what it mentions; who writes over HTTP sees nothing of this process's names."""
        expand = self.definition.expand
        if expand is None or "@" not in message.text or input_.origin.startswith("http"):
            return message
        return await expand(message)

    async def run_turn(self, input_: Input, trigger: Any, **options: Any) -> Outcome:
        """Run one turn in the slot."""
        from .turn_run import TurnRun

        if trigger != "recovery":
            for held in await self.pass_over_offer(input_):
                self.skip(held)
        run = TurnRun(self, input_, trigger, **options)
        if self._stop_next:
            run.stop.set()
        self.turn = run
        return await run.run()

    async def _run_save(self, input_: Input) -> Outcome:
        known = {m.id for m in self.tree.messages}
        try:
            await self.boot(ActionRun(self, input_, self.definition, self.next_number, None, "submit-message"))
            messages = await self._list_to_save(input_)
            self.apply_list(messages)
        except (StageError, ChatnbError) as failure:
            error = failure.error if isinstance(failure, StageError) else TurnError.of("input", failure)
            return self.finish_input(input_, Outcome(status="error", error=error))
        if not has_something_to_answer(self.tree.messages):
            return self.finish_input(input_, Outcome(status="applied"))
        new = tuple(m for m in self.tree.messages if m.role == "user" and m.id not in known)
        return await self.run_turn(input_, "submit-message", new_user_messages=new)

    async def _list_to_save(self, input_: Input) -> list[UIMessage]:
        from .beginning import as_messages

        if input_.live is None and "messages" not in input_.row.payload:
            raise StageError("input", InputError("the function given to save_messages() is gone with its kernel"))
        if input_.live is None:
            return [UIMessage.from_wire(w) for w in input_.row.payload["messages"]]
        checkpoint = Checkpoint(self.chat_id, self.read_chain)
        try:
            value = await call_hook(self.runtime, input_.live, list(self.tree.messages), checkpoint=checkpoint)
        except Exception as error:
            raise StageError("input", error) from error
        return as_messages(value, "input")

    async def _run_regenerate(self, input_: Input) -> Outcome:
        message_id = input_.row.payload.get("messageId")
        if "hydrate_messages" not in self.definition.hooks:
            try:
                self.chain_to_answer(message_id)
            except InputError as failure:
                return self.finish_input(input_, Outcome(status="error", error=TurnError.of("input", failure)))
        return await self.run_turn(input_, "regenerate-message", regenerates=message_id)

    async def _run_continuation(self, input_: Input) -> Outcome:
        chain = self.tree.chain
        last = self.tree.message(chain[-1]) if chain else None
        by_decision = input_.kind == "continuation"
        wanted = input_.row.payload.get("messageId") if by_decision else None
        if last is not None and last.role == "user" and not by_decision and self.interruption is not None:
            # An interrupted turn that nothing is left of: its message is answered.
            return await self.run_turn(input_, "regenerate-message", regenerates=last.id)
        if last is None or last.role != "assistant" or (wanted is not None and last.id != wanted):
            return self.finish_input(input_, Outcome(status="skipped"), state="skipped")
        return await self.run_turn(input_, "continuation", continues=chain[-1], by_decision=by_decision)

    def finish_input(self, input_: Input, outcome: Outcome, state: str = "done") -> Outcome:
        """Mark an input that ran no turn as done."""
        if input_.stored:
            with self.write() as tx:
                tx.move_input(input_.row.id, {"waiting", "taken"}, "done" if state == "done" else "skipped")
        if outcome.status == "error":
            self.set_state(status="error", error=outcome.error)
        return outcome

    # --- control ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the running turn, and nothing else."""
        turn = self.turn
        if turn is None:
            self._stop_next = self.queue.running is not None
            if self._stop_next:
                self.set_state(is_tool_continuation=False)
            self.wake()
            return
        if turn.state == "finishing" or turn.stop.is_set():
            return
        try:
            with self.write() as tx:
                tx.set_turn(turn.turn_id, stop_requested=True)
        except StoreError as failure:
            self.log_failure("a stop could not be noted", failure)
        self.set_state(is_tool_continuation=False)
        turn.stop.set()

    def stop_submission(self, submission: Submission) -> None:
        """Stop one input (`submission.stop()`), from any thread."""
        self.runtime.post(stop_submission, self, submission)

    def cancel_input(self, input_id: str) -> Input | None:
        """Take a waiting input out of the line by its id; None when it does not wait."""
        return cancel_input(self, input_id)

    def defer(self, work: Any, context: contextvars.Context) -> None:
        """Start work beside the turn; the turn waits for it up to its response."""
        future = asyncio.ensure_future(self.runtime.spawn(self._deferred(work), name="deferred work", context=context))
        turn = self.turn
        if turn is not None and turn.final is None:
            turn.deferred.append(future)
        self.background.add(future)
        future.add_done_callback(self.background.discard)

    async def _deferred(self, work: Any) -> None:
        try:
            if inspect.isawaitable(work):
                await contained(work)
            elif is_async(work):
                await contained(work())
            else:
                result = await self.runtime.in_worker(f"{self.chat_id}#deferred", work)
                if inspect.isawaitable(result):
                    await contained(result)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - a user's code may raise anything; it is logged
            log.exception("chat %s: deferred work failed", self.chat_id)

    def keep_stash(self, data: JsonValue) -> bool:
        """Keep what `on_chat_recovery` gets; False when no turn runs."""
        if self.turn is None:
            return False
        with self.write() as tx:
            tx.set_turn(self.turn.turn_id, stash=data)
        return True

    def is_stable(self) -> bool:
        """Nothing runs, waits or is due, and nothing waits for a person."""
        return self.queue.is_idle and not self.steering and not self.pending() and not self._is_offered()

    def is_parked(self) -> bool:
        """Nothing runs, waits or is due, but a person has to decide something."""
        return self.queue.is_idle and not self.steering and (bool(self.pending()) or self._is_offered())

    def _is_offered(self) -> bool:
        return bool(getattr(self.interruption, "offered", False))

    async def stable(self, timeout: float | None) -> bool:
        """Wait until the chat is stable; False on timeout, and at once when a person has to decide something."""
        limit = self.clock.sleep(timeout) if timeout is not None else None
        await self.until(lambda: self.is_stable() or self.is_parked(), limit)
        return self.is_stable()
