"""The wrapper around every handler: authorize, run, validate the output, audit (spec/actions.md, 2.1).

What has to be on disk before the handler is entered is written by `enter` (W6 of spec/recovery.md); how the call ended
is written before anybody uses its result (W7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from .._clock import Clock, ride_out
from .._ids import NewId
from .._json import JsonValue
from .._killpoint import kill_point
from .._ports import Calls, FunctionCall, FunctionResult, Phase, Span
from ..errors import ForbiddenError, StoreUnavailableError
from ..runtime.entry import is_async
from .attempt import Attempt, Ended, NotEnteredError
from .audit import CallPlace, audit_call
from .call_run import CallRun, OpenBooks, Record, WriteRows
from .change import Change
from .children import follow_child, watch_stop
from .context import ActionContext
from .definition import Action
from .effects import CallScope, inside
from .environment import CallEnvironment, CapturedCall, naming
from .failures import CallFailure, failure, failure_of
from .guards import ask_guard, run_guard
from .ports import Books, CallRow
from .prepare import PreparedCall
from .progress import CallReporter
from .results import compose_output
from .settled import Settled

_log = logging.getLogger("chatnb")


class Runner:
    """Runs prepared calls; see `dispatch.Road` for the arguments."""

    def __init__(
        self,
        environment: CallEnvironment,
        *,
        calls: Calls,
        clock: Clock,
        new_id: NewId,
        open_books: OpenBooks | None,
    ) -> None:
        self._environment = environment
        self._calls = calls
        self._clock = clock
        self._new_id = new_id
        self._open_books = open_books

    async def run(self, run: CallRun) -> Settled:
        """Run one call to its end and write it down."""
        span = self._span(run)
        with span as opened:
            settled = await self._run(run)
            if opened is not None and settled.failure is not None:
                opened.fail(settled.failure.code)
        return settled

    async def _run(self, run: CallRun) -> Settled:
        started = self._clock.monotonic()
        action, place = run.prepared.action, run.place
        scope = scope_of(action, place, self._environment)
        captured = self._capture(run)
        reporter = CallReporter(
            scope, asyncio.get_running_loop(), run.show, captured=captured, children=self._environment.children
        )
        context = context_of(
            run.prepared,
            place,
            approval=run.decision if run.grant is None else replace(run.grant, state="consumed"),
            client_data=run.client_data,
            attachments=run.attachments,
            headers=run.headers,
            reporter=reporter,
        )
        denial = await self._authorize(run, context, scope)
        if denial is not None:
            ended = Ended(failure=failure_of(denial), is_denied=True)
        else:
            ended = await self._attempt(run, context, scope, captured, reporter)
        reporter.close()
        return await self._settle(run, scope, captured, ended, started)

    # --- authorize ----------------------------------------------------------------------------------------------

    async def _authorize(self, run: CallRun, context: ActionContext, scope: CallScope) -> ForbiddenError | None:
        guard = run.prepared.action.authorize
        if guard is None:
            return None
        if context.identity is None:
            return ForbiddenError("Not allowed: nobody is known to make this call.")
        call = ask_guard(guard, run.prepared.args, context)
        try:
            with inside(scope):
                verdict = await run_guard(call, is_async=is_async(guard), clock=self._clock)
        except Exception as error:  # noqa: BLE001 - raising is how a guard denies
            return ForbiddenError(str(error)[:2000] or "Not allowed.")
        return ForbiddenError("Not allowed.") if verdict is False else None

    # --- run ----------------------------------------------------------------------------------------------------

    async def _attempt(
        self,
        run: CallRun,
        context: ActionContext,
        scope: CallScope,
        captured: CapturedCall | None,
        reporter: CallReporter,
    ) -> Ended:
        attempt = Attempt(
            run.prepared, run.place, context, scope, self._environment, row_id=self._new_id("call"), grant=run.grant
        )
        if attempt.has_variables:
            problem = await self._resolve(run, attempt)
            if problem is not None:
                return Ended(failure=problem)
        watch = watch_stop(run.stop, context.cancellation)
        try:
            result = await self._call(
                attempt,
                FunctionCall(
                    function=attempt.function,
                    kwargs=attempt.kwargs,
                    run_in=run.prepared.action.run_in,
                    chat_id=run.place.chat_id,
                    context=run.context,
                    timeout=run.prepared.action.timeout,
                    overlap=run.overlap,
                    enter=lambda: self._enter(run, attempt),
                    on_phase=_phases(run, attempt),
                    stop=run.stop,
                    scope=captured.scope if captured is not None else None,
                    report=reporter.hear if run.prepared.action.signature.context is not None else None,
                ),
            )
            if attempt.has_entered:
                kill_point("tool.returned")
            ended = await attempt.read(result, run.stop)
            if ended.digest is not None and ended.digest.child is not None:
                ended = await follow_child(
                    run.prepared.action, ended.digest.child, stop=run.stop, show=run.show_snapshot
                )
        finally:
            attempt.close()
            if watch is not None:
                watch.cancel()
        if result.late is not None:
            attempt.follow_late(result.late, self._environment.books)
        return replace(ended, row=attempt.row, is_late=result.late is not None)

    async def _call(self, attempt: Attempt, call: FunctionCall) -> FunctionResult:
        """Run the handler; while its entry can't be written because the database does not answer, try again."""

        async def run() -> FunctionResult:
            result = await self._calls.run(call)
            if isinstance(result.error, StoreUnavailableError) and not attempt.has_entered:
                raise result.error
            return result

        try:
            return await ride_out(self._clock, run)
        except StoreUnavailableError as error:
            return FunctionResult(error=error, reason="raised", entered=False)

    async def _resolve(self, run: CallRun, attempt: Attempt) -> CallFailure | None:
        """Look variables up, on the main thread, before anything is written down."""
        result: FunctionResult = await self._calls.run(
            FunctionCall(function=attempt.resolve_variables, chat_id=run.place.chat_id, stop=run.stop)
        )
        if result.reason == "stopped":
            return failure("cancelled", "Not executed: stopped.")
        return None if result.error is None else failure_of(result.error)

    def _enter(self, run: CallRun, attempt: Attempt) -> None:
        """Write W6, right before the handler is entered; on the runtime's loop.

        Raises:
            NotEnteredError: The call may not be entered (any more).
            StoreError: It could not be written down, so it does not run.
        """
        kill_point("tool.before_entry")
        if run.stop is not None and run.stop.is_set():
            raise NotEnteredError(failure("cancelled", "Not executed: stopped."))
        row = attempt.make_row(self._clock.now()) if run.prepared.is_write else None
        if self._open_books is not None and (row is not None or run.grant is not None):
            with self._open_books() as books:
                if run.grant is not None and not books.move_grant(run.grant.id, {"approved"}, "consumed"):
                    raise NotEnteredError(failure("not_executed", "Not executed: the approval is no longer valid."))
                if row is not None and not books.add_call(row):
                    raise NotEnteredError(
                        failure(
                            "interrupted_write",
                            "The call was started before and no result was recorded; whether it took effect is "
                            "unknown. It was not run again. (interrupted_write)",
                        )
                    )
        timeout = run.prepared.action.timeout
        attempt.note_entered(row, None if timeout is None else self._clock.now() + timedelta(seconds=timeout))
        kill_point("tool.entered")

    # --- the end ------------------------------------------------------------------------------------------------

    async def _settle(
        self, run: CallRun, scope: CallScope, captured: CapturedCall | None, ended: Ended, started: float
    ) -> Settled:
        action, place = run.prepared.action, run.place
        digest = ended.digest
        name: str | None = None
        output = ended.output
        if digest is not None and ended.failure is None:
            if self._environment.objects is not None and digest.value is not None:
                name = self._environment.objects.keep(digest.value, action=action.name, tool_call_id=place.tool_call_id)
            if output is None:
                output = compose_output(action, digest, name)
            if captured is not None and digest.presented is not None and digest.presented.bundle:
                captured.add_bundle(naming(digest.presented.bundle, name))
        outputs = tuple(captured.close()) if captured is not None else ()
        settled = Settled(
            status="denied" if ended.is_denied else "success" if ended.failure is None else "error",
            action=action.name,
            prepared=run.prepared,
            value=digest.value if digest is not None and ended.failure is None else None,
            output=output if ended.failure is None else None,
            failure=ended.failure,
            effect=scope.effect,
            object=name,
            images=digest.images.items if digest is not None and ended.failure is None else (),
            image_field=digest.images.field if digest is not None and ended.failure is None else None,
            image_notes=digest.images.notes if digest is not None and ended.failure is None else (),
            ends_turn=ended.stops_turn or (ended.failure is None and action.ends_turn),
            outputs=outputs,
            duration_ms=round((self._clock.monotonic() - started) * 1000),
            row_id=ended.row.id if ended.row is not None else None,
            is_detached=ended.is_late,
        )
        change = self._change(run, scope, settled)
        rows = self._rows(run, settled, ended, change)
        # What the handler did is not done again: its result waits for a database that does not answer.
        await ride_out(self._clock, lambda: self.record(settled, rows, run.record))
        if change is not None:
            self._environment.publish_change(change)
        return settled

    def record(self, settled: Settled, write_rows: WriteRows, record: Record | None, *, needed: bool = True) -> None:
        """Write how a call ended: by the site's own transaction, else by one of ours."""
        if record is not None:
            record(settled, write_rows)
        elif self._open_books is not None and needed:
            with self._open_books() as books:
                write_rows(books)

    def _rows(self, run: CallRun, settled: Settled, ended: Ended, change: Change | None) -> WriteRows:
        now = self._clock.now()
        row = ended.row and end_row(ended.row, settled, is_late=ended.is_late, now=now)
        audit = audit_call(
            run.prepared.action,
            run.place,
            new_id=self._new_id,
            now=now,
            status=settled.status,
            prepared=run.prepared,
            effect=settled.effect,
            error_code=settled.failure.code if settled.failure is not None else None,
            duration_ms=settled.duration_ms,
        )

        def write(books: Books) -> None:
            if run.grant is not None and ended.is_denied:
                books.move_grant(run.grant.id, {"approved"}, "consumed")  # a denial uses it up: once is once
            if row is not None:
                books.settle_call(row.id, {"entered"}, row)
            if audit is not None:
                books.add_audit(audit)
            if change is not None:
                books.add_change(change.to_row())

        return write

    def _change(self, run: CallRun, scope: CallScope, settled: Settled) -> Change | None:
        if settled.effect != "committed":
            return None
        if settled.failure is not None and settled.failure.code != "output_contract_violation":
            return None
        place = run.place
        return Change(
            action=settled.action,
            hash=settled.hash,
            site=place.site,
            at=self._clock.now(),
            chat_id=place.chat_id,
            turn_id=place.turn_id,
            identity=place.identity.id if place.identity is not None else None,
            resources=tuple(scope.resources),
            object=settled.object,
        )

    def _capture(self, run: CallRun) -> CapturedCall | None:
        capture, call_id, show = self._environment.capture, run.place.tool_call_id, run.show_outputs
        if capture is None:
            return None
        loop = asyncio.get_running_loop()

        def pass_on(outputs: list[JsonValue]) -> None:
            if show is not None and not loop.is_closed():
                loop.call_soon_threadsafe(show, outputs)

        return capture.open(call_id or self._new_id("call"), pass_on)

    def _span(self, run: CallRun) -> AbstractContextManager[Span | None]:
        if self._environment.tracer is None:
            return nullcontext()
        return self._environment.tracer.span(f"action {run.prepared.action.name}", site=run.place.site)


