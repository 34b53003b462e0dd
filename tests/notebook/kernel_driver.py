"""Drives a real ipykernel: sends cells, gathers what they print, and talks to the code in them through files."""

from __future__ import annotations

import json
import queue
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0

# What each kernel begins with: a runtime, a way to ask for a call, and a journal.
PRELUDE = """
import asyncio, concurrent.futures, json, os, signal, sys, threading, time
sys.path.insert(0, {root!r})
from chatnb._ports import FunctionCall
from chatnb.kernel.host import current_host
from chatnb.runtime import get_runtime
runtime = get_runtime({kind!r}, current_host())
journal_path = {journal!r}

def note(event, **details):
    line = json.dumps({{"event": event, "thread": threading.current_thread().name, "at": time.monotonic(), **details}})
    with open(journal_path, "a") as file:
        file.write(line + "\\n")

def ask(function, delay=0.0, **options):
    "Ask for a call, in `delay` seconds; returns a concurrent future of its FunctionResult."
    future = concurrent.futures.Future()
    name = getattr(function, "__name__", "call")
    def phase(phase):
        note(phase, name=name)
    async def run():
        await asyncio.sleep(delay)
        result = await runtime.calls.run(FunctionCall(function=function, on_phase=phase, **options))
        note("result", name=name, reason=result.reason, error=repr(result.error), value=repr(result.value),
             entered=result.entered, late=result.late is not None)
        if result.late is not None:
            result.late.add_done_callback(lambda late: note("late", name=name, reason=late.result().reason))
        future.set_result(result)
    runtime.spawn(run(), name="test")
    return future

def reply_after(*futures):
    "A turn that ends when all the calls have ended."
    future = concurrent.futures.Future()
    async def run():
        future.set_result([await asyncio.wrap_future(one) for one in futures])
    runtime.spawn(run(), name="turn")
    return future
"""

# What a kernel begins with whose cells use the public interface alone.
CHATS = """
import asyncio, json, os, sys, threading, time
sys.path.insert(0, {root!r})
os.environ["CHATNB_STORE"] = {folder!r} + "/chats.db"
os.environ["CHATNB_OFFLINE_RHYTHM"] = "0"
os.environ.pop("ANTHROPIC_API_KEY", None)
import chatnb
from chatnb import Agent, action
from chatnb.models import Reply, ScriptedModel

def note(event, **details):
    line = json.dumps({{"event": event, "thread": threading.current_thread().name, "at": time.monotonic(), **details}})
    with open({journal!r}, "a") as file:
        file.write(line + "\\n")

def later(seconds, function):
    "What a click does: the function is called on another thread, in so many seconds."
    threading.Timer(seconds, function).start()

inside = threading.Event()
def once_inside(function):
    "The function is called on another thread as soon as a call has set `inside`."
    inside.clear()
    def wait():
        inside.wait()
        function()
    threading.Thread(target=wait, daemon=True).start()

def told(chat):
    "The calls of the last answer: state, input and output, and what their cards show."
    parts = chat.messages[-1].to_wire()["parts"]
    shown = {{p["id"]: p["data"]["outputs"] for p in parts if p["type"] == "data-output"}}
    return [
        {{"state": p["state"], "input": p.get("input"), "output": p.get("output"), "error": p.get("errorText"),
          "shown": shown.get(p["toolCallId"], [])}}
        for p in parts if "toolCallId" in p
    ]
"""

# Functions that tests ask for.
FUNCTIONS = """
def quick():
    note("in", name="quick")
    return 5

async def waits():
    note("in", name="waits")
    await asyncio.sleep(0.1)
    return 6

async def endless():
    note("in", name="endless")
    await asyncio.sleep(60)

def sleeps():
    note("in", name="sleeps")
    time.sleep(20)

def leaves():
    raise SystemExit(3)

def sigint_after_the_cell():
    current_host().main_loop().call_later(0.05, lambda: note("sigint", handler=str(signal.getsignal(signal.SIGINT))))
"""


@dataclass
class Cell:
    """What came of a cell."""

    status: str
    text: str = ""
    error: str | None = None
    outputs: list[dict[str, Any]] = field(default_factory=list)


class Kernel:
    """A running kernel with the prelude executed."""

    def __init__(self, folder: Path, kind: str = "thread", *, prelude: str = PRELUDE) -> None:
        self.journal = folder / f"journal-{kind}.jsonl"
        self.journal.write_text("")
        self.manager = KernelManager(kernel_name="python3")
        self._prelude = prelude.format(root=str(ROOT), journal=str(self.journal), kind=kind, folder=str(folder))

    def __enter__(self) -> Self:
        self.manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
        self.client: BlockingKernelClient = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE)
        cell = self.run(self._prelude)
        assert cell.status == "ok", cell.error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()

    def send(self, code: str) -> str:
        """Send a cell and do not wait."""
        return str(self.client.execute(code, store_history=True))

    def finish(self, message_id: str) -> Cell:
        """Wait for a cell that was sent."""
        cell = Cell("none")
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") != message_id:
                continue
            content, kind = message["content"], message["msg_type"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "stream":
                cell.text += content["text"]
            if kind in ("stream", "display_data", "execute_result", "error"):
                cell.outputs.append({"type": kind, **content})
            if kind == "error":
                cell.error = f"{content['ename']}: {content['evalue']}\n" + "\n".join(content["traceback"])
        while time.monotonic() < deadline:
            try:
                reply = self.client.get_shell_msg(timeout=1)
            except queue.Empty:
                continue
            if reply["parent_header"].get("msg_id") == message_id:
                cell.status = reply["content"]["status"]
                return cell
        raise TimeoutError("the cell did not end")

    def run(self, code: str) -> Cell:
        """Send a cell and wait for its end."""
        return self.finish(self.send(code))

    def ok(self, code: str) -> Cell:
        """Run a cell that must not fail."""
        cell = self.run(code)
        assert cell.status == "ok", cell.error
        return cell

    def value(self, expression: str) -> Any:
        """Return what an expression gives in the kernel, as JSON."""
        return json.loads(self.ok(f"print(json.dumps({expression}))").text)

    def wait_until(self, expression: str) -> None:
        """Wait until an expression is true in the kernel; cells and calls between cells go on meanwhile."""
        deadline = time.monotonic() + DEADLINE
        while not self.value(f"bool({expression})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)

    def events(self, *, event: str | None = None, name: str | None = None) -> list[dict[str, Any]]:
        """The journal's lines so far."""
        lines = [json.loads(line) for line in self.journal.read_text().splitlines()]
        return [
            line for line in lines if (event is None or line["event"] == event) and (name in (None, line.get("name")))
        ]

    def until(self, event: str, *, name: str | None = None, count: int = 1) -> dict[str, Any]:
        """Wait until the journal has an event; returns the last one."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            found = self.events(event=event, name=name)
            if len(found) >= count:
                return found[-1]
            time.sleep(0.01)
        raise TimeoutError(f"no {event!r} of {name!r} in {self.events()}")

    def interrupt(self) -> None:
        """What the Interrupt button does."""
        self.manager.interrupt_kernel()

    def clear(self) -> None:
        """Empty the journal."""
        self.journal.write_text("")
