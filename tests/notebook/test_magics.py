"""`%chat` and `%%chat` in a real kernel (spec/notebook.md, section 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.kernel_driver import Cell, Kernel

SETUP = """
import os
os.environ["CHATNB_STORE"] = {store!r}
os.environ["CHATNB_OFFLINE_RHYTHM"] = "0"
os.environ.pop("ANTHROPIC_API_KEY", None)
from chatnb import Agent, action
from chatnb.models import ScriptedModel, Reply
%load_ext chatnb
%load_ext chatnb
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("magics")
    with Kernel(folder) as kernel:
        cell = kernel.run(SETUP.format(store=str(folder / "chats.db")))
        assert cell.status == "ok", cell.error
        yield kernel


def run(kernel: Kernel, code: str) -> Cell:
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell


def markdown(cell: Cell) -> list[str]:
    return [str(item["data"]["text/markdown"]) for item in cell.outputs if "text/markdown" in item.get("data", {})]


def updates(kernel: Kernel, code: str) -> tuple[Cell, list[str]]:
    """Run a cell; the Markdown that its one output held in the end."""
    message = kernel.send(code)
    shown: dict[str, str] = {}
    original: Any = kernel.client.get_iopub_msg

    def spy(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        if found["msg_type"] in ("display_data", "update_display_data"):
            content = found["content"]
            if "text/markdown" in content["data"]:
                shown[content.get("transient", {}).get("display_id", "")] = content["data"]["text/markdown"]
        return found

    kernel.client.get_iopub_msg = spy  # type: ignore[method-assign]
    try:
        return kernel.finish(message), list(shown.values())
    finally:
        kernel.client.get_iopub_msg = original  # type: ignore[method-assign]


@pytest.mark.kernel
class TestSending:
    def test_the_reply_stays(self, kernel: Kernel) -> None:
        """C30 of notebook.md: the second is sent after the first completed; its output holds the reply as Markdown."""
        run(kernel, "a = Agent(ScriptedModel(['First **one**.', 'Second {x}.']), name='a')")
        kernel.send("%%chat --agent a\nhi {x} $HOME")
        cell, shown = updates(kernel, "%%chat\nagain")
        assert cell.status == "ok", cell.error
        assert shown == ["First **one**.", "Second {x}."]
        last = run(kernel, "print([m.text for m in list(a.composition().chats.values())[-1].messages])")
        assert "hi {x} $HOME" in last.text

    def test_it_returns_the_submission(self, kernel: Kernel) -> None:
        """Section 7: `%chat` with text is like `%%chat`, and returns the `Submission`."""
        run(kernel, "a = Agent(ScriptedModel(['Yes.']), name='returns')")
        assert run(kernel, "s = %chat --agent a --chat one Tell me.\nprint(s.result().text)").text == "Yes.\n"

    def test_blank(self, kernel: Kernel) -> None:
        """Section 7: blank body: `UsageError`; so is an unknown option and text beside `%%chat`."""
        for code in ("%%chat\n   ", "%%chat --what\nhi", "%%chat hello\nhi", "%chat --agent"):
            message = kernel.send(code)
            cell = kernel.finish(message)
            assert "UsageError" in (cell.error or cell.text) or cell.status == "error"

    def test_awaiting(self, kernel: Kernel) -> None:
        """Section 7: `awaiting`: the output ends with what is pending and `chat.approve()`; the cell ends."""
        run(
            kernel,
            "@action(needs_approval=True)\ndef refund(order: str) -> str:\n    '''Refund.'''\n    return 'done'\n"
            "a = Agent(ScriptedModel([Reply('Let me.', calls=[('refund', {'order': '7'})]), 'Refunded.']),"
            " name='b', actions=[refund])",
        )
        cell, shown = updates(kernel, "%%chat --agent a\nrefund 7")
        assert cell.status == "ok", cell.error
        assert '{"order":"7"}' in shown[0]
        assert shown[0].endswith("`chat.approve()` or `chat.reject()`.")

    def test_error(self, kernel: Kernel) -> None:
        """Section 7: outcome `error`: the text is shown and the cell fails with `TurnFailedError`."""
        run(kernel, "a = Agent(ScriptedModel([Reply('Half', fail=RuntimeError('broken'))]), name='c')")
        cell, shown = updates(kernel, "%%chat --agent a\nhi")
        assert cell.status == "error"
        assert (cell.error or "").startswith("TurnFailedError")
        assert shown[0].startswith("Half")

    def test_an_action_runs_while_the_cell_waits(self, kernel: Kernel) -> None:
        """Section 7: it waits, pumping, so that actions run on the main thread meanwhile."""
        run(
            kernel,
            "import threading\n@action\ndef where() -> str:\n    '''Where.'''\n"
            "    return threading.current_thread().name\n"
            "a = Agent(ScriptedModel([Reply(calls=[('where', {})]), lambda r: str(r.messages[-1])]),"
            " name='d', actions=[where])",
        )
        _, shown = updates(kernel, "%%chat --agent a\nhi")
        assert "MainThread" in shown[0]

    def test_no_wait(self, kernel: Kernel) -> None:
        """Section 7: `--no-wait` ends the cell at once; the reply comes into its output."""
        run(kernel, "a = Agent(ScriptedModel(['Later.']), name='e')")
        run(kernel, "s = %chat --no-wait --agent a Go.")
        assert run(kernel, "print(s.result(10).text)").text == "Later.\n"


@pytest.mark.kernel
class TestChoosing:
    def test_the_same_chat(self, kernel: Kernel) -> None:
        """C47 of notebook.md: `%chat` twice without an ID shows the same chat; `agent.chat()` makes new ids."""
        run(kernel, "x = Agent(ScriptedModel(['1', '2', '3']), name='same')\ns = %chat --agent x one")
        run(kernel, "t = %chat --agent x two")
        found = run(kernel, "print(len({c.id for c in x.composition().chats.values() if c.agent is x}), x.chat().id)")
        assert found.text.startswith("1 same-")
        assert len(found.text.split()[1]) == len("same-xxxxxx")

    def test_by_name(self, kernel: Kernel) -> None:
        """Section 7: NAME is a variable that holds an agent, else an agent's `name`; none: UsageError lists them."""
        run(kernel, "x = Agent(ScriptedModel(['by name']), name='named')")
        assert run(kernel, "print((get_ipython().run_line_magic('chat', '--agent named hi')).result().text)").text == (
            "by name\n"
        )
        cell = kernel.run("%chat --agent nobody hi")
        assert "x (name 'named')" in (cell.error or "") + cell.text + str(cell.outputs)

    def test_several(self, kernel: Kernel) -> None:
        """Section 7: several agents and no default: `UsageError` listing them."""
        run(kernel, "p, q = Agent('offline', name='p'), Agent('offline', name='q')")
        cell = kernel.run("%chat hi")
        assert "several agents" in ((cell.error or "") + cell.text + str(cell.outputs)).lower()

    def test_loading(self, kernel: Kernel) -> None:
        """Section 7: twice is harmless; `%unload_ext` removes the magics and closes nothing."""
        run(kernel, "z = Agent(ScriptedModel(['still']), name='z')\nkept = z.chat('kept')\n%unload_ext chatnb")
        assert "chat" not in run(kernel, "print(*get_ipython().magics_manager.magics['line'])").text.split()
        assert run(kernel, "print(kept.is_closed)\n%load_ext chatnb").text.startswith("False")
        assert "chat" in run(kernel, "print(*get_ipython().magics_manager.magics['cell'])").text.split()
