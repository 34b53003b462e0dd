"""Results as objects, and calls outside a kernel (spec/notebook.md, 2 and 4; cases C11, C14 to C16, C19 to C21)."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from chatnb import Action, Agent, Objects, action
from chatnb.errors import ActionDefinitionError, ObjectLostError
from chatnb.models import Reply, ScriptedModel
from tests.notebook.kernel_driver import ROOT


class _Thing:
    """A result that is no JSON."""


def calls(name: str, *arguments: dict[str, Any]) -> list[Any]:
    """One step of so many calls, and an answer."""
    return [Reply(calls=[(name, args) for args in arguments or ({},)]), "done"]


def parts(chat: Any) -> list[Any]:
    return [p for m in chat.messages for p in m.parts if p.tool_call_id is not None]


class TestObjects:
    """`chat.objects`."""

    async def test_the_frame_itself(self) -> None:
        """C19: `chat.objects["f_1"]` is that frame; the request has at most 2,000 characters, no row beyond 5."""
        frame = pd.DataFrame({"word": [f"row{n}" for n in range(100)], "n": range(100)})

        def f() -> pd.DataFrame:
            """F."""
            return frame

        model = ScriptedModel(calls("f"))
        chat = Agent(model, actions=[f]).chat()
        await chat.send("go")
        assert chat.objects["f_1"] is frame
        assert chat.objects.last is frame
        assert chat.objects[parts(chat)[0].tool_call_id] is frame
        assert list(chat.objects.names()) == ["f_1"]
        [result] = [i for m in model.requests[1].messages if m["role"] == "tool" for i in m["content"]]
        assert "row4" in str(result)
        assert "row5" not in str(result)
        assert len(str(result["output"])) <= 2_300
        assert result["output"]["value"]["object"] == "f_1"
        with pytest.raises(TypeError):
            chat.objects["f_1"] = 1  # type: ignore[index]

    async def test_sixty(self) -> None:
        """C20: of 60 results the one that the user holds is there; one that nobody holds is evicted."""

        def f() -> _Thing:
            """F."""
            return _Thing()

        chat = Agent(ScriptedModel([s for _ in range(6) for s in calls("f", *[{}] * 10)]), actions=[f]).chat()
        await chat.send("go")
        held = chat.objects["f_1"]
        for _ in range(5):
            await chat.send("go")
        assert chat.objects["f_1"] is held
        with pytest.raises(ObjectLostError) as caught:
            chat.objects["f_2"]
        assert caught.value.reason == "evicted"
        assert isinstance(caught.value, KeyError)
        with pytest.raises(KeyError, match="f_6"):
            chat.objects["f_61"]
        assert "f_2" in chat.objects.lost

    @pytest.mark.parametrize("run_in", ["kernel", "thread", "async"])
    def test_nothing_else_holds_them(self, run_in: Any) -> None:
        """Section 4: a result that is let go of is gone at once, not when garbage is next collected."""

        def f() -> _Thing:
            """F."""
            return _Thing()

        async def f_async() -> _Thing:
            """F."""
            return _Thing()

        made = Action(f_async, name="f") if run_in == "async" else Action(f, run_in=run_in)
        steps = [s for _ in range(6) for s in calls("f", *[{}] * 10)]
        chat = Agent(ScriptedModel(steps), actions=[made]).chat()
        gc.disable()
        try:
            for _ in range(6):
                chat.send("go").result(30)
            assert len(chat.objects) == 50
            assert len(chat.objects.lost) == 10
        finally:
            gc.enable()

    async def test_a_repr_that_raises(self) -> None:
        """C21: a result whose `__repr__` raises: the call succeeds with the type name as summary."""

        class Bad:
            def __repr__(self) -> str:
                raise RuntimeError("no")

        def f() -> Any:
            """F."""
            return Bad()

        chat = Agent(ScriptedModel(calls("f")), actions=[f]).chat()
        await chat.send("go")
        [part] = parts(chat)
        assert part.state == "output-available"
        assert part.output["summary"].endswith("Bad")

    async def test_limits_and_clear(self) -> None:
        """Section 4: `Objects(max_items)`; pinned ones stay; cleared ones are lost, and say so."""

        def f() -> _Thing:
            """F."""
            return _Thing()

        agent = Agent(ScriptedModel(calls("f", {}, {}, {})), actions=[f], objects=Objects(max_items=2))
        chat = agent.chat()
        await chat.send("go")
        gc.collect()
        with pytest.raises(ObjectLostError):
            chat.objects["f_1"]
        chat.objects.pin("f_2")
        chat.objects.clear()
        with pytest.raises(ObjectLostError) as caught:
            chat.objects["f_3"]
        assert caught.value.reason == "cleared"

    async def test_fork(self) -> None:
        """Section 9: objects are shared by name with a fork; later ones are each chat's own."""

        def f() -> _Thing:
            """F."""
            return _Thing()

        chat = Agent(ScriptedModel(calls("f") * 2), actions=[f]).chat()
        await chat.send("go")
        fork = chat.fork()
        assert fork.objects["f_1"] is chat.objects["f_1"]
        await fork.send("again")
        assert list(fork.objects.names()) == ["f_1", "f_2"]
        assert list(chat.objects.names()) == ["f_1"]

    async def test_after_a_restart(self) -> None:
        """Section 4: a name of another kernel's life: `ObjectLostError`, `kernel_restarted`."""

        def f() -> _Thing:
            """F."""
            return _Thing()

        agent = Agent(ScriptedModel(calls("f")), actions=[f])
        chat = agent.chat("restarted")
        await chat.send("go")
        chat.close()
        again = agent.chat("restarted")
        assert again is not chat
        with pytest.raises(ObjectLostError) as caught:
            again.objects["f_1"]
        assert caught.value.reason == "kernel_restarted"
        assert "f_1" in again.objects.lost


