"""`run_code` in a real kernel: what it leaves alone, what it tells, how it ends (spec/notebook.md, section 6)."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.kernel_driver import Kernel

SETUP = """
from chatnb.kernel.capture import capture
from chatnb.kernel.notebook import ChatNotebook
from chatnb.kernel.outputs import Outputs
from chatnb.kernel.run_code import run_cell
from chatnb.policies import Variables
import json as _json
chatnb_notebook = ChatNotebook("c", variables=Variables(hide=("chatnb_*",)))
def chatnb_ask(code, snapshot=False, call="call_1", delay=0.0):
    outputs = Outputs()
    future = ask(lambda: run_cell(code, chatnb_notebook, tool_call_id=call, snapshot=snapshot), delay=delay,
                 scope=lambda: capture(outputs))
    future.outputs = outputs
    return future
def chatnb_tell(future):
    found = future.result(20)
    if found.error is not None:
        raise found.error
    with open(journal_path + ".told", "w") as file:
        file.write(_json.dumps({"result": found.value, "outputs": future.outputs.items()}))
def chatnb_shell():
    shell = get_ipython()
    return [len(shell.user_ns["In"]), sorted(map(str, shell.user_ns["Out"])), repr(shell.user_ns["_"]),
            shell.execution_count]
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("run_code")) as kernel:
        assert kernel.run(SETUP).status == "ok"
        yield kernel


def run(kernel: Kernel, code: str, **options: Any) -> dict[str, Any]:
    """Ask for a `run_code` between cells and return `{result, outputs}`."""
    kernel.clear()
    shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
    cell = kernel.run(f"chatnb_future = chatnb_ask({code!r}, {shown})")
    assert cell.status == "ok", cell.error
    kernel.until("result")
    cell = kernel.run("chatnb_tell(chatnb_future)")
    assert cell.status == "ok", cell.error
    told: dict[str, Any] = json.loads(kernel.journal.with_name(kernel.journal.name + ".told").read_text())
    return told


