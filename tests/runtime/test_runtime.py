"""The runtime itself (spec/notebook.md, section 1)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import chatnb
from chatnb.errors import ChatBusyError, ConfigError
from chatnb.runtime import InlineRuntime, Runtime, get_runtime
from chatnb.runtime import process as process_module
from tests.runtime.conftest import later

DEADLINE = 10.0


@pytest.fixture
def own_process() -> Iterator[None]:
    """A process that has no runtime yet, and has none afterwards."""
    held = process_module._held()
    held.runtime = None
    yield
    if held.runtime is not None:
        held.runtime.shut_down()
        held.runtime.loop.close()
        held.runtime = None


def run_script(code: str) -> subprocess.CompletedProcess[str]:
    root = os.path.dirname(os.path.dirname(chatnb.__file__))
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=30, env=environment
    )


@pytest.mark.usefixtures("own_process")
class TestGetRuntime:
    def test_one_thread(self) -> None:
        """C1: the first use starts one thread, the second none."""
        before = threading.active_count()
        first = get_runtime()
        assert threading.active_count() == before + 1
        assert get_runtime() is first
        assert threading.active_count() == before + 1
        assert first.kind == "thread"

    def test_unknown_kind(self) -> None:
        """Section 1: other values raise ConfigError."""
        with pytest.raises(ConfigError, match='"auto", "thread" or "kernel"'):
            get_runtime("process")  # type: ignore[arg-type]

    def test_other_kind_later(self) -> None:
        """Section 1: the first chat fixes the kind; "auto" takes whichever there is."""
        first = get_runtime("thread")
        with pytest.raises(ConfigError, match='runtime="thread"'):
            get_runtime("kernel")
        assert get_runtime("auto") is first

    def test_reload(self) -> None:
        """C2: a reload, of the package or of the runtime's own modules, finds the same runtime."""
        first = get_runtime()
        importlib.reload(chatnb)
        importlib.reload(process_module)
        assert process_module.get_runtime() is first

    def test_dead_thread_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 1: a dead runtime thread is replaced at next use."""
        first = get_runtime()
        first.shut_down()
        assert not first.is_alive
        second = get_runtime()
        assert second is not first
        assert second.call(lambda: 5) == 5
        first.loop.close()

    def test_auto_without_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 1: where threads cannot start, "auto" works on the running loop."""

        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        async def ask() -> str:
            return get_runtime("auto").kind

        with monkeypatch.context() as patch:
            loop = asyncio.new_event_loop()
            patch.setattr(threading.Thread, "start", refuse)
            assert loop.run_until_complete(ask()) == "kernel"
        loop.close()

    def test_kernel_without_a_loop(self) -> None:
        """Section 1: `runtime="kernel"` without any loop is a ConfigError that says what to use."""
        with pytest.raises(ConfigError, match='runtime="thread"'):
            get_runtime("kernel")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    def test_fork(self) -> None:
        """Section 1: the child of a fork forgets the runtime and starts its own."""
        done = run_script(
            "import os, warnings\nwarnings.simplefilter('ignore')\nfrom chatnb.runtime import get_runtime\n"
            "first = get_runtime()\npid = os.fork()\n"
            "if pid == 0:\n    second = get_runtime()\n    assert second is not first\n"
            "    assert second.call(lambda: 7) == 7\n    os._exit(5)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), first.call(lambda: 8))"
        )
        assert done.stdout == "5 8\n", done.stderr


