"""One entry of a handler: its arguments, its variables, what `Calls` brings back, and a result that comes late."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from .._clock import now as wall_now
from .._json import JsonValue
from .._ports import FunctionResult
from ..errors import ActionError, ActionOutputContractError, StopTurn, StoreError
from ..runtime.executors import shares_memory
from .audit import CallPlace
from .context import ActionContext
from .effects import CallScope, inside
from .environment import CallEnvironment
from .errors_sets import NothingWrittenError
from .failures import CallFailure, failure, failure_of
from .guards import start_worker
from .ledger import running_handlers
from .output import contract_error
from .ports import Bookkeeper, CallRow, GrantRow
from .prepare import PreparedCall
from .results import Digest, compose_output, digest_result
from .variables import meant_objects

_log = logging.getLogger("chatnb")


class NotEnteredError(Exception):
    """The handler may not be entered; `problem` is how the call settles."""

    def __init__(self, problem: CallFailure) -> None:
        super().__init__(problem.code)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of an attempt.

    Attributes:
        row: Its ledger row, once it was written.
        is_late: The handler still runs.
        stops_turn: It raised a `StopTurn`.
        output: What the model gets, where it is not made of the digest.
    """

    digest: Digest | None = None
    failure: CallFailure | None = None
    row: CallRow | None = None
    is_late: bool = False
    is_denied: bool = False
    stops_turn: bool = False
    output: JsonValue = None


