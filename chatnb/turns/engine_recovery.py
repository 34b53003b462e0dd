"""The part of the engine that lives through trouble: interrupted turns, offers, writes that failed, old logs."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from typing import TYPE_CHECKING, Any

from .._ports import OnInterrupted
from ..errors import LeaseLostError, StoreError
from .ending import Verdict, settle_interrupted, write_late
from .engine_edits import EngineEdits
from .inputs import Input
from .records import CHAT_CLOSED, Outcome, TurnError, Update
from .resumed import Offer, TakeUp

if TYPE_CHECKING:
    from .turn_run import TurnRun

RETRY_SECONDS = 5.0
KEEP_CHUNKS_SECONDS = 600.0
TOGETHER_SECONDS = 1.0
"""Logs that are old within so many seconds of each other are forgotten together."""
CLOSE_SECONDS = 0.8
DEFERRED_SECONDS = 5.0


class EngineRecovery(EngineEdits):
    """What an engine does about interruptions, beside what `recovery/` decides."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.offer: Offer | None = None
        self.on_interrupted: OnInterrupted | None = None
        self.background: set[asyncio.Future[Any]] = set()
        self.tasks: set[asyncio.Future[Any]] = set()
        self._stop_next = False
        self.is_handed_over = False
        """The turn in the slot was interrupted and is in line again: nobody is told yet."""
        self._unsaved_run: tuple[TurnRun, Verdict] | None = None
        self._old_logs: deque[tuple[float, str]] = deque()  # when to forget it, and whose it is
        self._tidying: asyncio.Task[None] | None = None

    def start(self, work: Any, name: str, context: contextvars.Context | None = None) -> asyncio.Task[Any]:
        """Start a task that ends with the engine; in a copy of the caller's context unless one is given."""
        task: asyncio.Task[Any] = self.runtime.spawn(work, name=f"{name} of {self.chat_id}", context=context)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # --- interrupted turns --------------------------------------------------------------------------------------

    @property
    def stop_wanted(self) -> bool:
        """A stop was asked for while the slot is taken and no turn runs in it yet."""
        return self._stop_next

    async def pause(self, seconds: float) -> None:
        """Wait; a stop or the end of the chat ends the wait."""
        await self.until(lambda: self._stop_next or self.closed is not None, self.clock.sleep(seconds))

    def hand_over(self, run: TurnRun, cause: str) -> bool:
        """Let recovery put an interrupted turn in line; its input stays unanswered until then."""
        if self.on_interrupted is None or not self.on_interrupted(self.chat_id, run.turn_id, cause):
            return False
        self.is_handed_over = True
        return True

    async def pass_over_offer(self, input_: Input) -> list[Input]:
        """End an offered turn because the conversation goes on without it; return the held sends."""
        offer = self.offer
        if offer is None:
            return []
        offer.end("conversation_changed")
        await offer.tell(input_)
        return offer.give_up()

    def discard(self) -> None:
        """End an offered, interrupted turn as stopped; its partial stays. What was held runs."""
        offer = self.offer
        if offer is None:
            if self.interruption is not None:
                self.set_state(interruption=None)
            return
        offer.end("discarded")
        offer.release()
        self.tell_first(offer)
        self.kick()

    def tell_first(self, ended: Offer | TakeUp) -> None:
        """Let `on_turn_complete` be called, first in line, for a turn that was ended outside the slot."""
        row = self.new_row("recovery", {})
        # As little as what a clear makes stale, it is nothing that a later send overlaps with.
        teller = Input(row, [], origin="recovery", stored=False, take_up=_Tell(ended), clears=True)
        self.queue.put_first(teller)

    def skip(self, input_: Input, error: TurnError | None = None) -> None:
        """Settle an input that will not run. The engine overrides this."""
        raise NotImplementedError

    def end_offer(self) -> None:
        """End an offered turn because the conversation was cleared; what was held ends with it."""
        offer = self.offer
        if offer is not None:
            offer.end("conversation_changed")
            self.tell_first(offer)
            for held in offer.give_up():
                self.skip(held)

    # --- the end ------------------------------------------------------------------------------------------------

    def lease_lost(self, lost: LeaseLostError) -> None:
        """Another kernel owns the chat: stop working and writing, and say so."""
        if self.closed is not None:
            return
        self.closed = f"taken over: {lost.by}" if lost.by else str(lost)
        self._shut(TurnError.of("store", lost))

    def _shut(self, error: TurnError) -> None:
        for waiting in [*self.queue.drop_all(), *self.steering]:
            waiting.settle(Outcome(status="skipped", error=error))
        self.steering.clear()
        if self.turn is not None:
            self.turn.closing = True
            self.turn.stop.set()
        self.publish(Update(kind="closed"))
        self.wake()

    def die(self) -> None:
        """Stop at once and write nothing more, as a killed process does; for tests."""
        self.closed = "the process is gone"
        self.dead = True
        for task in tuple(self.tasks):
            task.cancel()

    async def close(self) -> None:
        """Release the chat: a running turn is flushed and `interrupted`, waiting inputs stay in the store.

        Takes at most 1 s; deferred work has 5 s more.
        """
        if self.closed is not None:
            return
        self.closed = "the chat is closed; open it again with agent.chat(id)"
        running = self.queue.running
        self._shut(CHAT_CLOSED)
        if running is not None:
            await self.until(lambda: self.queue.running is None, asyncio.sleep(CLOSE_SECONDS))
            if self.queue.running is running:
                self._abandon(running, CHAT_CLOSED)
        try:
            self.store.release_chat(self.chat_id, self.token)
        except StoreError as failure:
            self.log_failure("the lease could not be released", failure)
        for task in tuple(self.tasks):
            task.cancel()
        if self.background:
            self.runtime.spawn(self._end_background(), name=f"end of {self.chat_id}")

    def _abandon(self, running: Input, error: TurnError) -> None:
        """Leave a turn that does not end behind: what it has made so far is kept."""
        turn = self.turn
        if turn is not None:
            settle_interrupted(turn)
        outcome = Outcome(status="stopped", error=error, turn=turn.number if turn is not None else None)
        running.settle(outcome)

    async def _end_background(self) -> None:
        running = set(self.background)
        if running:
            _, late = await asyncio.wait(running, timeout=DEFERRED_SECONDS)
            for work in late:
                work.cancel()

    # --- writes that failed -------------------------------------------------------------------------------------

    def keep_unsaved(self, run: TurnRun, verdict: Verdict) -> None:
        """Go on showing a response that could not be stored, and try again every 5 s."""
        self.unsaved = run.live.message if run.live.has_content else None
        if self.closed is None:
            self._unsaved_run = (run, verdict)
            self.start(self._save_later(), "unsaved turn")

    async def _save_later(self) -> None:
        while self._unsaved_run is not None and self.closed is None:
            await self.clock.sleep(RETRY_SECONDS)
            try:
                self.save_unsaved()
            except StoreError:
                continue

    def save_unsaved(self) -> None:
        """Write the end of a turn that could not be written.

        Raises:
            StoreError: It still can't be.
        """
        if self._unsaved_run is None:
            return
        run, verdict = self._unsaved_run
        write_late(run, verdict)
        self._unsaved_run = None
        self.unsaved = None
        self.history_changed()
        self.set_state(status=self.status)

    def store_lost(self, error: StoreError) -> None:
        """The store is gone: cancel the turn; the chat stays readable in memory."""
        self.broken(error)
        if self.error is None or type(self.error.cause) is not type(error):
            self.set_state(error=TurnError.of("store", error))

    # --- old logs -----------------------------------------------------------------------------------------------

    def tidy(self, turn_ids: set[str] | None = None) -> None:
        """Forget the chunk logs of ended turns: at the opening of all, 10 minutes after its end that of one."""
        if self.closed is not None or self.dead:
            return
        try:
            with self.write(durable=False) as tx:
                if turn_ids is None:
                    tx.drop_ended_chunks()
                else:
                    tx.drop_chunks(turn_ids)
            self.store.prune(self.clock.now())
        except StoreError as failure:
            self.log_failure("old chunk logs could not be dropped", failure)

    def tidy_later(self, turn_id: str) -> None:
        """Forget the log of a turn that has just ended, in 10 minutes."""
        self._old_logs.append((self.clock.monotonic() + KEEP_CHUNKS_SECONDS, turn_id))
        if self._tidying is None or self._tidying.done():
            # One task for all turns, and none of their contexts, which would keep what each turn had in memory.
            self._tidying = self.start(self._tidy_in_time(), "tidying", contextvars.Context())

    async def _tidy_in_time(self) -> None:
        while self._old_logs:
            await self.clock.sleep(max(0.0, self._old_logs[0][0] - self.clock.monotonic()))
            soon, old = self.clock.monotonic() + TOGETHER_SECONDS, set[str]()
            while self._old_logs and self._old_logs[0][0] <= soon:
                old.add(self._old_logs.popleft()[1])
            self.tidy(old)


class _Tell:
    """Calls `on_turn_complete` for a turn that was ended outside the slot: discarded, or cleared away."""

    def __init__(self, ended: Offer | TakeUp) -> None:
        self._ended = ended

    def drop(self, reason: str) -> None:
        """Nothing has to be ended."""

    async def tell(self, input_: Input) -> None:
        """Call it."""
        await self._ended.tell(input_)

    async def __call__(self, input_: Input) -> Outcome:
        """Call it."""
        await self.tell(input_)
        return Outcome(status="applied")
