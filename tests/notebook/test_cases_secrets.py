"""A secret planted in the environment, in a variable and in an error text is found nowhere (issue 7; C35)."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from chatnb import Agent
from chatnb.models import AnthropicModel, RecordedModel, Reply, ScriptedModel
from chatnb.testing import FakeAnthropic, FakeReply
from tests.notebook.kernel_driver import Kernel

SECRET = "sk-ant-planted-0123456789abcdefghij"


def raw(folder: Path) -> str:
    """All that files in a folder hold, as text."""
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


class TestAnthropic:
    """The key of a model, which the API's own error text says back."""

    async def test_an_error_that_holds_the_key(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        """In no request body, outcome, store, export or log."""
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
        bad = FakeReply("status", status=400, error_type="invalid_request_error", message=f"bad key {SECRET}")
        with caplog.at_level(logging.DEBUG), FakeAnthropic([bad, f"I read {SECRET}"]) as server:
            chat = Agent(AnthropicModel("claude-sonnet-4-5", base_url=server.url)).chat("key")
            outcome = await chat.send("hi")
            await chat.send("again")
            assert SECRET not in repr(server.requests)
        assert outcome.error is not None
        assert SECRET not in outcome.error.message
        assert SECRET not in repr(outcome)
        assert SECRET not in repr(outcome.error.cause)
        assert SECRET not in caplog.text
        for format in ("md", "html", "json", "ipynb"):
            assert SECRET not in chat.export(format)

    async def test_recordings(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """In no recording, whichever side said it."""
        monkeypatch.setenv("SHOP_TOKEN", SECRET)
        model = RecordedModel(tmp_path / "r.jsonl", ScriptedModel([f"you said {SECRET}"]))
        await Agent(model).chat().send(f"my token is {SECRET}")
        assert SECRET not in (tmp_path / "r.jsonl").read_text("utf-8")


class TestErrorTexts:
    """A secret in the text of an error that an action, a hook or a model raises."""

    @pytest.mark.parametrize("where", ["action", "hook", "model"])
    async def test_nowhere(
        self, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        """In no request, outcome, store, export or log; the rest of the text is there."""
        monkeypatch.setenv("SHOP_TOKEN", "planted-in-the-environment")
        monkeypatch.setenv("CHATNB_STORE", str(tmp_path / "store" / "chats.db"))

        def fails() -> str:
            """Fail."""
            raise ValueError(f"no access with {os.environ['SHOP_TOKEN']} or {SECRET}")

        calls = Reply(calls=[("fails", {})])
        steps = [calls, "done"] if where == "action" else [Reply(fail=ValueError(f"no access with {SECRET}")), "done"]
        model = ScriptedModel(steps)
        agent = Agent(model, actions=[fails])
        if where == "hook":
            agent.on_turn_start(lambda event: fails())
        with caplog.at_level(logging.DEBUG):
            chat = agent.chat("errors")
            outcome = await chat.send("hi")
            chat.close()
        said = [chat.export(format) for format in ("md", "html", "json", "ipynb")]
        said += [str(model.requests), caplog.text, raw(tmp_path)]
        said += [repr(outcome), repr(chat.error)]  # what a cell shows that ends with one of them
        if outcome.error is not None:
            said.append(outcome.error.message)
        if where == "model" and outcome.error is not None:
            said.append(repr(outcome.error.cause))  # chatnb's own exception
        for text in said:
            assert SECRET not in text
            assert "planted-in-the-environment" not in text
        assert any("no access with [redacted]" in text for text in said)


PLANT = """
from chatnb.kernel.actions import notebook_actions
import pandas as pd
os.environ["SHOP_SECRET"] = SECRET
api_key = SECRET
shop_password = SECRET
_hidden = SECRET
frame = pd.DataFrame({"a": [1]})
def fits(thing: pd.DataFrame) -> int:
    "Use a frame."
    return 1
model = ScriptedModel([
    Reply(calls=[("list_variables", {}), ("inspect_variable", {"name": "api_key"}),
                 ("inspect_variable", {"name": "_hidden"}), ("fits", {"thing": "shop_password"})]),
    "looked",
])
chat = Agent(model, actions=[*notebook_actions(), fits], name="spy").chat("spy")
await chat.send("see @api_key and @_hidden and @shop_password and @frame")
view = chat.view()
"""


@pytest.mark.kernel
class TestVariables:
    """A variable with a secret's name, in a kernel."""

    def test_nowhere(self, kernel: Kernel) -> None:
        """In no request, message, view, export or output of a cell."""
        head, *cells = PLANT.strip().split("\n", 1)
        kernel.ok(f"SECRET = {SECRET!r}")
        kernel.ok(head + "\n" + cells[0] + "\ndel SECRET")
        asked = kernel.value("json.dumps([[r.messages, [dict(v) for v in r.variables or ()]] for r in model.requests])")
        assert "frame" in asked
        assert SECRET not in asked
        assert "shop_password" not in json.dumps(json.loads(asked)[0][1])
        for format in ("md", "html", "json", "ipynb"):
            assert SECRET not in kernel.value(f"chat.export({format!r})")
        assert SECRET not in kernel.value("json.dumps([m.to_wire() for m in chat.messages])")
        assert SECRET not in kernel.value("json.dumps(view.get_state(), default=repr)")
        assert "frame" in kernel.value("json.dumps([m.to_wire() for m in chat.messages])")
        assert SECRET not in raw(kernel.journal.parent)

    def test_a_cell_that_fails(self, kernel: Kernel) -> None:
        """In no output of a cell, traceback included, when `%%chat` fails or an outcome ends the cell."""
        kernel.ok("%load_ext chatnb\nos.environ['SHOP_TOKEN'] = 'planted-in-the-environment'")
        kernel.ok(
            f"_said = 'no access with {SECRET} or ' + os.environ['SHOP_TOKEN']\n"
            "failing = Agent(ScriptedModel([Reply('a', fail=ValueError(_said))], loop=True), name='failing')"
        )
        cells = [kernel.run("%%chat --agent failing\nhello"), kernel.ok("await failing.chat('one').send('hello')")]
        assert cells[0].status == "error"
        assert "no access with [redacted]" in str(cells[0].outputs)
        shown = str([(cell.outputs, cell.error) for cell in cells])
        assert SECRET not in shown
        assert "planted-in-the-environment" not in shown
