"""Chats in a real kernel: cells, threads, interrupts, calls (spec/notebook.md, sections 1 and 2; cases C1 to C12)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.notebook.kernel_driver import ROOT, Kernel

COUNTS = """
import threading
def count(): return threading.active_count()
before = count()
import chatnb
agent = chatnb.Agent("offline")
made = count() - before
chat = agent.chat("a")
first = count() - before
agent.chat("b"); chatnb.Agent("offline").chat("c")
names = [t.name for t in threading.enumerate() if t.name.startswith("chatnb")]
print(made, first, count() - before, names)
"""


class TestTheRuntime:
    """One runtime per process, started at the first chat."""

    def test_threads(self, tmp_path: Path) -> None:
        """C1: `import chatnb` and `Agent("offline")` add no thread; the first chat adds one, and no other does."""
        done = subprocess.run(
            [sys.executable, "-c", COUNTS], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "CHATNB_STORE": "x.db"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == "0 1 1 ['chatnb-runtime']"

    @pytest.mark.kernel
    def test_reload(self, kernel: Kernel) -> None:
        """C2: after `importlib.reload` and the defining cell again, `agent.chat(id)` is the same object, one thread."""
        define = "agent = Agent(ScriptedModel(['one', 'two'], loop=True), name='again'); chat = agent.chat('again')"
        kernel.ok(define)
        kernel.ok("first = chat; await chat.send('a')\nimport importlib; importlib.reload(chatnb)")
        kernel.ok("from chatnb import Agent\n" + define)
        assert kernel.ok("print(chat is first, (await chat.send('b')).status)").text == "True completed\n"
        threads = "[t.name for t in threading.enumerate() if t.name == 'chatnb-runtime']"
        assert kernel.value(threads) == ["chatnb-runtime"]

    @pytest.mark.kernel
    def test_wait_both_ways(self, kernel: Kernel) -> None:
        """C3: one cell uses `.result()`, the next `await`, on one chat; `asyncio.run` is still the original."""
        kernel.ok("chat = Agent(ScriptedModel(['one', 'two'])).chat('both'); original = asyncio.run")
        assert kernel.ok("print(chat.send('a').result().status)").text == "completed\n"
        assert kernel.ok("print((await chat.send('b')).status, asyncio.run is original)").text == "completed True\n"

    @pytest.mark.kernel
    def test_interrupted_await(self, kernel: Kernel) -> None:
        """C4: interrupting an `await submission` cell gives `CancelledError`; awaited again it completes."""
        kernel.ok("chat = Agent(ScriptedModel([Reply('a ' * 20, delay=0.05)])).chat('interrupted')")
        kernel.ok("submission = chat.send('go')")
        cell = kernel.send("note('waits'); await submission")
        kernel.until("waits")
        kernel.interrupt()
        assert "CancelledError" in (kernel.finish(cell).error or "")
        assert kernel.ok("print((await submission).status)").text == "completed\n"

    @pytest.mark.kernel
    def test_interrupted_result(self, kernel: Kernel) -> None:
        """Section 1: Ctrl-C in `.result()` ends the waiting alone, and says so; the reply goes on."""
        kernel.ok("chat = Agent(ScriptedModel([Reply('a ' * 20, delay=0.05)])).chat('interrupted-result')")
        kernel.ok("submission = chat.send('go')")
        cell = kernel.send("await asyncio.sleep(0)\nnote('waits'); submission.result()")
        kernel.until("waits")
        kernel.interrupt()
        assert "The reply goes on; chat.stop() ends it." in (kernel.finish(cell).error or "")
        assert kernel.ok("print(submission.result().status)").text == "completed\n"

    @pytest.mark.kernel
    def test_stray_errors(self, kernel: Kernel) -> None:
        """C5: a coroutine of `defer` that raises after its turn: one record with its traceback, no cell has output."""
        kernel.ok(
            "import logging\nrecords = []\n"
            "class Keep(logging.Handler):\n    def emit(self, record): records.append(record)\n"
            "logging.getLogger('chatnb').addHandler(Keep()); logging.getLogger('chatnb').propagate = False\n"
            "agent = Agent(ScriptedModel(['one'])); chat = agent.chat('stray')\n"
            "async def fails():\n    await asyncio.sleep(0.1)\n    raise RuntimeError('later')\n"
            "@agent.on_turn_complete\nasync def done(event): chat.defer(fails())"
        )
        cells = [kernel.ok("await chat.send('go')")]
        kernel.wait_until("any(r.exc_info for r in records)")
        cells.append(kernel.ok("import gc; gc.collect()\nawait asyncio.sleep(0.3)"))
        found = "[(r.exc_info[0].__name__, r.exc_info[2] is not None) for r in records if r.exc_info]"
        assert kernel.value(found) == [["RuntimeError", True]]
        assert all(output["type"] == "execute_result" for cell in cells for output in cell.outputs)
        assert "later" not in str([cell.outputs for cell in cells])

    @pytest.mark.kernel
    def test_reset(self, kernel: Kernel) -> None:
        """Section 1: `del chat` does not stop a running turn: the runtime holds a chat that works."""
        kernel.ok(
            "chat = Agent(ScriptedModel([Reply('a ' * 10, delay=0.03)]), name='deleted').chat('deleted')\n"
            "submission = chat.send('go'); del chat\nimport gc; gc.collect()"
        )
        assert kernel.ok("print(submission.result().status)").text == "completed\n"

    @pytest.mark.kernel
    def test_other_kind(self, kernel: Kernel) -> None:
        """Section 1: the first chat fixes the kind; asking for the other later: `ConfigError`."""
        kernel.ok("Agent('offline').chat('kind')")
        assert "ConfigError" in (kernel.run("Agent('offline', runtime='kernel').chat('k')").error or "")


ACTIONS = """
import sqlite3
db = sqlite3.connect(":memory:")
def query() -> int:
    "Query."
    note("in", main=threading.current_thread() is threading.main_thread())
    return db.execute("select 7").fetchone()[0]
