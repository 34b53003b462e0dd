"""Journey A: a reader opens the tutorial, with no key and no experience. All of its steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter_server import ROOT, JupyterServer
from tests.browser.test_approvals import button, in_lab, press

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


# Notes in what order a panel first shows each thing.
WATCH = """root => {
  const words = '[data-role=assistant] p', card = '[data-tool-call-id]';
  const things = {stop: '[aria-label=Stop]', dots: '.cn-dots', card, words};
  window.seen = [];
  const look = () => {
    for (const [name, place] of Object.entries(things))
      if (!window.seen.includes(name) && root.querySelector(place)) window.seen.push(name);
  };
  new MutationObserver(look).observe(root, {subtree: true, childList: true});
}"""


@in_lab
class TestJourneyA:
    """One reader, one notebook, from start to end."""

    def test_steps_1_to_8(self, open_notebook: OpenNotebook, server: JupyterServer) -> None:
        # 1. The link opens the first notebook. The first code cell is about ten lines.
        shutil.copytree(TOUR / "data", server.files / "tour" / "data", dirs_exist_ok=True)
        notebook = open_notebook(TOUR / "01_first_chat.ipynb", folder="tour")
        first_code = next(text for text in notebook.cell_sources() if text.startswith("import"))
        assert len([line for line in first_code.splitlines() if line.strip()]) <= 12

        # 2. Run All. The panel is there, with a title, a sentence and three suggestions. It says who answers.
        notebook.run_all()
        panel = notebook.panel()
        expect(panel.root.locator(".cn-empty")).to_contain_text("The shop")
        expect(panel.root.locator(".cn-help")).to_contain_text("Look up the sales of a region.")
        expect(panel.root).to_contain_text("offline model")
        names = (SUGGESTION, "Order 20 kg of tea", "What is the capital of France?")
        for name in names:
            expect(panel.root.get_by_role("button", name=name)).to_be_visible()
        panel.root.scroll_into_view_if_needed()
        notebook.shot("journey-a-2")

        # 3. A click: Stop at once, three dots, words; a card says what was looked up; the answer has a table.
        panel.root.evaluate(WATCH)
        panel.root.get_by_role("button", name=SUGGESTION).click()
        expect(panel.message("user")).to_contain_text(SUGGESTION)
        panel.texts_while_streaming(wanted=3)
        notebook.shot("journey-a-3")
        answer = panel.wait_for_reply(1)
        assert notebook.page.evaluate("window.seen") == ["stop", "dots", "words", "card"]
        expect(panel.cards).to_contain_text("Done")
        expect(panel.cards).to_contain_text("North")
        expect(answer.get_by_role("table").last).to_contain_text("cocoa")
        notebook.shot("journey-a-3-answer")

        # 4. Something that the offline model can't know: it says so, and how to plug in Claude. Nothing jumps above.
        panel.send("What is the capital of France?")
        panel.texts_while_streaming(wanted=2)
        panel.log.hover()
        notebook.page.mouse.wheel(0, -150)
        expect(panel.root.get_by_role("button", name="Jump to latest")).to_be_visible()
        top = "node => node.getBoundingClientRect().top"
        before = panel.message("user", 0).evaluate(top)
        answer = panel.wait_for_reply(2)
        assert panel.message("user", 0).evaluate(top) == before
        expect(answer).to_contain_text("offline model")
        expect(answer).to_contain_text("ANTHROPIC_API_KEY")
        expect(answer).not_to_contain_text("Paris")
        notebook.shot("journey-a-4")

        # 5. It wants to change something: a card asks, with all arguments in view. They edit the amount, approve, and
        # see that it ran with theirs. A cell below counts how often it ran: once.
        panel.send(names[1])
        card = panel.root.get_by_role("group", name="Approval needed: order")
        expect(card).to_contain_text("tea")
        expect(card).to_contain_text("20")
        panel.wait_for_status("ready")
        press(notebook, button(card, "Edit arguments"))
        card.get_by_label("amount").fill("12")
        press(notebook, button(card, "Approve"))
        expect(panel.message("assistant")).to_contain_text("12 kg of tea ordered.")
        expect(panel.cards.last).to_contain_text("edited by you")
        panel.wait_for_status("ready")
        notebook.shot("journey-a-5")
        counted = notebook.index_of_cell("len(ordered)")
        notebook.run_cell(counted)
        assert "(1, [('tea', 12)])" in notebook.cell_outputs(counted)

        # 6. They edit their first message. The old answer is not gone: 1/2. Undo, redo: all there.
        first = panel.message("user", 0)
        first.hover()
        button(first, "Edit").click()
        first.get_by_role("textbox", name="Edit message").fill("Show the sales in the South")
        button(first, "Save and send").click()
        expect(panel.articles).to_have_count(2)
        panel.wait_for_reply(1)
        expect(panel.cards).to_contain_text("South")
        picker = panel.message("user", 0).get_by_role("group", name="Branches")
        expect(picker).to_contain_text("2/2")
        button(picker, "Previous version").click()
        expect(panel.articles).to_have_count(6)
        expect(picker).to_contain_text("1/2")
        expect(panel.message("assistant", 0)).to_contain_text("North")
        undo, redo = (button(panel.root, name) for name in ("Undo", "Redo"))
        undo.click()
        expect(panel.articles).to_have_count(4)
        expect(panel.box).to_have_value(names[1])
        redo.click()
        expect(panel.articles).to_have_count(6)
        expect(panel.message("assistant")).to_contain_text("12 kg of tea ordered.")
        expect(redo).to_be_disabled()
        notebook.shot("journey-a-6")

        # 7. They restart the kernel in the middle of an answer and run the cells again: the answer goes on in the same
        # message.
        panel.send("Show the sales in the East")
        expect(panel.articles).to_have_count(8)
        expect(panel.message("assistant")).to_contain_text("returned")
        number = panel.message("assistant").get_attribute("data-message-id")
        notebook.restart_kernel()
        expect(panel.root).to_contain_text(
            "The kernel was restarted. The conversation is saved; run the cell to go on."
        )
        cut = panel.message("assistant").locator("tr").count()
        recovering = notebook.watch_for("Recovering the interrupted reply")
        for begin in ("import csv", "ordered = []", "chat = agent.chat("):
            notebook.run_cell(notebook.index_of_cell(begin))
        panel = notebook.panel()
        recovering()
        notebook.shot("journey-a-7")
        rows = panel.message("assistant").locator("tr")
        expect(rows).to_have_count(7)
        panel.wait_for_status("ready")
        assert cut < 7, "the kernel was restarted after the answer"
        assert panel.message("assistant").get_attribute("data-message-id") == number
        expect(panel.articles).to_have_count(8)
        expect(panel.root.get_by_role("group", name="sales")).to_have_count(2)

        # 8. Save and close: the file holds the talk, with its table, for readers without a kernel.
        notebook.wait_for_output(notebook.index_of_cell("chat = agent.chat("), "sales in the East")
        notebook.save()
        [talk] = [text for text in transcripts(notebook.path) if SUGGESTION in text]
        for part in ("<table", "cocoa", "ANTHROPIC_API_KEY", "12 kg of tea ordered", "East"):
            assert part in talk
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
