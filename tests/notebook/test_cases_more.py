"""Rules of the notebook side beside the numbered cases, in a real kernel (spec/notebook.md, sections 1 to 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.notebook.kernel_driver import CHATS, Kernel

pytestmark = pytest.mark.kernel

SETUP = """
import pandas as pd
from chatnb import Variables
from chatnb.kernel.actions import notebook_actions
def ask(name, *steps, actions=(), **options):
    "A chat whose model says these steps."
    return Agent(ScriptedModel(list(steps)), actions=actions, name=name, **options).chat(name)
def one(function, **arguments):
    "A step that calls a function, and an answer."
    return [Reply(calls=[(function.__name__, arguments)]), "done"]
"""


@pytest.fixture(autouse=True)
def setup(kernel: Kernel) -> None:
    kernel.ok(SETUP)


def shown(kernel: Kernel, body: str) -> list[dict[str, Any]]:
    """Run a function with this body as an action, in a cell that awaits; return what its card shows."""
    lines = "\n    ".join(body.splitlines())
    kernel.ok(f"def act() -> str:\n    'Act.'\n    {lines}\n    return 'ok'\n")
    kernel.ok("chat = ask(f'card-{time.monotonic()}', *one(act), actions=[act])\nawait chat.send('go');")
    [call] = kernel.value("told(chat)")
    assert call["error"] is None
    found: list[dict[str, Any]] = call["shown"]
    return found


class TestOutputs:
    """What a call may do with its outputs."""

    def test_rich(self, kernel: Kernel) -> None:
        """Section 3: display, updates by display_id, clear_output, carriage returns; in order, in the card alone."""
        found = shown(
            kernel,
            "from IPython.display import HTML, clear_output, display\nprint('gone')\nclear_output()\n"
            "print('10%\\r90%')\nhandle = display(HTML('<b>one</b>'), display_id=True)\n"
            "handle.update(HTML('<b>two</b>'))\nprint('bad', file=sys.stderr)",
        )
        assert [item.get("stream") for item in found] == ["stdout", None, "stderr"]
        assert found[0]["text"] == "90%\n"
        assert "two" in found[1]["text/html"]
        assert "gone" not in str(found)

    def test_threads_and_tasks(self, kernel: Kernel) -> None:
        """Section 3: the same for threads which carry the call's context; child processes go on where they went."""
        found = shown(
            kernel,
            "import contextvars\ncontext = contextvars.copy_context()\n"
            "t = threading.Thread(target=context.run, args=(print, 'from a thread')); t.start(); t.join()",
        )
        assert found == [{"stream": "stdout", "text": "from a thread\n"}]

    def test_input(self, kernel: Kernel) -> None:
        """Section 3: `input()` and `breakpoint()` in a call raise `InputNotAvailableError` with a hint."""
        found = shown(
            kernel,
            "for function in (input, breakpoint):\n"
            "    try: function()\n    except Exception as error: print(type(error).__name__, 'chat' in str(error))",
        )
        assert found[0]["text"] == "InputNotAvailableError True\n" * 2

    def test_limits(self, kernel: Kernel) -> None:
        """Section 3: 100,000 characters of text, head and tail kept, the gap says how many; 50 rich items."""
        found = shown(
            kernel,
            "print('head' + 'x' * 300_000 + 'tail')\nfrom IPython.display import HTML, display\n"
            "for n in range(80): display(HTML(f'<i>{n}</i>'))",
        )
        text = "".join(item.get("text", "") for item in found)
        assert len(text) < 101_000
        assert text.startswith("head")
        assert text.endswith("tail\n")
        assert "200" in text
        assert sum("text/html" in item for item in found) == 50

    def test_older_figures_are_left_alone(self, kernel: Kernel) -> None:
        """Section 3: `show()` in a call takes only the call's figures."""
        kernel.ok("%matplotlib inline\nimport matplotlib.pyplot as plt")
        kernel.ok(
            "old = plt.figure()\n"
            "def draws() -> str:\n    'Draw.'\n    plt.figure(); plt.plot([1]); plt.show(); return 'drawn'\n"
            "chat = ask('old-figure', *one(draws), actions=[draws])\nawait chat.send('go')\n"
            "note('open', numbers=plt.get_fignums())"
        )
        [call] = kernel.value("told(chat)")
        assert sum("image/png" in item for item in call["shown"]) == 1
        assert kernel.until("open")["numbers"] == [1]


