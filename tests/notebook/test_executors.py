"""Functions of a notebook on processes and clusters, in a real kernel (spec/notebook.md, section 2; C15, C16)."""

from __future__ import annotations

import pytest

from tests.notebook.kernel_driver import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from chatnb import ActionContext
import distributed

pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1",
                                   dashboard_address="127.0.0.1:0", silence_logs=50)
client = distributed.Client(cluster)
executors = {"pool": pool, "dask": client.get_executor()}
factor = 3

class Pair:
    "A class of the notebook."
    def __init__(self, left, right):
        self.left, self.right = left, right

def scale(n: int, ctx: ActionContext) -> dict:
    "Scale a number."
    print("scaling", n)
    ctx.progress(1, 1, "scaled")
    pair = Pair(n * factor, os.getpid())
    return {"value": pair.left, "pid": pair.right, "id": ctx.tool_call_id}

def holds() -> dict:
    "Hold a lock."
    return {"lock": threading.Lock()}

def run(where):
    actions = [action(scale, run_in=executors[where]), action(holds, run_in=executors[where])]
    steps = [Reply(calls=[("scale", {"n": 14}), ("holds", {})]), "done"]
    return Agent(ScriptedModel(steps), actions=actions).chat("executor-" + where)
"""


@pytest.fixture(scope="module")
def executors(chats_kernel: Kernel) -> Kernel:
    chats_kernel.ok(SETUP)
    return chats_kernel


class TestExecutors:
    """A function, a class and a global of a notebook go by value."""

    @pytest.mark.parametrize("where", ["pool", "dask"])
    def test_of_a_notebook(self, executors: Kernel, where: str) -> None:
        """C15, C16: it runs in a worker with the class and the number it uses; what it prints is in its card alone."""
        cell = executors.ok(f"chat = run({where!r})\nprint((await chat.send('go')).status)")
        assert cell.text == "completed\n"
        scaled, held = executors.value("told(chat)")
        assert scaled["output"]["value"] == 42
        assert scaled["output"]["pid"] != executors.value("os.getpid()")
        assert scaled["shown"] == [{"stream": "stdout", "text": "scaling 14\n"}]
        assert held["error"].startswith("The result cannot be pickled")
        assert "dict" in held["error"]

    def test_after_its_end(self, executors: Kernel) -> None:
        """Section 2: a call on a pool that is shut down is an error that names it, and did nothing."""
        executors.ok(
            "pool.shutdown(); client.close(); cluster.close()\n"
            "model = ScriptedModel([Reply(calls=[('holds', {})]), 'done'])\n"
            "chat = Agent(model, actions=[action(holds, run_in=pool)]).chat('executor-gone')\nawait chat.send('go')"
        )
        assert "ProcessPoolExecutor" in executors.value("told(chat)[0]['error']")


class TestPlotly:
    """A plotly figure, which a page can't draw without plotly's own code."""

    def test_returned_and_shown(self, kernel: Kernel) -> None:
        """Section 3: a note that names the object in `chat.objects`; none of plotly's own MIME type."""
        kernel.ok(
            "import plotly.graph_objects as go, plotly.io\n"
            "def undrawn(*args, **options): raise ValueError('no kaleido')\n"
            "plotly.io.to_image = undrawn\n"
            "def draws() -> object:\n    'Draw.'\n    figure = go.Figure(go.Bar(x=['a'], y=[1]))\n"
            "    display(figure)\n    return figure\n"
            "model = ScriptedModel([Reply(calls=[('draws', {})]), 'done'])\n"
            "chat = Agent(model, actions=[draws]).chat('plotly')\nawait chat.send('go')"
        )
        [call] = kernel.value("told(chat)")
        assert [list(item) for item in call["shown"]] == [["text/plain"], ["text/plain"]]
        assert 'chat.objects["draws_1"]' in call["shown"][1]["text/plain"]
        assert "- bar, 1 points" in call["output"]["summary"]
        assert kernel.value("type(chat.objects['draws_1']).__name__") == "Figure"
