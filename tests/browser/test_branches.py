"""Editing the history in a real notebook: edit, regenerate, branches, undo and redo, by mouse and by keyboard."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook, everywhere
from tests.browser.notebook_page import EFFECT, NotebookPage, Panel
from tests.browser.test_approvals import in_lab


def cells() -> list[str]:
    return [
        EFFECT,
        """
from chatnb import Agent
from chatnb.models import ScriptedModel

model = ScriptedModel([f"Answer {n}." for n in range(1, 12)])
chat = Agent(model).chat("branches")
""",
        'chat.view(height="520px", transcript=False)',
    ]


def say(panel: Panel, text: str, replies: int) -> None:
    panel.send(text)
    panel.wait_for_reply(replies)


def tool(message: Locator, name: str) -> Locator:
    return message.get_by_role("button", name=name, exact=True)


def picker(message: Locator) -> Locator:
    return message.get_by_role("group", name="Branches")


def use(notebook: NotebookPage, control: Locator, *, by_key: bool) -> None:
    """Press a control with the mouse, or focus it and press Enter."""
    if by_key:
        control.focus()
        control.press("Enter")
    else:
        control.hover()
        control.click()


def walk(open_notebook: OpenNotebook, *, by_key: bool) -> None:
    notebook = open_notebook(cells())
    notebook.run_all()
    panel = notebook.panel()
    say(panel, "First question", 1)
    say(panel, "Second question", 2)

    # Regenerate twice: 3/3. Previous twice, and forward again.
    for number in (3, 4):
        message = panel.message("assistant")
        message.hover()
        use(notebook, tool(message, "Regenerate"), by_key=by_key)
        expect(panel.message("assistant")).to_contain_text(f"Answer {number}.")
        panel.wait_for_status("ready")
    expect(picker(panel.message("assistant"))).to_contain_text("3/3")
    for number, text in ((2, "Answer 3."), (1, "Answer 2.")):
        use(notebook, tool(panel.message("assistant"), "Previous version"), by_key=by_key)
        expect(panel.message("assistant")).to_contain_text(text)
        expect(picker(panel.message("assistant"))).to_contain_text(f"{number}/3")

    # Edit the first message: a new branch; its old one shows what followed it.
    first = panel.message("user", 0)
    first.hover()
    use(notebook, tool(first, "Edit"), by_key=by_key)
    box = first.get_by_role("textbox")
    box.fill("A better question")
    if by_key:
        tool(first, "Save and send").focus()
        tool(first, "Save and send").press("Enter")
    else:
        tool(first, "Save and send").click()
    expect(panel.articles).to_have_count(2)
    expect(panel.message("assistant")).to_contain_text("Answer 5.")
    panel.wait_for_status("ready")
    notebook.shot("branches-keys" if by_key else "branches-mouse")
    use(notebook, tool(panel.message("user", 0), "Previous version"), by_key=by_key)
    expect(panel.articles).to_have_count(4)
    expect(panel.message("user", 0)).to_contain_text("First question")
    expect(panel.message("assistant")).to_contain_text("Answer 2.")

    # Undo takes the last question back into the box, redo brings it back.
    undo = panel.root.get_by_role("button", name="Undo", exact=True)
    redo = panel.root.get_by_role("button", name="Redo", exact=True)
    use(notebook, undo, by_key=by_key)
    expect(panel.articles).to_have_count(2)
    expect(panel.box).to_have_value("Second question")
    use(notebook, redo, by_key=by_key)
    expect(panel.articles).to_have_count(4)
    expect(redo).to_be_disabled()


class TestHistory:
    """C31 of widget.md, and issue 4."""

    @everywhere
    def test_by_mouse(self, open_notebook: OpenNotebook) -> None:
        """Regenerate twice, walk the branches, edit, undo and redo: all by mouse."""
        walk(open_notebook, by_key=False)

    @in_lab
    def test_by_keyboard(self, open_notebook: OpenNotebook) -> None:
        """The same by keyboard alone."""
        walk(open_notebook, by_key=True)
