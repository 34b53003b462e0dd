"""Calls of users' functions in a real kernel (spec/notebook.md, sections 1 and 2), at the level of the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.kernel_driver import FUNCTIONS, Kernel

pytestmark = pytest.mark.kernel


STRESS = """
import collections, random
draw = random.Random(7)

def works(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return 1

def stress(count):
    done = concurrent.futures.Future()
    async def run():
        reasons = collections.Counter()
        for _ in range(count):
            stop = asyncio.Event()
            runtime.loop.call_later(draw.random() * 0.003, stop.set)
            seconds = draw.random() * 0.002
            call = FunctionCall(function=works, kwargs={"seconds": seconds}, stop=stop)
            reasons[(await runtime.calls.run(call)).reason] += 1
        note("stressed", reasons=reasons)
        done.set_result(None)
    runtime.spawn(run(), name="stress")
    return done
"""


@pytest.fixture(scope="module")
def shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("kernel")) as running:
        assert running.run(FUNCTIONS).status == "ok"
        yield running


@pytest.fixture
def kernel(shared_kernel: Kernel) -> Kernel:
    shared_kernel.clear()
    return shared_kernel


def order(kernel: Kernel, *names: str) -> list[str]:
    return [line["event"] for line in kernel.events() if line["event"] in names]


class TestWhenACallRuns:
    def test_idle(self, kernel: Kernel) -> None:
        """Section 2: between cells a call runs at once, on the main thread."""
        kernel.run("x = ask(quick, 0.2)\nnote('cell ends')")
        assert kernel.until("result")["value"] == "5"
        assert order(kernel, "cell ends", "in") == ["cell ends", "in"]
        assert kernel.until("in")["thread"] == "MainThread"

    def test_awaiting(self, kernel: Kernel) -> None:
        """C8: while a cell awaits, a call that becomes due runs during the cell on the main thread."""
        cell = kernel.run("x = ask(quick, 0.1)\nawait asyncio.wrap_future(x)\nnote('cell ends')")
        assert cell.status == "ok"
        assert order(kernel, "cell ends", "in") == ["in", "cell ends"]
        assert kernel.until("in")["thread"] == "MainThread"

    def test_computing(self, kernel: Kernel) -> None:
        """C7: while a cell sleeps the notice shows within 0.5 s, and the function is entered once, after the cell."""
        kernel.run("x = ask(quick, 0.1)\ntime.sleep(1)\nnote('cell ends')")
        kernel.until("result")
        assert order(kernel, "waiting", "busy", "cell ends", "in") == ["waiting", "busy", "cell ends", "in"]
        waited = kernel.until("busy")["at"] - kernel.until("waiting")["at"]
        assert 0.25 < waited < 0.6

    def test_between_queued_cells(self, kernel: Kernel) -> None:
        """Section 2: of cells that wait in line, a call that became due in the first runs before the second."""
        first = kernel.send("x = ask(quick, 0.05)\ntime.sleep(0.4)")
        second = kernel.send("note('second')")
        kernel.finish(first)
        kernel.finish(second)
        kernel.until("result")
        assert order(kernel, "in", "second") == ["in", "second"]

    def test_pumped(self, kernel: Kernel) -> None:
        """Section 2: a cell that waits in `.result()` runs what is due."""
        cell = kernel.run("print(runtime.wait(ask(quick, 0.1)).value)\nnote('cell ends')")
        assert cell.text == "5\n"
        assert order(kernel, "in", "busy", "cell ends") == ["in", "cell ends"]
        assert kernel.until("in")["thread"] == "MainThread"

    def test_order_of_arrival(self, kernel: Kernel) -> None:
        """C9: three calls of a sync function do not overlap and follow the order of arrival."""
        kernel.run(
            "def step(n):\n    note('begin', n=n); time.sleep(0.02); note('end', n=n)\n"
            "xs = [ask(step, kwargs={'n': n}) for n in range(3)]"
        )
        kernel.until("result", count=3)
        steps = [(line["event"], line["n"]) for line in kernel.events() if line["event"] in ("begin", "end")]
        assert steps == [(event, n) for n in range(3) for event in ("begin", "end")]

    def test_connection_of_a_cell(self, kernel: Kernel) -> None:
        """C6: a thread-bound SQLite connection made in a cell works in a call between cells."""
        kernel.run("import sqlite3\ndb = sqlite3.connect(':memory:')")
        kernel.run("def query():\n    return db.execute('select 7').fetchone()[0]\nx = ask(query, 0.1)")
        assert kernel.until("result")["value"] == "7"


class TestAsyncFunctions:
    def test_idle(self, kernel: Kernel) -> None:
        """Section 2: an async function is a task of the kernel's loop."""
        kernel.run("x = ask(waits, 0.1)")
        assert kernel.until("result")["value"] == "6"
        assert kernel.until("in")["thread"] == "MainThread"

    def test_holds_the_place(self, kernel: Kernel) -> None:
        """Section 2: an async function holds the place until it ends."""
        kernel.run("x = ask(waits); y = ask(quick)")
        kernel.until("result", count=2)
        assert [line["name"] for line in kernel.events(event="result")] == ["waits", "quick"]

    def test_batch_overlaps(self, kernel: Kernel) -> None:
        """Section 2: async functions of a batch that may overlap do, and a sync one never overlaps them."""
        kernel.run(
            "async def meet():\n    note('begin'); await asyncio.sleep(0.1); note('end')\n"
            "xs = [ask(meet, overlap=True, chat_id='a'), ask(meet, overlap=True, chat_id='a'), ask(quick, chat_id='a')]"
        )
        kernel.until("result", count=3)
        assert order(kernel, "begin", "end", "in") == ["begin", "begin", "end", "end", "in"]

    def test_interrupt_between_cells(self, kernel: Kernel) -> None:
        """Section 2: Ctrl-C between cells cancels the async call, and SIGINT is ignored again afterwards."""
        kernel.run("x = ask(endless)")
        kernel.until("in", name="endless")
        kernel.interrupt()
        assert kernel.until("result")["reason"] == "interrupted"
        kernel.run("sigint_after_the_cell()")
        assert kernel.until("sigint")["handler"] in ("1", "Handlers.SIG_IGN")

    def test_timeout(self, kernel: Kernel) -> None:
        """Section 2: at its timeout an async function is cancelled."""
        kernel.run("x = ask(endless, timeout=0.1)")
        result = kernel.until("result")
        assert (result["reason"], result["late"]) == ("timeout", False)


class TestInterrupt:
    def test_between_cells(self, kernel: Kernel) -> None:
        """C10: Ctrl-C ends the call alone, and SIGINT's handler is as before."""
        kernel.run("x = ask(sleeps, 0.1)")
        kernel.until("in")
        kernel.interrupt()
        assert kernel.until("result")["reason"] == "interrupted"
        kernel.run("sigint_after_the_cell()")
        assert kernel.until("sigint")["handler"] in ("1", "Handlers.SIG_IGN")

    @pytest.mark.parametrize(
        "wait", ["print(runtime.wait({x}).reason)", "print((await asyncio.wrap_future({x})).reason)"]
    )
    def test_during_a_cell(self, kernel: Kernel, wait: str) -> None:
        """Section 1: if a user function runs, Ctrl-C is raised in it and the cell's waiting goes on."""
        cell = kernel.send(wait.format(x="ask(sleeps, 0.1)"))
        kernel.until("in")
        kernel.interrupt()
        assert kernel.finish(cell).text == "interrupted\n"

    @pytest.mark.parametrize("head", ["", "await asyncio.sleep(0)\n"])
    def test_of_a_wait(self, kernel: Kernel, head: str) -> None:
        """Section 1: Ctrl-C ends `.result()`, also within an async cell, with a note; the reply goes on."""
        cell = kernel.send(
            head
            + "reply = concurrent.futures.Future()\nthreading.Timer(0.1, note, ('waits',)).start()\nruntime.wait(reply)"
        )
        kernel.until("waits")
        kernel.interrupt()
        ended = kernel.finish(cell)
        assert ended.error is not None
        assert "KeyboardInterrupt" in ended.error
        assert "The reply goes on; chat.stop() ends it." in ended.error
        assert kernel.run("runtime.post(reply.set_result, 7); print(runtime.wait(reply))").text == "7\n"

    def test_of_an_await(self, kernel: Kernel) -> None:
        """C4: an interrupted `await` is a CancelledError in the cell, and the reply can be awaited again."""
        cell = kernel.send(
            "reply = concurrent.futures.Future()\nthreading.Timer(0.1, note, ('waits',)).start()\n"
            "with runtime.waiting('a'):\n    await asyncio.shield(asyncio.wrap_future(reply))"
        )
        kernel.until("waits")
        kernel.interrupt()
        ended = kernel.finish(cell)
        assert ended.error is not None
        assert "CancelledError" in ended.error
        kernel.run("reply = ask(quick)")
        assert kernel.run("print((await asyncio.wrap_future(reply)).value)").text == "5\n"


class TestEndings:
    def test_system_exit(self, kernel: Kernel) -> None:
        """C12: SystemExit is the call's error and the kernel answers the next cell."""
        kernel.run("x = ask(leaves)\ny = ask(quick)")
        kernel.until("result", name="quick")
        assert kernel.until("result", name="leaves")["error"] == "SystemExit(3)"
        assert kernel.run("print(1 + 1)").text == "2\n"

    def test_system_exit_of_a_task(self, kernel: Kernel) -> None:
        """C12, async: it does not reach the kernel's loop either."""
        kernel.run("async def leaves_too():\n    await asyncio.sleep(0)\n    raise SystemExit(4)\nx = ask(leaves_too)")
        assert kernel.until("result")["error"] == "SystemExit(4)"
        assert kernel.run("print(1 + 1)").text == "2\n"

    def test_timeout(self, kernel: Kernel) -> None:
        """C11: a sync function is interrupted at its timeout."""
        kernel.run("x = ask(sleeps, timeout=0.2)")
        result = kernel.until("result")
        assert (result["reason"], result["error"]) == ("timeout", "TimeoutError('timed out after 0.2 s')")

    def test_stop_ends_a_loop(self, kernel: Kernel) -> None:
        """Section 2: stop ends an endless loop between cells, and removes a queued call."""
        kernel.run(
            "stop = asyncio.Event()\ndef spins():\n    note('in', name='spins')\n"
            "    runtime.loop.call_soon_threadsafe(runtime.loop.call_later, 0.2, stop.set)\n    while True: pass\n"
            "x = ask(spins, stop=stop); y = ask(quick, stop=stop)"
        )
        kernel.until("result", count=2)
        results = {line["name"]: (line["reason"], line["entered"]) for line in kernel.events(event="result")}
        assert results == {"spins": ("stopped", True), "quick": ("stopped", False)}

    def test_stop_at_any_moment(self, kernel: Kernel) -> None:
        """PLATFORM.md, B: a stop around the end of a call never strays: no cell is cancelled, no kernel is lost."""
        kernel.run(STRESS)
        for wait in ("await asyncio.wrap_future(done)", "runtime.wait(done)", "pass"):
            kernel.clear()
            cell = kernel.run(f"done = stress(150)\n{wait}\nprint('whole')")
            assert (cell.error, cell.text) == (None, "whole\n")
            reasons = kernel.until("stressed")["reasons"]
            assert sum(reasons.values()) == 150
            assert set(reasons) <= {"stopped", "returned"}
        kernel.run("sigint_after_the_cell()")
        assert kernel.until("sigint")["handler"] in ("1", "Handlers.SIG_IGN")

    def test_stubborn_function(self, kernel: Kernel) -> None:
        """Section 2: what does not return within 2 s is given up; its place stays taken until it returns."""
        kernel.run(
            "def stubborn():\n    note('in', name='stubborn')\n    end = time.monotonic() + 2.6\n"
            "    while time.monotonic() < end:\n        try: time.sleep(0.05)\n        except KeyboardInterrupt: pass\n"
            "    note('returns')\n    return 9\n"
            "x = ask(stubborn, timeout=0.1); y = ask(quick)"
        )
        result = kernel.until("result", name="stubborn")
        assert (result["reason"], result["late"]) == ("timeout", True)
        assert result["error"] == "TimeoutError('timed out after 0.1 s; still running')"
        kernel.until("result", name="quick")
        assert order(kernel, "returns", "in") == ["in", "returns", "in"]
        assert kernel.until("late")["reason"] == "timeout"


class TestReentrancy:
    def test_waits_for_another_chat(self, kernel: Kernel) -> None:
        """Section 2: a function that waits for a chat runs that chat's calls alone; all others stay queued."""
        cell = kernel.run(
            "def outer():\n"
            "    other = ask(named('other'), chat_id='c'); inner = ask(named('inner'), 0.1, chat_id='b')\n"
            "    runtime.wait(inner, chat_id='b')\n    note('outer ends')\n"
            "def named(name):\n    def function():\n        note('in', name=name)\n    return function\n"
            "print(runtime.wait(ask(outer, chat_id='a')).reason)"
        )
        assert cell.text == "returned\n"
        kernel.until("result", count=3)
        seen = [line.get("name", "outer ends") for line in kernel.events() if line["event"] in ("in", "outer ends")]
        assert seen == ["inner", "outer ends", "other"]

    def test_circle(self, kernel: Kernel) -> None:
        """C13: the wait that closes a circle raises ChatBusyError in its function; the others complete."""
        cell = kernel.run(
            "turn_a = concurrent.futures.Future()\n"
            "def of_a():\n    return runtime.wait(ask(of_b, chat_id='b'), chat_id='b').error\n"
            "def of_b():\n    runtime.wait(turn_a, chat_id='a')\n"
            "result = runtime.wait(ask(of_a, chat_id='a'), chat_id='a')\nprint(result.reason, repr(result.value))"
        )
        assert cell.text.startswith("returned ChatBusyError(")

    def test_async_waits(self, kernel: Kernel) -> None:
        """Section 2: the same for an async function that awaits another chat while it holds the place."""
        kernel.run(
            "async def outer():\n"
            "    with runtime.waiting('b'):\n"
            "        return (await asyncio.wrap_future(ask(quick, chat_id='b'))).value\n"
            "x = ask(outer, chat_id='a')"
        )
        assert kernel.until("result", name="outer")["value"] == "5"


class TestObservers:
    def test_in_order_on_the_main_thread(self, kernel: Kernel) -> None:
        """Observers run between cells on the main thread, in order; what they raise is logged, not printed."""
        cell = kernel.run(
            "def fails(): raise ValueError('observer')\n"
            "for work in [(fails,), (note, 'first'), (note, 'second')]: runtime.post(runtime.notify, *work)"
        )
        assert cell.outputs == []
        assert kernel.until("second")["thread"] == "MainThread"
        assert order(kernel, "first", "second") == ["first", "second"]


class TestPatching:
    def test_asyncio_is_not_patched_by_sync_calls(self, tmp_path: Path) -> None:
        """C3, section 2: with the thread runtime, sync calls and awaiting leave asyncio alone; an async function
        that is due while a cell blocks nests the loop."""
        with Kernel(tmp_path) as kernel:
            kernel.run(FUNCTIONS)
            cell = kernel.run("original = asyncio.run\nprint(runtime.wait(ask(quick)).value)")
            assert cell.text == "5\n"
            assert kernel.run("print((await asyncio.wrap_future(ask(waits))).value, asyncio.run is original)").text == (
                "6 True\n"
            )
            assert kernel.run("print(runtime.wait(ask(waits, 0.1)).value)").text == "6\n"
            assert kernel.run("print((await asyncio.wrap_future(ask(waits))).value)").text == "6\n"
