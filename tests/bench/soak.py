"""The tenth hour: a long day's work in one kernel and one page, and what has grown, slowed down or stayed behind.

A real kernel and a real JupyterLab page. The day has ten tenths; in each come hundreds of turns of every kind (calls,
approvals, edits, undo and redo, regenerate, stop, failures, plots by `run_code`, attachments) in two chats, three runs
of the cells with the views and of the cell that defines the agent, and three reloads of the page. Two views are open
and observers attached. After each tenth everything that may grow is counted, in the kernel, in the store's files and in
the page after a collection, and what a person feels is timed. Then the kernel is restarted, with the page open.

Printed are the figures of the first and the last tenth and their ratio; `*` marks what the history itself makes grow.
Last come an idle kernel and page, beside those of a notebook without chatnb in the same run.

    python -m tests.bench.soak [ROUNDS OF A TENTH]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession

from tests.bench.wire import chromium
from tests.browser.jupyter_server import JupyterServer
from tests.browser.notebook_page import EFFECT, NotebookPage, write_notebook

TENTHS = 10
ROUNDS = 8
AGAIN = 3
"""Re-runs of the view's cell, and reloads of the page, in each tenth."""
RESTARTS = 3
IDLE_SECONDS = 10
KEYS = 20

SETUP = (
    EFFECT
    + """
%matplotlib inline
from collections import Counter
from pathlib import Path
from tests.bench import soak_kernel as soak

number, heard = 0, Counter()
"""
)
CHAT = 'agent = soak.make_agent()\nchat, other = agent.chat("day"), agent.chat("desk")'
VIEW = """
@chat.on_change
def changed(change):
    heard["change"] += 1

widget = chat.view(height="400px")
soak.watch(widget, heard)
widget
"""
OTHER_VIEW = "other"
WORK = """
import time
began, turns = time.perf_counter(), 0
for _ in range({rounds}):
    turns += await soak.work(chat, other, number)
    number += 1
effect(name="work", turns=turns, seconds=time.perf_counter() - began, heard=heard.pop("change"))
"""
COUNT = 'effect(name="count", figures=soak.count(Path(".chatnb/chats.db")))'
CELLS = [SETUP, CHAT, VIEW, OTHER_VIEW, WORK.format(rounds=ROUNDS), COUNT, "1"]
WORKS, COUNTS, NOTHING = 4, 5, 6

# What a person feels, in ms: a message of their own until the answer's first words, a key until it is seen.
FIRST_FRAME = """async () => {
  const root = document.querySelector('.chatnb-view'), box = root.querySelector('textarea');
  const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;
  box.focus();
  set.call(box, 'hello from the page ' + performance.now());
  box.dispatchEvent(new InputEvent('input', { bubbles: true }));
  while (!root.querySelector('[aria-label=Send]:not(:disabled)')) await new Promise(done => setTimeout(done, 10));
  const last = () => [...root.querySelectorAll('article[data-role=assistant]')].pop()?.dataset.messageId;
  const before = last(), start = performance.now();
  root.querySelector('[aria-label=Send]').click();
  while (last() === before || !root.querySelector('article[data-role=assistant]:last-of-type .cn-md')?.textContent)
    await new Promise(done => setTimeout(done, 1));
  return performance.now() - start;
}"""
KEY = """async () => {
  window.keys = [];
  window.onkey ??= document.addEventListener('keydown', event => {
    const start = event.timeStamp;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => window.keys.push(performance.now() - start);
      port2.postMessage(0);
    });
  }, true) ?? true;
}"""
# An empty cell, from the request to the idle kernel.
CELL = """async () => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel, times = [];
  for (let number = 0; number < 20; number += 1) {
    const start = performance.now();
    await kernel.requestExecute({ code: '1' }).done;
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[10];
}"""
FELT = ("ms a turn", "send to first words ms", "keystroke p95 ms", "empty cell ms", "reload to live ms")
"""What a person feels."""
GROWS = ("store MB", "notebook kB", "objects", "objects of chatnb", "rss MB", "DOM nodes", "threads", "open files")
"""What the history makes grow; and for each page that opens JupyterLab begins a subshell, which has a thread."""