class TestPictures:
    """Figures for a model that takes images."""

    @pytest.mark.parametrize("what", ["figure", "axes", "picture"])
    async def test_sent(self, what: str) -> None:
        """Section 4: a Figure, Axes or PIL image: PNG, also sent to a model that takes images; else a summary."""
        import matplotlib.pyplot as plt
        from PIL import Image

        figure, axes = plt.subplots()
        axes.set_title("a title")
        made = {"figure": figure, "axes": axes, "picture": Image.new("RGB", (20, 10))}[what]

        def f() -> Any:
            """F."""
            return made

        requests = []
        for sees in (True, False):
            model = ScriptedModel(calls("f"), accepts_images=sees)
            chat = Agent(model, actions=[f]).chat()
            await chat.send("go")
            assert chat.objects["f_1"] is made
            requests.append(str(model.requests[1].messages))
        plt.close(figure)
        assert "data:image/png" in requests[0]
        assert "data:image/png" not in requests[1]
        assert ("a title" in requests[1]) is (what != "picture")


POLLS = """
import sys, threading, time
from chatnb import Agent
from chatnb.models import Reply, ScriptedModel
where = []
def f() -> str:
    "F."
    where.append(threading.current_thread().name)
    return "ok"
chat = Agent(ScriptedModel([Reply(calls=[("f", {})]), "done"] * 2), actions=[f]).chat("script")
submission = chat.send("go")
while not submission.done:
    time.sleep(0.05)
print(submission.result().status, where.pop())
print(chat.send("go").result().status, where.pop())
"""


class TestScripts:
    """Calls outside a kernel."""

    def test_polling(self, tmp_path: Path) -> None:
        """C14: a script that polls `done` ends; with `.result()` the call ran on the main thread."""
        done = subprocess.run(
            [sys.executable, "-c", POLLS], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "CHATNB_STORE": "x.db"},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert done.stdout.splitlines() == ["completed chatnb-calls", "completed MainThread"]
        assert done.stderr == ""

    async def test_timeout(self) -> None:
        """C11: a sync action with `timeout=0.2` that sleeps 1 s: an error; its value is in no message or object."""
        ended = threading.Event()

        @action(timeout=0.2, run_in="thread")
        def slow() -> _Thing:
            """Slow."""
            try:
                time.sleep(1)
            finally:
                ended.set()
            return _Thing()

        @action(timeout=0.2)
        def slow_here() -> str:
            """Slow on the main thread; nothing interrupts it here."""
            end = time.monotonic() + 1
            while time.monotonic() < end:
                with contextlib.suppress(KeyboardInterrupt):
                    time.sleep(0.1)
            ended.set()
            return "late value"

        for made in (slow, slow_here):
            ended.clear()
            chat = Agent(ScriptedModel(calls(made.name)), actions=[made]).chat()
            assert (await chat.send("go")).status == "completed"
            [part] = parts(chat)
            assert part.state == "output-error"
            assert "timed out after 0.2 s" in part.error_text
            assert ended.wait(10)
            assert "late value" not in chat.export("json")
            assert list(chat.objects.names()) == []


def double(n: int) -> list[int]:
    """Double, in a worker."""
    import os

    return [2 * n, os.getpid()]


class TestExecutors:
    """`run_in=EXECUTOR`."""

    async def test_a_process_pool(self) -> None:
        """C15, C16: a module's function and a local one run in a worker; a result that holds a lock is an error."""
        import os

        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:

            def local(n: int) -> list[int]:
                """Triple."""
                import os

                return [3 * n, os.getpid()]

            def locked() -> Any:
                """A lock."""
                import threading

                return {"lock": threading.Lock()}

            made = [action(run_in=pool)(f) for f in (double, local, locked)]
            reply = Reply(calls=[("double", {"n": 2}), ("local", {"n": 2}), ("locked", {})])
            chat = Agent(ScriptedModel([reply, "done"]), actions=made).chat()
            assert (await chat.send("go")).status == "completed"
            first, second, third = parts(chat)
            assert first.output[0] == 4
            assert second.output[0] == 6
            assert first.output[1] == second.output[1] != os.getpid()
            assert third.state == "output-error"
            assert "result" in third.error_text
            assert "lock" in third.error_text

            async def no() -> None:
                """No."""

            with pytest.raises(ActionDefinitionError):
                action(run_in=pool)(no)
