"""A chat in a real notebook, with a scripted model: it streams, calls, stops, and outlives page and kernel."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook, everywhere
from tests.browser.notebook_page import EFFECT, NotebookPage

CALL = 'Reply(calls=[("lookup", {"region": "EU"})])'
REPORT = """
text = chat.messages[-1].text if chat.messages else ""
effect(status=chat.status, words=len(text.split()), messages=len(chat.messages))
"""


def cells(*steps: str, views: int = 1) -> list[str]:
    """A notebook with an agent that answers by these steps, its panels, and a last cell that reports the history."""
    return [
        EFFECT,
        f'''
from chatnb import Agent
from chatnb.models import Reply, ScriptedModel

def words(count):
    return " ".join(f"word{{n}}" for n in range(count))

def lookup(region: str) -> dict:
    """Look up the sales of a region."""
    effect(lookup=region)
    return {{"region": region, "amount": 1250}}

model = ScriptedModel([{", ".join(steps)}])
chat = Agent(model, actions=[lookup]).chat("live")
''',
        *['chat.view(height="340px", transcript=False)'] * views,
        REPORT,
    ]


def words_in(message: Locator) -> list[str]:
    """The scripted words that a message shows, in order."""
    return re.findall(r"word\d+", message.text_content() or "")


def words_up_to(count: int) -> list[str]:
    return [f"word{number}" for number in range(count)]


def report(notebook: NotebookPage) -> dict[str, object]:
    """What the kernel says of the chat now."""
    notebook.run_cell(len(notebook.cell_sources()) - 1)
    return notebook.effects()[-1]


@everywhere
class TestStream:
    """A reply can be watched while it comes."""

    def test_a_reply_streams(self, open_notebook: OpenNotebook) -> None:
        """At least three intermediate texts show, each longer than the one before; the end is whole."""
        notebook = open_notebook(cells("Reply(words(100), delay=0.03)"))
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Hello")
        expect(panel.stop_button).to_be_visible()
        counts = [len(re.findall(r"word\d+", text)) for text in panel.texts_while_streaming(wanted=5)]
        notebook.shot("streaming")
        seen = [count for count in counts if 0 < count < 100]
        assert len(set(seen)) >= 3, counts
        assert seen == sorted(seen)
        panel.wait_for_status("ready")
        assert words_in(panel.message("assistant")) == words_up_to(100)
        expect(panel.stop_button).to_be_hidden()
        expect(panel.send_button).to_be_visible()
        assert report(notebook) == {"status": "ready", "words": 100, "messages": 2}

    def test_a_call_shows_a_card_with_its_result(self, open_notebook: OpenNotebook) -> None:
        notebook = open_notebook(cells(CALL, '"There were 1250."'))
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Look it up")
        panel.wait_for_reply()
        expect(panel.cards).to_have_count(1)
        expect(panel.cards).to_contain_text("Done")
        expect(panel.cards).to_contain_text("EU")
        expect(panel.cards).to_contain_text("1250")
        expect(panel.message("assistant")).to_contain_text("There were 1250.")
        notebook.shot("card")
        assert [effect for effect in notebook.effects() if "lookup" in effect] == [{"lookup": "EU"}]


@everywhere
class TestStop:
    """Stop ends a reply at once and keeps what came."""

    def test_in_mid_stream(self, open_notebook: OpenNotebook) -> None:
        notebook = open_notebook(cells("Reply(words(400), delay=0.05)", '"After the stop."'))
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Hello")
        panel.texts_while_streaming(wanted=3)
        panel.stop_button.click()
        panel.wait_for_status("ready")
        notebook.shot("stopped")
        kept = words_in(panel.message("assistant"))
        assert 0 < len(kept) < 400
        assert kept == words_up_to(len(kept))
        assert report(notebook) == {"status": "ready", "words": len(kept), "messages": 2}
        panel.send("Go on")
        expect(panel.message("assistant")).to_contain_text("After the stop.")


@everywhere
class TestReload:
    """The page may go and come back; the kernel goes on."""

    def test_in_mid_stream(self, open_notebook: OpenNotebook) -> None:
        """C2 of widget.md: history and stream are back; the text is complete and not doubled."""
        notebook = open_notebook(cells("Reply(words(240), delay=0.04)"))
        notebook.run_all()
        notebook.save()
        panel = notebook.panel()
        panel.send("Hello")
        panel.texts_while_streaming(wanted=3)
        notebook.reload()
        panel = notebook.panel()
        expect(panel.message("user")).to_contain_text("Hello")
        expect(panel.root).to_have_attribute("data-status", "streaming")
        notebook.shot("reloaded")
        panel.wait_for_status("ready")
        assert words_in(panel.message("assistant")) == words_up_to(240)
        expect(panel.articles).to_have_count(2)
        assert report(notebook) == {"status": "ready", "words": 240, "messages": 2}


@everywhere
class TestViews:
    """Many views show one chat."""

    def test_two_stay_in_step(self, open_notebook: OpenNotebook) -> None:
        """C1 of widget.md, its live half: what is sent in one streams in the other, to the same end."""
        notebook = open_notebook(cells("Reply(words(100), delay=0.03)", '"And again."', views=2))
        notebook.run_all()
        first, second = notebook.panel(0), notebook.panel(1)
        first.send("Hello")
        texts = second.texts_while_streaming(wanted=3)
        assert len(words_in(second.message("assistant"))) > 0
        assert len(set(texts)) == 3
        expect(second.stop_button).to_be_visible()
        for panel in (first, second):
            panel.wait_for_reply()
            assert words_in(panel.message("assistant")) == words_up_to(100)
        second.send("Once more")
        for panel in (first, second):
            expect(panel.message("assistant")).to_contain_text("And again.")
            expect(panel.articles).to_have_count(4)
        notebook.shot("two-views")


class TestRestart:
    """A new kernel finds the conversation."""

    def test_then_run_again(self, open_notebook: OpenNotebook) -> None:
        notebook = open_notebook(cells('"The first answer."', '"The second answer."'))
        notebook.run_all()
        notebook.panel().send("Remember this")
        expect(notebook.panel().wait_for_reply()).to_contain_text("The first answer.")
        notebook.restart_kernel()
        expect(notebook.page.locator(".chatnb-view").first).to_contain_text(
            "The kernel was restarted. The conversation is saved; run the cell to go on."
        )
        notebook.shot("restarted")
        notebook.run_all()
        panel = notebook.panel()
        expect(panel.message("user")).to_contain_text("Remember this")
        expect(panel.message("assistant")).to_contain_text("The first answer.")
        expect(panel.articles).to_have_count(2)
        panel.send("And now?")
        panel.wait_for_reply(2)
        assert report(notebook)["messages"] == 4


# What ruins a notebook in command mode: new cells, cut, delete, restart, interrupt; then the keys that run cells.
KEYS = "abxdd00ii"
RUNNING_KEYS = ("Shift+Enter", "Control+Enter", "Delete")


class TestKeyboard:
    """What is typed in the panel stays there."""

    @pytest.mark.parametrize("server", ["served"], indirect=True)
    def test_keys_of_the_box(self, open_notebook: OpenNotebook) -> None:
        """C26 of widget.md, in a page of its own: the text is intact, Shift+Enter breaks the line."""
        notebook = open_notebook(cells('"Heard."'))
        notebook.run_all()
        panel, before = notebook.panel(), notebook.cell_sources()
        panel.box.click()
        panel.box.press_sequentially("abxdd")
        panel.box.press("Shift+Enter")
        panel.box.press_sequentially("00ii")
        expect(panel.box).to_have_value("abxdd\n00ii")
        panel.box.press("Enter")
        expect(panel.message("assistant")).to_contain_text("Heard.")
        expect(panel.message("user")).to_contain_text("abxdd")
        assert notebook.cell_sources() == before

    def test_keys_change_no_cell(self, open_notebook: OpenNotebook) -> None:
        """C26 of widget.md: in command mode, in each control: cells are unchanged and not run, the text is intact."""
        notebook = open_notebook(
            [
                EFFECT,
                '''
from chatnb import Agent, ClientTool, action
from chatnb.models import Reply, ScriptedModel

orders = [1, 2, 3]

@action(needs_approval=True)
def refund(order: str, amount: float = 5.0) -> str:
    """Pay back."""
    effect(refund=order)
    return "paid"

fields = {"type": "object", "properties": {"first": {"type": "string"}, "likes": {"enum": ["tea", "coffee"]}}}
who = ClientTool(name="who", description="Asks", parameters={"type": "object", "properties": {}}, form=fields)
model = ScriptedModel(["Heard.", Reply(calls=[("refund", {"order": "7"}), ("who", {})])])
chat = Agent(model, actions=[refund]).chat("keys")
''',
                'chat.view(height="700px", client_tools=[who], transcript=False)',
            ]
        )
        notebook.run_all()
        panel, before = notebook.panel(), notebook.cell_states()
        keyboard = notebook.page.keyboard
        button = panel.root.get_by_role

        def type_into(field: Locator, text: str | None = KEYS) -> None:
            field.focus()
            keyboard.press("End")
            keyboard.type(KEYS)
            for key in RUNNING_KEYS:
                keyboard.press(key)
            if text is not None:
                expect(field).to_have_value(text)

        notebook.command_mode()
        type_into(panel.box, KEYS + "\n")
        panel.box.fill("abxdd")
        panel.box.press("Enter")
        expect(panel.message("assistant")).to_contain_text("Heard.")
        expect(panel.message("user")).to_contain_text("abxdd")
        panel.send("Two asks")
        ask = panel.root.get_by_role("group", name="Approval needed: refund")
        expect(ask).to_be_visible()
        panel.wait_for_status("ready")

        notebook.command_mode()
        type_into(ask.get_by_label("Reason (optional)"))
        ask.get_by_role("button", name="Edit arguments").click()
        type_into(ask.get_by_label("order"), "7" + KEYS)
        type_into(ask.get_by_label("amount"), "5" + KEYS)
        form = panel.cards.last
        type_into(form.get_by_label("first"))
        type_into(form.get_by_label("likes"), None)
        first = panel.message("user", 0)
        first.hover()
        first.get_by_role("button", name="Edit", exact=True).click()
        # In a box of lines Shift+Enter and Control+Enter may break the line, and nothing else.
        edit = first.get_by_role("textbox", name="Edit message")
        type_into(edit, None)
        assert edit.input_value().rstrip("\n") == "abxdd" + KEYS
        button("button", name="More").click()
        for key in (*KEYS, "Delete"):
            keyboard.press(key)
        panel.root.get_by_role("menuitem", name="Run an action").click()
        type_into(panel.root.get_by_role("combobox", name="Run an action"), None)
        run = panel.root.get_by_role("region", name="Run an action")
        type_into(run.get_by_label("order"))
        run.get_by_role("button", name="Cancel").click()
        panel.box.fill("")
        panel.box.press_sequentially("Of @ord")
        expect(panel.root.get_by_role("option", name=re.compile("^orders"))).to_be_visible()
        for key in ("Delete", "ArrowDown", "Escape"):
            keyboard.press(key)
        expect(panel.box).to_have_value("Of @ord")
        undo, attach = button("button", name="Undo"), button("button", name="Attach files")
        for place in (panel.log, panel.articles.first, undo, attach):
            place.focus()
            keyboard.type(KEYS)
            keyboard.press("Delete")
        assert notebook.cell_states() == before
        assert [effect for effect in notebook.effects() if "refund" in effect] == []
        expect(panel.articles).to_have_count(4)
