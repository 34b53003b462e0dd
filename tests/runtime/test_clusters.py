"""Calls on Dask and ipyparallel, as a person's agent makes them (spec/notebook.md, section 2).

Both libraries run here for real, with workers of their own on this machine.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import ipyparallel
import pytest

from chatnb import Action, ActionContext, Agent, Chat
from chatnb.models import Reply, ScriptedModel
from chatnb.runtime import executors
from chatnb.runtime.begun import ticket_for
from chatnb.store import open_store

DEADLINE = 60.0
# Neither is ours: what they leave open, and what they use that will go.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Executor = concurrent.futures.Executor


@pytest.fixture(scope="module")
def dask() -> Iterator[Executor]:
    """One worker process with two threads."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0", silence_logs=50, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor()


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ipyparallel.Client]:
    """Two engines."""
    folder = tmp_path_factory.mktemp("engines")
    with ipyparallel.Cluster(n=2, profile_dir=str(folder), controller_ip="127.0.0.1", log_level=50) as client:
        yield client


@pytest.fixture(params=["dask", "engines"])
def cluster(request: pytest.FixtureRequest) -> Executor:
    """An executor of either library; the one of ipyparallel is a view of all engines."""
    made = request.getfixturevalue(request.param)
    return made if request.param == "dask" else made[:].executor


def chat_about(function: Callable[..., Any], *arguments: dict[str, Any], run_in: Executor, **options: Any) -> Chat:
    """A chat whose model calls a function, once for each arguments, all in one step."""
    model = ScriptedModel([Reply(calls=[(function.__name__, one) for one in arguments or ({},)]), "done"])
    made = Action(function, description="Do it.", run_in=run_in, **options)
    return Agent(model, actions=[made]).chat()


def calls(chat: Chat) -> list[dict[str, Any]]:
    """The calls of the last answer."""
    return [part for part in chat.messages[-1].to_wire()["parts"] if "toolCallId" in part]


def ask(function: Callable[..., Any], *arguments: dict[str, Any], run_in: Executor, **options: Any) -> Any:
    """Have a function called, and return the calls."""
    chat = chat_about(function, *arguments, run_in=run_in, **options)
    chat.send("go").result(DEADLINE)
    return calls(chat)


class TestClusters:
    """What holds for both."""

    def test_closure(self, cluster: Executor, capsys: pytest.CaptureFixture[str]) -> None:
        """C15: a function that no worker can import goes by value; what it prints comes back."""
        offset = 5

        def adds(number: int) -> list[int]:
            print("adding to", number)
            return [number + offset, os.getpid()]

        [call] = ask(adds, {"number": 2}, run_in=cluster)
        assert call["output"][0] == 7
        assert call["output"][1] != os.getpid()
        assert capsys.readouterr().out == "adding to 2\n"

    def test_equal_calls(self, cluster: Executor, tmp_path: Path) -> None:
        """Two calls with equal arguments are two calls, each runs once."""

        def writes(folder: str) -> str:
            handle = open(f"{folder}/log", "a")  # noqa: SIM115 - one write, whole
            handle.write("x")
            handle.close()
            return "written"

        same = {"folder": str(tmp_path)}
        ask(writes, same, same, run_in=cluster)
        assert (tmp_path / "log").read_text() == "xx"

    def test_errors(self, cluster: Executor) -> None:
        """C16: what a function raises is its own error; a result that cannot be pickled is named by its type."""

        def fails() -> None:
            raise LookupError("not there")

        def holds() -> dict[str, Any]:
            import threading

            return {"lock": threading.Lock()}

        [failed] = ask(fails, run_in=cluster)
        assert failed["errorText"] == "LookupError: not there"
        [held] = ask(holds, run_in=cluster)
        assert held["errorText"].startswith("The result cannot be pickled")
        assert "dict" in held["errorText"]

    def test_timeout(self, dask: Executor, engines: ipyparallel.Client) -> None:
        """A call that has begun is left after 2 s more and said to run on; its late result goes to the ledger only."""

        def sleeps() -> str:
            import time

            time.sleep(2.6)
            return "late"

        # Of both libraries at once: it takes its time.
        chats = [chat_about(sleeps, run_in=executor, timeout=0.2) for executor in (dask, engines[:].executor)]
        submissions = [chat.send("go") for chat in chats]
        for submission, chat in zip(submissions, chats, strict=True):
            submission.result(DEADLINE)
            assert [call["errorText"] for call in calls(chat)] == ["timed out after 0.2 s; still running"]
        store = open_store(None)
        for chat in chats:
            until(lambda chat=chat: [row.state for row in store.load_calls(chat.id)] == ["done"])
            assert [row.output for row in store.load_calls(chat.id)] == ["late"]
            assert list(chat.objects.names()) == []
            assert "late" not in chat.export("json")

    def test_stop_before_it_begins(self, cluster: Executor, tmp_path: Path) -> None:
        """A call that no worker has begun is taken back, and never runs."""

        def waits(folder: str, name: str) -> str:
            import pathlib
            import time

            pathlib.Path(folder, name).touch()
            while not pathlib.Path(folder, "gate").exists():
                time.sleep(0.02)
            return name

        folder = tmp_path / "calls"
        folder.mkdir()
        names = [{"folder": str(folder), "name": name} for name in "abcdef"]
        chat = chat_about(waits, *names, run_in=cluster, read_only=True)
        submission = chat.send("go")
        until(lambda: len(list(folder.iterdir())) >= 2)
        chat.stop()
        submission.result(DEADLINE)
        begun = {path.name for path in folder.iterdir()}
        (folder / "gate").touch()
        told = {call["input"]["name"]: call["errorText"] for call in calls(chat)}
        assert {name for name, text in told.items() if not text.startswith("Not executed")} == begun
        # Another call gets through behind them, and those that were taken back did not run before it.
        ask(waits, {"folder": str(folder), "name": "z"}, run_in=cluster)
        assert {path.name for path in folder.iterdir()} == {*begun, "gate", "z"}

    def test_progress(self, cluster: Executor, caplog: pytest.LogCaptureFixture) -> None:
        """`ctx.progress` is a no-op there, which is logged once."""

        def reports(ctx: ActionContext) -> str:
            ctx.progress(1, 2, "half")
            return ctx.action

        executors._unheard_executors.clear()
        caplog.set_level("INFO", logger="chatnb")
        for _ in range(2):
            [call] = ask(reports, run_in=cluster)
            assert call["output"] == "reports"
        assert len([record for record in caplog.records if "ctx.progress" in record.getMessage()]) == 1


