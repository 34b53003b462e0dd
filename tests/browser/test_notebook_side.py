"""The notebook side in JupyterLab: figures and names of approved code, Stop, mentions, columns (issue 7)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter_server import App, JupyterServer
from tests.browser.notebook_page import EFFECT, NotebookPage, Panel
from tests.browser.test_approvals import button, press

SETUP = """
import pandas as pd
from chatnb import Agent, compare
from chatnb.kernel.actions import notebook_actions
from chatnb.models import Reply, ScriptedModel

orders = pd.DataFrame({"amount": [10, 12, 900], "region": ["north", "south", "north"]})

def coder(*codes, **options):
    steps = []
    for code in codes:
        steps += [Reply(calls=[("run_code", {"code": code})]), "That is done."]
    return Agent(ScriptedModel(steps), actions=notebook_actions(**options)).chat("coder")
"""
VIEW = 'chat.view(height="640px", transcript=False)'
PLOT = (
    "import matplotlib.pyplot as plt\\noutliers = orders[orders.amount > 100]\\nfig, ax = plt.subplots()\\n"
    "ax.plot(orders.amount)\\nprint('plotted', len(orders))"
)


@pytest.fixture
def server(servers: Callable[[App], JupyterServer], browser: Browser) -> JupyterServer:
    """JupyterLab; the other application has the same kernel."""
    return servers("lab")


def approval(panel: Panel) -> Locator:
    return panel.root.get_by_role("group", name="Approval needed: run_code")


def run_rest(notebook: NotebookPage, *indexes: int) -> None:
    for index in indexes:
        notebook.run_cell(index)


class TestCode:
    """Code that a model proposes and a person approves."""

    def test_a_plot_of_a_frame(self, open_notebook: OpenNotebook) -> None:
        """The figure and the print are in the card and in no cell; the new names are in the card and the kernel."""
        notebook = open_notebook(
            [
                EFFECT,
                SETUP,
                f'chat = coder("{PLOT}")',
                VIEW,
                "effect(outliers=len(outliers), figures=plt.get_fignums())",
            ]
        )
        run_rest(notebook, 0, 1, 2, 3)
        panel = notebook.panel()
        panel.send("Plot the orders")
        expect(approval(panel)).to_contain_text("outliers = orders[orders.amount > 100]")
        press(notebook, button(approval(panel), "Approve"))
        expect(panel.message("assistant")).to_contain_text("That is done.")
        card = panel.cards.first
        picture = card.get_by_role("img").first
        expect(picture).to_be_visible()
        assert picture.evaluate("node => node.naturalWidth") > 100
        expect(card).to_contain_text("New: ax fig outliers")
        expect(card).to_contain_text("plotted 3")
        card.scroll_into_view_if_needed()
        notebook.shot("code-plot")
        notebook.run_cell(4)
        assert notebook.effects()[-1] == {"outliers": 1, "figures": []}
        assert "plotted" not in notebook.cell_outputs(3)
        assert "image/png" not in notebook.cell_outputs(4)

    def test_stop_ends_an_endless_loop(self, open_notebook: OpenNotebook) -> None:
        """Stop ends `while True: pass` within 3 s, and the kernel lives."""
        loop = "effect(began=1)\\nwhile True: pass"
        notebook = open_notebook(
            [EFFECT, SETUP, f'chat = coder("{loop}", "after = 1", approve_code=False)', VIEW, "effect(after=after)"]
        )
        run_rest(notebook, 0, 1, 2, 3)
        panel = notebook.panel()
        panel.send("Go round")
        notebook.wait_for_effect(lambda effect: "began" in effect)
        expect(panel.stop_button).to_be_visible()
        began = time.monotonic()
        panel.stop_button.click()
        panel.wait_for_status("ready")
        assert time.monotonic() - began < 3
        notebook.shot("code-stopped")
        panel.send("And now?")
        panel.wait_for_reply(2)
        panel.send("Once more")
        panel.wait_for_reply(3)
        expect(panel.message("assistant")).to_contain_text("That is done.")
        notebook.run_cell(4)
        assert notebook.effects()[-1] == {"after": 1}

    def test_restore(self, open_notebook: OpenNotebook) -> None:
        """C29: undone, the panel offers what the code had rebound; a click brings the old object back."""
        notebook = open_notebook(
            [
                *(EFFECT, SETUP, "total = 5\nchat = coder('total = 6; fresh = 1', snapshot=True, approve_code=False)"),
                *(VIEW, "effect(total=total, fresh='fresh' in dir())"),
            ]
        )
        run_rest(notebook, 0, 1, 2, 3)
        panel = notebook.panel()
        panel.send("Change it")
        panel.wait_for_reply()
        panel.root.get_by_role("button", name="Undo", exact=True).click()
        restore = panel.root.get_by_role("button", name="Restore variables")
        expect(restore).to_be_visible()
        notebook.shot("code-restore")
        notebook.run_cell(4)
        assert notebook.effects()[-1] == {"total": 6, "fresh": True}
        restore.click()
        expect(restore).to_have_count(0)
        notebook.run_cell(4)
        assert notebook.effects()[-1] == {"total": 5, "fresh": False}

    def test_busy(self, open_notebook: OpenNotebook) -> None:
        """C7: while a cell computes, the card says by 1 s that the call waits for the kernel; the text streams on."""
        notebook = open_notebook(
            [EFFECT, SETUP, "chat = coder('x = 1', approve_code=False)", VIEW, "import time; time.sleep(4)"]
        )
        run_rest(notebook, 0, 1, 2, 3)
        panel = notebook.panel()
        notebook.run_cell(4, wait=False)
        panel.send("Run it")
        expect(panel.cards.first).to_contain_text("Waiting for kernel", timeout=3_000)
        notebook.shot("code-busy")
        panel.wait_for_reply()
        expect(panel.cards.first).to_contain_text("Done")


class TestMentions:
    """Variables by `@name`."""

    def test_completes_previews_and_sends(self, open_notebook: OpenNotebook) -> None:
        """`@or` completes to `@orders`; the preview is exactly what the model gets; secrets are not offered."""
        notebook = open_notebook(
            [
                *(EFFECT, SETUP, "order_key = 'planted-secret'\nmodel = ScriptedModel(['Seen.'])"),
                'chat = Agent(model).chat("mention")',
                *(VIEW, "effect(asked=str(model.requests[0].messages))"),
            ]
        )
        run_rest(notebook, 0, 1, 2, 3, 4)
        panel = notebook.panel()
        panel.box.click()
        panel.box.press_sequentially("What is odd in @or")
        names = panel.root.get_by_role("listbox", name="@")
        expect(names.get_by_role("option")).to_have_count(1)
        expect(names.get_by_role("option")).to_contain_text("orders")
        preview = panel.root.locator(".cn-mentions pre")
        expect(preview).to_contain_text("3 rows x 2 columns")
        expect(panel.root.locator(".cn-mentions")).to_contain_text(re.compile(r"≈ \d+ tokens"))
        notebook.shot("mention-preview")
        previewed = preview.text_content() or ""
        panel.box.press("Enter")
        expect(panel.box).to_have_value("What is odd in @orders ")
        panel.box.press("Enter")
        panel.wait_for_reply()
        expect(panel.message("user")).to_contain_text("@orders")
        notebook.shot("mention-sent")
        notebook.run_cell(5)
        asked = notebook.effects()[-1]["asked"]
        assert previewed in asked.replace("\\n", "\n")
        assert "planted-secret" not in asked


class TestCompare:
    """Three models side by side."""

    def test_columns_stream(self, open_notebook: OpenNotebook) -> None:
        """A column each, side by side, with words while the others write; the frame has a row each."""
        notebook = open_notebook(
            [
                *(EFFECT, SETUP),
                "words = ' '.join(f'word{n}' for n in range(150))\n"
                "models = [ScriptedModel([Reply(f'{name} {words}', delay=0.05)], name=name)"
                " for name in ('ada', 'bob', 'cyd')]",
                "comparison = compare('Say something', models=models)\ncomparison",
                "frame = await comparison\neffect(models=list(frame.model), status=list(frame.status))",
            ]
        )
        run_rest(notebook, 0, 1, 2, 3)
        panels = [notebook.panel(index) for index in range(3)]
        for panel, name in zip(panels, ("ada", "bob", "cyd"), strict=True):
            expect(panel.message("assistant")).to_contain_text(f"{name} word0 word1")
            expect(panel.root).to_contain_text(name)
        assert all(panel.root.get_attribute("data-status") == "streaming" for panel in panels)
        boxes = [panel.root.bounding_box() for panel in panels]
        assert all(box is not None for box in boxes)
        lefts = [box["x"] for box in boxes if box is not None]
        assert lefts == sorted(set(lefts)), "side by side"
        panels[0].root.scroll_into_view_if_needed()
        notebook.shot("compare")
        for panel in panels:
            expect(panel.message("assistant")).to_contain_text("word149", timeout=30_000)
        notebook.run_cell(4)
        assert notebook.effects()[-1] == {"models": ["ada", "bob", "cyd"], "status": ["completed"] * 3}


class TestFiles:
    """What stays when the kernel is gone."""

    def test_magic_and_last_line(self, open_notebook: OpenNotebook) -> None:
        """C30: `%%chat` streams Markdown that stays in the saved file; a chat as the last line shows its panel."""
        notebook = open_notebook(
            [
                "%load_ext chatnb\nfrom chatnb import Agent\nfrom chatnb.models import ScriptedModel\n"
                "agent = Agent(ScriptedModel(['A **bold** answer.', 'Another.']))",
                "%%chat\nHello {name}",
                "agent.chat('other')",
            ]
        )
        notebook.run_all()
        expect(notebook.cell(1).locator("strong")).to_have_text("bold")
        notebook.panel().send("hi")
        notebook.panel().wait_for_reply()
        notebook.wait_for_output(2, "Another.")
        notebook.save()
        saved = nbformat.read(notebook.path, as_version=4)
        assert "A **bold** answer." in str(saved.cells[1].outputs)

    def test_html_export(self, new_page: Callable[[], Page], outside_requests: list[str], tmp_path: Path) -> None:
        """C41: opened with the network watched, an export asks for nothing, and shows math and a table."""
        from chatnb import Agent
        from chatnb.models import ScriptedModel

        text = "<img src=https://x/y> ![z](https://x/z.png)\n\n$$\\frac{1}{2}$$\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        chat = Agent(ScriptedModel([text])).chat()
        assert chat.send("hi").result(20).status == "completed"
        chat.export("html", tmp_path / "chat.html")
        page = new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto((tmp_path / "chat.html").as_uri())
        expect(page.locator("table")).to_contain_text("2")
        expect(page.locator("math").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        assert outside_requests == []
        page.close()


class TestInsertCell:
    """`insert_cell` where the page can insert."""

    def test_below_the_view(self, open_notebook: OpenNotebook) -> None:
        """Section 6: the cell stands below the cell of the view that approved it, and was not run."""
        notebook = open_notebook(
            [
                *(EFFECT, SETUP),
                "step = Reply(calls=[('insert_cell', {'source': 'never = 1'})])\n"
                "chat = Agent(ScriptedModel([step, 'It is there.']), actions=notebook_actions()).chat('inserts')",
                *(VIEW, "effect(never='never' in dir())"),
            ]
        )
        run_rest(notebook, 0, 1, 2, 3)
        panel = notebook.panel()
        panel.send("Insert a cell")
        ask = panel.root.get_by_role("group", name="Approval needed: insert_cell")
        press(notebook, button(ask, "Approve"))
        expect(panel.message("assistant")).to_contain_text("It is there.")
        assert notebook.cell_sources()[4] == "never = 1"
        notebook.run_cell(5)
        assert notebook.effects()[-1] == {"never": False}
