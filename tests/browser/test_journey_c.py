"""Journey C: somebody prototypes an agent. Its steps 1 to 5; step 6 is `test_journey_c_step_6.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter_server import ROOT, App, JupyterServer
from tests.browser.notebook_page import EFFECT

MODEL = """
from typing import Literal
from pydantic import BaseModel
from chatnb import Agent, compare
from chatnb.models import RecordedModel, Reply, ScriptedModel

look = Reply(calls=[("price", {"item": "tea"})])
model = ScriptedModel([
    look, "That is the price.", look, "That is the new price.", "Esteemed customer, it is 3.5.", "From a cell.",
])

class RetryFormal(BaseModel):
    type: Literal["retry-formal"]
"""
DEFINITION = """
def price(item: str) -> float:
    "Look up a price."
    return 2.5

agent = Agent(model, name="shop", actions=[price], chat_actions=RetryFormal)

@agent.on_action
def retry_formal(event):
    event.chat.history.slice(0, -1)
    event.chat.inject([("system", "Answer formally.")])
    return event.turn()

@agent.on_turn_complete
def count(event):
    effect(turn=event.turn_number)

chat = agent.chat("prototype")
"""
RETRY = """
outcome = await chat.act({"type": "retry-formal"})
effect(status=outcome.status, texts=[m.text for m in chat.messages], asked=str(model.requests[-1].messages))
"""
FROM_A_CELL = """
outcome = await chat.send("And from a cell?")
effect(status=outcome.status, text=outcome.text, asked=str(model.requests[-1].messages[-1]))
"""
COMPARE = """
def two():
    return [ScriptedModel([Reply(f"{name} says so.", delay=0.05)], name=name) for name in ("ada", "bob")]
comparisons = [compare(prompt, models=two(), chat=chat) for prompt in ("Briefly?", "At length?")]
for comparison in comparisons:
    display(comparison)
frames = [await comparison for comparison in comparisons]
effect(models=[list(f.model) for f in frames], texts=[list(f.text) for f in frames], messages=len(chat.messages))
"""
MODULE = """
%%writefile prototype.py
from pathlib import Path
from chatnb import Agent, action

@action(read_only=True)
def price(item: str) -> float:
    "Look up a price."
    return 2.5

@action
def order(item: str) -> str:
    "Order an item."
    with Path("ordered.txt").open("a") as file:
        file.write(item + "\\n")
    return "ordered"

@action(needs_approval=True)
def refund(item: str) -> str:
    "Refund an item."
    return f"refunded {item}"

def make_agent(model):
    return Agent(model, name="shop", actions=[price, order, refund])
"""
RECORD = """
from prototype import make_agent
recorder = RecordedModel("good.jsonl", ScriptedModel([look, "Tea is 2.5."]), mode="record")
effect(recorded=(await make_agent(recorder).chat("record").send("What is the price of tea?")).text)
"""
TESTS = """
%%writefile test_prototype.py
import os, signal, subprocess, sys
from pathlib import Path
from chatnb.models import RecordedModel, Reply, ScriptedModel
from chatnb.testing import mock_chat
from prototype import make_agent

asks = Reply(calls=[("refund", {"item": "tea"})])

async def test_the_good_run():
    agent = make_agent(RecordedModel("good.jsonl", mode="replay", speed=None))
    async with mock_chat(agent) as mock:
        assert (await mock.chat.send("What is the price of tea?")).text == "Tea is 2.5."

async def test_a_changed_prompt():
    agent = make_agent(RecordedModel("good.jsonl", mode="replay", speed=None))
    async with mock_chat(agent) as mock:
        assert "RecordingDriftError" in (await mock.chat.send("What?")).error.message

async def test_a_refund_waits():
    async with mock_chat(make_agent(ScriptedModel([asks, "Done."]))) as mock:
        assert (await mock.chat.send("refund")).status == "awaiting"
        assert (await mock.chat.approve()).text == "Done."

async def test_a_refund_waits_over_a_restart():
    async with mock_chat(make_agent(ScriptedModel([asks, "Done."]))) as mock:
        await mock.chat.send("refund")
        await mock.restart(kill=True)
        assert len(mock.chat.pending) == 1

