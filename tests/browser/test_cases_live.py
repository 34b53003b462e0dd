"""Cases of widget.md, section 11, in JupyterLab and in Notebook: one notebook and one kernel for all of them.

Where each case is tried. Each that needs a page is tried in JupyterLab and in Notebook, in the file named first, with a
real kernel. M: marimo too (test_panel_marimo). S: the served page too. D: `dev_page` too, which has the built panel and
a kernel of paper, for what a case asks of the page alone, in more depth. K: pytest, without a page.

    C1  here, test_live_chat  M S    C15 test_cases_fast      K      C29 test_cases_axe        S D
    C2  test_live_chat        S      C16 test_cases_kernel    K      C30 here                  D
    C3  test_approvals               C17 test_cases_kernel    K      C31 test_branches
    C4  here                  K      C18 here                 D K    C32 test_cases_kernel     K
    C5  test_cases_kernel     D K    C19 test_cases_wire      D      C33 test_cases_kernel     M K
    C6  test_approvals        S D K  C20 test_cases_drawn     M D    C34 test_cases_saved      K
    C7  here                  M D    C21 test_cases_drawn     M D    C35 no page: nbval, in CI
    C8  test_cases_wire       D K    C22 here                 M S D  C36 test_cases_kernel     K
    C9  test_cases_wire       K      C23 test_cases_drawn     S D    C37 test_cases_wire       K
    C10 test_cases_wire       K      C24 test_cases_drawn     D      C38 here                  M K
    C11 test_cases_wire       K      C25 test_cases_policy    D      C39 here                  M D
    C12 here, test_live_chat  D      C26 test_live_chat       S D    C40 test_cases_drawn      K D
    C13 test_cases_fast,             C27 here                 M D
        test_regimes (Lab)           C28 here                 M D
    C14 test_cases_wire       K
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import EFFECT, NotebookPage, Panel
from tests.browser.test_approvals import button

HEAD = (
    EFFECT
    + """
import asyncio
from chatnb import Agent, action
from chatnb.models import Reply, ScriptedModel

def words(count):
    return " ".join(f"word{n}" for n in range(count))

@action(needs_approval=True)
def refund(order: str) -> str:
    \"\"\"Pay back.\"\"\"
    effect(refund=order)
    return "paid"
"""
)
LONG = """
async def slowly(request):
    await asyncio.sleep(1)
    return Reply(words(150), delay=0.015)

picture = "![a chart](https://images.invalid/x.png) and https://images.invalid/y.png"
chat = Agent(ScriptedModel([slowly, picture])).chat("long")
chat.set_messages([
    {"id": f"m{n}", "role": ("user", "assistant")[n % 2], "parts": [{"type": "text", "text": f"Message {n}. " * 12}]}
    for n in range(200)
])
chat.view(height="420px", transcript=False)
"""
TWO = """
asks = Reply(calls=[("refund", {"order": "7"})])
both = Agent(ScriptedModel([asks, "Paid back."]), actions=[refund]).chat("two")
both.view(height="300px", transcript=False)
"""
FAILS = """
def fail(request):
    raise ConnectionError("no line")

