"""C13 and C15 of widget.md in JupyterLab and in Notebook: a cell that blocks for 20 s, a model that is faster than any
reader for 20 s, and one panel for each, in one kernel and at the same time."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.case_notebook import CaseNotebook
from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import Panel
from tests.browser.test_approvals import button
from tests.browser.wire import Wire, tap

CELLS = {
    "c13": '''
@action(needs_approval=True, run_in="thread")
def remind(order: str) -> str:
    """Send a letter."""
    effect(remind=order)
    return "sent"

asks = [("remind", {"order": "1"}), ("refund", {"order": "2"})]
show("c13", Reply(calls=asks), "Both are done.", actions=[remind], height="340px")
''',
    "c15": """
class Fast:
    name = "fast"

    async def stream(self, request):
        yield {"type": "text-start", "id": "t"}
        begun = time.monotonic()
        for number in range(1000):
            await asyncio.sleep(begun + number * 0.02 - time.monotonic())
            for part in range(100):
                yield {"type": "text-delta", "id": "t", "delta": f"{number * 100 + part} "}
        effect(seconds=time.monotonic() - begun)
        yield {"type": "text-end", "id": "t"}
        yield StepEnd("stop")

fast = Agent(Fast()).chat("c15")
fast.view(height="340px", transcript=False)
""",
    "sleep": 'effect(cell="begun")\ntime.sleep(20)\neffect(cell="ended")',
}
FRAMES = "wire.got.filter(one => one.body.type === 'ops' && one.body.ops.some(op => op.op === 'text'))"


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestFast:
    """A cell computes, a model talks, and the panels go on."""

    def test_all(self, open_notebook: OpenNotebook, context: BrowserContext) -> None:
        tap(context)
        cases = CaseNotebook(open_notebook, CELLS)
        cases.run("c13")
        cases.run("c15")
        asks, fast = cases.notebook.panel(0), cases.notebook.panel(1)
        self._clicks_in_a_blocking_cell(cases, asks)
        self._five_thousand_tokens_a_second(cases, fast, Wire(cases.page))
        self._after_the_cell(cases, asks)

    def _clicks_in_a_blocking_cell(self, cases: CaseNotebook, panel: Panel) -> None:
        """C13: both clicks are taken in mid-cell; what needs no kernel runs, what needs it says so by 1 s."""
        panel.send("Remind, and refund")
        for name in ("remind", "refund"):
            expect(button(panel.root.get_by_role("group", name=f"Approval needed: {name}"), "Approve")).to_be_enabled()
        panel.wait_for_status("ready")
        cases.run("sleep", wait=False)
        cases.notebook.wait_for_effect(lambda effect: effect.get("cell") == "begun")
        for index, name in enumerate(("remind", "refund")):
            approve = button(panel.root.get_by_role("group", name=f"Approval needed: {name}"), "Approve")
            approve.scroll_into_view_if_needed()
            cases.page.wait_for_timeout(400)  # a card is decided once it has been in view for a moment
            approve.click()
            said = re.compile("Approved|Waiting for|Running|Done")
            expect(panel.cards.nth(index)).to_contain_text(said, timeout=1_000)
        expect(panel.cards.nth(1)).to_contain_text("Waiting for kernel", timeout=1_000)
        cases.notebook.wait_for_effect(lambda effect: effect.get("remind") == "1")
        cases.notebook.shot("busy")
        assert cases.effects("cell") == ["begun"]
        assert cases.effects("refund") == []

    def _five_thousand_tokens_a_second(self, cases: CaseNotebook, panel: Panel, wire: Wire) -> None:
        """C15: for 20 s: at most 30 frames in any second, no rate-limit text, complete 1 s after the end."""
        wire.rule()
        panel.send("Go")
        panel.wait_for_status("streaming")
        panel.wait_for_status("ready", timeout=60_000)
        text = panel.message("assistant").locator(".cn-md").inner_text()
        assert re.findall(r"\d+", text) == [str(number) for number in range(100_000)]
        times: list[float] = wire.read(f"{FRAMES}.map(one => one.at)")
        assert times[-1] - times[0] > 19_000
        most = max(sum(1 for other in times if start <= other < start + 1000) for start in times)
        assert most <= 33, most  # what the kernel sends evenly may arrive in knots
        assert cases.effects("seconds")[0] < 22, "the model was held back"
        assert "rate exceeded" not in cases.outputs("c13") + cases.outputs("c15") + cases.outputs("sleep")

    def _after_the_cell(self, cases: CaseNotebook, panel: Panel) -> None:
        """C13: each was applied once, the one that needs the kernel as soon as the cell had ended."""
        expect(panel.message("assistant")).to_contain_text("Both are done.")
        panel.wait_for_status("ready")
        done = [next(iter(effect)) for effect in cases.notebook.effects() if "seconds" not in effect]
        assert done == ["cell", "remind", "cell", "refund"]
