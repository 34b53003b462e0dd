"""A kernel that dies in the middle of an answer, in a real notebook (issue 5, journey A step 7)."""

from __future__ import annotations

import os
import re
import signal

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import EFFECT, NotebookPage
from tests.browser.test_approvals import ask, button, in_lab, press, refunds, settle
from tests.browser.test_approvals import cells as approval_cells

CELLS = [
    EFFECT,
    """
import asyncio, os
from chatnb import Agent
from chatnb.models import Reply, ScriptedModel

effect(pid=os.getpid())

async def answer(request):
    # What was said before the kernel died stands in the request; the model goes on behind it.
    said = str(request.messages).count("word")
    if said:
        await asyncio.sleep(2)  # a model that takes its time to begin
    return Reply(" ".join(f"word{n}" for n in range(said, 60)), delay=0.05)

chat = Agent(ScriptedModel([answer], loop=True)).chat("mortal")
""",
    'chat.view(height="420px", transcript=False)',
]


def kill_kernel(notebook: NotebookPage) -> None:
    """Kill the kernel's process; the server starts another, and the application says so in a dialog."""
    pid = next(e["pid"] for e in reversed(notebook.effects()) if "pid" in e)
    os.kill(pid, signal.SIGKILL)
    expect(notebook.page.locator(".chatnb-view").first).to_contain_text("The kernel was restarted", timeout=30_000)
    notebook.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    notebook.page.wait_for_function(
        "() => { const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel;"
        " return kernel?.connectionStatus === 'connected' && !kernel.status.includes('restarting'); }"
    )


@in_lab
class TestKilled:
    """Nothing that was said is lost, and the answer is finished before the reader's eyes."""

    def test_in_mid_answer(self, open_notebook: OpenNotebook) -> None:
        """Killed, restarted, run again: the banner is seen, and the same message is completed, once."""
        notebook = open_notebook(CELLS)
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Count")
        panel.texts_while_streaming(wanted=4)
        message_id = panel.message("assistant").get_attribute("data-message-id")
        kill_kernel(notebook)
        notebook.shot("killed")
        recovering = notebook.watch_for("Recovering the interrupted reply")
        notebook.run_cell(0)
        notebook.run_cell(1)
        notebook.run_cell(2)
        panel = notebook.panel()
        recovering()
        notebook.shot("recovering")
        expect(panel.message("assistant")).to_contain_text("word59", timeout=60_000)
        panel.wait_for_status("ready")
        expect(panel.articles).to_have_count(2)
        assert panel.message("assistant").get_attribute("data-message-id") == message_id
        words = re.findall(r"word(\d+)", panel.message("assistant").text_content() or "")
        assert words[0] == "0"
        assert len(words) == len(set(words)), "a word stands twice"

    def test_with_an_approval_pending(self, open_notebook: OpenNotebook) -> None:
        """Killed while an ask waits: its buttons are live again, and approving runs the action once."""
        sources = approval_cells('Reply(calls=[("refund", {"order": "7", "amount": 250})])', '"Paid back."')
        sources[1] += "\nimport os\neffect(pid=os.getpid())\n"
        notebook = open_notebook(sources)
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Refund order 7")
        expect(ask(panel)).to_be_visible()
        panel.wait_for_status("ready")
        kill_kernel(notebook)
        notebook.page.evaluate(
            "text => { window.jupyterapp.shell.currentWidget.content.widgets[1]"
            ".model.sharedModel.setSource(text); return null; }",
            sources[1].replace('Reply(calls=[("refund", {"order": "7", "amount": 250})]), ', ""),
        )
        for index in range(3):
            notebook.run_cell(index)
        panel = notebook.panel()
        press(notebook, button(ask(panel), "Approve"))
        settle(notebook, panel, "Paid back.")
        assert refunds(notebook) == [("7", 250)]
