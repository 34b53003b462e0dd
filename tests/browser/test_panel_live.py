"""The panel with a real kernel, beyond talk: outputs, cells, client tools, files, mentions, exports, banners."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import EFFECT, Panel

IN_LAB = pytest.mark.parametrize("server", ["lab"], indirect=True)
HEAD = (
    EFFECT
    + """
import sys
from chatnb import Agent, ClientTool, Recovery, action
from chatnb.kernel.actions import notebook_actions
from chatnb.models import Reply, ScriptedModel

def words(count):
    return " ".join(f"word{n}" for n in range(count))
"""
)
# What a call displays: prints on both streams, a figure, and a table whose markup must not act.
CODE = """
CODE = '''
import sys
print("to stdout")
print("to stderr", file=sys.stderr)
import matplotlib.pyplot as plt
plt.figure(figsize=(4, 2)); line = plt.plot([1, 4, 9])
class Table:
    def _repr_html_(self):
        return "<table><tr><td>cell</td></tr></table><script>window.ran = 1</script><img src=x onerror='window.ran=1'>"
Table()
'''.strip()
"""


def ask(panel: Panel, name: str) -> Locator:
    return panel.root.get_by_role("group", name=f"Approval needed: {name}")


def button(inside: Locator, name: str) -> Locator:
    return inside.get_by_role("button", name=name, exact=True)


def approve(panel: Panel, name: str) -> None:
    """Clicks Approve once the card has been in view for long enough."""
    control = button(ask(panel, name), "Approve")
    expect(control).to_be_enabled()
    control.scroll_into_view_if_needed()
    panel.root.page.wait_for_timeout(400)
    control.click()


def answered(panel: Panel, text: str) -> None:
    expect(panel.message("assistant")).to_contain_text(text, timeout=30_000)
    panel.wait_for_status("ready")


class TestNotebook:
    """The panel and the notebook around it."""

    def test_outputs_and_cells(self, open_notebook: OpenNotebook) -> None:
        """5.3 of widget.md: a card shows prints, figure and clean table; `insert_cell` puts a cell below the panel."""
        notebook = open_notebook(
            [
                HEAD + CODE,
                """
chat = Agent(ScriptedModel([
    Reply(calls=[("run_code", {"code": CODE})]), "Drawn.",
    Reply(calls=[("insert_cell", {"source": "print(41 + 1)"})]), "Inserted.",
]), actions=notebook_actions()).chat("cells")
chat.view(height="600px")
""",
                "after = 1",
            ]
        )
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Draw")
        code = ask(panel, "run_code").locator("pre")
        expect(code).to_contain_text("plt.figure")
        expect(code.locator(".cn-hl-keyword").first).to_have_text("import")  # it is read before it is run
        approve(panel, "run_code")
        answered(panel, "Drawn.")
        card = panel.cards.first
        expect(card).to_contain_text("to stdout")
        expect(card).to_contain_text("to stderr")
        expect(card.get_by_role("cell", name="cell")).to_be_visible()
        figure = card.locator("img.cn-image")
        expect(figure).to_be_visible()
        ratio = figure.evaluate("e => [e.width / e.height, e.naturalWidth / e.naturalHeight]")
        assert abs(ratio[0] - ratio[1]) < 0.05
        assert notebook.page.evaluate("window.ran") is None
        card.scroll_into_view_if_needed()
        notebook.shot("outputs")

        panel.send("Insert")
        approve(panel, "insert_cell")
        answered(panel, "Inserted.")
        assert notebook.cell_sources()[2:] == ["print(41 + 1)", "after = 1"]
        expect(panel.root).to_have_attribute("data-connection", "live")
        assert notebook.cell_outputs(2) == "[]"  # inserted, not run


@IN_LAB
class TestInput:
    """What goes in besides text."""

    def test_tools_files_mentions_actions(self, open_notebook: OpenNotebook, tmp_path: Path) -> None:
        """5.1, 5.2 and 5.5 of widget.md: scripts and forms, attachments, `@name`, "Run an action", exports."""
        notebook = open_notebook(
            [
                HEAD,
                '''
orders = [{"id": n, "amount": n * 10} for n in range(5)]

@action(title="Refund an order", needs_approval=lambda args, ctx: True)
def refund(order: str, amount: float = 5.0) -> dict:
    """Refund an order.

    Args:
        order: Its number.
        amount: Euros.
    """
    effect(refund=order, amount=amount)
    return {"paid": amount}

numbers = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
person = {"type": "object", "required": ["first"], "properties": {
    "first": {"type": "string"}, "born": {"type": "string", "format": "date"}, "likes": {"enum": ["tea", "coffee"]}}}
tools = [
    ClientTool(name="add", description="Adds in the page", parameters=numbers,
               js="/*" + "long " * 60_000 + "*/"  # goes beside the frames
               "export default async ({a, b}) => ({sum: a + b, inPage: typeof document === 'object'})"),
    ClientTool(name="who", description="Asks", parameters={"type": "object", "properties": {}}, form=person),
]
model = ScriptedModel([
    Reply(calls=[("add", {"a": 2, "b": 3})]), "The page says five.",
    Reply(calls=[("who", {})]), "Hello Ada.",
    "Two files.", "Five orders.",
])
chat = Agent(model, actions=[refund], name="probe").chat("input")
chat.view(height="640px", client_tools=tools, transcript=False)
''',
                """
