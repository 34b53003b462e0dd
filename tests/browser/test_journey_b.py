"""Journey B: a data scientist analyses a frame at work. All of its steps; the ninth before the eighth."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import nbclient
import nbformat
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter_server import App, JupyterServer
from tests.browser.notebook_page import EFFECT
from tests.browser.test_approvals import button, press
from tests.browser.test_notebook_side import approval

DATA = """
import sqlite3, threading
import pandas as pd

db = sqlite3.connect(":memory:")  # bound to this thread
db.executescript("create table customers (name text); insert into customers values ('Ada'), ('Bob');")
orders = pd.DataFrame({"amount": [10, 12, 14, 900, 300], "region": ["north", "south", "north", "south", "north"]})
"""
# The model is the strict fake of Claude's API, and what it answers is a script.
AGENT = """
%load_ext chatnb
import os
effect(pid=os.getpid())
from chatnb import Agent
from chatnb.kernel.actions import notebook_actions
from chatnb.models import AnthropicModel, Reply
from chatnb.testing import FakeAnthropic

def count_customers() -> int:
    "Count the customers."
    effect(main=threading.current_thread() is threading.main_thread())
    return db.execute("select count(*) from customers").fetchone()[0]

def customer_names() -> list[str]:
    "List the customers' names."
    return [row[0] for row in db.execute("select name from customers")]

def code(text):
    return [("run_code", {"code": text})]

plot = '''import matplotlib.pyplot as plt
outliers = orders[orders.amount > 100]
fig, ax = plt.subplots()
ax.plot(orders.amount)'''
words = " ".join(f"word{n}" for n in range(40))
server = FakeAnthropic([
    Reply("Let me plot them.", calls=code(plot)), "One order stands out.",
    Reply(f"I count. {words}", calls=[("count_customers", {})], delay=0.02), "There are 2 customers.",
    Reply("One moment.", calls=code("while True: pass")),
    "I am still here.",
    Reply("I drop them.", calls=code("orders = orders[orders.amount < 100]")), "They are gone.",
    "A short answer.",
    Reply("One more look.", calls=code("late = len(orders)")),
]).__enter__()
os.environ["ANTHROPIC_API_KEY"] = "sk-ant-planted-0123456789abcdef"
model = AnthropicModel("claude-sonnet-4-5", base_url=server.url)
agent = Agent(model, name="analyst", actions=[count_customers, customer_names, *notebook_actions(snapshot=True)])
chat = agent.chat("analysis")
"""
LONG = """
def old(n):
    text = f"Talk {n}. " * 20
    return {"id": f"old-{n}", "role": ("user", "assistant")[n % 2], "parts": [{"type": "text", "text": text}]}
