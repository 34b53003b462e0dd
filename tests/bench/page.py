"""What the panel costs in the page, as ratios to a floor of the same run.

A real kernel and a real page. 1,000 deltas of 5 characters at 200 a second while somebody types, with 0 and with 500
messages loaded; the floor is the one of `wire.py`, a `<pre>` that grows by raw custom messages, with a text box beside
it. Aims: page CPU at most 2 times the floor's with markdown drawn, keystroke to paint at the 95th percentile at most
1.5 times the floor's and below 50 ms, a page of 50 messages mounted in 300 ms and 500 messages of history in 1 s, bytes
of a token the same at message 2,000 as at message 1, and 5,000 tokens a second at 30 frames a second with the text
complete 1 s after the end.

    python -m tests.bench.page
"""

from __future__ import annotations

import gzip
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page

from tests.bench.wire import CHAT, DELTAS, SEND, SETUP, Meter, chromium, text
from tests.browser.jupyter_server import ROOT, JupyterServer
from tests.browser.notebook_page import NotebookPage, write_notebook

STATIC = ROOT / "chatnb" / "widget" / "static"
KEYS = 60
CORE = 45_000
FLOOR = (
    SETUP
    + '''
class Box(Floor):
    _esm = """
    export default { render({ model, el }) {
        const pre = document.createElement("pre"), box = document.createElement("textarea");
        pre.style.cssText = "height: 300px; overflow: auto; white-space: pre-wrap";
        model.on("msg:custom", message => { pre.textContent += message.d; pre.scrollTop = pre.scrollHeight; });
        box.setAttribute("aria-label", "Message");
        box.addEventListener("keydown", event => event.stopPropagation());
        el.append(pre, box);
        el.dataset.lmSuppressShortcuts = "true";
    } }
    """

floor = Box()
'''
)
# The deltas as markdown: paragraphs, bold, code and a list, so that all of the drawing is at work.
MARKDOWN = """
class Ticker(Ticker):
    async def stream(self, request):
        yield {"type": "text-start", "id": "t"}
        number = 0
        async for delta in ticks(self.deltas, self.delay):
            mark = {0: "\\n\\n", 10: "**", 12: "** ", 20: "`", 21: "` ", 30: "\\n- ", 36: "\\n- "}.get(number % 60, "")
            number += 1
            yield {"type": "text-delta", "id": "t", "delta": mark + delta}
        yield {"type": "text-end", "id": "t"}
        yield StepEnd("stop")
"""
IMAGES = """
import base64, os
def pictures(count):
    return [{"id": f"p{n}", "role": "user", "parts": [{"type": "file", "mediaType": "image/png",
             "url": "data:image/png;base64," + base64.b64encode(os.urandom(60_000)).decode()}]} for n in range(count)]
"""
# Measures each key from the event to the frame that shows it, and how long the view took to its first messages.
WATCH = """() => {
  window.keys = [];
  document.addEventListener('keydown', event => {
    const start = event.timeStamp;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => window.keys.push(performance.now() - start);
      port2.postMessage(0);
    });
  }, true);
}"""
MOUNT = """wanted => {
  window.mounted = null;
  let start = null;
  const look = () => {
    if (start === null && document.querySelector('.chatnb-view')) start = performance.now();
    if (document.querySelectorAll('.chatnb-view article').length < wanted) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => { window.mounted = performance.now() - start; }));
  };
  look();
}"""

