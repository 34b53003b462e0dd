"""What a panel's commands meet in each regime of ipykernel (spec/widget.md, section 8), on real kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.conftest import FindPython
from tests.hosts.environments import REGIMES
from tests.hosts.front_end import FrontEnd, PanelPage, is_end, is_of

pytestmark = pytest.mark.kernel

PRELUDE = """
import asyncio, time
from chatnb import Agent, action
from chatnb.models import Reply, ScriptedModel

ran = []

@action(needs_approval=True, run_in="thread")
def refund(order: str) -> str:
    "Refund an order."
    ran.append(order)
    return "paid"

@action(needs_approval=True, run_in="kernel")
def look(order: str) -> str:
    "Look at an order, on the main thread."
    ran.append(order)
    return "seen"

LONG = Reply("word " * 200, delay=0.02)

def open_chat(id, *steps):
    global chat, view
    ran.clear()
    chat = Agent(ScriptedModel(list(steps)), actions=[refund, look], store="sqlite:///:memory:").chat(id)
    view = chat.view(transcript=False)
    return view
"""
# An option is set first: from ipykernel 7.4 that send would draw the page's messages to the main shell.
CELLS = {
    "awaits": "view.title = 'Busy'; await asyncio.sleep(0.5); print('over', ran)",
    "blocks": "view.title = 'Busy'; time.sleep(0.5); print('over', ran)",
}
# Whether a command is taken while a cell awaits, and while one blocks.
DURING = {
    "6.31": {"awaits": False, "blocks": False},
    "7.3": {"awaits": True, "blocks": True},
    "7.4": {"awaits": True, "blocks": True},
}


@pytest.fixture(scope="module", params=list(REGIMES))
def regime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def front_end(regime: str, python_of: FindPython, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with FrontEnd(python_of(regime), tmp_path_factory.mktemp("regime")) as running:
        assert running.run("import ipykernel; print(ipykernel.__version__)").startswith(regime)
        running.run(PRELUDE)
        yield running


@pytest.fixture(scope="module")
def subshell(front_end: FrontEnd) -> str | None:
    """The one that JupyterLab makes for all panels of a page."""
    return front_end.new_subshell()


def open_panel(front_end: FrontEnd, subshell: str | None, id: str, *steps: str) -> PanelPage:
    """Show a chat in a cell of its own and say hello from a page."""
    comm = front_end.show(f"open_chat({', '.join([repr(id), *steps])})")
    page = PanelPage(front_end, comm, subshell)
    page.hello()
    return page


def ask_for(page: PanelPage, text: str = "go") -> dict[str, object]:
    """Send a text whose answer needs a decision, and return what the decision names."""
    assert page.ask("send", text=text)["ok"]
    item = page.wait_for_pending()
    page.wait_for_state(0, status="ready")
    return {"approvalId": item["approvalId"], "hash": item["hash"], "nonce": page.nonce}


class TestRegimes:
    @pytest.mark.parametrize("cell", list(CELLS))
    def test_approve_in_mid_cell(self, front_end: FrontEnd, subshell: str | None, regime: str, cell: str) -> None:
        """C13: Approve is taken while a cell awaits or blocks, or after it, as the table says; applied once."""
        page = open_panel(
            front_end, subshell, f"approve-{cell}", 'Reply(calls=[("refund", {"order": "7"})])', '"Paid."'
        )
        decision = ask_for(page)
        running = front_end.start(CELLS[cell])
        click = page.send("approve", **decision)
        printed = front_end.finish(running)
        end = front_end.wait_for(lambda message: is_end(message, running))
        assert (page.answered_at(click) < end) == DURING[regime][cell]
        assert page.answer(click)["ok"]
        assert printed == ("over ['7']\n" if DURING[regime][cell] else "over []\n")
        assert front_end.run("await chat.stable(20); print(chat.status, ran, len(chat.pending))") == "ready ['7'] 0\n"

    @pytest.mark.parametrize("cell", list(CELLS))
    def test_stop_in_mid_cell(self, front_end: FrontEnd, subshell: str | None, regime: str, cell: str) -> None:
        """Section 8: Stop ends a reply while a cell awaits or blocks, or after the cell, as the table says."""
        page = open_panel(front_end, subshell, f"stop-{cell}", "LONG")
        assert page.ask("send", text="go")["ok"]
        page.wait_for_state(0, status="streaming")
        running = front_end.start(CELLS[cell])
        since = len(front_end.published)
        click = page.send("stop")
        front_end.finish(running)
        end = front_end.wait_for(lambda message: is_end(message, running))
        assert (page.answered_at(click) < end) == DURING[regime][cell]
        place = page.wait_for_state(since, status="ready")
        assert (place < end) == DURING[regime][cell]
        assert front_end.run("print(0 < chat.messages[-1].text.count('word') < 200)") == "True\n"

    def test_a_call_in_need_of_the_kernel(self, front_end: FrontEnd, subshell: str | None, regime: str) -> None:
        """C13: a call for the main thread, approved while a cell blocks, runs after the cell, once."""
        page = open_panel(front_end, subshell, "kernel", 'Reply(calls=[("look", {"order": "7"})])', '"Seen."')
        decision = ask_for(page)
        running = front_end.start(CELLS["blocks"])
        click = page.send("approve", **decision)
        assert front_end.finish(running) == "over []\n"
        assert page.answer(click)["ok"]
        assert front_end.run("await chat.stable(20); print(chat.messages[-1].text, ran)") == "Seen. ['7']\n"

    def test_result_never_hangs(self, front_end: FrontEnd, subshell: str | None) -> None:
        """Section 8: `.result()` of a turn that needs a decision returns `awaiting`, wherever commands arrive."""
        open_panel(front_end, subshell, "result", 'Reply(calls=[("refund", {"order": "7"})])', '"Paid."')
        assert front_end.run("print(chat.send('go').result(20).status)") == "awaiting\n"

    def test_stop_while_result_blocks(self, front_end: FrontEnd, subshell: str | None, regime: str) -> None:
        """Section 8: Stop reaches a turn that a cell waits for by `.result()`; on 6 it ends by itself."""
        steps = "LONG" if DURING[regime]["blocks"] else '"short"'
        page = open_panel(front_end, subshell, "result-stop", steps)
        running = front_end.start("print(chat.send('go').result(20).status)")
        if DURING[regime]["blocks"]:
            page.wait_for_state(0, status="streaming")
        click = page.send("stop")
        printed = front_end.finish(running)
        assert page.answer(click)["ok"]
        assert printed == ("stopped\n" if DURING[regime]["blocks"] else "completed\n")

    def test_how_commands_are_delivered_is_found_out(
        self, front_end: FrontEnd, subshell: str | None, regime: str
    ) -> None:
        """Section 8: a subshell in a command's header shows parallel delivery; ipykernel 6 has none, and says so."""
        page = open_panel(front_end, subshell, "delivery")
        page.ask("stop")
        page.wait_for_state(0, delivery="parallel" if DURING[regime]["blocks"] else "between-cells")

    def test_a_page_moves_no_trait(self, front_end: FrontEnd, subshell: str | None) -> None:
        """C33: a page that sends state updates moves no trait, whatever it sends."""
        page = open_panel(front_end, subshell, "updates", '"hi"')
        front_end.run("from chatnb.widget import ChatWidget; w = chat.view(transcript=False); before = w.get_state()")
        page.update(status="error", messages=[1], pending=[1], _snapshot={"x": 1}, _esm="bad", _css="bad", queue=3)
        page.update(height="javascript:1", theme=7, suggestions={"a": 1}, title=["x"])
        assert page.ask("stop")["ok"]
        # The panel that the page is of is the one whose comm it knows.
        code = """
from ipywidgets.widgets.widget import _instances
w = _instances[%r]
print(w.status, w.messages, tuple(w.pending), w.queue, w._snapshot, "bad" in (w._esm, w._css), w.height, w.theme,
      w.suggestions, w.title)
"""
        printed = front_end.run(code % page._comm_id)
        assert printed == "ready () () () {} False 560px auto () None\n"
        assert not [m for m in front_end.published if is_of(m, "", "error")]


class TestWithoutSubshells:
    """A host that names no subshell, as VS Code: the same kernels, another way of delivery."""

    def test_commands_wait_for_a_cell_that_blocks(self, front_end: FrontEnd, regime: str) -> None:
        """Section 8: the command takes effect after the cell, once, and the panel finds out that it waited."""
        page = open_panel(front_end, None, "plain", 'Reply(calls=[("refund", {"order": "7"})])', '"Paid."')
        decision = ask_for(page)
        running = front_end.start(CELLS["blocks"].replace("0.5", "1"))
        click = page.send("approve", **decision)
        assert front_end.finish(running) == "over []\n"
        assert page.answer(click)["ok"]
        page.wait_for_state(0, delivery="between-cells")
        assert front_end.run("await chat.stable(20); print(ran)") == "['7']\n"
