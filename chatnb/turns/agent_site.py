"""The agent site: the calls that a model makes, from the step that announced them to one result each.

It walks the road of `actions/dispatch.py` for a whole step at once (spec/actions.md, 2.1 and section 8): prepare all
calls, plan mode, replay, ask a person about all gated ones together, then run the rest in batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from .._json import canonical
from .._killpoint import kill_point
from ..actions.approval import Asleep
from ..actions.batches import find_held, split_batches
from ..actions.breakers import Breakers
from ..actions.catalog import Catalog
from ..actions.environment import CallEnvironment
from ..actions.failures import CallFailure, failure, failure_of
from ..actions.ledger import WAIT_SECONDS, TurnLedger, running_handlers
from ..actions.ports import CallRow
from ..actions.settled import Settled
from ..errors import ActionError, InvalidArgumentsError
from .agent_site_asks import PLAN_MODE, STOPPED, ask_person, settle_rest
from .agent_site_call import CallDesk, SiteCall
from .agent_site_resume import resume_calls
from .io import Announced, CallsEnd, RefusedInput, TurnIO


class AgentSite:
    """Runs the calls of one turn; see `io.CallSite`.

    Args:
        catalog: The agent's actions.
        environment: What the chat gives.
        continues: The cut-off turns (stopped or failed) whose message this turn extends: what they wrote is replayed.
        check_age: Approved calls may be too old to run: a `continue_last_turn`, not a decision's continuation.
        asked_at: When that was asked for, as waiting in the queue does not count; None: now.
        asleep: Time in which approvals did not grow older: no kernel had the chat.
        asks_held: A held call asks too (the HTTP site: its clients go on once every call is answered).
    """

    def __init__(
        self,
        catalog: Catalog,
        environment: CallEnvironment,
        *,
        continues: Collection[str] = (),
        check_age: bool = False,
        asked_at: datetime | None = None,
        asleep: Asleep | None = None,
        asks_held: bool = False,
    ) -> None:
        self._asks_held = asks_held
        self._catalog = catalog
        self._environment = environment
        self._continues = tuple(continues)
        self._check_age = check_age
        self._asked_at = asked_at
        self._asleep = asleep
        self._breakers = Breakers()
        self._ledger: TurnLedger | None = None

    async def run_calls(self, io: TurnIO, calls: Sequence[Announced]) -> CallsEnd:
        """Run the calls of one model step; every call gets one result, or waits for a person.

        Raises:
            StoreError: What has to be written could not be.
        """
        step = _Step(self._desk(io), asks_held=self._asks_held)
        return await step.run(calls)

    def count_refused(self, refused: Sequence[RefusedInput]) -> tuple[str, str] | None:
        """Count the calls of a step that never came here; return a loop breaker's code and text if one is due."""
        tripped = [self._breakers.note_error(r.name, canonical(r.input), "unknown_action", r.text) for r in refused]
        return next((found for found in tripped if found is not None), None)

    async def resume_calls(self, io: TurnIO) -> CallsEnd:
        """Run what is decided in the message and not run yet, in model order.

        Raises:
            StoreError: What has to be written could not be.
        """
        at = (self._asked_at or io.clock.now()) if self._check_age else None
        return await resume_calls(self._desk(io), at=at, asleep=self._asleep)

    def _desk(self, io: TurnIO) -> CallDesk:
        if self._ledger is None:
            self._ledger = TurnLedger(io.identity.turn_id, io.identity.attempt, self._continues)
        return CallDesk(io, self._catalog, self._environment, self._ledger, self._breakers)