SCRIPT = '''
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import enable_kill_points
from prototype import make_agent
enable_kill_points()
chat = make_agent(ScriptedModel([Reply(calls=[("order", {"item": "tea"})]), "Ordered."])).chat("killed")
chat.send("order tea").result(20)
'''
AGAIN = '''
import asyncio
from chatnb.models import ScriptedModel
from prototype import make_agent
async def main():
    chat = make_agent(ScriptedModel(["Ordered."], loop=True)).chat("killed")
    await chat.stable(20)
    print(chat.messages[-1].text)
asyncio.run(main())
'''

def test_killed_after_the_order():
    def run(script, **more):
        return subprocess.run([sys.executable, "-c", script], env=os.environ | more, capture_output=True, text=True)
    assert run(SCRIPT, CHATNB_KILL_AT="tool.recorded").returncode == -signal.SIGKILL
    assert "Ordered." in run(AGAIN).stdout
    assert Path("ordered.txt").read_text() == "tea\\n"
"""


@pytest.fixture
def server(servers: Callable[[App], JupyterServer], browser: Browser) -> JupyterServer:
    """JupyterLab."""
    return servers("lab")


class TestJourneyC:
    """From the first cell to tests."""

    def test_steps_1_to_5(self, open_notebook: OpenNotebook) -> None:
        notebook = open_notebook(
            [
                *(EFFECT, MODEL, DEFINITION, 'chat.view(height="420px", transcript=False)', RETRY, FROM_A_CELL),
                *(COMPARE, MODULE, RECORD, TESTS),
            ]
        )
        for index in range(4):
            notebook.run_cell(index)
        panel = notebook.panel()

        # 1. They redefine an action and run its cell again: the talk stays, the new definition answers.
        panel.send("What is the price of tea?")
        panel.wait_for_reply(1)
        expect(panel.cards.last).to_contain_text("2.5")
        notebook.page.evaluate(
            "([index, text]) => { window.jupyterapp.shell.currentWidget.content.widgets[index]"
            ".model.sharedModel.setSource(text); return null; }",
            [2, DEFINITION.replace("2.5", "3.5")],
        )
        notebook.run_cell(2)
        panel.send("And now?")
        panel.wait_for_reply(2)
        expect(panel.cards.last).to_contain_text("3.5")

        # 2. A chat action of their own and a hook: what it did is in the history and in what the model was asked.
        notebook.run_cell(4)
        did = notebook.effects()[-1]
        assert did["status"] == "completed"
        assert did["texts"][-1] == "Esteemed customer, it is 3.5."
        assert len(did["texts"]) == 4
        assert "Answer formally." in did["asked"]
        assert [effect["turn"] for effect in notebook.effects() if "turn" in effect] == [0, 1, 2]
        expect(panel.message("assistant")).to_contain_text("Esteemed customer")

        # 3. The developer in the cells: send, await, look at what was sent to the model. The panel shows it.
        notebook.run_cell(5)
        did = notebook.effects()[-1]
        assert (did["status"], did["text"]) == ("completed", "From a cell.")
        assert "And from a cell?" in did["asked"]
        expect(panel.message("assistant")).to_contain_text("From a cell.")
        notebook.shot("journey-c-3")

        # 4. Two models and two prompts, side by side as columns and as frames.
        notebook.run_cell(6)
        did = notebook.effects()[-1]
        assert did["models"] == [["ada", "bob"]] * 2
        assert did["texts"] == [["ada says so.", "bob says so."]] * 2
        assert did["messages"] == 6
        for index, name in enumerate(["ada", "bob"] * 2, 1):
            expect(notebook.panel(index).message("assistant")).to_contain_text(f"{name} says so.")
        notebook.panel(1).root.scroll_into_view_if_needed()
        notebook.shot("journey-c-4")

        # 5. A good run is recorded; it replays in CI, with four tests and one that kills the process.
        for index in (7, 8, 9):
            notebook.run_cell(index)
        assert notebook.effects()[-1] == {"recorded": "Tea is 2.5."}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "."],
            cwd=notebook.path.parent,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}.", "CHATNB_STORE": "ci.db"},
            capture_output=True,
            text=True,
        )
        assert "5 passed" in done.stdout, done.stdout