class TestParameters:
    """Parameters that name variables."""

    def test_unions_and_objects(self, kernel: Kernel) -> None:
        """Section 5: `T | None` accepts null, unions any member; results come first; Python callers pass objects."""
        kernel.ok(
            "class Engine:\n    'A class of the user.'\nengine = Engine(); table = pd.DataFrame({'a': [1, 2]})\n"
            "@action\ndef takes(thing: Engine | pd.DataFrame | None = None) -> str:\n    'Take.'\n"
            "    return type(thing).__name__\n"
            "names = [{'thing': 'engine'}, {'thing': 'table'}, {'thing': None}, {}]\n"
            "model = ScriptedModel([Reply(calls=[('takes', a) for a in names]), 'done'])\n"
            "chat = Agent(model, actions=[takes]).chat('unions')\nawait chat.send('go')"
        )
        assert kernel.value("[c['output'] for c in told(chat)]") == ["Engine", "DataFrame", "NoneType", "NoneType"]
        assert {"engine", "table"} <= set(kernel.value("[v['name'] for v in model.requests[0].variables]"))
        assert kernel.value("takes(engine)") == "Engine"

    def test_a_result_by_name(self, kernel: Kernel) -> None:
        """Sections 4 and 5: a name of `chat.objects` resolves like a variable."""
        kernel.ok(
            "def make() -> pd.DataFrame:\n    'Make.'\n    return pd.DataFrame({'q': [1, 2, 3]})\n"
            "def rows(df: pd.DataFrame) -> int:\n    'Rows.'\n    return len(df)\n"
            "chat = ask('by-name', Reply(calls=[('make', {})]), Reply(calls=[('rows', {'df': 'make_1'})]), 'done',"
            " actions=[make, rows])\nawait chat.send('go')"
        )
        assert kernel.value("told(chat)[1]['output']") == 3

    @pytest.mark.parametrize("share", ["names", "off"])
    def test_shared_less(self, kernel: Kernel, share: str) -> None:
        """Section 5: "names": name and type alone; "off": no list, no mentions, no variable actions; names resolve."""
        kernel.ok(
            "df = pd.DataFrame({'colour': ['crimson']})\ndef rows(df: pd.DataFrame) -> int:\n    'Rows.'\n"
            "    return len(df)\n"
            "model = ScriptedModel([Reply(calls=[('rows', {'df': 'df'})]), 'done'])\n"
            f"chat = Agent(model, actions=[rows, *notebook_actions()], variables=Variables(share={share!r}))"
            f".chat('share-{share}')\nawait chat.send('see @df')"
        )
        assert kernel.value("told(chat)[0]['output']") == 1
        asked = kernel.value("str(model.requests[0].messages)")
        assert "crimson" not in asked
        assert "colour" not in asked
        assert ("[Notebook variable df" in asked) is (share == "names")
        offered = kernel.value("[a.name for a in model.requests[0].actions]")
        assert ("list_variables" in offered) is (share == "names")
        assert "run_code" in offered


class TestWaiting:
    """`.result()` and functions that are async."""

    def test_async_while_a_cell_blocks(self, kernel: Kernel) -> None:
        """Section 2: an async function due while a cell blocks in `.result()` runs; that nests the kernel's loop."""
        kernel.ok(
            "async def waits() -> str:\n    'Wait.'\n    await asyncio.sleep(0.05)\n"
            "    return threading.current_thread().name\nchat = ask('nested', *one(waits), actions=[waits])"
        )
        assert kernel.ok("print(chat.send('go').result(10).status)").text == "completed\n"
        assert kernel.value("told(chat)[0]['output']") == "MainThread"
        assert kernel.ok("print((await asyncio.sleep(0.01, 'after')))").text == "after\n"

    def test_a_timeout_leaves_the_turn_running(self, kernel: Kernel) -> None:
        """Section 1: `TimeoutError` after `timeout` leaves the turn running."""
        kernel.ok("chat = ask('slow', Reply('a ' * 10, delay=0.05))\ns = chat.send('go')")
        assert "TimeoutError" in (kernel.run("s.result(0.05)").error or "")
        assert kernel.ok("print(s.result(10).status)").text == "completed\n"


class TestInsertCell:
    """`insert_cell` without a page that can."""

    def test_while_a_cell_runs(self, kernel: Kernel) -> None:
        """Section 6: as next input if a cell is executing; else `not_supported`."""
        kernel.ok(
            "def inserts(name):\n    return ask(name, Reply(calls=[('insert_cell', {'source': 'x = 1'})]), 'done',"
            " actions=notebook_actions())"
        )
        kernel.ok("chat = inserts('insert-1')\nawait chat.send('go')\nawait chat.approve()")
        assert kernel.value("told(chat)[0]['output']") == {"inserted": True, "where": "next input"}


@pytest.mark.parametrize("kind", ["kernel"])
def test_chats_on_the_kernels_loop(tmp_path: Path, kind: str) -> None:
    """Section 1: `runtime="kernel"`: no thread; `await` and `.result()` both work, actions run on the main thread."""
    with Kernel(tmp_path, prelude=CHATS) as kernel:
        kernel.ok(
            "def where() -> str:\n    'Where.'\n    return threading.current_thread().name\n"
            "steps = [Reply(calls=[('where', {})]), 'done']\n"
            f"chat = Agent(ScriptedModel(steps * 3), actions=[where], runtime={kind!r}).chat('own-loop')"
        )
        assert kernel.ok("print((await chat.send('a')).status)").text == "completed\n"
        assert kernel.ok("print(chat.send('b').result(10).status)").text == "completed\n"
        assert kernel.value("told(chat)[0]['output']") == "MainThread"
        assert kernel.value("[t.name for t in threading.enumerate() if t.name.startswith('chatnb')]") == []
        kernel.ok("s = chat.send('c')")
        kernel.wait_until("s.done")
        assert kernel.value("len(chat.messages)") == 6