def scope_of(action: Action, place: CallPlace, environment: CallEnvironment) -> CallScope:
    """Return the scope of a dispatched call: it is nobody's nested call."""
    return CallScope(
        action.name,
        site=place.site,
        identity=place.identity,
        chat_id=place.chat_id,
        turn_id=place.turn_id,
        tool_call_id=place.tool_call_id,
        environment=environment,
        is_dispatched=True,
    )


def context_of(prepared: PreparedCall, place: CallPlace, **more: Any) -> ActionContext:
    """Return what a guard, a predicate or the handler is told about a call; `more` are further fields of it."""
    return ActionContext(
        site=place.site,
        action=prepared.action.name,
        identity=place.identity,
        chat_id=place.chat_id,
        turn_id=place.turn_id,
        tool_call_id=place.tool_call_id,
        call_hash=prepared.hash,
        **more,
    )


def end_row(row: CallRow, settled: Settled, *, is_late: bool, now: datetime) -> CallRow:
    """Return a ledger row as it is at the call's end; `unknown` while its handler still runs."""
    is_text = isinstance(settled.output, str)
    return replace(
        row,
        state="unknown" if is_late else "done" if settled.is_success else "failed",
        effect=settled.effect,
        model_text=settled.output if is_text else None,
        output=settled.output,
        error=None if settled.failure is None else settled.failure.to_json(),
        ended_at=None if is_late else now,
    )


def _phases(run: CallRun, attempt: Attempt) -> Callable[[Phase], None]:
    def on_phase(phase: Phase) -> None:
        if phase == "running":
            attempt.begin_timeout()
        if run.on_phase is not None:
            run.on_phase(phase)

    return on_phase
