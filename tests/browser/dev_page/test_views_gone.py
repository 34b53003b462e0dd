"""A view that is taken away leaves nothing in the page: no node, listener, timer or address of a blob."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.dev_page.conftest import Show
from tests.browser.dev_page.look import STATIC

# Draws views one after the other, of the same kernel, uses each a little and takes it away.
DRAW = """async times => {
  const widget = (await import('/static/widget.js')).default, pause = ms => new Promise(done => setTimeout(done, ms));
  for (let number = 0; number < times; number += 1) {
    const el = document.createElement('div');
    document.body.append(el);
    const end = widget.render({ model: window.kernel, el });
    for (let n = 0; n < 100 && !el.querySelector('[data-connection=live]'); n += 1) await pause(10);
    await pause(60);
    el.querySelector('textarea')?.focus();
    el.querySelector('summary, [aria-expanded]')?.click();
    window.kernel.ops({ op: 'state', state: { status: 'streaming', isStreaming: true } });
    await pause(30);
    window.kernel.ops({ op: 'state', state: { status: 'ready', isStreaming: false } });
    await pause(30);
    end();
    el.remove();
  }
  document.activeElement?.blur();
}"""


def held(page: Page) -> dict[str, float]:
    """What the page holds after a collection."""
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable")
    cdp.send("HeapProfiler.enable")
    page.wait_for_timeout(1_300)  # the longest of the panel's own delays
    for _ in range(3):
        cdp.send("HeapProfiler.collectGarbage")
    found = {entry["name"]: entry["value"] for entry in cdp.send("Performance.getMetrics")["metrics"]}
    cdp.detach()
    heard = page.evaluate("() => [...window.kernel.listeners.values()].reduce((sum, set) => sum + set.size, 0)")
    return {"nodes": found["Nodes"], "listeners": found["JSEventListeners"], "model": heard}


@pytest.mark.parametrize("scenario", ["rich", "approval"])
def test_twenty_views(show: Show, scenario: str) -> None:
    """Section 10: node identity and counts: after twenty views the page holds what it held after two."""
    page = show(scenario)
    page.evaluate(DRAW, 2)
    before = held(page)
    page.evaluate(DRAW, 20)
    after = held(page)
    assert after["model"] == before["model"]
    assert after["listeners"] - before["listeners"] <= 10
    assert after["nodes"] - before["nodes"] <= 100


def test_the_bundle_is_ascii() -> None:
    """A page keeps the bundle's text for each panel it ever showed; a sign beyond Latin-1 would double each copy."""
    if not (STATIC / "widget.js").exists():
        pytest.skip("The front end is not built.")
    assert (STATIC / "widget.js").read_bytes().isascii()
    assert (STATIC / "widget.css").read_bytes().isascii()
