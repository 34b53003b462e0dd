"""Capture of a call's output in a real kernel (spec/notebook.md, section 3; PLATFORM.md, addition C)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.kernel_driver import FUNCTIONS, Kernel

pytestmark = pytest.mark.kernel

PRELUDE = """
import subprocess
from chatnb.kernel.capture import capture
from chatnb.kernel.outputs import Outputs
from IPython.display import display, update_display, clear_output, HTML

def call(function, delay=0.0, **options):
    "Like ask, with the output captured and written to the journal."
    outputs = Outputs()
    future = ask(function, delay, scope=lambda: capture(outputs), **options)
    future.add_done_callback(lambda _: note("outputs", items=outputs.items()))
    future.outputs = outputs
    return future

def prints(count=5):
    for number in range(count):
        print("call", number)
        print("err", number, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("capture")) as running:
        assert running.run(FUNCTIONS + PRELUDE).error is None
        yield running


@pytest.fixture
def kernel(shared_kernel: Kernel) -> Kernel:
    shared_kernel.clear()
    return shared_kernel


def card(kernel: Kernel) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = kernel.until("outputs")["items"]
    return items


def stream(items: list[dict[str, Any]], name: str) -> str:
    return "".join(item["text"] for item in items if item.get("stream") == name)


CALL_LINES = "".join(f"call {number}\n" for number in range(5))


class TestStreams:
    @pytest.mark.parametrize(
        "cell",
        [
            "x = call(prints, 0.2)\nprint('cell')",
            "x = call(prints, 0.05)\nprint('cell')\nawait asyncio.wrap_future(x)\nprint('cell')",
            "x = call(prints, 0.05)\nprint('cell')\nr = runtime.wait(x)\nprint('cell')",
        ],
        ids=["idle", "awaiting", "pumped"],
    )
    def test_card_and_cell(self, kernel: Kernel, cell: str) -> None:
        """C17: the card has the call's lines, the cell its own, neither the other's; twice in a row."""
        for _ in range(2):
            kernel.clear()
            ended = kernel.run(cell)
            items = card(kernel)
            assert set(ended.text.split()) == {"cell"}
            assert stream(items, "stdout") == CALL_LINES
            assert stream(items, "stderr") == CALL_LINES.replace("call", "err")

    def test_async_call_across_cells(self, kernel: Kernel) -> None:
        """Section 3: an async call's output stays its own across sync and async cells."""
        kernel.run(
            "go = asyncio.Event()\nasync def talks():\n    for n in range(3):\n        print('talk', n)\n"
            "        await asyncio.sleep(0.05)\n    await go.wait()\n    print('end')\nx = call(talks)"
        )
        assert kernel.run("print('one')").text == "one\n"
        assert kernel.run("print('two'); await asyncio.sleep(0.1); print('three')").text == "two\nthree\n"
        kernel.run("go.set()")
        assert stream(card(kernel), "stdout") == "talk 0\ntalk 1\ntalk 2\nend\n"

    def test_threads(self, kernel: Kernel) -> None:
        """Section 3: a thread that carries the call's context is the call's; another is not; nor are child processes'
        descriptors."""
        cell = kernel.run(
            "import contextvars\ndef threads():\n"
            "    with_context = contextvars.copy_context()\n"
            "    ts = [threading.Thread(target=with_context.run, args=(print, 'carried')),\n"
            "          threading.Thread(target=print, args=('other',))]\n"
            "    [t.start() for t in ts]; [t.join() for t in ts]\n"
            "r = runtime.wait(call(threads))"
        )
        assert stream(card(kernel), "stdout") == "carried\n"
        assert cell.text == "other\n"

    def test_streams_stay_themselves(self, kernel: Kernel) -> None:
        """Section 3: the process's streams are not replaced; capture in cells goes on working."""
        kernel.run("r = runtime.wait(call(prints))\nbefore = sys.stdout")
        cell = kernel.run(
            "from IPython.utils.capture import capture_output\nimport contextlib, io\n"
            "with capture_output() as c: print('caught')\n"
            "with contextlib.redirect_stdout(io.StringIO()) as s: print('redirected')\n"
            "print(repr(c.stdout), repr(s.getvalue()), sys.stdout is before, sys.stdout.isatty())"
        )
        assert cell.text == "'caught\\n' 'redirected\\n' True False\n"


