"""Users' functions outside a kernel (spec/notebook.md, section 2)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chatnb._ports import FunctionCall, FunctionResult, Phase
from chatnb.runtime import InlineRuntime, Runtime
from tests.runtime.conftest import Ask, later

DEADLINE = 10.0
colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def here(**_: Any) -> str:
    return threading.current_thread().name


async def here_async() -> str:
    await asyncio.sleep(0)
    return here()


class TestWhereCallsRun:
    def test_waiting_main_thread(self, runtime: Runtime, ask: Ask) -> None:
        """C14: with `.result()` on the main thread the call runs there."""
        assert runtime.wait(ask(here)).value == "MainThread"

    def test_polling_main_thread(self, ask: Ask) -> None:
        """C14: a script that polls and does not wait gets its call on `chatnb-calls`."""
        future = ask(here)
        deadline = time.monotonic() + DEADLINE
        while not future.done() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert future.result(0).value == "chatnb-calls"

    def test_main_thread_comes_in_time(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: the main thread has 250 ms to begin to wait."""
        future = ask(here)
        time.sleep(0.05)
        assert runtime.wait(future).value == "MainThread"

    async def test_awaiting_loop(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: a loop of the main thread in which a chat is awaited runs the call."""
        with runtime.waiting("a"):
            result = await asyncio.wrap_future(ask(here))
        assert result.value == "MainThread"

    def test_server_site(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: once a server site has said so, calls go to `chatnb-calls` at once, and to one thread."""
        runtime.send_calls_to_thread()
        begin = time.monotonic()
        assert {ask(here).result(DEADLINE).value for _ in range(3)} == {"chatnb-calls"}
        assert time.monotonic() - begin < 0.25

    def test_async(self, ask: Ask) -> None:
        """Section 2: outside a kernel async functions run on the runtime's loop."""
        assert ask(here_async).result(DEADLINE).value == "chatnb-runtime"

    def test_thread(self, ask: Ask) -> None:
        """Section 2: `run_in="thread"` has a pool of at most 8 threads."""
        gate, entered = threading.Event(), threading.Semaphore(0)

        def waits() -> str:
            entered.release()
            assert gate.wait(DEADLINE)
            return here()

        futures = [ask(waits, run_in="thread") for _ in range(10)]
        for _ in range(8):
            assert entered.acquire(timeout=DEADLINE)
        assert not entered.acquire(blocking=False)
        gate.set()
        assert len({future.result(DEADLINE).value for future in futures}) == 8


class TestOneCall:
    def test_context(self, runtime: Runtime) -> None:
        """Section 2: a call runs in a fresh copy of its context; what it sets does not leak."""
        context = contextvars.copy_context()
        context.run(colour.set, "red")

        def paints() -> str:
            before = colour.get()
            colour.set("blue")
            return before

        async def run() -> list[Any]:
            calls = [FunctionCall(function=paints, context=context, run_in="thread") for _ in range(2)]
            return [(await runtime.calls.run(call)).value for call in calls]

        assert later(runtime, run()).result(DEADLINE) == ["red", "red"]
        assert context.run(colour.get) == "red"

    def test_enter_and_phases(self, runtime: Runtime, ask: Ask) -> None:
        """`enter` and the phases come in order, on the runtime's loop, right before the function."""
        seen: list[str] = []

        def note(what: Phase | str) -> None:
            assert runtime.on_loop()
            seen.append(what)

        runtime.wait(ask(lambda: seen.append("function"), enter=lambda: note("enter"), on_phase=note))
        assert seen == ["waiting", "enter", "running", "function"]

    @pytest.mark.parametrize("run_in", ["kernel", "thread"])
    def test_enter_raises(self, runtime: Runtime, ask: Ask, run_in: str) -> None:
        """If `enter` raises, the function is not entered and that is the error."""

        def refuse() -> None:
            raise PermissionError("no")

        result = runtime.wait(ask(pytest.fail, enter=refuse, run_in=run_in))
        assert isinstance(result.error, PermissionError)
        assert not result.entered

    def test_scope(self, runtime: Runtime, ask: Ask) -> None:
        """`scope` wraps the function on its thread and sees what it raises."""
        seen: list[str] = []

        @contextmanager
        def scope() -> Iterator[None]:
            seen.append(here())
            try:
                yield
            except ZeroDivisionError:
                seen.append("saw it")
                raise

        result = runtime.wait(ask(lambda: 1 // 0, scope=scope))
        assert isinstance(result.error, ZeroDivisionError)
        assert seen == ["MainThread", "saw it"]

    def test_traceback(self, runtime: Runtime, ask: Ask) -> None:
        """An error's traceback begins with the function's own frame."""
        error = runtime.wait(ask(lambda: 1 // 0)).error
        assert error is not None
        assert error.__traceback__ is not None
        assert error.__traceback__.tb_frame.f_code.co_filename == __file__

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
    @pytest.mark.parametrize("run_in", ["kernel", "thread"])
    def test_base_exceptions(self, runtime: Runtime, ask: Ask, error: BaseException, run_in: str) -> None:
        """C12: any BaseException of a call is that call's error."""

        def fails() -> None:
            raise error

        result = runtime.wait(ask(fails, run_in=run_in))
        assert (result.error, result.reason) == (error, "raised")

    def test_phase_listener_fails(self, runtime: Runtime, ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
        """A view's failure is logged and is not the call's."""
        assert runtime.wait(ask(here, on_phase=lambda _: 1 // 0)).value == "MainThread"
        assert caplog.records


class TestEnding:
    def test_timeout_on_main(self, runtime: Runtime, ask: Ask) -> None:
        """C11: at the timeout a sync function on the main thread gets KeyboardInterrupt; no value."""

        def sleeps() -> str:
            time.sleep(20)
            return "late"

        result = runtime.wait(ask(sleeps, timeout=0.05))
        assert (result.reason, result.value, str(result.error)) == ("timeout", None, "timed out after 0.05 s")

    def test_timeout_of_a_loop_on_calls_thread(self, ask: Ask) -> None:
        """Section 2: an endless loop on `chatnb-calls` is ended as well."""

        def spins() -> None:
            while True:
                pass

        assert ask(spins, timeout=0.05).result(DEADLINE).reason == "timeout"
        assert ask(here).result(DEADLINE).value == "chatnb-calls"

    def test_timeout_counts_from_the_start(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: time in the queue does not count."""
        first = ask(lambda: time.sleep(0.3))
        second = ask(here, timeout=0.2)
        runtime.wait(first)
        assert runtime.wait(second).reason == "returned"

    def test_stop_of_a_queued_call(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: stop removes a queued call."""
        stop = asyncio.Event()
        future = ask(pytest.fail, stop=stop)
        runtime.post(stop.set)
        result = future.result(DEADLINE)
        assert (result.reason, result.entered) == ("stopped", False)

    def test_stop_of_an_async_call(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: a running async call is cancelled."""
        stop, entered = asyncio.Event(), threading.Event()

        async def waits() -> None:
            entered.set()
            await asyncio.sleep(60)

        future = ask(waits, stop=stop)
        assert entered.wait(DEADLINE)
        runtime.post(stop.set)
        result = future.result(DEADLINE)
        assert (result.reason, result.entered) == ("stopped", True)

    def test_given_up(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: what goes on 2 s after a stop is given up; its real result comes later."""
        gate, entered, stop = threading.Event(), threading.Event(), asyncio.Event()

        def stubborn() -> str:
            entered.set()
            assert gate.wait(DEADLINE)
            return "late"

        future = ask(stubborn, run_in="thread", stop=stop)
        assert entered.wait(DEADLINE)
        runtime.post(stop.set)
        result: FunctionResult = future.result(DEADLINE)
        assert (result.reason, result.value) == ("stopped", None)
        assert result.late is not None
        gate.set()
        assert result.late.result(DEADLINE).value == "late"

    def test_stop_of_a_waiting_function(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: a function that waits for another chat is stopped in its wait."""
        never: concurrent.futures.Future[None] = concurrent.futures.Future()
        stop = asyncio.Event()

        def waits() -> None:
            runtime.post(stop.set)
            runtime.wait(never, chat_id="b")

        result = runtime.wait(ask(waits, chat_id="a", stop=stop))
        assert (result.reason, result.entered) == ("stopped", True)

    def test_cancelled_caller(self, runtime: Runtime) -> None:
        """A cancelled `run` ends the call and does not wait for it."""
        ended = threading.Event()

        async def waits() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        async def run() -> None:
            task = runtime.spawn(runtime.calls.run(FunctionCall(function=waits)), name="run")
            while not runtime.main.queue.is_held():  # noqa: ASYNC110
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        later(runtime, run()).result(DEADLINE)
        assert ended.wait(DEADLINE)


class TestReentrancy:
    def test_on_calls_thread(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: a function on `chatnb-calls` that waits for a chat runs that chat's calls itself."""
        runtime.send_calls_to_thread()

        def outer() -> Any:
            return runtime.wait(ask(here, chat_id="b"), chat_id="b").value

        assert ask(outer, chat_id="a").result(DEADLINE).value == "chatnb-calls"

    def test_own_chat(self, runtime: Runtime, ask: Ask) -> None:
        """C13: the smallest circle: a chat's function that waits for its own chat."""
        never: concurrent.futures.Future[None] = concurrent.futures.Future()
        result = runtime.wait(ask(lambda: runtime.wait(never, chat_id="a"), chat_id="a"))
        assert type(result.error).__name__ == "ChatBusyError"

    def test_circle_through_a_thread(self, runtime: Runtime, ask: Ask) -> None:
        """C13: the circle is seen also if one of its functions runs on a pool thread. Who closes it gets the error."""
        turn_a: concurrent.futures.Future[None] = concurrent.futures.Future()
        turn_b: concurrent.futures.Future[None] = concurrent.futures.Future()

        def of_a() -> None:
            runtime.wait(turn_b, chat_id="b")

        def of_b() -> None:
            runtime.wait(turn_a, chat_id="a")

        call_a = ask(of_a, chat_id="a", run_in="thread")
        call_b = ask(of_b, chat_id="b")
        call_a.add_done_callback(lambda _: turn_a.set_result(None))
        call_b.add_done_callback(lambda _: turn_b.set_result(None))
        errors = [type(runtime.wait(call).error).__name__ for call in (call_b, call_a)]
        assert sorted(errors) == ["ChatBusyError", "NoneType"]


class Still:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.sleeping: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> Any:
        raise NotImplementedError

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleeping.append((seconds, future))
        await future


class TestClock:
    async def test_waits_stand_still(self) -> None:
        """The waits of 300 ms, 250 ms and 2 s go through the clock that the runtime was given."""
        clock = Still()
        runtime = InlineRuntime(asyncio.get_running_loop(), clock)

        async def stubborn() -> None:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if gate.is_set():
                        raise

        gate = asyncio.Event()
        run = runtime.spawn(runtime.calls.run(FunctionCall(function=stubborn, timeout=7)), name="run")
        for seconds in (7, 2.0):
            while seconds not in [asked for asked, _ in clock.sleeping]:  # noqa: ASYNC110
                await asyncio.sleep(0)
            next(future for asked, future in clock.sleeping if asked == seconds).set_result(None)
        result = await run
        assert result.late is not None
        gate.set()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wrap_future(result.late)
