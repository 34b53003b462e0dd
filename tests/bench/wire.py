"""What streaming costs on the wire and in the kernel, as ratios to a floor of the same run.

A real kernel and a real page: 1,000 deltas of 5 characters at 200 a second, with 0 and with 500 messages of history,
store on. The floor sends the same deltas raw, by custom messages at 30 a second, into a `<pre>`. The aim: bytes at most
1.2 times the floor's, kernel CPU at most 2 times, the same at both lengths. Then 4,000 deltas as fast as possible,
which must end complete. The transcript, which is renewed once a turn, is off.

Each measurement has a new kernel. All are taken in turn, several times over, and the medians are compared: what else
the machine does falls on floor and chat alike.

    python -m tests.bench.wire [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, WebSocket, expect, sync_playwright

from tests.browser.conftest import HOW_TO_GET_ONE, find_chromium
from tests.browser.jupyter_server import JupyterServer
from tests.browser.notebook_page import EFFECT, NotebookPage, write_notebook

DELTAS = 1000
FAST_DELTAS = 4000
ROUNDS = 3
BYTES_AIM, CPU_AIM = 1.2, 2.0

SETUP = (
    EFFECT
    + '''
import asyncio, time
import anywidget

class Floor(anywidget.AnyWidget):
    _esm = """
    export default { render({ model, el }) {
        const pre = document.createElement("pre");
        pre.className = "floor";
        model.on("msg:custom", message => { pre.textContent += message.d; });
        el.append(pre);
    } }
    """

async def ticks(deltas, delay):
    """The deltas, each at its time, however long the work on the one before took."""
    start = time.monotonic()
    for number in range(deltas):
        if delay:
            await asyncio.sleep(max(0.0, start + number * delay - time.monotonic()))
        yield f"{number % 10000:04d} "

async def raw(widget, deltas, delay):
    waiting, seq, last = [], 0, 0.0
    async for delta in ticks(deltas, delay):
        waiting.append(delta)
        if time.monotonic() - last >= 0.034:
            seq += 1
            widget.send({"seq": seq, "d": "".join(waiting)})
            waiting, last = [], time.monotonic()
    widget.send({"seq": seq + 1, "d": "".join(waiting)})

floor = Floor()

from chatnb import Agent
from chatnb.models import StepEnd

class Ticker:
    name = "ticker"

    def __init__(self, deltas, delay):
        self.deltas, self.delay = deltas, delay

    async def stream(self, request):
        yield {"type": "text-start", "id": "t"}
        async for delta in ticks(self.deltas, self.delay):
            yield {"type": "text-delta", "id": "t", "delta": delta}
        yield {"type": "text-end", "id": "t"}
        yield StepEnd("stop")

def history(count):
    return [
        {"id": f"m{number}", "role": ("user", "assistant")[number % 2],
         "parts": [{"type": "text", "text": f"Message {number}. " + "Some words of a talk. " * 20}]}
        for number in range(count)
    ]

async def measured(name, work):
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    effect(name=name, cpu=time.process_time() - cpu, wall=time.perf_counter() - wall)
'''
)
CHAT = """
chat = Agent(Ticker({deltas}, {delay})).chat("wire-{name}")
if {messages}:
    chat.set_messages(history({messages}))