class TestDisplay:
    def test_display(self, kernel: Kernel) -> None:
        """Section 3: `display`, its updates and `clear_output` concern the card alone."""
        cell = kernel.run(
            "def shows():\n    print('gone')\n    clear_output()\n"
            "    handle = display(HTML('<b>1</b>'), display_id=True)\n"
            "    print('text')\n    handle.update(HTML('<b>2</b>'))\n"
            "r = runtime.wait(call(shows))\nprint('cell')"
        )
        items = card(kernel)
        assert [item.get("text/html", item.get("text")) for item in items] == ["<b>2</b>", "text\n"]
        assert cell.text == "cell\n"
        assert {output["type"] for output in cell.outputs} == {"stream"}

    def test_update_of_a_cells_display(self, kernel: Kernel) -> None:
        """An update of a display that a cell made still reaches that cell."""
        cell = kernel.run(
            "h = display(HTML('old'), display_id='of-cell')\n"
            "r = runtime.wait(call(lambda: update_display(HTML('new'), display_id='of-cell')))\n"
        )
        assert cell.error is None
        assert card(kernel) == []

    def test_cell_after_a_call(self, kernel: Kernel) -> None:
        """Cells display as before."""
        cell = kernel.run("display(HTML('<i>x</i>'))")
        assert cell.outputs[0]["data"]["text/html"] == "<i>x</i>"


class TestFigures:
    def test_left_open(self, kernel: Kernel) -> None:
        """C18: a figure that a call makes and leaves is one PNG in the card, and the next cell has none."""
        kernel.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
        kernel.run("def plots():\n    plt.figure(); plt.plot([1, 2, 3])\nx = call(plots)")
        items = card(kernel)
        assert ["image/png" in item for item in items] == [True]
        assert kernel.run("print('next')").outputs == [{"type": "stream", "name": "stdout", "text": "next\n"}]

    @pytest.mark.parametrize("show", ["", "; plt.show()"])
    def test_older_figure(self, kernel: Kernel, show: str) -> None:
        """Section 3: `show()` in a call takes the call's figures alone; the waiting cell's are shown by the cell."""
        kernel.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
        cell = kernel.run(
            f"def plots():\n    plt.figure(); plt.plot([3, 2]){show}\n"
            "fig = plt.figure(); plt.plot([1, 2])\nr = runtime.wait(call(plots))"
        )
        assert ["image/png" in item for item in card(kernel)] == [True]
        assert [output["type"] for output in cell.outputs] == ["display_data"]

    def test_cells_figure_during_an_async_call(self, kernel: Kernel) -> None:
        """Section 3: a figure that a cell makes while a call is suspended is the cell's."""
        kernel.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
        kernel.run("go = asyncio.Event()\nasync def awaits():\n    await go.wait()\nx = call(awaits)")
        cell = kernel.run("f = plt.figure(); plt.plot([1]); go.set(); await asyncio.sleep(0.1)")
        assert card(kernel) == []
        assert [output["type"] for output in cell.outputs] == ["display_data"]


class TestInput:
    @pytest.mark.parametrize("ask", ["input('name? ')", "__import__('getpass').getpass()", "breakpoint()"])
    @pytest.mark.parametrize("wait", ["", "r = runtime.wait(x)", "r = await asyncio.wrap_future(x)"])
    def test_raises(self, kernel: Kernel, ask: str, wait: str) -> None:
        """Section 3: `input()` and the like raise in a call, idle, pumped or awaited."""
        kernel.run(f"def asks():\n    return {ask}\nx = call(asks, 0.05)\n{wait}")
        assert "InputNotAvailableError" in kernel.until("result", name="asks")["error"]