class TestPost:
    def test_order(self, runtime: Runtime) -> None:
        """Posts from any thread and from the loop itself run in order of posting."""
        seen: list[int] = []

        def on_loop() -> None:
            for number in range(100, 105):
                runtime.post(seen.append, number)

        runtime.post(on_loop)
        runtime.call(lambda: None)
        for number in range(50):
            runtime.post(seen.append, number)
        runtime.call(lambda: None)
        assert seen == [*range(100, 105), *range(50)]

    def test_error_is_logged_once(self, runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
        """Section 1: an exception that belongs to no turn is logged once, and ends nothing."""

        def fails() -> None:
            raise SystemExit(3)

        runtime.post(fails)
        assert runtime.call(lambda: 5) == 5
        assert [record.name for record in caplog.records] == ["chatnb"]
        assert caplog.records[0].exc_info is not None

    def test_call_raises(self, runtime: Runtime) -> None:
        """What the function raises, `call` raises."""
        with pytest.raises(ZeroDivisionError):
            runtime.call(lambda: 1 // 0)


class TestCallIfFree:
    def test_what_waited_too_long_is_never_run(self, runtime: Runtime) -> None:
        """A cell's end asks a loop that may wait for a locked store: nothing is lost, and nothing runs unheard of."""
        ran: list[str] = []
        free, busy = threading.Event(), threading.Event()

        def block() -> None:
            busy.set()
            free.wait(DEADLINE)

        runtime.post(block)
        assert busy.wait(DEADLINE)
        assert runtime.call_if_free(lambda: ran.append("late"), within=0.01) is None
        free.set()
        assert runtime.call_if_free(lambda: tuple(ran), within=DEADLINE) == ()

    def test_what_was_begun_is_waited_for(self, runtime: Runtime) -> None:
        entered, go = threading.Event(), threading.Event()

        def slow() -> str:
            entered.set()
            go.wait(DEADLINE)
            return "done"

        def let_go() -> None:
            entered.wait(DEADLINE)
            threading.Timer(0.6, go.set).start()

        threading.Thread(target=let_go).start()
        assert runtime.call_if_free(slow, within=0.5) == "done"
        with pytest.raises(ZeroDivisionError):
            runtime.call_if_free(lambda: 1 / 0, within=DEADLINE)


class TestSpawn:
    def test_unretrieved_exception(self, runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
        """C5: a task's exception that nobody retrieves is one record with its traceback, without a collection."""
        logged = threading.Event()

        class Note(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                logged.set()

        async def fails() -> None:
            raise ValueError("deferred")

        handler = Note()  # at the root, behind that of `caplog`: what it has heard of is in there
        logging.getLogger().addHandler(handler)
        try:
            task = runtime.spawn(fails(), name="deferred")
            assert logged.wait(DEADLINE)
        finally:
            logging.getLogger().removeHandler(handler)
        assert task.done()
        assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]

    def test_retrieved_exception(self, runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
        """An exception that somebody awaits is not logged."""

        async def fails() -> None:
            raise ValueError("awaited")

        async def awaits() -> None:
            with pytest.raises(ValueError, match="awaited"):
                await runtime.spawn(fails(), name="awaited")
            await asyncio.wait({runtime.spawn(asyncio.sleep(0), name="x")})

        later(runtime, awaits()).result(DEADLINE)
        for _ in range(10):
            runtime.call(lambda: None)
        assert caplog.records == []

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
    def test_never_ends_the_runtime(
        self, runtime: Runtime, caplog: pytest.LogCaptureFixture, error: BaseException
    ) -> None:
        """Section 1: not even SystemExit of a task ends the runtime."""

        async def leaves() -> None:
            raise error

        runtime.spawn(leaves(), name="leaves")
        assert later(runtime, asyncio.sleep(0, 5)).result(DEADLINE) == 5
        assert runtime.is_alive


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as Python starts with it: a worker of a test run, or a job in the background, ignores it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


class TestWait:
    def test_timeout(self, runtime: Runtime) -> None:
        """Section 1: TimeoutError after `timeout` leaves what is waited for running."""
        future: concurrent.futures.Future[int] = concurrent.futures.Future()
        with pytest.raises(TimeoutError):
            runtime.wait(future, timeout=0.01)
        runtime.post(future.set_result, 5)
        assert runtime.wait(future) == 5

    def test_on_the_runtime(self, runtime: Runtime) -> None:
        """Section 1: on the runtime's own thread it raises ChatBusyError at once."""
        with pytest.raises(ChatBusyError):
            runtime.call(lambda: runtime.wait(concurrent.futures.Future()))

    def test_other_thread(self, runtime: Runtime) -> None:
        """Any other thread just waits."""
        future: concurrent.futures.Future[int] = concurrent.futures.Future()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(runtime.wait, future)
            runtime.post(future.set_result, 6)
            assert waiting.result(DEADLINE) == 6

    def test_ctrl_c(self, runtime: Runtime, interruptible: None) -> None:
        """Section 1: Ctrl-C is raised by the wait, with the note, and the handler is put back."""
        future: concurrent.futures.Future[int] = concurrent.futures.Future()
        before = signal.getsignal(signal.SIGINT)

        def interrupt_once_it_waits() -> None:
            if signal.getsignal(signal.SIGINT) is before:
                runtime.loop.call_soon(interrupt_once_it_waits)
            else:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        runtime.post(interrupt_once_it_waits)
        with pytest.raises(KeyboardInterrupt) as caught:
            runtime.wait(future)
        assert caught.value.__notes__ == ["The reply goes on; chat.stop() ends it."]
        assert signal.getsignal(signal.SIGINT) is before
        runtime.post(future.set_result, 5)
        assert runtime.wait(future) == 5


class TestWorkers:
    def test_one_thread_a_key(self, runtime: Runtime) -> None:
        """turns.md, section 5: a chat's sync hooks run on one thread, and a slow one delays no other chat."""
        gate = threading.Event()
        colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")

        def of_a() -> tuple[str, str]:
            assert gate.wait(DEADLINE)
            return threading.current_thread().name, colour.get()

        async def both() -> list[tuple[str, str]]:
            colour.set("red")
            slow = runtime.spawn(runtime.in_worker("a", of_a), name="slow")
            again = runtime.spawn(runtime.in_worker("a", of_a), name="again")
            name = await runtime.in_worker("b", lambda: threading.current_thread().name)
            assert not slow.done()
            gate.set()
            return [(name, ""), await slow, await again]

        (b, _), first, second = later(runtime, both()).result(DEADLINE)
        assert b == "chatnb-hooks-b"
        assert first == second == ("chatnb-hooks-a", "red")

    def test_error(self, runtime: Runtime) -> None:
        """What the function raises reaches the caller."""
        with pytest.raises(ZeroDivisionError):
            later(runtime, runtime.in_worker("a", lambda: 1 // 0)).result(DEADLINE)

    def test_notify(self, runtime: Runtime) -> None:
        """Without a kernel observers run in order on one thread of their own."""
        seen: list[tuple[int, str]] = []
        done = threading.Event()
        for number in range(5):
            runtime.notify(lambda number=number: seen.append((number, threading.current_thread().name)))
        runtime.notify(done.set)
        assert done.wait(DEADLINE)
        assert seen == [(number, "chatnb-notify") for number in range(5)]


class TestExit:
    def test_at_exit(self) -> None:
        """Section 1: at the end of a script what was registered runs on the loop, and nothing is printed."""
        done = run_script(
            "import asyncio, threading\nfrom chatnb.runtime import get_runtime\nruntime = get_runtime()\n"
            "async def release():\n    await asyncio.sleep(0)\n    print('released', threading.current_thread().name)\n"
            "runtime.at_exit(release)\nruntime.spawn(asyncio.sleep(60), name='turn')"
        )
        assert (done.stdout, done.stderr, done.returncode) == ("released chatnb-runtime\n", "", 0)

    def test_one_second_in_all(self) -> None:
        """Section 1: the exit waits for at most 1 s in all, also for functions that never return."""
        done = run_script(
            "import asyncio, atexit, threading, time\n"
            "from chatnb._ports import FunctionCall\nfrom chatnb.runtime import get_runtime\nruntime = get_runtime()\n"
            "runtime.at_exit(lambda: asyncio.sleep(60))\n"
            "entered = threading.Event()\n"
            "def stuck():\n    entered.set()\n    time.sleep(60)\n"
            "runtime.spawn(runtime.calls.run(FunctionCall(function=stuck, run_in='thread')), name='call')\n"
            "entered.wait()\nbegin = time.monotonic()\nruntime.shut_down()\n"
            "print(0.9 < time.monotonic() - begin < 2)"
        )
        assert (done.stdout, done.stderr) == ("True\n", "")


class TestInlineRuntime:
    async def test_no_threads(self) -> None:
        """A test's runtime starts no thread: calls, hooks and observers run on its loop."""
        from chatnb._ports import FunctionCall

        before = threading.active_count()
        runtime = InlineRuntime(asyncio.get_running_loop())
        seen: list[str] = []
        runtime.notify(seen.append, "observer")
        result = await runtime.calls.run(FunctionCall(function=lambda: threading.current_thread().name))
        assert result.value == threading.current_thread().name
        assert await runtime.in_worker("a", lambda: 5) == 5
        assert seen == ["observer"]
        assert threading.active_count() == before

    async def test_blocking(self) -> None:
        """Waiting on the loop that would have to turn raises ChatBusyError."""
        runtime = InlineRuntime(asyncio.get_running_loop())
        with pytest.raises(ChatBusyError):
            runtime.wait(concurrent.futures.Future())