class _Step:
    """The calls of one step."""

    def __init__(self, desk: CallDesk, *, asks_held: bool = False) -> None:
        self._desk = desk
        self._asks_held = asks_held
        self._calls: list[SiteCall] = []

    async def run(self, announced: Sequence[Announced]) -> CallsEnd:
        self._calls = [await self._prepare(call) for call in announced]
        kill_point("tool.prepared")
        await self._judge()
        self._ask()
        await self._run_batches()
        self._finish()
        return self._desk.end(awaiting=any(call.waits for call in self._calls))

    # --- prepare, plan mode, replay, approval -------------------------------------------------------------------

    async def _prepare(self, announced: Announced) -> SiteCall:
        desk = self._desk
        place = desk.place(announced.tool_call_id)
        call = SiteCall(announced.tool_call_id, announced.name, announced.input, place)
        try:
            call.action = desk.road.find(desk.catalog, announced.name, "agent")
            call.prepared = await desk.road.prepare(call.action, announced.input)
        except InvalidArgumentsError as error:
            desk.refuse(call, failure_of(error))
        except ActionError as error:
            desk.settle_unknown(call, failure_of(error))
        return call

    async def _judge(self) -> None:
        desk = self._desk
        for call in self._open():
            assert call.prepared is not None
            if desk.environment.plan_mode and call.prepared.is_write:
                desk.refuse(call, failure("plan_mode_blocked", PLAN_MODE))
                continue
            if call.prepared.is_write and desk.ledger.is_continued:
                call.verdict = desk.ledger.judge(self._rows(call), idempotent=call.prepared.action.idempotent)
            if call.verdict.kind == "run":
                call.is_gated = await desk.road.is_gated(call.prepared, call.place, desk.io.client_data)
        undecided = self._open()
        for place in find_held([(call.kind, call.is_gated) for call in undecided]):
            held = undecided[place]
            assert held.prepared is not None
            held.is_held = True
            desk.catalog.kept.keep(held.held_key, held.prepared)

    def _rows(self, call: SiteCall) -> list[CallRow]:
        with self._desk.io.write() as books:
            return books.find_calls(
                chat_id=self._desk.io.identity.chat_id,
                turn_ids=self._desk.ledger.turn_ids,
                hash=call.prepared.hash if call.prepared is not None else None,
            )

    def _ask(self) -> None:
        """Ask about all gated calls at once; the rows are there before anything is shown (W5)."""
        gated = [call for call in self._open() if call.is_gated or (call.is_held and self._asks_held)]
        if not gated or self._desk.is_stopped or self._desk.halt:
            return
        ask_person(self._desk, gated)
        kill_point("tool.approval")

    # --- run ----------------------------------------------------------------------------------------------------

    async def _run_batches(self) -> None:
        desk = self._desk
        ready = [(call, call.kind) for call in self._open() if not call.waits]
        for batch in split_batches(ready):
            if desk.is_stopped or desk.halt:
                return
            await self._run_batch(batch)

    async def _run_batch(self, batch: list[SiteCall]) -> None:
        groups: dict[str, list[SiteCall]] = {}
        for number, call in enumerate(batch):
            assert call.prepared is not None
            key = call.prepared.hash if call.kind == "read" else str(number)
            groups.setdefault(key, []).append(call)
        overlap = len(groups) > 1
        if not overlap:
            for first, *same in groups.values():
                await self._run_one(first, same, overlap=False)
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                for first, *same in groups.values():
                    tasks.create_task(self._run_one(first, same, overlap=True))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _run_one(self, call: SiteCall, same: Sequence[SiteCall], *, overlap: bool) -> None:
        row = call.verdict.row
        if call.verdict.kind == "block" and row is not None:
            row = await self._wait_for(call, row)
            if row is None:
                return
        if row is None or row.effect == "none" or not self._replay(call, row):
            await self._desk.run(call, overlap=overlap, same=same)

    async def _wait_for(self, call: SiteCall, row: CallRow) -> CallRow | None:
        """Return the settled row of a handler that still runs here; else settle the call as interrupted."""
        assert call.prepared is not None
        handler = running_handlers.find(row.id)
        if handler is not None:
            limit = call.prepared.action.timeout or WAIT_SECONDS
            late = asyncio.wrap_future(handler)
            waits: list[asyncio.Future[Any]] = [
                late,
                asyncio.ensure_future(self._desk.io.clock.sleep(limit)),
                asyncio.ensure_future(self._desk.io.stop.wait()),
            ]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if late.done():
                    return late.result()
            finally:
                for wait in waits[1:]:
                    wait.cancel()
        if self._desk.is_stopped:
            self._desk.refuse(call, failure("cancelled", STOPPED))
        else:
            self._desk.refuse(call, failure("interrupted_write", _INTERRUPTED))
        return None

    def _replay(self, call: SiteCall, row: CallRow) -> bool:
        """Settle a call with a recorded outcome; nothing of it runs."""
        assert call.prepared is not None
        problem = CallFailure.from_json(row.error) if row.error is not None else None
        settled = Settled(
            status="error" if problem is not None else "success",
            action=call.name,
            prepared=call.prepared,
            output=row.output if problem is None else None,
            failure=problem,
            effect=row.effect,
            replayed=True,
            ends_turn=problem is None and call.prepared.action.ends_turn,
            row_id=row.id,
        )
        return self._desk.take_over(call, settled, row.id)

    # --- what is left -------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Settle what may not run any more: after a stop, an `ends_turn`, a loop breaker."""
        desk = self._desk
        if desk.halt is not None:
            settle_rest(desk, self._open(), desk.halt)
        elif desk.is_stopped:
            for call in self._open():
                if call.grant is None:
                    desk.refuse(call, failure("cancelled", STOPPED))

    def _open(self) -> list[SiteCall]:
        return [call for call in self._calls if call.settled is None]


_INTERRUPTED = (
    "This call was started before and no result was recorded; whether it took effect is unknown. It was not run again. "
    "(interrupted_write)"
)