class Day:
    """One notebook, its kernel and its page."""

    def __init__(self, browser: Browser, server: JupyterServer, cells: list[str], name: str) -> None:
        self._server = server
        self._context = browser.new_context(viewport={"width": 1280, "height": 1400})
        self.page = self._context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        path = write_notebook(server.files / name / "day.ipynb", cells)
        self.notebook = NotebookPage(self.page, server, path).open()
        self._cdp: CDPSession = self._context.new_cdp_session(self.page)
        self._cdp.send("Performance.enable")

    def run(self, *indexes: int) -> None:
        """Runs cells."""
        for index in indexes:
            self.notebook.run_cell(index, wait=False)
            self.notebook.wait_for_cell(index, timeout=240_000)

    def effect(self, name: str) -> dict[str, Any]:
        """Returns the last effect of a name."""
        return [effect for effect in self.notebook.effects() if effect["name"] == name][-1]

    def tenth(self) -> dict[str, float]:
        """Does a tenth of the day and returns the figures after it."""
        for _ in range(AGAIN):
            self.run(1, 2, 3)
            self.live()
        self.run(WORKS)
        work = self.effect("work")
        reloads = [self.reload() for _ in range(AGAIN)]
        figures = self.felt() | {
            "ms a turn": work["seconds"] / work["turns"] * 1000,
            "turns": work["turns"],
            "changes heard": work["heard"],
            "reload to live ms": statistics.median(reloads),
        }
        self.save()
        figures["notebook kB"] = self.notebook.path.stat().st_size / 1000
        self.run(COUNTS)
        counted: dict[str, float] = self.effect("count")["figures"]
        return figures | counted | self.drawn()

    def live(self) -> None:
        """Waits until both views are connected."""
        for index in (0, 1):
            self.notebook.panel(index)

    def save(self) -> None:
        """Saves the notebook. JupyterLab asks where its page was left while it saved itself: overwrite."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('docmanager:save'); return null; }")
        answer = self.page.locator(".jp-Dialog .jp-mod-accept")
        is_saved = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
        for _ in range(600):
            if answer.is_visible():
                answer.click()
            if self.page.evaluate(is_saved):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError("the notebook was not saved in 30 s")

    def reload(self) -> float:
        """Reloads the page; the ms from the drawn notebook to the panels that are live."""
        self.save()
        self.notebook.reload()
        began = time.monotonic()
        self.live()
        return (time.monotonic() - began) * 1000

    def felt(self) -> dict[str, float]:
        """Times what a person feels."""
        panel = self.notebook.panel(0)
        first = []
        for _ in range(5):
            first.append(float(self.page.evaluate(FIRST_FRAME)))
            panel.wait_for_status("ready")
        panel.box.click()
        self.page.evaluate(KEY)
        for number in range(KEYS):
            self.page.keyboard.press("abcdefghij"[number % 10])
            self.page.wait_for_timeout(40)
        keys = sorted(self.page.evaluate("window.keys"))
        panel.box.fill("")
        return {
            "send to first words ms": statistics.median(first),
            "keystroke p95 ms": keys[int(len(keys) * 0.95) - 1],
            "empty cell ms": self.page.evaluate(CELL),
        }

    def drawn(self) -> dict[str, float]:
        """Counts what the page holds, after a collection."""
        self._cdp.send("HeapProfiler.enable")
        for _ in range(2):
            self._cdp.send("HeapProfiler.collectGarbage")
        found = self.metrics()
        self._cdp.send("HeapProfiler.disable")
        return {
            "page heap MB": found["JSHeapUsedSize"] / 1e6,
            "DOM nodes": found["Nodes"],
            "page listeners": found["JSEventListeners"],
        }

    def metrics(self) -> dict[str, float]:
        """What the browser counts of this page."""
        return {entry["name"]: entry["value"] for entry in self._cdp.send("Performance.getMetrics")["metrics"]}

    def idle(self) -> dict[str, float]:
        """What kernel and page do while nothing happens."""
        self.page.wait_for_timeout(15_000)  # the marks after the last frame have come
        kernel = self.effect("pid")["pid"]
        cpu, switches, drawn = _cpu(kernel), _switches(kernel), self.metrics()["TaskDuration"]
        self.page.wait_for_timeout(IDLE_SECONDS * 1000)
        return {
            "kernel CPU %": (_cpu(kernel) - cpu) / IDLE_SECONDS * 100,
            "kernel wake-ups a second": (_switches(kernel) - switches) / IDLE_SECONDS,
            "page CPU %": (self.metrics()["TaskDuration"] - drawn) / IDLE_SECONDS * 100,
        }

    def close(self) -> None:
        """Ends kernel and page."""
        self.notebook.shut_down()
        self._context.close()


def main(rounds: int = ROUNDS) -> None:
    """Works a day, and prints."""
    began = time.monotonic()
    CELLS[WORKS] = WORK.format(rounds=rounds)
    tenths: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = JupyterServer("lab", Path(folder, "server"))
        server.start()
        try:
            day = Day(browser, server, [*CELLS, PID], "day")
            day.run(0)
            for number in range(TENTHS):
                tenths.append(day.tenth())
                print(f"tenth {number + 1}:", ", ".join(f"{name} {tenths[-1][name]:.0f}" for name in FELT), flush=True)
            report(tenths)
            day.run(len(CELLS))
            chatty = day.idle()
            print_restarts(day)
            print(f"errors of the page: {day.errors}")
            day.close()
            bare = Day(browser, server, [EFFECT, "1", PID], "bare")
            bare.run(0, 1, 2)
            print_idle(chatty, bare.idle())
            bare.close()
        finally:
            server.stop()
    print(f"{time.monotonic() - began:.0f} s in all")


PID = 'import os\neffect(name="pid", pid=os.getpid())'


def report(tenths: list[dict[str, float]]) -> None:
    """Prints the first and the last tenth of each figure, and their ratio."""
    first, last = tenths[0], tenths[-1]
    print(f"{sum(tenth['turns'] for tenth in tenths):.0f} turns")
    for name, value in first.items():
        now = last.get(name, 0.0)
        if name.startswith("type ") and (now <= value * 1.5 or name[5:] in OF_HISTORY):
            continue
        mark = "*" if name in GROWS else " "
        print(f"{name:<28}{mark} {value:10.1f} {now:10.1f}  x{now / value if value else float(now > 0):.2f}")


# What a message consists of, and what stands for it where it is shown and kept.
OF_HISTORY = {"FrozenDict", "FrozenList", "UIMessage", "Node", "Usage", "StepStartPart", "TextPart", "ToolPart"}
OF_HISTORY |= {"FilePart", "DataPart", "GrantRow", "LostObject"}


def print_restarts(day: Day) -> None:
    """Restarts the kernel with the page open; what is left of it in the page."""
    counts = []
    for _ in range(RESTARTS):
        day.notebook.restart_kernel()
        day.run(0, 1, 2, 3)
        day.live()
        counts.append(day.drawn())
    for name, value in counts[0].items():
        print(f"{name:<28}  {value:10.1f} {counts[-1][name]:10.1f}  x{counts[-1][name] / value:.2f} over restarts")


def print_idle(chatty: dict[str, float], bare: dict[str, float]) -> None:
    """Prints what an open chat costs while nothing happens."""
    for name, value in chatty.items():
        print(f"idle {name:<24} {value:8.2f} with a chat, {bare[name]:8.2f} without chatnb")


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _switches(pid: int) -> int:
    """How often the threads of a process have gone to sleep: each time something woke them."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
    return total


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