@pytest.mark.kernel
class TestRunCode:
    def test_the_diff_and_the_shell(self, kernel: Kernel) -> None:
        """C28 of notebook.md: added c, changed a and l, deleted b; `In`, `_` and the count are as before."""
        kernel.run("a, b, l = 1, 1, []")
        kernel.run("5 * 5")
        before = kernel.run("print(chatnb_shell())")
        told = run(kernel, "a=2; del b; l.append(1); c=3; _hidden=1\ndef f(): pass\n7 + 1")
        result = told["result"]
        assert result == {"result": 8, "added": ["c"], "changed": ["a", "l"], "deleted": ["b"]}
        after = kernel.run("print(chatnb_shell())")
        inputs, outs, last, count = ast.literal_eval(after.text)
        was = ast.literal_eval(before.text)
        # The cells of this test count; nothing else does.
        assert (inputs - was[0], outs, last, count - was[3]) == (3, was[1], was[2], 3)

    def test_it_is_a_cell(self, kernel: Kernel) -> None:
        """Section 6: magics, `!`, top-level await, the last expression; all output in the card, in order."""
        told = run(kernel, "import asyncio\nprint('one')\nx = await asyncio.sleep(0.01, 4)\n!echo two\n%pwd\nx + 1")
        assert told["result"]["result"] == 5
        assert "one" in told["result"]["stdout"]
        assert "two" in told["result"]["stdout"]
        assert told["outputs"][-1]["text/plain"] == "5"

    def test_no_events(self, kernel: Kernel) -> None:
        """Section 6: fires no cell events, also not through `%%capture` and the like."""
        kernel.run("seen = []\nget_ipython().events.register('pre_run_cell', lambda info: seen.append(info.raw_cell))")
        run(kernel, "%%capture\nprint(1)")
        run(kernel, "get_ipython().run_cell('6 + 6')")
        cell = kernel.run("print(len([s for s in seen if 'chatnb' not in s and 'print(' not in s.split()[0]]), _)")
        assert cell.text.split()[0] == "0"

    def test_a_quiet_end(self, kernel: Kernel) -> None:
        """Section 6: as a cell: a semicolon at the end suppresses the result; None is none."""
        assert run(kernel, "1 + 1;  # no")["result"] == {}
        assert run(kernel, "None")["result"] == {}

    def test_errors(self, kernel: Kernel) -> None:
        """C27 of notebook.md: `error.type` is `ZeroDivisionError`, no chatnb frame; what ran before it stays."""
        told = run(kernel, "before = 1\nimport json\ndef go():\n    return 1/0\njson.loads('{', object_hook=go)")
        error = told["result"]["error"]
        assert error["type"] == "JSONDecodeError"
        assert error["traceback"].count("File ") == 2
        assert "frames of json" in error["traceback"]
        told = run(kernel, "x = 1/0")
        error = told["result"]["error"]
        assert (error["type"], error["message"]) == ("ZeroDivisionError", "division by zero")
        for word in ("chatnb", "IPython", "\x1b"):
            assert word not in error["traceback"]
        assert "x = 1/0" in error["traceback"]
        assert kernel.run("print(before)").text == "1\n"

    def test_a_syntax_error_runs_nothing(self, kernel: Kernel) -> None:
        """Section 6: a syntax error runs nothing."""
        told = run(kernel, "never = 1\n1 +")
        assert told["result"]["error"]["type"] == "SyntaxError"
        assert kernel.run("never").status == "error"

    def test_exit(self, kernel: Kernel) -> None:
        """Section 6: `exit()` is that call's error, never the kernel's end."""
        for code in ("exit()", "quit()", "import sys; sys.exit(3)", "raise SystemExit"):
            assert run(kernel, code)["result"]["error"]["type"] == "SystemExit"
        assert kernel.run("print('alive')").text == "alive\n"

    def test_help_is_in_the_card(self, kernel: Kernel) -> None:
        """Section 6: `obj?` shows in the card, and not with the next cell."""
        told = run(kernel, "len?")
        assert "number of items" in json.dumps(told["outputs"])

    def test_streams_are_cut(self, kernel: Kernel) -> None:
        """Section 6: streams cut to 10,000, head and tail; stderr apart."""
        told = run(kernel, "import sys\nprint('a' * 50_000 + 'end')\nprint('e', file=sys.stderr)")
        assert len(told["result"]["stdout"]) <= 10_000
        assert told["result"]["stdout"].endswith("end\n")
        assert told["result"]["stderr"] == "e\n"

    def test_a_value_that_needs_its_own_code(self, kernel: Kernel) -> None:
        """Section 3: a note; it does not promise what is kept nowhere."""
        [note] = run(kernel, "import ipywidgets\nipywidgets.IntSlider()")["outputs"]
        assert list(note) == ["text/plain"]
        assert "chat.objects" not in note["text/plain"]
        assert "Bind it to a name" in note["text/plain"]

    def test_colours_are_for_the_view(self, kernel: Kernel) -> None:
        """Section 3: ANSI colours are for the view only; nor does the model get a terminal's line ends."""
        told = run(kernel, "print('\\x1b[31mred\\x1b[0m')\n!echo two")
        assert told["result"]["stdout"] == "red\ntwo\n"
        assert "\x1b[31m" in told["outputs"][0]["text"]

    def test_a_result_that_is_no_json(self, kernel: Kernel) -> None:
        """Section 6: `result`: JSON value or summary."""
        told = run(kernel, "import pandas as pd\npd.DataFrame({'q': [1]})")
        assert told["result"]["result"]["type"] == "DataFrame"
        assert "1 rows x 1 columns" in told["result"]["result"]["summary"]
        assert "<table" in told["outputs"][-1]["text/html"]

    def test_figures(self, kernel: Kernel) -> None:
        """Section 6: `figures` is a count; the figure is in the card once, also when it is the result."""
        told = run(kernel, "import matplotlib.pyplot as plt\nfig, axes = plt.subplots()\nfig")
        assert told["result"]["figures"] == 1
        assert sum("image/png" in item for item in told["outputs"]) == 1
        assert not kernel.run("1").outputs[:-1]

    def test_a_returned_figure_is_shown_once(self, kernel: Kernel) -> None:
        """C18 of notebook.md and section 3: one PNG, also of a figure or its axes that an action returns."""
        kernel.run("import matplotlib.pyplot as plt\nfrom chatnb.kernel.summaries import present")
        for what in ("plt.subplots()[0]", "plt.subplots()[1]"):
            told = run(kernel, f"chatnb_bundle = present({what}).bundle\nchatnb_bundle")
            assert told["result"]["result"] == {}
            assert sum("image/png" in item for item in told["outputs"]) == 1

    def test_stop_and_interrupt(self, kernel: Kernel) -> None:
        """Section 2: an interrupt ends an endless loop; the names that it bound are there."""
        kernel.clear()
        cell = kernel.send("chatnb_future = chatnb_ask('looped = 1\\nnote(\"looping\")\\nwhile True: pass', delay=0.2)")
        kernel.until("looping")
        kernel.interrupt()
        assert kernel.until("result")["reason"] == "interrupted"
        kernel.finish(cell)
        assert kernel.run("print(looped)").text == "1\n"

    def test_while_a_cell_awaits(self, kernel: Kernel) -> None:
        """C17 of notebook.md: the call's lines in the card, the cell's in the cell; also for code that awaits."""
        kernel.clear()
        cell = kernel.run(
            "chatnb_future = chatnb_ask(\"import asyncio\\nfor n in range(3):\\n    print('call')\\n"
            '    await asyncio.sleep(0.01)")\n'
            "for n in range(5):\n    print('cell')\n    await asyncio.sleep(0.02)"
        )
        assert cell.text == "cell\n" * 5
        kernel.until("result")
        kernel.run("chatnb_tell(chatnb_future)")
        told = json.loads(kernel.journal.with_name(kernel.journal.name + ".told").read_text())
        assert told["result"]["stdout"] == "call\n" * 3

    def test_snapshot(self, kernel: Kernel) -> None:
        """C29 of notebook.md: undo leaves the new one; restoring brings the old object back."""
        kernel.run("df = [1]; chatnb_old = df")
        run(kernel, "df = [2]\nnew = 1", snapshot=True, call="call_s")
        assert kernel.run("print(df, chatnb_notebook.restorable([]))").text.startswith("[2] (Restorable(")
        cell = kernel.run(
            "chatnb_done = chatnb_notebook.restore([]); print(df is chatnb_old, chatnb_done.restored, 'new' in dir())"
        )
        assert cell.text == "True ('df', 'new') False\n"
