"""Calls on a `concurrent.futures.Executor`: process pools, Dask, ipyparallel (spec/notebook.md, section 2).

What cannot be pickled is found before or after the executor, and named. Whether a worker has begun a call is asked of
its mark (`begun.py`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from chatnb._ports import FunctionCall, FunctionResult
from chatnb.errors import ActionDefinitionError, ActionError
from chatnb.runtime.begun import Mark, mark_of, one_worker, ticket_for
from chatnb.runtime.calls import GIVEN_UP_AFTER
from chatnb.runtime.entry import Entry, Why, current_entry
from chatnb.runtime.packing import cannot_pickle, portable_arguments, portable_function
from chatnb.runtime.remote import Item, Packed, describe, work
from chatnb.runtime.tasks import log, start_task

if TYPE_CHECKING:
    from chatnb.runtime.begun import Ticket
    from chatnb.runtime.runtime import Runtime

_BEGUN_CHECK = 0.05  # seconds between looks whether a worker has begun
_MARK_CHECK = 0.2  # the same where each look is a round trip

T = TypeVar("T")
Future = concurrent.futures.Future


async def run_on_executor(runtime: Runtime, entry: Entry, executor: concurrent.futures.Executor) -> FunctionResult:
    """Run a call on an executor to its end; called on the runtime's loop.

    Args:
        runtime: The runtime.
        entry: The call.
        executor: Where it runs. It is never restarted.

    Returns:
        How it ended.
    """
    if entry.is_async:
        return _failed(ActionDefinitionError('An async function cannot run on an executor; use run_in="thread".'))
    entry.context.run(current_entry.set, entry)
    executor = one_worker(executor)
    try:
        job = _job(entry, executor)
    except ActionError as error:
        return _failed(error)
    if not runtime.calls_runner.admit(entry):
        return entry.done.result()
    try:
        future: Future[FunctionResult] = executor.submit(job.function, *job.arguments)
    except Exception as error:  # noqa: BLE001 - shut down or broken: the call's error
        entry.is_over = True
        return _failed(_executor_failed(executor, error))
    try:
        return await _Handed(runtime, entry, executor, future, job).watch()
    finally:
        entry.leave_context()


@dataclass(frozen=True, slots=True)
class _Job:
    """What is submitted, and how its outcome is read.

    Attributes:
        function: What runs on the executor.
        arguments: What it gets.
        unpack: Makes a result of what it returned.
        ticket: Of this handing-over; None where nothing goes to another process.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    unpack: Callable[[Any], FunctionResult]
    ticket: Ticket | None = None


def _job(entry: Entry, executor: concurrent.futures.Executor) -> _Job:
    call = entry.call
    if shares_memory(executor):
        return _Job(partial(entry.context.run, _call_here, call), (), lambda result: result)
    function = portable_function(call.function)
    arguments = portable_arguments(call.kwargs)
    ticket = ticket_for(executor, call.report)
    return _Job(work, (function, arguments, ticket), partial(_unpack, entry, executor), ticket)


def shares_memory(executor: concurrent.futures.Executor) -> bool:
    """Tell whether an executor's workers are threads of this process, so that nothing has to be pickled."""
    # Python 3.14's InterpreterPoolExecutor is a ThreadPoolExecutor too, and pickles.
    is_threads = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
    return is_threads and type(executor).__name__ != "InterpreterPoolExecutor"


def _call_here(call: FunctionCall) -> FunctionResult:
    try:
        with call.scope() if call.scope is not None else nullcontext():
            return FunctionResult(value=call.function(**call.kwargs))
    except BaseException as error:  # noqa: BLE001 - any of them is the call's error
        return _failed(error, entered=True)


# --- unpacking --------------------------------------------------------------------------------------------------


def _unpack(entry: Entry, executor: concurrent.futures.Executor, packed: Packed) -> FunctionResult:
    if packed.is_unheard:
        _log_unheard(type(executor).__name__)
    if packed.stdout or packed.stderr:
        entry.context.run(_replay, entry.call, packed)
    if packed.kind == "value":
        return _load(packed.data, "result", lambda value: FunctionResult(value=value))
    if packed.kind == "error":
        return _load(packed.data, "exception", lambda error: _failed(error, entered=True))
    if packed.kind == "again":
        return _failed(_executor_failed(executor, None), entered=True)
    error = cannot_pickle(packed.kind, packed.type_name, packed.reason)
    return _failed(error, entered=packed.kind in ("result", "exception"))


def _load(data: bytes, item: Item, then: Callable[[Any], FunctionResult]) -> FunctionResult:
    try:
        value = pickle.loads(data)
    except Exception as error:  # noqa: BLE001 - told to the caller
        return _failed(cannot_pickle(item, "unknown", describe(error)), entered=True)
    return then(value)


def _replay(call: FunctionCall, packed: Packed) -> None:
    """Print what the worker printed within the call's scope: into the card, or where the process prints."""
    with call.scope() if call.scope is not None else nullcontext():
        sys.stdout.write(packed.stdout)
        sys.stderr.write(packed.stderr)


# --- waiting ----------------------------------------------------------------------------------------------------