class Attempt:
    """One entry of a handler.

    Args:
        prepared: The call.
        place: Where it stands.
        context: What the handler is told.
        scope: Its effects.
        environment: What the place gives.
        row_id: The id of its ledger row, if it gets one.
        grant: The approval that it uses.
    """

    def __init__(
        self,
        prepared: PreparedCall,
        place: CallPlace,
        context: ActionContext,
        scope: CallScope,
        environment: CallEnvironment,
        *,
        row_id: str,
        grant: GrantRow | None,
    ) -> None:
        self._prepared = prepared
        self._place = place
        self._context = context
        self._scope = scope
        self._environment = environment
        self._row_id = row_id
        self._grant = grant
        self._variables: dict[str, object] = {}
        self._timer: asyncio.TimerHandle | None = None
        run_in = prepared.action.run_in
        self._has_executor = isinstance(run_in, concurrent.futures.Executor)
        self._goes_away = isinstance(run_in, concurrent.futures.Executor) and not shares_memory(run_in)
        self.row: CallRow | None = None
        self.has_entered = False

    # --- what is called -----------------------------------------------------------------------------------------

    @property
    def function(self) -> Any:
        """What `Calls` runs: the handler and the digest of its result; in another process the handler alone."""
        if self._goes_away:
            return self._prepared.action.function
        return self._work_async if self._prepared.action.is_async else self._work

    @property
    def kwargs(self) -> dict[str, Any]:
        """What the handler gets: its own copy of the arguments, the variables' objects, the context."""
        return self._arguments() if self._goes_away else {}

    @property
    def has_variables(self) -> bool:
        """Some arguments name notebook variables."""
        return any(parameter.variable for parameter in self._prepared.action.signature.parameters)

    def resolve_variables(self) -> None:
        """Look the variables up, on the main thread.

        Raises:
            ActionError: Code `unknown_variable`, `wrong_type` or `variable_changed`.
        """
        args = self._prepared.args
        meant = None if self._grant is None else meant_objects.find(self._grant.id)
        resolve = self._environment.resolve
        for parameter in self._prepared.action.signature.parameters:
            name = args[parameter.name]
            if parameter.variable is None or name is None:
                continue
            # A name that a person's edit brought in was not asked about: it means what it means now.
            if self._grant is not None and (meant is None or (name in meant and meant[name] != resolve.remember(name))):
                raise ActionError(
                    f"The variable for {parameter.name} is another object than when the call was asked "
                    "(variable_changed).",
                    code="variable_changed",
                    status_code=409,
                )
            self._variables[parameter.name] = resolve(name, parameter.variable)

    def _arguments(self) -> dict[str, Any]:
        arguments = {**self._prepared.args, **self._variables}
        if self._prepared.action.signature.context is not None:
            arguments[self._prepared.action.signature.context] = self._context
        return arguments

    def _work(self) -> Digest | Coroutine[Any, Any, Digest]:
        with inside(self._scope):
            value = self._prepared.action.function(**self._arguments())
            if inspect.iscoroutine(value) and not self._has_executor:  # code that awaits: `Calls` goes on with it
                return self._work_on(value)
            return digest_result(self._prepared.action, value, self._environment)

    async def _work_on(self, rest: Coroutine[Any, Any, Any]) -> Digest:
        with inside(self._scope):
            return digest_result(self._prepared.action, await rest, self._environment)

    async def _work_async(self) -> Digest:
        with inside(self._scope):
            value = await self._prepared.action.function(**self._arguments())
            return digest_result(self._prepared.action, value, self._environment)

    # --- entry --------------------------------------------------------------------------------------------------

    def make_row(self, now: datetime) -> CallRow:
        """Make the ledger row of a write that is about to be entered."""
        place = self._place
        return CallRow(
            id=self._row_id,
            site=place.site,
            action=self._prepared.action.name,
            hash=self._prepared.hash,
            state="entered",
            effect="committed",
            chat_id=place.chat_id,
            turn_id=place.turn_id,
            message_id=place.message_id,
            step=place.step,
            tool_call_id=place.tool_call_id,
            attempt=place.attempt,
            entered_at=now,
        )

    def note_entered(self, row: CallRow | None, deadline: datetime | None) -> None:
        """Note that the handler is entered now."""
        self.row = row
        self.has_entered = True
        self._context.cancellation.deadline = deadline
        if self._prepared.is_write:
            self._scope.enter_write()

    def begin_timeout(self) -> None:
        """Tell the handler when its time is over; `Calls` does the rest."""
        timeout = self._prepared.action.timeout
        if timeout is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(timeout, self._context.cancellation.cancel)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    # --- the end ------------------------------------------------------------------------------------------------

    async def read(self, result: FunctionResult, stop: asyncio.Event | None) -> Ended:
        """Return what `Calls` brought back as the call's end."""
        if self.has_entered and not result.entered:  # it was handed to an executor, and no worker began it
            self.has_entered = False
            self._scope.state_nothing_written()
        problem = self._unentered(result) or self._broken_off(result, stop)
        if problem is not None:
            return Ended(failure=problem)
        if result.error is not None:
            return Ended(failure=self._failed(result.error), stops_turn=isinstance(result.error, StopTurn))
        if not self._goes_away:
            return Ended(digest=result.value)
        work = start_worker(lambda: digest_result(self._prepared.action, result.value, self._environment))
        try:
            return Ended(digest=await asyncio.wrap_future(work))
        except Exception as error:  # noqa: BLE001 - the output contract, and what a validator may raise
            return Ended(failure=self._failed(error), stops_turn=isinstance(error, StopTurn))

    def _unentered(self, result: FunctionResult) -> CallFailure | None:
        error = result.error
        if isinstance(error, NotEnteredError):
            return error.problem
        if self.has_entered or error is None:
            return None
        if isinstance(error, StoreError):
            _log.error("action %s did not run: the calls ledger can't be written (%s)", self._scope.action, error)
            return failure("action_failed", "Not executed: the call could not be recorded.", status_code=500)
        return failure_of(error)

    def _broken_off(self, result: FunctionResult, stop: asyncio.Event | None) -> CallFailure | None:
        is_stopped = stop is not None and stop.is_set()
        if result.reason == "stopped" or (is_stopped and getattr(result.error, "code", None) == "cancelled"):
            if not self.has_entered:
                return failure("cancelled", "Not executed: stopped.")
            return failure("cancelled", "Stopped while running; it may have had effects.")
        if result.reason == "timeout":
            still = "; still running" if result.late is not None else ""
            return failure("timeout", f"timed out after {self._prepared.action.timeout:g} s{still}")
        if result.reason == "interrupted":
            return failure("interrupted", "Interrupted by the user.")
        return None

    def _failed(self, error: BaseException) -> CallFailure:
        if isinstance(error, NothingWrittenError):
            self._scope.state_nothing_written()
        if isinstance(error, ActionOutputContractError) and error.action == self._scope.action:
            error = contract_error(error.action, error.issues, effect=self._scope.effect)
        if isinstance(error, ActionError):
            error.effect = self._scope.effect
        elif isinstance(error, Exception):
            _log.info("action %s failed", self._scope.action, exc_info=error)
        return failure_of(error, self._prepared.action)

    def follow_late(self, late: concurrent.futures.Future[FunctionResult], books: Bookkeeper | None) -> None:
        """Follow a handler that was left running: its result goes to its row alone (spec/actions.md, 7.3)."""
        row = self.row
        if row is None:
            return
        running_handlers.add(row.id)

        def ended(future: concurrent.futures.Future[FunctionResult]) -> None:
            final = self._late_row(row, future.result())
            try:
                if books is not None:
                    with books.write() as open_books:
                        open_books.settle_call(row.id, {"entered", "unknown"}, final)
            except StoreError as error:
                _log.error("action %s: its late result can't be recorded (%s)", row.action, error)
            finally:
                running_handlers.end(row.id, final)

        late.add_done_callback(ended)

    def _late_row(self, row: CallRow, result: FunctionResult) -> CallRow:
        ended_at = wall_now()
        if self._goes_away and result.error is None:
            try:
                result = replace(result, value=digest_result(self._prepared.action, result.value, self._environment))
            except Exception as error:  # noqa: BLE001 - the output contract, and what a validator may raise
                result = replace(result, error=error)
        digest = result.value
        if result.error is None and isinstance(digest, Digest) and digest.child is None:
            output = compose_output(self._prepared.action, digest, None)
            text = output if isinstance(output, str) else None
            return replace(row, state="done", output=output, model_text=text, ended_at=ended_at)
        problem = self._failed(result.error) if result.error is not None else failure("action_failed", "It ended late.")
        return replace(row, state="failed", effect=self._scope.effect, error=problem.to_json(), ended_at=ended_at)
