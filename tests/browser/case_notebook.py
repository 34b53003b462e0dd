"""One notebook and one kernel for many cases: a cell for each, of which one is drawn at a time."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import EFFECT, Panel

HEAD = (
    EFFECT
    + '''
import asyncio, threading, time
from chatnb import Agent, Steering, action
from chatnb.models import Reply, ScriptedModel, StepEnd

asked = []

class Counted(ScriptedModel):
    """Notes what it is asked."""

    def stream(self, request):
        asked.append(request)
        return super().stream(request)

@action(needs_approval=True)
def refund(order: str, amount: float = 5.0) -> str:
    """Pay back."""
    effect(refund=order)
    return "paid"

def words(count):
    return " ".join(f"word{n}" for n in range(count))

def message(n, *texts, role=None):
    parts = [{"type": "text", "text": text} for text in texts]
    return {"id": f"m{n}", "role": role or ("user", "assistant")[n % 2], "parts": parts}

def show(id, *steps, history=(), actions=(), transcript=False, height="420px", **options):
    """Makes `chat` of a case, and its panel."""
    global chat
    asked.clear()
    chat = Agent(Counted(list(steps)), actions=[refund, *actions], **options).chat(id)
    if history:
        chat.set_messages(history)
    return chat.view(height=height, transcript=transcript)
'''
)
REPORT = "effect(texts=[message.text for message in chat.messages], asked=len(asked), status=chat.status)"


class CaseNotebook:
    """A notebook whose cells have names.

    Args:
        open_notebook: The fixture.
        cells: Code by name; the cells of `HEAD` and of a report are put before them.
    """

    def __init__(self, open_notebook: OpenNotebook, cells: dict[str, str]) -> None:
        everything = {"head": HEAD, "report": REPORT, **cells}
        self._names = list(everything)
        self.notebook = open_notebook(list(everything.values()))
        self.page = self.notebook.page
        self.run("head")

    def run(self, name: str, *, wait: bool = True) -> None:
        """Runs the cell of a name."""
        self.notebook.run_cell(self._names.index(name), wait=wait)

    def show(self, name: str) -> Panel:
        """Clears what was drawn, runs the cell of a case and returns its panel, then the only one of the page."""
        self.clear()
        self.run(name)
        return self.notebook.panel()

    def clear(self) -> None:
        """Clears all outputs: their views are gone, their chats remain."""
        for index in range(2, len(self._names)):
            self.notebook.clear_output(index)

    def outputs(self, name: str) -> str:
        """The outputs of the cell of a name, as JSON text."""
        return self.notebook.cell_outputs(self._names.index(name))

    def report(self) -> dict[str, Any]:
        """What the kernel says of the chat shown last: its texts, how often its model was asked, its status."""
        self.run("report")
        return self.notebook.effects()[-1]

    def effects(self, name: str) -> list[Any]:
        """The values that effects of a name have, in order."""
        return [effect[name] for effect in self.notebook.effects() if name in effect]
