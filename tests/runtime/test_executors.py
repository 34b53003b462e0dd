"""`run_in=EXECUTOR` (spec/notebook.md, section 2)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from chatnb import Action, Agent
from chatnb.errors import ActionDefinitionError, ActionError
from chatnb.models import Reply, ScriptedModel
from chatnb.runtime import Runtime
from tests.runtime import functions
from tests.runtime.conftest import Ask

DEADLINE = 60.0


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


class TestProcesses:
    def test_function_of_a_module(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """C15: a decorated function of a module goes by name, and its decorator is seen through."""
        behind = functions.where.__wrapped__  # type: ignore[attr-defined]
        result = ask(behind, kwargs={"word": "yes"}, run_in=processes).result(DEADLINE)
        assert result.error is None
        assert result.value[0] == "yes"
        assert result.value[1] != os.getpid()

    def test_function_by_value(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """C15: a closure goes by value, as one defined in a notebook does."""
        offset = 5

        def adds(number: int) -> int:
            return number + offset

        assert ask(adds, kwargs={"number": 2}, run_in=processes).result(DEADLINE).value == 7

    def test_result(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """C16: a result that holds a lock: the error says that the result cannot be pickled and names the type."""
        error = ask(functions.holds_a_lock, run_in=processes).result(DEADLINE).error
        assert isinstance(error, ActionError)
        assert str(error).startswith("The result cannot be pickled")
        assert "dict" in str(error)
        assert "_thread.lock" in str(error)
        assert 'run_in="thread"' in str(error)

    def test_argument(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """Section 2: an argument that cannot be pickled is named by its type; nothing is entered."""
        result = ask(functions.sleeps, kwargs={"seconds": threading.Lock()}, run_in=processes).result(DEADLINE)
        assert str(result.error).startswith("The argument cannot be pickled")
        assert "_thread.lock" in str(result.error)
        assert not result.entered

    def test_function(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """Section 2: so is a function that holds one."""
        lock = threading.Lock()

        def holds() -> bool:
            return lock.locked()

        result = ask(holds, run_in=processes).result(DEADLINE)
        assert str(result.error).startswith("The function cannot be pickled")

    def test_exceptions(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """Section 2: an exception arrives as it was raised; one that cannot be made again is named."""
        plain = ask(functions.raises, kwargs={"kind": "plain"}, run_in=processes).result(DEADLINE)
        assert isinstance(plain.error, LookupError)
        strange = ask(functions.raises, kwargs={"kind": "strange"}, run_in=processes).result(DEADLINE)
        assert str(strange.error).startswith("The exception cannot be pickled")
        assert "StrangeError" in str(strange.error)

    def test_output(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """Section 3: a worker captures its stdout and stderr, and they come out in the call's scope."""
        out, err = io.StringIO(), io.StringIO()

        @contextmanager
        def scope() -> Iterator[None]:
            with redirect_stdout(out), redirect_stderr(err):
                yield

        behind = functions.where.__wrapped__  # type: ignore[attr-defined]
        ask(behind, kwargs={"word": "yes"}, run_in=processes, scope=scope).result(DEADLINE)
        assert (out.getvalue(), err.getvalue()) == ("in the worker\n", "to stderr\n")

    def test_timeout(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """Section 2: running work is given up 2 s after its timeout; the late result still comes."""
        call = ask(functions.sleeps, kwargs={"seconds": 3.0}, timeout=0.1, run_in=processes)
        result = call.result(DEADLINE)
        assert (result.reason, str(result.error)) == ("timeout", "timed out after 0.1 s; still running")
        assert result.late is not None
        assert result.late.result(DEADLINE).value == "slept"

    def test_worker_dies(self, ask: Ask) -> None:
        """Section 2: a broken pool is an error that names it, and it is not restarted."""
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            for _ in range(2):
                error = ask(functions.dies, run_in=pool).result(DEADLINE).error
                assert isinstance(error, ActionError)
                assert "ProcessPoolExecutor" in str(error)

    def test_timeout_counts_from_the_start(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """Section 2: not from queueing: a call in the pool's pipe has not begun, whatever its future says."""
        first = ask(functions.sleeps, kwargs={"seconds": 0.8}, run_in=processes)
        second = ask(functions.sleeps, kwargs={"seconds": 0.6}, timeout=1.0, run_in=processes)
        assert [first.result(DEADLINE).value, second.result(DEADLINE).value] == ["slept", "slept"]

    def test_stop_in_the_pipe(self, runtime: Runtime, ask: Ask, processes: ProcessPoolExecutor, tmp_path: Path) -> None:
        """Section 2: a call that waits there is not begun: stopped, it never runs."""
        stop = asyncio.Event()
        first = ask(functions.sleeps, kwargs={"seconds": 0.5}, run_in=processes)
        second = ask(functions.touches, kwargs={"path": str(tmp_path / "ran")}, run_in=processes, stop=stop)
        runtime.post(stop.set)
        result = second.result(DEADLINE)
        assert (result.reason, result.entered) == ("stopped", False)
        first.result(DEADLINE)
        assert ask(functions.sleeps, kwargs={"seconds": 0.0}, run_in=processes).result(DEADLINE).value == "slept"
        assert not (tmp_path / "ran").exists()

    def test_async_function(self, ask: Ask, processes: ProcessPoolExecutor) -> None:
        """Section 2: `async def` with an executor is an ActionDefinitionError."""

        async def waits() -> None: ...

        assert isinstance(ask(waits, run_in=processes).result(DEADLINE).error, ActionDefinitionError)


class TestProgress:
    """`ctx.progress` and `ctx.log` in a process of a pool (spec/notebook.md, section 2; actions.md, 9.5)."""

    def test_is_shown(self, processes: ProcessPoolExecutor) -> None:
        """At most 10 a second and the last; lines in order; all before the result."""
        seen: list[tuple[Any, ...]] = []
        made = Action(functions.counts, description="Count.", run_in=processes, read_only=True)
        model = ScriptedModel([Reply(calls=[("counts", {"until": 4000, "seconds": 0.35})]), "done"])
        chat = Agent(model, actions=[made]).chat()

        def watch(update: Any) -> None:
            for call in chat._engine.state().calls.values():
                now = (call.progress, call.log)
                if call.progress is not None and (not seen or seen[-1] != now):
                    seen.append(now)

        chat._engine.subscribe(watch)
        assert chat.send("go").result(DEADLINE).status == "completed"
        assert seen[-1][0] == {"done": 4000, "total": 4000, "text": "counted"}
        assert [line["text"] for line in seen[-1][1]] == ["begins", "ends"]
        assert 2 <= len(seen) <= 8


class TestThreads:
    def test_shares_memory(self, ask: Ask) -> None:
        """A pool of threads needs no pickling."""
        lock = threading.Lock()
        with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:
            result = ask(lambda: (lock, threading.current_thread().name), run_in=pool).result(DEADLINE)
        assert result.value == (lock, "mine_0")

    def test_stop_before_it_begins(self, runtime: Runtime, ask: Ask) -> None:
        """Section 2: what has not begun is cancelled."""
        gate, stop = threading.Event(), asyncio.Event()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(gate.wait, DEADLINE)
            future = ask(pytest.fail, run_in=pool, stop=stop)
            runtime.post(stop.set)
            result = future.result(DEADLINE)
            gate.set()
        assert (result.reason, result.entered) == ("stopped", False)

    def test_shut_down(self, ask: Ask) -> None:
        """Section 2: an executor that is shut down is named."""
        pool: concurrent.futures.Executor = ThreadPoolExecutor(1)
        pool.shutdown()
        assert "ThreadPoolExecutor" in str(ask(functions.dies, run_in=pool).result(DEADLINE).error)
