"""Journey A: a reader opens the tutorial, with no key and no experience. Its steps 1 to 4 and 8.

The steps 5 to 7 (approvals, branches, recovery) come with the chapters that they show.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter_server import ROOT, JupyterServer

TOUR = ROOT / "notebooks"
SUGGESTION = "Show the sales in the North"


def transcripts(path: Path) -> list[str]:
    """The html of every transcript in a saved notebook."""
    return [
        output.data["text/html"]
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.get("outputs", [])
        if "chatnb-transcript" in output.get("data", {}).get("text/html", "")
    ]


class TestJourneyA:
    """One reader, one notebook, from start to end."""

    def test_steps_1_to_4_and_8(self, open_notebook: OpenNotebook, server: JupyterServer) -> None:
        # 1. The link opens the first notebook. The first code cell is about ten lines.
        shutil.copytree(TOUR / "data", server.files / "tour" / "data", dirs_exist_ok=True)
        notebook = open_notebook(TOUR / "01_first_chat.ipynb", folder="tour")
        first_code = next(text for text in notebook.cell_sources() if text.startswith("import"))
        assert len([line for line in first_code.splitlines() if line.strip()]) <= 12

        # 2. Run All. The panel is there, with a title, a sentence and three suggestions. It says who answers.
        notebook.run_all()
        panel = notebook.panel()
        expect(panel.root).to_contain_text("The shop")
        expect(panel.root).to_contain_text("offline model")
        buttons = [panel.root.get_by_role("button", name=text) for text in (SUGGESTION, "What is the total", "capital")]
        for button in buttons:
            expect(button).to_be_visible()
        panel.root.scroll_into_view_if_needed()
        notebook.shot("journey-a-2")

        # 3. A click: Stop at once, words arrive, a card says what was looked up, the answer has a table.
        buttons[0].click()
        expect(panel.stop_button).to_be_visible()
        expect(panel.message("user")).to_contain_text(SUGGESTION)
        panel.texts_while_streaming(wanted=3)
        notebook.shot("journey-a-3")
        answer = panel.wait_for_reply(1)
        expect(panel.cards).to_contain_text("Done")
        expect(panel.cards).to_contain_text("North")
        expect(answer.get_by_role("table").last).to_contain_text("cocoa")
        notebook.shot("journey-a-3-answer")

        # 4. Something that the offline model can't know: it says so, and how to plug in Claude.
        panel.send("What is the capital of France?")
        answer = panel.wait_for_reply(2)
        expect(answer).to_contain_text("offline model")
        expect(answer).to_contain_text("ANTHROPIC_API_KEY")
        expect(answer).not_to_contain_text("Paris")
        notebook.shot("journey-a-4")

        # 8. Save and close: the file holds the talk, with its table, for readers without a kernel.
        notebook.wait_for_output(notebook.index_of_cell("chat.view("), "ANTHROPIC_API_KEY")
        notebook.save()
        [talk] = [text for text in transcripts(notebook.path) if SUGGESTION in text]
        assert "<table" in talk
        assert "cocoa" in talk
        assert "ANTHROPIC_API_KEY" in talk
        assert "<script" not in talk


class TestLook:
    """The panel takes the notebook's colours."""

    def test_follows_the_theme(self, open_notebook: OpenNotebook) -> None:
        notebook = open_notebook(
            ["from chatnb import Agent", 'Agent("offline").chat("look").view(title="A look", transcript=False)']
        )
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Show me a table, please")
        panel.wait_for_reply()
        colours = []
        for theme in ("JupyterLab Light", "JupyterLab Dark"):
            notebook.change_theme(theme)
            notebook.shot(f"look-{theme.rsplit(' ', 1)[-1].lower()}")
            colours.append(panel.root.evaluate("node => getComputedStyle(node).color"))
        assert colours[0] != colours[1]