# Clicks on "Load earlier" as soon as it can be clicked; a driver's own clicks would take longer than the pages.
LOAD = """async wanted => {
  const view = document.querySelector('.chatnb-view'), soon = () => new Promise(done => setTimeout(done));
  const start = performance.now();
  while (view.querySelectorAll('article').length < wanted) {
    const before = view.querySelectorAll('article').length;
    while (!view.querySelector('.cn-earlier:not(:disabled)')) await soon();
    view.querySelector('.cn-earlier').click();
    while (view.querySelectorAll('article').length === before) await soon();
  }
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""


@dataclass
class Cost:
    """What the page did while a reply streamed."""

    cpu: float = 0.0
    sent: int = 0
    keys: list[float] = field(default_factory=list)
    mount: float | None = None
    load: float | None = None

    @property
    def slow_key(self) -> float:
        """The 95th percentile of keystroke to paint, in ms."""
        ordered = sorted(self.keys) or [0.0]
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


class Bench:
    """Runs notebooks of one server, each with a kernel of its own."""

    def __init__(self, browser: Browser, server: JupyterServer) -> None:
        self._browser, self._server = browser, server

    def measure(
        self, name: str, cells: list[str], *, loaded: int = 0, is_panel: bool = True, types: bool = True
    ) -> Cost:
        """Streams in the last cell, and types meanwhile.

        Args:
            name: What its effect is called.
            cells: Set-up, the view, the stream.
            loaded: Messages that must be in the page before.
            is_panel: Else it is the floor.
            types: Type while it streams.
        """
        page = self._browser.new_page(viewport={"width": 1280, "height": 1000})
        meter = Meter(page)
        cdp = page.context.new_cdp_session(page)
        cdp.send("Performance.enable")
        notebook = NotebookPage(page, self._server, write_notebook(self._server.files / f"{name}.ipynb", cells)).open()
        notebook.run_cell(0)
        cost = Cost()
        page.evaluate(MOUNT, min(loaded, 50)) if is_panel else None
        notebook.run_cell(1)
        if loaded:
            page.wait_for_function("window.mounted !== null", timeout=30_000)
            cost.mount = page.evaluate("window.mounted")
            cost.load = _load_all(page, loaded)
        page.wait_for_timeout(1_500)
        box = page.get_by_role("textbox", name="Message")
        box.click()
        page.evaluate(WATCH)
        before, received = _cpu(cdp), meter.received
        notebook.run_cell(2, wait=False)
        if types:
            box.focus()
            for number in range(KEYS):
                page.keyboard.press("abcdefghij"[number % 10])
                page.wait_for_timeout(60)
        notebook.wait_for_effect(lambda effect: effect["name"] == name, timeout=90)
        page.wait_for_timeout(600)
        cost.cpu, cost.sent = _cpu(cdp) - before, meter.received - received
        cost.keys = page.evaluate("window.keys")
        notebook.shut_down()
        return cost

    def fast(self) -> str:
        """A model as fast as it can: frames a second, and how long after the end the text was complete."""
        deltas = 20_000
        page = self._browser.new_page(viewport={"width": 1280, "height": 1000})
        chat = CHAT.format(name="fast", messages=0, deltas=deltas, delay=0.0002)
        cells = [SETUP, chat, SEND.format(name="fast")]
        notebook = NotebookPage(page, self._server, write_notebook(self._server.files / "fast.ipynb", cells)).open()
        notebook.run_cell(0)
        notebook.run_cell(1)
        page.evaluate(
            """() => {
              window.frames = [];
              const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
              kernel.iopubMessage.connect((_, message) => {
                if (message.content?.data?.content?.type === 'ops') window.frames.push(performance.now());
              });
            }"""
        )
        notebook.run_cell(2, wait=False)
        effect = notebook.wait_for_effect(lambda effect: effect["name"] == "fast", timeout=90)
        ended = time.monotonic()
        drawn = page.locator("article[data-role=assistant] .cn-md")
        page.wait_for_function(
            "([node, length]) => node.textContent.length >= length",
            arg=[drawn.element_handle(), len(text(deltas).strip())],
            timeout=30_000,
        )
        late = time.monotonic() - ended
        is_whole = (drawn.text_content() or "").strip() == text(deltas).strip()
        times: list[float] = page.evaluate("window.frames")
        most = max(sum(1 for other in times if start <= other < start + 1000) for start in times)
        notebook.shut_down()
        rate = deltas / float(effect["wall"])
        end = f"complete: {is_whole}, {late:.2f} s late (aim 1)"
        return f"fast   {rate:8.0f} tokens/s, at most {most} frames/s (aim 30), {end}"


def main() -> None:
    """Measures and prints."""
    size = sum(len(gzip.compress((STATIC / name).read_bytes(), 9)) for name in ("widget.js", "widget.css"))
    print(f"core bundle {size} B gzipped (aim {CORE})")
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        server = JupyterServer("lab", Path(folder, "server"))
        server.start()
        bench = Bench(browser, server)
        try:
            raw = f'await measured("floor", raw(floor, {DELTAS}, 0.005))'
            floor = bench.measure("floor", [FLOOR, "floor", raw], is_panel=False)
            print(_line("floor", floor))
            for name, messages in (("empty", 0), ("long", 500)):
                chat = MARKDOWN + CHAT.format(name=name, messages=messages, deltas=DELTAS, delay=0.005)
                cost = bench.measure(name, [SETUP, chat, SEND.format(name=name)], loaded=messages)
                print(_line(name, cost, floor))
            first, late = (_bytes(bench, name, messages) for name, messages in (("first", 0), ("late", 2_000)))
            ratio = f"x{late / first:.2f} (aim 1.05)"
            print(f"bytes of a token: {first:.1f} at message 1, {late:.1f} at message 2,000: {ratio}")
            print(bench.fast())
        finally:
            server.stop()


def _bytes(bench: Bench, name: str, messages: int) -> float:
    chat = IMAGES + CHAT.format(name=name, messages=messages, deltas=DELTAS, delay=0.005)
    chat = chat.replace(f"history({messages})", f"history({messages - 20}) + pictures(20)")
    return bench.measure(name, [SETUP, chat, SEND.format(name=name)], types=False).sent / DELTAS


def _load_all(page: Page, messages: int) -> float:
    """Loads all earlier messages, page by page; the seconds from the first click to the last painted."""
    return float(page.evaluate(LOAD, messages)) / 1000


def _cpu(cdp: CDPSession) -> float:
    metrics = cdp.send("Performance.getMetrics")["metrics"]
    return float(next(entry["value"] for entry in metrics if entry["name"] == "TaskDuration"))


def _line(name: str, cost: Cost, floor: Cost | None = None) -> str:
    line = f"{name:<6} page CPU {cost.cpu:6.2f} s, keystroke p95 {cost.slow_key:5.1f} ms"
    if cost.mount is not None:
        line += f", mount {cost.mount:.0f} ms (aim 300)"
    if cost.load is not None:
        line += f", all loaded in {cost.load:.2f} s (aim 1)"
    if floor is not None:
        line += f"; CPU x{cost.cpu / floor.cpu:.2f} (aim 2)"
        line += f", keystroke x{cost.slow_key / floor.slow_key:.2f} (aim 1.5, 50 ms)"
    return line


if __name__ == "__main__":
    main()