effect(outputs=[p.wire["output"] for m in chat.messages for p in m.parts if p.wire.get("output") is not None],
       files=[[p.wire["filename"], p.wire["mediaType"]] for m in chat.messages for p in m.parts
              if p.type == "file"],
       mentioned=[p.wire["data"]["name"] for m in chat.messages for p in m.parts if p.type == "data-variable"])
""",
            ]
        )
        for index in (0, 1):
            notebook.run_cell(index)
        panel = notebook.panel()

        panel.send("Add")
        answered(panel, "five.")
        panel.send("Who?")
        card = panel.cards.last
        expect(card).to_contain_text("Waiting for an answer")
        button(card, "Submit").click()
        expect(card).to_contain_text("This is needed.")
        card.get_by_label("first").fill("Ada")
        card.get_by_label("born").fill("1815-12-10")
        card.get_by_label("likes").select_option(label="tea")
        notebook.shot("form")
        button(card, "Submit").click()
        answered(panel, "Hello Ada.")

        panel.root.locator("input[type=file]").set_input_files(
            [
                FilePayload(name="a.csv", mimeType="text/csv", buffer=b"x,y\n1,2\n"),
                FilePayload(name="b.md", mimeType="text/markdown", buffer=b"# b"),
            ]
        )
        panel.send("Read these")
        answered(panel, "Two files.")
        expect(panel.message("user")).to_contain_text("a.csv")

        panel.box.press_sequentially("Sum of @ord", delay=20)
        offer = panel.root.get_by_role("option", name=re.compile("^orders"))
        expect(offer).to_be_visible()
        expect(panel.root.locator(".cn-mentions pre")).to_contain_text("amount")
        notebook.shot("mention")
        panel.box.press("Tab")
        expect(panel.box).to_have_value("Sum of @orders ")
        panel.box.press("Enter")
        answered(panel, "Five orders.")
        expect(panel.message("user")).to_contain_text("@orders")

        button(panel.root, "More").click()
        panel.root.get_by_role("menuitem", name="Run an action").click()
        panel.root.get_by_role("combobox", name="Run an action").select_option("refund")
        panel.root.get_by_label("order").fill("77")
        notebook.shot("run-an-action")
        button(panel.root, "Run").click()
        notebook.wait_for_effect(lambda effect: effect.get("refund") == "77")
        expect(panel.cards.last).to_contain_text("Done")
        expect(panel.message("assistant")).to_contain_text("Five orders.")

        for name, ending in (("Markdown", "md"), ("HTML", "html"), ("JSON", "json"), ("notebook", "ipynb")):
            button(panel.root, "More").click()
            with notebook.page.expect_download() as download:
                panel.root.get_by_role("menuitem", name=f"Export as {name}").click()
            file = tmp_path / f"talk.{ending}"
            download.value.save_as(file)
            assert download.value.suggested_filename == f"input.{ending}"
            assert "Hello Ada." in file.read_text("utf-8")

        notebook.run_cell(2)
        assert notebook.effects()[-1] == {
            "outputs": [{"sum": 5, "inPage": True}, {"first": "Ada", "born": "1815-12-10", "likes": "tea"}],
            "files": [["a.csv", "text/csv"], ["b.md", "text/markdown"]],
            "mentioned": ["orders"],
        }
        expect(panel.root).to_have_attribute("data-connection", "live")


@IN_LAB
class TestBanners:
    """What a panel says when something has come between."""

    def test_offered_continued_discarded(self, open_notebook: OpenNotebook) -> None:
        """5.6 of widget.md: after a restart "Continue" goes on in the same message, "Discard" takes the offer away."""
        notebook = open_notebook(
            [
                HEAD,
                """
