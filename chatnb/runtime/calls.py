"""Runs users' functions to their end: the port `Calls` (spec/notebook.md, section 2).

Everything about a call's life is decided on the runtime's loop: whether it may still be entered, when it is ended, when
it is given up. The threads that run functions ask and report.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatnb._ports import FunctionCall, FunctionResult, Phase
from chatnb.runtime.entry import Entry, Why, current_entry, is_async
from chatnb.runtime.interrupt import Guard, Slot
from chatnb.runtime.tasks import log_failure, start_task

if TYPE_CHECKING:
    from chatnb.runtime.runtime import Runtime

BUSY_AFTER = 0.3  # seconds in which the main thread may take a call before the card says "kernel busy"
CALLS_THREAD_AFTER = 0.25  # seconds in which a main thread outside a kernel may begin to wait
GIVEN_UP_AFTER = 2.0  # seconds in which a function that was told to end may do so


class RuntimeCalls:
    """Runs calls for one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(self, call: FunctionCall) -> FunctionResult:
        """Run one call to its end.

        Args:
            call: What to run, where and how.

        Returns:
            How it ended. Never raises for what the function does.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the call is ended as by a stop, and not waited for.
        """
        loop = self._runtime.loop
        entry = Entry(
            call=call,
            context=contextvars.copy_context() if call.context is None else call.context.copy(),
            done=loop.create_future(),
            started=loop.create_future(),
            is_async=is_async(call.function),
        )
        self._tell(entry, "waiting")
        if isinstance(call.run_in, concurrent.futures.Executor):
            from chatnb.runtime.executors import run_on_executor

            return await run_on_executor(self._runtime, entry, call.run_in)
        timers: list[asyncio.Task[None]] = []
        if call.run_in == "kernel":
            self._runtime.main.queue.put(entry)
            timers = self._arm(entry)
            self._runtime.main.wake()
        elif entry.is_async:
            self.perform(entry, Guard())
        else:
            self._runtime.pool.submit(lambda: self.perform(entry, Guard()))
        try:
            return await self._watch(entry)
        except asyncio.CancelledError:
            self._end(entry, "stopped")
            raise
        finally:
            for timer in timers:
                timer.cancel()

    # --- the life of a call, on the runtime's loop -------------------------------------------------------------

    async def _watch(self, entry: Entry) -> FunctionResult:
        """Wait for the result, a stop or the timeout, whichever comes first."""
        loop, clock, call = self._runtime.loop, self._runtime.clock, entry.call
        helpers: dict[asyncio.Future[Any], Why] = {}
        if call.stop is not None:
            helpers[start_task(loop, call.stop.wait(), name="stop of a call")] = "stopped"
        waits: set[asyncio.Future[Any]] = {entry.done, *helpers}
        if call.timeout is not None:
            waits.add(entry.started)
        try:
            while True:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if entry.done.done():
                    return entry.done.result()
                if entry.started in waits and entry.started.done() and call.timeout is not None:
                    waits.discard(entry.started)
                    timer = start_task(loop, clock.sleep(call.timeout), name="timeout of a call")
                    helpers[timer] = "timeout"
                    waits.add(timer)
                for helper, why in helpers.items():
                    if helper.done():
                        return await self._end_and_wait(entry, why)
        finally:
            for helper in helpers:
                helper.cancel()

    async def _end_and_wait(self, entry: Entry, why: Why) -> FunctionResult:
        self._end(entry, why)
        if entry.done.done():
            return entry.done.result()
        loop = self._runtime.loop
        patience = start_task(loop, self._runtime.clock.sleep(GIVEN_UP_AFTER), name="end of a call")
        try:
            either: set[asyncio.Future[Any]] = {entry.done, patience}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            patience.cancel()
        if entry.done.done():
            return entry.done.result()
        entry.late = concurrent.futures.Future()
        return FunctionResult(reason=why, error=_time_is_over(entry, still_running=True), late=entry.late)

    def _end(self, entry: Entry, why: Why) -> None:
        """Drop the call if it was not entered; else tell the function to end."""
        if entry.done.done():
            return
        if not entry.admitted:
            entry.refused = why
            self._runtime.main.queue.drop(entry)
            entry.done.set_result(FunctionResult(reason=why, entered=False))
            self._runtime.main.wake()
            return
        entry.why = why
        if entry.task is not None:
            entry.task.get_loop().call_soon_threadsafe(entry.task.cancel)
        elif entry.guard is not None:
            entry.guard.interrupt(entry)

    def _arm(self, entry: Entry) -> list[asyncio.Task[None]]:
        """Start the timers of a queued call: the busy notice, or the way to the thread `chatnb-calls`."""
        main = self._runtime.main
        if main.main_loop is not None:
            return [self._after(BUSY_AFTER, entry, self._note_busy)]
        if entry.is_async:
            return []
        if main.goes_to_calls_thread:
            main.open(entry)
            return []
        return [self._after(CALLS_THREAD_AFTER, entry, main.open)]

    def _after(self, seconds: float, entry: Entry, then: Callable[[Entry], None]) -> asyncio.Task[None]:
        """Do `then` once the main thread could have taken the queued call for `seconds` and did not."""
        main = self._runtime.main

        async def wait() -> None:
            while True:
                await self._runtime.clock.sleep(seconds)
                if not main.queue.is_queued(entry):
                    return
                # Another call has the place, or a main thread outside a kernel is there and will come.
                if not (main.queue.is_held() or (main.main_loop is None and main.is_main_serving())):
                    then(entry)
                    return

        return start_task(self._runtime.loop, wait(), name="notice of a queued call")

    def _note_busy(self, entry: Entry) -> None:
        self._tell(entry, "busy")

    def _tell(self, entry: Entry, phase: Phase) -> None:
        if entry.call.on_phase is not None:
            try:
                entry.call.on_phase(phase)
            except Exception as error:  # noqa: BLE001 - a view's failure is not the call's
                log_failure("The notice of a call's phase", error)

    def admit(self, entry: Entry) -> bool:
        """Decide, on the runtime's loop, whether the function may be entered; calls `enter`."""
        if entry.refused is not None:
            return False
        if entry.call.enter is not None:
            try:
                entry.call.enter()
            except BaseException as error:  # noqa: BLE001 - it is the result's error
                entry.refused = "stopped"
                entry.done.set_result(FunctionResult(error=error, reason="raised", entered=False))
                return False
        entry.admitted = True
        entry.started.set_result(None)
        self._tell(entry, "running")
        return True

    def _settle(self, entry: Entry, result: FunctionResult) -> None:
        if entry.why is not None and result.reason != "returned":
            error = _time_is_over(entry, still_running=False) if entry.why == "timeout" else result.error
            result = FunctionResult(value=result.value, error=error, reason=entry.why)
        elif entry.why == "timeout":  # it returned, but too late
            error = _time_is_over(entry, still_running=False)
            result = FunctionResult(value=result.value, error=error, reason="timeout")
        if entry.late is not None:
            entry.late.set_result(result)
        elif not entry.done.done():
            entry.done.set_result(result)
        entry.leave_context()

    # --- on the thread where the function runs ------------------------------------------------------------------

    def perform(self, entry: Entry, guard: Guard) -> None:
        """Run a call on the calling thread, or start it there if it is async. Never raises for what it does."""
        entry.context.run(current_entry.set, entry)
        entry.guard = guard
        try:
            is_admitted = self._runtime.call(self.admit, entry)
        except RuntimeError as error:  # the runtime is gone, and with it whoever wants the result
            log_failure("The entry of a call", error)
            is_admitted = False
        if not is_admitted:
            self._give_back(entry)
            return
        if entry.is_async:
            self._start(entry)
            return
        watchdog = self._watchdog(entry)
        slot = guard.run(entry, lambda slot: entry.context.run(_enter, entry.call, slot))
        if watchdog is not None:
            watchdog.cancel()
        if slot.error is None and inspect.iscoroutine(slot.value):
            guard.finish(slot)
            self._go_on(entry, slot.value)
            return
        self._over(entry, _result_of(slot))
        guard.finish(slot)

    def _go_on(self, entry: Entry, rest: Coroutine[Any, Any, Any]) -> None:
        """A sync function has returned a coroutine: the call goes on as an async one, such as code that awaits."""
        entry.is_async = True
        entry.call = replace(entry.call, function=lambda: rest, kwargs={})
        if entry.call.run_in == "kernel" and self._runtime.main.main_loop is not None:
            self._start(entry)
        else:
            self._runtime.post(self._start, entry)

    def _start(self, entry: Entry) -> None:
        main_loop = self._runtime.main.main_loop
        loop = main_loop if main_loop is not None and entry.call.run_in == "kernel" else self._runtime.loop
        task = start_task(loop, _caught(entry.call), name="async action", context=entry.context)
        entry.task = task
        release = self._runtime.main.tasks.begin(task, entry) if loop is main_loop else None

        def ended(task: asyncio.Task[FunctionResult]) -> None:
            if release is not None:
                release()
            if not task.cancelled():
                result = task.result()
            else:
                error = asyncio.CancelledError()
                result = FunctionResult(error=error, reason="interrupted" if entry.by_user else "raised")
            self._over(entry, result)

        task.add_done_callback(ended)
        # Ended between `admit` and here: nobody could cancel the task yet.
        self._runtime.post(self._cancel_if_ended, entry)

    def _cancel_if_ended(self, entry: Entry) -> None:
        if entry.why is not None and entry.task is not None:
            entry.task.get_loop().call_soon_threadsafe(entry.task.cancel)

    def _over(self, entry: Entry, result: FunctionResult) -> None:
        self._give_back(entry)
        self._runtime.post(self._settle, entry, result)

    def _give_back(self, entry: Entry) -> None:
        entry.is_over = True
        self._runtime.main.queue.release(entry)
        self._runtime.main.wake()

    def _watchdog(self, entry: Entry) -> threading.Timer | None:
        """Where the function blocks the runtime's own loop, its timeout needs a thread."""
        if entry.call.timeout is None or not self._runtime.on_loop():
            return None

        def interrupt() -> None:
            entry.why = "timeout"
            if entry.guard is not None:
                entry.guard.interrupt(entry)

        timer = threading.Timer(entry.call.timeout, interrupt)
        timer.daemon = True
        timer.start()
        return timer