chat.set_messages([*chat.messages, *(old(n) for n in range(300))])
"""
END = """
frame = chat.usage.to_frame()
effect(turns=len(frame), cost=float(frame.cost.sum()), models=sorted(set(frame.model)), status=list(frame.status))
chat.export("ipynb", "analysis.ipynb")
effect(key="planted" in chat.export("json") + str(server.requests))
"""

# In the morning the model's script goes on behind the approval that waits; what it is sent is looked at.
MORNING = 'server = FakeAnthropic(["It has 5 rows.", "Good morning."]).__enter__()'
TOLD = """
sent = str(server.requests[0])
effect(late=late, gone="kernel was restarted" in sent and "gone" in sent, orders="orders" in sent)
"""


@pytest.fixture
def server(servers: Callable[[App], JupyterServer], browser: Browser) -> JupyterServer:
    """JupyterLab."""
    return servers("lab")


class TestJourneyB:
    """One long day."""

    def test_steps_1_to_9(self, open_notebook: OpenNotebook) -> None:
        # 1. An agent with the notebook's actions and two functions on a connection of this thread.
        notebook = open_notebook(
            [
                *(EFFECT, DATA, AGENT, 'chat.view(height="640px")'),
                *("effect(outliers=list(outliers.head().amount))", "import time; time.sleep(6)"),
                *("effect(rows=len(orders))", LONG, END, TOLD),
            ]
        )
        for index in range(4):
            notebook.run_cell(index)
        panel = notebook.panel()

        # 2. "@orders": the preview shows exactly what will be sent.
        panel.box.click()
        panel.box.press_sequentially("@ord")
        expect(panel.root.locator(".cn-mentions pre")).to_contain_text("5 rows x 2 columns")
        notebook.shot("journey-b-2")
        panel.box.press("Enter")
        panel.box.press_sequentially("what is odd here?")
        panel.box.press("Enter")

        # 3. They read the code in the card, change a line, approve: figure, new name, and the next cell has it.
        card = approval(panel)
        expect(card).to_contain_text("orders.amount > 100")
        press(notebook, button(card, "Edit arguments"))
        field = card.get_by_label("code")
        field.fill(field.input_value().replace("> 100", "> 500"))
        press(notebook, button(card, "Approve"))
        expect(panel.message("assistant")).to_contain_text("One order stands out.")
        expect(panel.cards.first.get_by_role("img").first).to_be_visible()
        expect(panel.cards.first).to_contain_text("edited by you")
        panel.cards.first.scroll_into_view_if_needed()
        notebook.shot("journey-b-3")
        notebook.run_cell(4)
        assert notebook.effects()[-1] == {"outliers": [900]}

        # 4. A cell computes: the chat streams on, and the action that needs the kernel says that it waits.
        notebook.run_cell(5, wait=False)
        panel.send("How many customers?")
        expect(panel.message("assistant")).to_contain_text("word39")
        expect(panel.cards.last).to_contain_text("Waiting for kernel")
        notebook.shot("journey-b-4")
        panel.wait_for_reply(2)
        expect(panel.message("assistant")).to_contain_text("There are 2 customers.")
        assert notebook.effects()[-1] == {"main": True}

        # 5. Code that never ends: Stop. The talk is whole, and the next question works.
        panel.send("Compute for ever")
        press(notebook, button(approval(panel), "Approve"))
        expect(panel.cards.last).to_contain_text("Running")
        began = time.monotonic()
        panel.stop_button.click()
        panel.wait_for_status("ready")
        assert time.monotonic() - began < 3
        panel.send("Are you there?")
        expect(panel.message("assistant")).to_contain_text("I am still here.")
        panel.wait_for_status("ready")

        # 6. A wrong turn: the code rebinds `orders`. Rolled back, the old object is offered.
        panel.send("Drop the outliers")
        press(notebook, button(approval(panel), "Approve"))
        expect(panel.message("assistant")).to_contain_text("They are gone.")
        panel.wait_for_status("ready")
        notebook.run_cell(6)
        assert notebook.effects()[-1] == {"rows": 3}
        panel.root.get_by_role("button", name="Undo", exact=True).click()
        restore = panel.root.get_by_role("button", name="Restore variables")
        expect(restore).to_be_visible()
        notebook.shot("journey-b-6")
        restore.click()
        expect(restore).to_have_count(0)
        notebook.run_cell(6)
        assert notebook.effects()[-1] == {"rows": 5}

        # 7. 300 messages later the panel is as quick, and the frame says what the day cost.
        notebook.run_cell(7)
        expect(panel.root).to_contain_text("Talk 299.")
        began = time.monotonic()
        panel.send("One more")
        expect(panel.message("assistant")).to_contain_text("A short answer.")
        assert time.monotonic() - began < 5
        panel.wait_for_status("ready")
        notebook.run_cell(8)
        cost, secrets = notebook.effects()[-2:]
        assert cost["models"] == ["claude-sonnet-4-5"]
        assert cost["cost"] > 0
        assert "stopped" in cost["status"]
        assert secrets == {"key": False}

        # 9. A clean notebook of the approved code, which runs.
        analysis = nbformat.read(notebook.path.with_name("analysis.ipynb"), as_version=4)
        nbformat.validate(analysis)
        [code] = [cell for cell in analysis.cells if cell.cell_type == "code"]
        assert "orders.amount > 500" in code.source
        analysis.cells.insert(0, nbformat.v4.new_code_cell(DATA))
        nbclient.NotebookClient(analysis, timeout=60, kernel_name="python3").execute()

        # 8. An approval waits. The laptop sleeps, the kernel dies, the browser reloads. In the morning everything is
        # there, the approval still waits and works, once, and the model is told that variables are gone.
        panel.send("Look once more")
        expect(approval(panel)).to_contain_text("late = len(orders)")
        panel.wait_for_status("ready")
        count = panel.articles.count()
        # The transcript is written once a turn has settled, and what is saved is what is there then.
        notebook.page.wait_for_function(
            "() => [...document.querySelectorAll('.chatnb-transcript')]"
            ".some(e => e.textContent.includes('Look once more'))"
        )
        notebook.save()
        pid = next(effect["pid"] for effect in notebook.effects() if "pid" in effect)
        os.kill(pid, signal.SIGSTOP)
        notebook.page.wait_for_timeout(3_000)
        os.kill(pid, signal.SIGKILL)
        expect(panel.root).to_contain_text("The kernel was restarted", timeout=30_000)
        expect(button(approval(panel), "Approve")).to_be_disabled()
        expect(panel.articles).to_have_count(count)
        notebook.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
        notebook.reload()
        saved = notebook.page.locator(".chatnb-view, .chatnb-transcript").first
        expect(saved).to_contain_text("Look once more")
        notebook.shot("journey-b-8-evening")
        script = notebook.cell_sources()[2]
        begin, end = script.index("server = FakeAnthropic("), script.index("os.environ")
        notebook.set_cell(2, script[:begin] + MORNING + "\n" + script[end:])
        for index in range(4):
            notebook.run_cell(index)
        panel = notebook.panel()
        expect(panel.articles).to_have_count(50)
        expect(panel.message("user")).to_contain_text("Look once more")
        expect(approval(panel)).to_contain_text("late = len(orders)")
        notebook.shot("journey-b-8-morning")
        press(notebook, button(approval(panel), "Approve"))
        expect(panel.message("assistant")).to_contain_text("It has 5 rows.")
        panel.wait_for_status("ready")
        notebook.run_cell(9)
        assert notebook.effects()[-1] == {"late": 5, "gone": True, "orders": True}
        panel.send("And good morning")
        expect(panel.message("assistant")).to_contain_text("Good morning.")