model = ScriptedModel([Reply(words(300), delay=0.05), Reply(words(300), delay=0.05)])
chat = Agent(model, recovery=Recovery(auto=False)).chat("offered")
chat.view(height="420px", transcript=False)
""",
            ]
        )
        for begin in ("Continue", "Discard"):
            notebook.run_all()
            panel = notebook.panel()
            if begin == "Continue":
                panel.send("Count")
                panel.texts_while_streaming(wanted=3)
                notebook.restart_kernel()
                notebook.run_all()
                panel = notebook.panel()
                notice = panel.root.get_by_text("The kernel stopped during this reply.")
                expect(notice).to_be_visible()
                notebook.shot("offered")
                button(panel.root, "Continue").click()
                panel.texts_while_streaming(wanted=3)
                expect(notice).to_have_count(0)
                expect(panel.articles).to_have_count(2)
                notebook.restart_kernel()
            else:
                button(panel.root, "Discard").click()
                expect(panel.root.get_by_text("The kernel stopped during this reply.")).to_have_count(0)
                panel.wait_for_status("ready")

    def test_a_held_reply(self, open_notebook: OpenNotebook) -> None:
        """Section 1 of widget.md: with `resume=False` a running reply is shown on a click."""
        notebook = open_notebook(
            [
                HEAD,
                """
chat = Agent(ScriptedModel([Reply(words(300), delay=0.05)])).chat("held")
sent = chat.send("Count")
chat.view(height="420px", resume=False, transcript=False)
""",
            ]
        )
        notebook.run_all()
        panel = notebook.panel()
        show = button(panel.root, "Show the running reply")
        expect(show).to_be_visible()
        expect(panel.root.locator("article[data-role=assistant]")).to_have_count(0)
        notebook.shot("held")
        show.click()
        panel.texts_while_streaming(wanted=3)
        expect(show).to_have_count(0)
        panel.stop_button.click()
        panel.wait_for_status("ready")

    def test_taken_over(self, open_notebook: OpenNotebook) -> None:
        """3.3 of widget.md: a chat that another process has taken can only be read, and be taken back by a click."""
        notebook = open_notebook(
            [
                HEAD,
                """
chat = Agent(ScriptedModel(["First.", "Second."])).chat("taken")
chat.view(height="420px", transcript=False)
""",
                """
import subprocess
code = "from chatnb import Agent; from chatnb.models import ScriptedModel; "
code += "Agent(ScriptedModel([])).chat('taken', take_over=True)"
subprocess.run([sys.executable, "-c", code], check=True)
""",
            ]
        )
        for index in (0, 1):
            notebook.run_cell(index)
        panel = notebook.panel()
        panel.send("Hello")
        answered(panel, "First.")
        notebook.run_cell(2)
        back = button(panel.root, "Take over")
        expect(back).to_be_visible(timeout=30_000)
        expect(panel.root).to_have_attribute("data-connection", "readonly")
        # Who: the process and the host (recovery.md, section 3: "its views say who took over").
        told = r"Process \d+ on \S+ has taken over this conversation. Here it can only be read."
        expect(panel.root).to_contain_text(re.compile(told))
        expect(button(panel.root, "Undo")).to_be_disabled()
        notebook.shot("taken-over")
        back.click()
        expect(back).to_have_count(0)
        panel.send("Again")
        answered(panel, "Second.")
        expect(panel.articles).to_have_count(4)

    def test_variables_offered_back(self, open_notebook: OpenNotebook) -> None:
        """Section 6 of notebook.md: names that undone code has bound anew are offered back, and restored by a click."""
        notebook = open_notebook(
            [
                HEAD,
                """
rate = 1
actions = notebook_actions(snapshot=True, approve_code=False)
model = ScriptedModel([Reply(calls=[("run_code", {"code": "rate = 2"})]), "Changed."])
chat = Agent(model, actions=actions).chat("restore")
chat.view(height="420px", transcript=False)
""",
                "effect(rate=rate)",
            ]
        )
        for index in (0, 1):
            notebook.run_cell(index)
        panel = notebook.panel()
        panel.send("Change it")
        answered(panel, "Changed.")
        notebook.run_cell(2)
        button(panel.root, "Undo").click()
        restore = button(panel.root, "Restore variables")
        expect(restore).to_be_visible()
        notebook.shot("restorable")
        restore.click()
        expect(restore).to_have_count(0)
        notebook.run_cell(2)
        assert [effect["rate"] for effect in notebook.effects()] == [2, 1]