failing = Agent(ScriptedModel([fail, "Now it works."])).chat("fails")
failing.view(height="300px", transcript=False)
"""
CELLS = [HEAD, LONG, TWO, 'both.view(height="300px", transcript=False)', FAILS]
# From a click to Stop, and what of three dots, the answer and the polite region was seen meanwhile.
SEND = """async root => {
  window.told = [];
  const region = root.querySelector('[aria-live=polite]');
  new MutationObserver(() => window.told.push(region.textContent)).observe(region, {childList: true, subtree: true});
  const start = performance.now();
  root.querySelector('[aria-label=Send]').click();
  while (!root.querySelector('[aria-label=Stop]') && performance.now() - start < 2000)
    await new Promise(done => setTimeout(done));
  return performance.now() - start;
}"""
TOP = "node => node.getBoundingClientRect().top"


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestCases:
    """One notebook with three chats."""

    def test_all(self, open_notebook: OpenNotebook) -> None:
        notebook = open_notebook(CELLS)
        for index in (0, 1):
            notebook.run_cell(index)
        self._history(notebook, notebook.panel(0))
        self._sending(notebook, notebook.panel(0))
        for index in (2, 3):
            notebook.run_cell(index)
        self._two_views(notebook)
        notebook.run_cell(4)
        panel = notebook.panel(3)
        self._retry(panel)
        self._restart(notebook, panel)

    def _history(self, notebook: NotebookPage, panel: Panel) -> None:
        """C18: 50 of 200 messages; 50 more above, and the first visible line does not move."""
        expect(panel.articles).to_have_count(50)
        panel.log.hover()
        notebook.page.mouse.wheel(0, -99_999)
        first = panel.root.locator("[data-message-id=m150]")
        earlier = button(panel.root, "Load earlier")
        expect(earlier).to_be_in_viewport()
        top = first.evaluate(TOP)
        earlier.click()
        expect(panel.articles).to_have_count(100)
        assert abs(first.evaluate(TOP) - top) < 2

    def _sending(self, notebook: NotebookPage, panel: Panel) -> None:
        """C7, C22, C27, C28, C30, C39."""
        panel.box.fill("Count, please")
        for extra in ({"isComposing": True}, {"keyCode": 229}):
            panel.box.evaluate(
                "(e, extra) => e.dispatchEvent(new KeyboardEvent('keydown',"
                " {key: 'Enter', bubbles: true, cancelable: true, ...extra}))",
                extra,
            )
        expect(panel.box).to_have_value("Count, please")
        assert panel.root.evaluate(SEND) < 100
        dots = panel.root.locator(".cn-dots")
        expect(dots).to_be_visible()
        expect(panel.root).to_have_attribute("data-status", "submitted")
        expect(panel.message("user")).to_be_in_viewport()
        expect(panel.message("user")).to_have_text("Count, please")
        expect(panel.message("assistant")).to_contain_text("word10")
        expect(dots).to_have_count(0)
        panel.log.hover()
        notebook.page.mouse.wheel(0, -300)
        jump = panel.root.get_by_role("button", name="Jump to latest")
        expect(jump).to_be_visible()
        place = panel.log.evaluate("e => e.scrollTop")
        expect(panel.message("assistant")).to_contain_text("word149")
        panel.wait_for_status("ready")
        assert panel.log.evaluate("e => e.scrollTop") == place
        told = notebook.page.evaluate("window.told")
        assert len(told) <= 3
        assert told[-1].startswith("Reply finished. word0 word1")
        panel.send("And a picture")
        expect(jump).to_have_count(0)
        expect(button(panel.root, "Load image from images.invalid: a chart")).to_be_in_viewport()
        assert panel.root.locator("img").count() == 0  # and the test fails if anything was asked for

    def _two_views(self, notebook: NotebookPage) -> None:
        """C4: Approve in both views within 50 ms is one run. C1: what is cleared and shown again has it all."""
        first, second = notebook.panel(1), notebook.panel(2)
        first.send("Refund order 7")
        places = []
        for panel in (first, second):
            approve = button(panel.root.get_by_role("group", name="Approval needed: refund"), "Approve")
            expect(approve).to_be_enabled()
        second.root.scroll_into_view_if_needed()
        notebook.page.wait_for_timeout(400)
        for panel in (first, second):
            box = button(panel.root, "Approve").bounding_box()
            assert box is not None
            places.append((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
        for x, y in places:
            notebook.page.mouse.click(x, y)
        for panel in (first, second):
            expect(panel.message("assistant")).to_contain_text("Paid back.")
            expect(panel.cards).to_contain_text("Done")
            panel.wait_for_status("ready")
        assert [effect for effect in notebook.effects() if "refund" in effect] == [{"refund": "7"}]
        notebook.clear_output(2)
        expect(notebook.page.locator(".chatnb-view")).to_have_count(2)
        notebook.run_cell(3)
        notebook.run_cell(2)  # a chat of the same id: the conversation goes on
        first, second = notebook.panel(1), notebook.panel(2)
        for panel in (first, second):
            expect(panel.articles).to_have_count(2)

    def _retry(self, panel: Panel) -> None:
        """C38: a turn fails before its first part; Retry answers the question, and there is one user message."""
        panel.send("Try")
        expect(panel.root.get_by_role("alert")).to_be_visible()
        panel.wait_for_status("error")
        button(panel.root, "Retry").click()
        expect(panel.message("assistant")).to_contain_text("Now it works.")
        expect(panel.articles).to_have_count(2)
        panel.wait_for_status("ready")

    def _restart(self, notebook: NotebookPage, panel: Panel) -> None:
        """C12: the kernel is restarted: the notice, all text, no control that sends, nothing that spins."""
        notebook.restart_kernel()
        expect(panel.root).to_contain_text("The kernel was restarted. The conversation is saved;")
        expect(panel.articles).to_have_count(2)
        on = panel.root.locator("button:not(:disabled)").evaluate_all("all => all.map(b => b.ariaLabel || b.innerText)")
        assert set(on) <= {"Copy", "Jump to latest"}
        expect(panel.root.locator(".cn-spin, .cn-dots")).to_have_count(0)