def sleeps() -> str:
    "Sleep."
    note("in")
    inside.set()
    time.sleep(20)
def leaves() -> str:
    "Leave."
    raise SystemExit(3)
def calls(name, chat_id):
    model = ScriptedModel([Reply(calls=[(name, {})]), "done"])
    return Agent(model, actions=[query, sleeps, leaves], name=chat_id).chat(chat_id)
"""


@pytest.mark.kernel
class TestCalls:
    """Calls of the user's own functions, on the main thread."""

    @pytest.fixture(autouse=True)
    def actions(self, kernel: Kernel) -> None:
        kernel.ok(ACTIONS)

    def test_connection(self, kernel: Kernel) -> None:
        """C6: a thread-bound connection made in a cell works in an action that a click between cells asks for."""
        kernel.ok("chat = calls('query', 'c6')\nlater(0.2, lambda: chat.send('go'))")
        kernel.until("in")
        kernel.wait_until("chat.status == 'ready' and len(chat.messages) == 2")
        assert kernel.value("told(chat)[0]['output']") == 7

    def test_busy(self, kernel: Kernel) -> None:
        """C7: a call that is due while a cell sleeps is said to wait, and is entered once, after the cell."""
        kernel.ok(
            "chat = calls('query', 'c7')\n"
            "def watch(update):\n"
            "    if any(c.phase == 'busy' for c in chat._engine.state().calls.values()): note('busy')\n"
            "chat._engine.subscribe(watch)"
        )
        kernel.ok("note('begin'); later(0.2, lambda: chat.send('go')); time.sleep(1.5); note('cell ends')")
        kernel.until("in")
        kernel.wait_until("chat.status == 'ready'")
        order = [e["event"] for e in kernel.events() if e["event"] in ("cell ends", "in")]
        assert order == ["cell ends", "in"]
        assert kernel.until("busy")["at"] - kernel.until("begin")["at"] < 1

    def test_awaiting_cell(self, kernel: Kernel) -> None:
        """C8: a call that is due while a cell awaits runs during the cell, on the main thread."""
        kernel.ok("chat = calls('query', 'c8')")
        kernel.ok("later(0.1, lambda: chat.send('go')); await asyncio.sleep(1); note('cell ends')")
        assert [e["event"] for e in kernel.events()] == ["in", "cell ends"]
        assert kernel.until("in")["main"] is True

    def test_parallel(self, kernel: Kernel) -> None:
        """C9: three parallel calls of a sync action do not overlap and follow the order of arrival."""
        kernel.ok(
            "@action(read_only=True)\ndef step(n: int) -> int:\n    'Step.'\n    note('begin', n=n); time.sleep(0.05)\n"
            "    note('end', n=n); return n\n"
            "chat = Agent(ScriptedModel([Reply(calls=[('step', {'n': n}) for n in range(3)]), 'done']),"
            " actions=[step]).chat('c9')\nawait chat.send('go')"
        )
        steps = [(e["event"], e["n"]) for e in kernel.events()]
        assert steps == [(event, n) for n in range(3) for event in ("begin", "end")]

    def test_interrupt(self, kernel: Kernel) -> None:
        """C10: interrupting between cells ends the call alone; the turn completes; SIGINT's handler is as before."""
        handler = (
            "from chatnb.kernel.host import current_host\nimport signal\n"
            "current_host().main_loop().call_later(0.05, lambda: note('sigint', is_=str(signal.getsignal(2))))"
        )
        kernel.ok(handler)
        before = kernel.until("sigint")["is_"]
        kernel.ok("chat = calls('sleeps', 'c10'); submission = chat.send('go')")
        kernel.until("in")
        kernel.interrupt()
        assert kernel.ok("print(submission.result(10).status)").text == "completed\n"
        assert kernel.value("told(chat)[0]")["error"] == "Interrupted by the user."
        kernel.ok(handler)
        assert kernel.until("sigint", count=2)["is_"] == before

    def test_interrupt_while_a_cell_waits(self, kernel: Kernel) -> None:
        """C28 of recovery.md: Ctrl-C while `.result()` pumps a call: the call errs, the waiting goes on."""
        kernel.ok("chat = calls('sleeps', 'c28')")
        before = len([e for e in kernel.events() if e["event"] == "in"])
        cell = kernel.send("print(chat.send('go').result(10).status)")
        kernel.until("in", count=before + 1)
        kernel.interrupt()
        finished = kernel.finish(cell)
        assert finished.error is None
        assert finished.text == "completed\n"
        assert kernel.value("told(chat)[0]")["error"] == "Interrupted by the user."

    def test_stop(self, kernel: Kernel) -> None:
        """Section 2: Stop, from another thread, ends a call that sleeps."""
        kernel.ok("chat = calls('sleeps', 'stop'); once_inside(chat.stop)\nsubmission = chat.send('go')")
        began = time.monotonic()
        assert kernel.ok("print(submission.result(10).status)").text == "stopped\n"
        assert time.monotonic() - began < 3

    def test_system_exit(self, kernel: Kernel) -> None:
        """C12: an action that raises `SystemExit` is a call with an error; the kernel answers the next cell."""
        kernel.ok("chat = calls('leaves', 'c12'); submission = chat.send('go')")
        assert kernel.ok("print((await submission).status)").text == "completed\n"
        assert kernel.value("told(chat)[0]['state']") == "output-error"

    def test_two_chats(self, kernel: Kernel) -> None:
        """C13: A's action waits for B, whose action waits for A: `ChatBusyError` there; A's turn completes."""
        kernel.ok(
            "def ask_b() -> str:\n    'B.'\n    return chat_b.send('go').result(10).text\n"
            "def ask_a() -> str:\n    'A.'\n    try: return chat_a.send('go').result(10).text\n"
            "    except Exception as error: note('refused', type=type(error).__name__); raise\n"
            "chat_a = Agent(ScriptedModel([Reply(calls=[('ask_b', {})]), 'a done', 'again']), actions=[ask_b])"
            ".chat('circle-a')\n"
            "chat_b = Agent(ScriptedModel([Reply(calls=[('ask_a', {})]), 'b done']), actions=[ask_a])"
            ".chat('circle-b')\n"
            "print((await chat_a.send('go')).status)"
        )
        assert kernel.until("refused")["type"] == "ChatBusyError"
        assert kernel.value("[told(chat_a), chat_a.messages[1].text]") is not None
        assert "b done" in kernel.value("json.dumps([m.to_wire() for m in chat_a.messages])")
