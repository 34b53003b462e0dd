"""C29 of widget.md in JupyterLab and in Notebook: axe-core in each state, light and dark, and the change of theme."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.case_notebook import CaseNotebook
from tests.browser.conftest import OpenNotebook
from tests.browser.dev_page.test_panel import AXE, RULES
from tests.browser.notebook_page import Panel

CUT = 'Agent(Counted([Reply("The reply begins.", hang=True)]), recovery=Recovery(auto={auto})).chat("{id}")'
CELLS = {
    "empty": 'show("empty", Reply("The reply begins.", hang=True))',
    "approval": """
fifty = [message(n, f"Message {n} with `code` and **words**.") for n in range(50)]
show("approval", Reply(calls=[("refund", {"order": "7"})]), history=fifty)
""",
    "error": 'show("error", ConnectionError("no line"))',
    "begun": f"""
from chatnb import Recovery
for chat in ({CUT.format(auto=True, id="recovering")}, {CUT.format(auto=False, id="offered")}):
    chat.send("Count")
    while not (chat.messages and "begins" in chat.messages[-1].text):
        await asyncio.sleep(0.01)
""",
    "recovering": """
from chatnb import Recovery
async def silent(request):
    await asyncio.sleep(3600)

chat = Agent(Counted([silent]), recovery=Recovery(auto=True)).chat("recovering")
chat.view(height="420px", transcript=False)
""",
    "offered": f'{CUT.format(auto=False, id="offered")}.view(height="420px", transcript=False)',
}
RUN = """async ([root, rules]) => {
  const found = await axe.run(root, {runOnly: rules});
  return found.violations.map(one => [one.id, one.nodes[0].html]);
}"""
# Milliseconds from the host's change of its mark to the panel's.
SWITCH = """async ([root, name]) => {
  const changed = (node, attribute) => new Promise(done => new MutationObserver((_, observer) => {
    observer.disconnect();
    done(performance.now());
  }).observe(node, {attributeFilter: [attribute]}));
  const host = changed(document.body, 'data-jp-theme-light'), own = changed(root, 'data-theme');
  await window.jupyterapp.commands.execute('apputils:change-theme', {theme: name});
  return await own - await host;
}"""


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestAxe:
    """Everybody can use it, where it is used."""

    def test_axe_in_the_host(self, open_notebook: OpenNotebook) -> None:
        """C29: empty, streaming, approval with 50 messages, error, recovering, offered; the theme follows in 200 ms."""
        if not AXE.exists():
            pytest.skip("axe-core is not there: run `npm ci` in widgets/.")
        cases = CaseNotebook(open_notebook, CELLS)
        cases.page.evaluate(AXE.read_text("utf-8"))
        panel = cases.show("empty")
        self._look(cases, panel)
        panel.send("Count")
        expect(panel.message("assistant")).to_contain_text("The reply begins.")
        self._look(cases, panel)
        panel = cases.show("approval")
        expect(panel.articles).to_have_count(50)
        panel.send("Refund order 7")
        expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_be_visible()
        panel.wait_for_status("ready")
        self._look(cases, panel)
        panel = cases.show("error")
        panel.send("Try")
        expect(panel.root.get_by_role("alert")).to_be_visible()
        self._look(cases, panel)
        cases.run("begun")
        cases.notebook.restart_kernel()
        cases.run("head")
        panel = cases.show("recovering")
        expect(panel.root).to_contain_text("Recovering the interrupted reply")
        self._look(cases, panel)
        panel = cases.show("offered")
        expect(panel.root).to_contain_text("The kernel stopped during this reply.")
        self._look(cases, panel)

    def _look(self, cases: CaseNotebook, panel: Panel) -> None:
        """Runs axe in the theme that is on and in the other one, which it leaves on."""
        root = panel.root.element_handle()
        assert cases.page.evaluate(RUN, [root, RULES]) == []
        is_light = panel.root.get_attribute("data-theme") == "light"
        took = cases.page.evaluate(SWITCH, [root, "JupyterLab Dark" if is_light else "JupyterLab Light"])
        assert took < 200
        expect(cases.page.locator("#jupyterlab-splash")).to_have_count(0)
        assert cases.page.evaluate(RUN, [root, RULES]) == []
