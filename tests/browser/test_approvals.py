"""Approvals in a real notebook: by click, edited, rejected, after a reload and a restart (issue 3, widget.md 5.4)."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook, everywhere, in_lab_and_served
from tests.browser.notebook_page import EFFECT, NotebookPage, Panel

# The card is one piece of code; in Notebook one test of it is enough.
in_lab = pytest.mark.parametrize("server", ["lab"], indirect=True)
in_lab_and_notebook = pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
REFUND = 'Reply(calls=[("refund", {"order": "7", "amount": 250})])'
THREE = (
    'Reply(calls=[("refund", {"order": "1", "amount": 201}), ("refund", {"order": "2", "amount": 202}), '
    '("refund", {"order": "3", "amount": 203})])'
)


def cells(*steps: str, views: int = 1) -> list[str]:
    """A notebook with a gated action that counts its runs in a file."""
    return [
        EFFECT,
        f'''
import time
from chatnb import Agent, action, ActionContext
from chatnb.models import Reply, ScriptedModel

@action(needs_approval=lambda args, ctx: args["amount"] > 100, title="Refund an order")
def refund(order: str, amount: float) -> dict:
    """Refund an order.

    Args:
        order: The order's number.
        amount: Euros.
    """
    effect(refund=order, amount=amount)
    return {{"order": order, "paid": amount}}

@action(read_only=True, run_in="thread")
def long(ctx: ActionContext, steps: int = 40) -> str:
    """Work for a while."""
    for done in range(steps):
        ctx.progress(done, steps, f"step {{done}}")
        time.sleep(0.1)
    return "worked"

model = ScriptedModel([{", ".join(steps)}])
chat = Agent(model, actions=[refund, long]).chat("approvals")
''',
        *['chat.view(height="520px", transcript=False)'] * views,
    ]


def ask(panel: Panel, index: int = 0) -> Locator:
    return panel.root.get_by_role("group", name="Approval needed: refund").nth(index)


def button(card: Locator, name: str) -> Locator:
    return card.get_by_role("button", name=name, exact=True)


def refunds(notebook: NotebookPage) -> list[tuple[str, float]]:
    return [(e["refund"], e["amount"]) for e in notebook.effects() if "refund" in e]


def settle(notebook: NotebookPage, panel: Panel, text: str) -> None:
    expect(panel.message("assistant")).to_contain_text(text, timeout=30_000)
    panel.wait_for_status("ready")


def press(notebook: NotebookPage, control: Locator) -> None:
    """Click, once the card has been in view long enough to take a decision."""
    expect(control).to_be_enabled()
    control.scroll_into_view_if_needed()
    notebook.page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 400))")
    control.click()


class TestDecisions:
    """A person decides on the card."""

    @everywhere
    def test_approve_by_click(self, open_notebook: OpenNotebook) -> None:
        """C15 of actions.md: the ask shows all arguments; Approve runs it once and the answer goes on."""
        notebook = open_notebook(cells(REFUND, '"Paid back."'))
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Refund order 7")
        expect(ask(panel)).to_contain_text("250")
        expect(ask(panel)).to_contain_text("7")
        notebook.shot("approval")
        assert refunds(notebook) == []
        press(notebook, button(ask(panel), "Approve"))
        settle(notebook, panel, "Paid back.")
        expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_have_count(0)
        assert refunds(notebook) == [("7", 250)]

    @everywhere
    def test_edit_then_approve(self, open_notebook: OpenNotebook) -> None:
        """C6 of widget.md: an empty amount is a field error and still pending; then the handler gets 50."""
        notebook = open_notebook(cells(REFUND, '"Paid back."'))
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Refund order 7")
        card = ask(panel)
        press(notebook, button(card, "Edit arguments"))
        amount = card.get_by_label("amount")
        amount.fill("")
        press(notebook, button(card, "Approve"))
        expect(card).to_be_visible()
        assert refunds(notebook) == []
        amount.fill("50")
        press(notebook, button(card, "Approve"))
        settle(notebook, panel, "Paid back.")
        expect(panel.cards.first).to_contain_text("edited by you")
        expect(panel.cards.first).to_contain_text("250")
        notebook.shot("approval-edited")
        assert refunds(notebook) == [("7", 50)]

    @in_lab_and_served
    def test_reject_with_a_reason(self, open_notebook: OpenNotebook) -> None:
        """C20 of actions.md: nothing runs; the card says denied and why; the model goes on."""
        notebook = open_notebook(cells(REFUND, '"As you wish."'))
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Refund order 7")
        card = ask(panel)
        card.get_by_role("textbox").fill("too much")
        press(notebook, button(card, "Reject"))
        settle(notebook, panel, "As you wish.")
        expect(panel.cards.first).to_contain_text("Denied")
        expect(panel.cards.first).to_contain_text("too much")
        assert refunds(notebook) == []

    @in_lab_and_served
    def test_three_asks_in_any_order(self, open_notebook: OpenNotebook) -> None:
        """Three asks of one step are three cards; the answer goes on after the last, whichever that is."""
        notebook = open_notebook(cells(THREE, '"All decided."'))
        notebook.run_all()
        panel = notebook.panel()
        panel.send("Refund three")
        expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_have_count(3)
        press(notebook, button(ask(panel, 2), "Approve"))
        expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_have_count(2)
        press(notebook, button(ask(panel, 0), "Reject"))
        expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_have_count(1)
        press(notebook, button(ask(panel, 0), "Approve"))
        settle(notebook, panel, "All decided.")
        assert sorted(refunds(notebook)) == [("2", 202), ("3", 203)]

    @in_lab_and_served
    def test_decided_in_the_next_cell(self, open_notebook: OpenNotebook) -> None:
        """`chat.approve()` in a cell closes the card in every view."""
        notebook = open_notebook([*cells(REFUND, '"Paid back."', views=2), "chat.approve();"])
        for index in range(4):
            notebook.run_cell(index)
        first, second = notebook.panel(0), notebook.panel(1)
        first.send("Refund order 7")
        expect(ask(second)).to_be_visible()
        notebook.run_cell(4)
        for panel in (first, second):
            settle(notebook, panel, "Paid back.")
            expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_have_count(0)
        assert refunds(notebook) == [("7", 250)]


class TestLasting:
    """An ask outlives page and kernel."""

    @in_lab_and_notebook
    def test_after_reload_and_restart(self, open_notebook: OpenNotebook) -> None:
        """C3 of widget.md: the card's Approve is live after a reload and after a kernel restart; it runs once."""
        notebook = open_notebook(cells(REFUND, '"Paid back."'))
        notebook.run_all()
        notebook.panel().send("Refund order 7")
        expect(ask(notebook.panel())).to_be_visible()
        notebook.panel().wait_for_status("ready")
        notebook.save()
        notebook.reload()
        expect(button(ask(notebook.panel()), "Approve")).to_be_enabled()
        notebook.restart_kernel()
        sources = notebook.cell_sources()
        # The new kernel's script begins where the answer goes on.
        notebook.page.evaluate(
            "([index, text]) => { window.jupyterapp.shell.currentWidget.content.widgets[index]"
            ".model.sharedModel.setSource(text); return null; }",
            [1, sources[1].replace(f"[{REFUND}, ", "[")],
        )
        notebook.run_all()
        panel = notebook.panel()
        press(notebook, button(ask(panel), "Approve"))
        settle(notebook, panel, "Paid back.")
        assert refunds(notebook) == [("7", 250)]


class TestProgress:
    """A long action shows how far it is."""

    @in_lab
    def test_a_bar_that_moves(self, open_notebook: OpenNotebook) -> None:
        """The bar moves while the cell is free and while a cell computes."""
        notebook = open_notebook([*cells('Reply(calls=[("long", {})])', '"Done it."'), "time.sleep(2)"])
        for index in range(3):
            notebook.run_cell(index)
        panel = notebook.panel()
        panel.send("Work")
        bar = panel.root.get_by_role("progressbar").first
        expect(bar).to_be_visible()
        read = "bar => Number(bar.getAttribute('aria-valuenow') ?? bar.value ?? 0)"
        before = bar.evaluate(read)
        notebook.page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 500))")
        free = bar.evaluate(read)
        assert free > before
        notebook.run_cell(3, wait=False)
        notebook.page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 1000))")
        notebook.shot("progress")
        assert bar.evaluate(read) > free
        settle(notebook, panel, "Done it.")
