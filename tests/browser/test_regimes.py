"""Approve in mid-cell, in JupyterLab, on kernels of each regime (spec/widget.md, section 8). See also tests/hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter_server import App, JupyterServer
from tests.browser.notebook_page import EFFECT, Panel, write_notebook
from tests.hosts.conftest import FindPython, python_of  # noqa: F401 - a fixture
from tests.hosts.environments import write_kernelspec

CELLS = [
    EFFECT,
    '''
import asyncio, time
from chatnb import Agent, action
from chatnb.models import Reply, ScriptedModel

@action(needs_approval=True, run_in="thread")
def refund(order: str) -> str:
    """Refund an order."""
    effect(refund=order)
    return "paid"

steps = [Reply(calls=[("refund", {"order": "1"})]), "First.", Reply(calls=[("refund", {"order": "2"})]), "Second."]
chat = Agent(ScriptedModel(steps), actions=[refund]).chat("regime")
chat.view(height="420px", transcript=False)
''',
    "effect(cell='awaits')\nawait asyncio.sleep(2.5)\neffect(over='awaits')",
    "effect(cell='blocks')\ntime.sleep(2.5)\neffect(over='blocks')",
]
IN_LAB = pytest.mark.parametrize("server", ["lab"], indirect=True)
# The installed kernel's own regime, that of 7.4, is what all other browser tests run in.
REGIMES = {"6.31": ["over", "refund"], "7.3": ["refund", "over"], "7.4": ["refund", "over"]}


def approve(panel: Panel) -> Locator:
    """Clicks Approve once the card has been in view for long enough."""
    button = panel.root.get_by_role("group", name="Approval needed: refund").get_by_role("button", name="Approve")
    expect(button).to_be_enabled()
    button.scroll_into_view_if_needed()
    panel.root.page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 400))")
    button.click()
    return button


@IN_LAB
@pytest.mark.parametrize("regime", list(REGIMES))
class TestRegimes:
    def test_approve_in_mid_cell(
        self,
        open_notebook: OpenNotebook,
        servers: Callable[[App], JupyterServer],
        python_of: FindPython,  # noqa: F811
        regime: str,
        tmp_path: Path,
    ) -> None:
        """C13: a click while a cell awaits or blocks works during the cell, or says that it waits; applied once."""
        name = f"ipykernel-{regime}"
        write_kernelspec(python_of(regime), name, servers("lab").kernels)
        path = write_notebook(tmp_path / "regime.ipynb", CELLS)
        notebook_file = nbformat.read(path, 4)
        notebook_file.metadata["kernelspec"] = {"name": name, "display_name": name, "language": "python"}
        nbformat.write(notebook_file, path)
        notebook = open_notebook(path, f"regime-{regime}")
        for index in (0, 1):
            notebook.run_cell(index)
        panel = notebook.panel()
        for order, (cell, reply) in enumerate((("awaits", "First."), ("blocks", "Second.")), 1):
            panel.send("Refund it")
            expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_be_visible()
            panel.wait_for_status("ready")
            notebook.run_cell(order + 1, wait=False)
            notebook.wait_for_effect(lambda effect, cell=cell: effect.get("cell") == cell)
            approve(panel)
            if REGIMES[regime][0] == "over":
                expect(panel.root).to_contain_text("chat.approve()", timeout=3_000)
                expect(panel.root).to_contain_text("await")
            expect(panel.message("assistant")).to_contain_text(reply, timeout=30_000)
            panel.wait_for_status("ready")
            notebook.wait_for_effect(lambda effect, cell=cell: effect.get("over") == cell)
            order_of = [next(iter(effect)) for effect in notebook.effects()[-2:]]
            assert order_of == REGIMES[regime]
        assert [e["refund"] for e in notebook.effects() if "refund" in e] == ["1", "2"]