class _Handed:
    """A call that an executor has."""

    def __init__(
        self,
        runtime: Runtime,
        entry: Entry,
        executor: concurrent.futures.Executor,
        future: Future[Any],
        job: _Job,
    ) -> None:
        self._runtime = runtime
        self._entry = entry
        self._executor = executor
        self._future = future
        self._unpack = job.unpack
        self._mark: Mark | None = None if job.ticket is None else mark_of(job.ticket, executor, future)
        self._is_local = job.ticket is not None and job.ticket.way is not None
        self._finished: asyncio.Future[None] = runtime.loop.create_future()
        future.add_done_callback(lambda _: runtime.post(_finish, self._finished))
        if self._mark is not None:
            remove = self._mark.remove
            future.add_done_callback(lambda _: _start_thread(remove))

    async def watch(self) -> FunctionResult:
        """Wait for the end of the call, of its time, or of the turn's patience."""
        loop, call = self._runtime.loop, self._entry.call
        helpers: dict[asyncio.Future[Any], Why] = {}
        if call.stop is not None:
            helpers[start_task(loop, call.stop.wait(), name="stop of an executor's call")] = "stopped"
        if call.timeout is not None:
            helpers[start_task(loop, self._time_over(call.timeout), name="timeout of an executor's call")] = "timeout"
        waits: set[asyncio.Future[Any]] = {self._finished, *helpers}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self._finished.done():
                return self._outcome()
            return await self._end(next(why for helper, why in helpers.items() if helper.done()))
        except asyncio.CancelledError:
            self._future.cancel()
            raise
        finally:
            for helper in helpers:
                helper.cancel()

    async def _end(self, why: Why) -> FunctionResult:
        self._entry.why = why
        patience = start_task(
            self._runtime.loop, self._runtime.clock.sleep(GIVEN_UP_AFTER), name="end of an executor's call"
        )
        try:
            if await self._take_back(patience):
                self._entry.is_over = True
                return FunctionResult(reason=why, entered=False)
            either: set[asyncio.Future[Any]] = {self._finished, patience}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            patience.cancel()
        seconds = self._entry.call.timeout
        if self._finished.done():
            result = self._outcome()
            if why == "timeout":
                error = TimeoutError(f"timed out after {seconds:g} s")
                return FunctionResult(value=result.value, error=error, reason=why)
            return result
        late: Future[FunctionResult] = Future()
        self._future.add_done_callback(
            lambda _: self._runtime.post(lambda: late.set_result(self._outcome()))  # on the loop, as all of this
        )
        still = None if why == "stopped" else TimeoutError(f"timed out after {seconds:g} s; still running")
        return FunctionResult(reason=why, error=still, late=late)

    async def _take_back(self, patience: asyncio.Future[None]) -> bool:
        """Cancel the call if no worker has begun it."""
        mark = self._mark
        if mark is None:
            return self._future.cancel()

        def withdraw() -> bool:
            if mark.is_set():
                return False
            mark.withdraw()
            return not mark.is_set()  # a worker may have begun it meanwhile

        asked = _aside(self._runtime, withdraw)
        either: set[asyncio.Future[Any]] = {asked, patience}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return asked.done() and asked.result()

    async def _time_over(self, seconds: float) -> None:
        if self._mark is not None:
            while not (self._future.done() or await _aside(self._runtime, self._mark.is_set)):  # noqa: ASYNC110
                await asyncio.sleep(_BEGUN_CHECK if self._is_local else _MARK_CHECK)
        elif isinstance(self._executor, concurrent.futures.ThreadPoolExecutor):
            while not (self._future.running() or self._future.done()):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(_BEGUN_CHECK)
        # Of others nothing is known: their calls count from the hand-over.
        await self._runtime.clock.sleep(seconds)

    def _outcome(self) -> FunctionResult:
        self._entry.is_over = True
        try:
            outcome = self._future.result()
        except BaseException as error:  # noqa: BLE001 - what the function raises comes packed: this is the executor's
            return _failed(_executor_failed(self._executor, error), entered=True)
        return self._unpack(outcome)


def _aside(runtime: Runtime, ask: Callable[[], T]) -> asyncio.Future[T]:
    """Ask something that takes a round trip, beside the loop."""
    answer: asyncio.Future[T] = runtime.loop.create_future()

    def work() -> None:
        value = ask()
        runtime.post(lambda: None if answer.done() else answer.set_result(value))

    _start_thread(work)
    return answer


def _start_thread(work: Callable[[], object]) -> None:
    threading.Thread(target=work, name="chatnb-executor", daemon=True).start()


def _finish(finished: asyncio.Future[None]) -> None:
    if not finished.done():
        finished.set_result(None)


_unheard_executors: set[str] = set()


def _log_unheard(executor: str) -> None:
    if executor not in _unheard_executors:
        _unheard_executors.add(executor)
        log.info("ctx.progress() and ctx.log() are shown from threads and local process pools, not from %s", executor)


# --- errors -----------------------------------------------------------------------------------------------------


def _failed(error: BaseException, *, entered: bool = False) -> FunctionResult:
    return FunctionResult(error=error, reason="raised", entered=entered)


def _executor_failed(executor: concurrent.futures.Executor, error: BaseException | None) -> ActionError:
    # ipyparallel gives one type for all that failed over there; `ename` says which it was.
    name = "" if error is None else f" ({getattr(error, 'ename', type(error).__name__)})"
    advice = " The workers need chatnb installed." if "ModuleNotFoundError" in name else ""
    failure = ActionError(
        f"The executor {type(executor).__name__} did not finish the call: a worker died, or it is broken or shut down"
        f"{name}. It is not restarted.{advice}"
    )
    failure.__cause__ = error
    return failure