class TestDask:
    """What is Dask's own."""

    def test_threads_of_a_worker(self, dask: Executor, capsys: pytest.CaptureFixture[str]) -> None:
        """Section 3: of calls that run at once in one worker each brings what itself printed."""

        def prints(word: str) -> None:
            import time

            for _ in range(5):
                print(word)
                time.sleep(0.02)

        ask(prints, {"word": "one"}, {"word": "two"}, run_in=dask, read_only=True)
        assert capsys.readouterr().out in ("one\n" * 5 + "two\n" * 5, "two\n" * 5 + "one\n" * 5)

    def test_a_worker_dies(self, dask: Executor, tmp_path: Path) -> None:
        """A call whose worker died is an error that names the executor; Dask's new worker does not run it again."""

        def dies(path: str) -> None:
            import os

            with open(path, "a") as file:
                file.write("x")
            os._exit(3)

        [call] = ask(dies, {"path": str(tmp_path / "log")}, run_in=dask)
        assert "ClientExecutor did not finish the call" in call["errorText"]
        assert (tmp_path / "log").read_text() == "x"

    def test_workers_in_this_process(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Section 3: where the workers are threads of the kernel's process, its streams are left alone."""
        begun, gate = threading.Event(), threading.Event()
        _shared.update(begun=begun, gate=gate)
        with (
            distributed.LocalCluster(
                n_workers=1, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            submission = chat_about(prints_here, run_in=client.get_executor()).send("go")
            assert begun.wait(DEADLINE)
            print("the cell's own")
            assert capsys.readouterr().out == "the cell's own\n"
            gate.set()
            submission.result(DEADLINE)
        assert capsys.readouterr().out == "the call's\n"


def test_tickets(engines: ipyparallel.Client) -> None:
    """No two handings-over are equal, and each library is known."""
    views = [engines[0].executor, engines.load_balanced_view().executor]
    assert {ticket_for(view, None).library for view in views} == {"ipyparallel"}
    assert ticket_for(views[0], None) != ticket_for(views[0], None)


_shared: dict[str, threading.Event] = {}


def prints_here() -> None:
    """Print in a worker that is a thread of this process."""
    _shared["begun"].set()
    _shared["gate"].wait(DEADLINE)
    print("the call's")


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    pause = threading.Event()
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        pause.wait(0.02)