def _enter(call: FunctionCall, slot: Slot) -> None:
    """Call the function within its scope, which sees what it raises but does not decide how it ended."""
    trace = None
    try:
        with call.scope() if call.scope is not None else nullcontext():
            slot.enter(call.function, dict(call.kwargs))
            if slot.error is not None:
                trace = slot.error.__traceback__
                raise slot.error
    except BaseException as error:  # noqa: BLE001 - any of them is the call's error
        if slot.error is None:
            slot.error = error
        else:
            slot.error.__traceback__ = trace  # without chatnb's own frames


async def _caught(call: FunctionCall) -> FunctionResult:
    """Await the function; SystemExit and the like never reach the loop."""
    try:
        with call.scope() if call.scope is not None else nullcontext():
            return FunctionResult(value=await call.function(**call.kwargs))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - any of them is the call's error
        return FunctionResult(error=error, reason="raised")


def _result_of(slot: Slot) -> FunctionResult:
    if slot.error is None:
        return FunctionResult(value=slot.value)
    if slot.hit_by_user and isinstance(slot.error, KeyboardInterrupt):
        return FunctionResult(error=slot.error, reason="interrupted")
    return FunctionResult(error=slot.error, reason="raised")


def _time_is_over(entry: Entry, *, still_running: bool) -> BaseException | None:
    if entry.why != "timeout" or entry.call.timeout is None:
        return None
    return TimeoutError(f"timed out after {entry.call.timeout:g} s" + ("; still running" if still_running else ""))