chat.view(height="400px", transcript=False)
"""
# name, messages of history, deltas, seconds between them
RUNS = [("empty", 0, DELTAS, 0.005), ("long", 500, DELTAS, 0.005), ("fast", 0, FAST_DELTAS, 0.0)]
SEND = 'await measured("{name}", chat.send("Go"))'


@dataclass
class Cost:
    """What one run cost: bytes from the server to the page, and seconds of kernel CPU."""

    sent: float
    cpu: float
    wall: float

    @classmethod
    def median(cls, costs: list[Cost]) -> Cost:
        """The median of each figure."""
        fields = [(cost.sent, cost.cpu, cost.wall) for cost in costs]
        return cls(*(statistics.median(values) for values in zip(*fields, strict=True)))

    def per_delta(self, deltas: int) -> str:
        """One line for people."""
        micro = self.cpu / deltas * 1e6
        return f"{self.sent / deltas:8.1f} bytes {micro:8.1f} us CPU a delta, {self.wall:5.1f} s"


class Meter:
    """Counts the bytes that come to the page."""

    def __init__(self, page: Page) -> None:
        self.received = 0
        page.on("websocket", self._attach)

    def _attach(self, socket: WebSocket) -> None:
        socket.on("framereceived", self._count)

    def _count(self, payload: str | bytes) -> None:
        self.received += len(payload)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser."""
    with sync_playwright() as playwright:
        program = find_chromium(playwright)
        if program is None:
            sys.exit(HOW_TO_GET_ONE)
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-dev-shm-usage"])
        yield browser
        browser.close()


def main(rounds: int = ROUNDS) -> None:
    """Measures and prints."""
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = JupyterServer("lab", Path(folder, "server"))
        server.start()
        try:
            for number in range(rounds):
                raw = f'await measured("floor-{number}", raw(floor, {DELTAS}, 0.005))'
                costs.setdefault("floor", []).append(measure(browser, server, f"floor-{number}", ["floor", raw]))
                for name, messages, deltas, delay in RUNS:
                    one = f"{name}-{number}"
                    chat = CHAT.format(name=one, messages=messages, deltas=deltas, delay=delay)
                    cost = measure(browser, server, one, [chat, SEND.format(name=one)], whole=text(deltas))
                    costs.setdefault(name, []).append(cost)
        finally:
            server.stop()
    report(costs)


def report(costs: dict[str, list[Cost]]) -> None:
    """Prints the medians, and the ratios to the floor's."""
    floor = Cost.median(costs["floor"])
    print(f"{'floor':<6} {floor.per_delta(DELTAS)}; {spread(costs['floor'], DELTAS)}")
    for name, _, deltas, _ in RUNS:
        cost = Cost.median(costs[name])
        line = f"{name:<6} {cost.per_delta(deltas)}; {spread(costs[name], deltas)}"
        if deltas == DELTAS:
            line += f"; bytes x{cost.sent / floor.sent:.2f} (aim {BYTES_AIM})"
            line += f", CPU x{cost.cpu / floor.cpu:.2f} (aim {CPU_AIM})"
        print(line)


def spread(costs: list[Cost], deltas: int) -> str:
    """The CPU of all rounds, for people to see the noise."""
    return "rounds " + " ".join(f"{cost.cpu / deltas * 1e6:.0f}" for cost in costs)


def measure(browser: Browser, server: JupyterServer, name: str, cells: list[str], *, whole: str = "") -> Cost:
    """Runs one measurement in a notebook, and so a kernel, of its own.

    Args:
        browser: The browser.
        server: The server.
        name: What its effect is called.
        cells: One that shows the view, one that streams.
        whole: What the panel must show at the end.

    Returns:
        What the second cell cost.
    """
    page = browser.new_page()
    meter = Meter(page)
    notebook = NotebookPage(page, server, write_notebook(server.files / f"{name}.ipynb", [SETUP, *cells])).open()
    for index in (0, 1):
        notebook.run_cell(index)
    page.wait_for_timeout(1_500)  # what the display itself sent has come
    before = meter.received
    notebook.run_cell(2)
    effect = notebook.wait_for_effect(lambda effect: effect["name"] == name)
    if whole:
        panel = notebook.panel()
        panel.wait_for_status("ready")
        expect(panel.message("assistant")).to_contain_text(whole.strip())
    page.wait_for_timeout(500)
    cost = Cost(meter.received - before, effect["cpu"], effect["wall"])
    notebook.shut_down()
    page.close()
    return cost


def text(deltas: int) -> str:
    """What the model says: deltas of 5 characters."""
    return "".join(f"{number % 10000:04d} " for number in range(deltas))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
