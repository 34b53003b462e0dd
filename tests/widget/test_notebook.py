"""A chat in a notebook that is run without a page (spec/widget.md, sections 8 and 9)."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

CELLS = [
    "from chatnb import Agent\nfrom chatnb.models import ScriptedModel\n"
    "chat = Agent(ScriptedModel(['The answer is **42**, $x^2$.'], loop=True)).chat('talk')",
    "chat",
    "(await chat.send('What is the answer?')).status",
    "chat.send('And once more?').result()\n(await chat.send('Who has the last word?')).status",
]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    root = Path(__file__).resolve().parents[2]
    notebook.cells[0].source = f"import sys; sys.path.insert(0, {str(root)!r})\n" + notebook.cells[0].source
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHATNB_STORE", str(folder / "chats.db"))
        client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(folder)}})
        client.execute()
    return notebook


@pytest.mark.kernel
class TestNotebook:
    def test_two_outputs(self, executed: nbformat.NotebookNode) -> None:
        """Section 9: a chat as last line makes two outputs, and the transcript is updated when the turn settles."""
        widget, transcript = executed.cells[1].outputs
        assert widget.data["text/plain"] == "ChatWidget"
        assert transcript.data["text/plain"] == "chat transcript"
        assert "What is the answer?" in transcript.data["text/html"]
        assert "<strong>42</strong>" in transcript.data["text/html"]
        assert "<math" in transcript.data["text/html"]
        assert "The answer is **42**, $x^2$." in transcript.data["text/markdown"]
        assert executed.cells[2].outputs[0].data["text/plain"] == "'completed'"

    def test_the_last_cell(self, executed: nbformat.NotebookNode) -> None:
        """Section 9: the saved transcript has all turns, though the run ends right after the last cell."""
        _, transcript = executed.cells[1].outputs
        assert "Who has the last word?" in transcript.data["text/html"]
        assert transcript.data["text/html"].count("<strong>42</strong>") == 3

    def test_readable_as_html_without_network(self, executed: nbformat.NotebookNode) -> None:
        """C34: no kernel, `nbconvert --to html`: the talk is readable; no address, no id in it."""
        html, _ = HTMLExporter().from_notebook_node(executed)
        shown = html[html.index('<div class="chatnb-transcript"') :]
        assert "What is the answer?" in shown
        transcript = executed.cells[1].outputs[1].data["text/html"]
        assert not re.search(r"msg-|0x[0-9a-f]{6}|\d\d:\d\d|https?://", transcript.replace("http://www.w3.org", ""))
