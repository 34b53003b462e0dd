"""Real processes for tests of recovery: each piece of a scenario runs in its own, which may be killed by SIGKILL.

A nursery process imports chatnb once and forks a child for each piece, so that one costs milliseconds. The child runs
the body of an async function that is handed over as source text; what it leaves in `result` comes back as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Pieces: an answer that is being written, and the opening that comes after.
PARTIAL = """
chat = make_agent(Reply("one two three four", delay=0.03), {options}).chat("c")
await chat.send("hi"{body})
"""
OPEN = """
chat = make_agent({steps}).chat("c")
stable = await chat.stable()
result = shown(chat)
"""
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Ended:
    """How a piece ended."""

    status: int
    """0, a failure's exit code, or minus the signal that killed it."""
    result: Any = None
    error: str | None = None

    @property
    def is_killed(self) -> bool:
        """It was killed by SIGKILL."""
        return self.status == -9


class Nursery:
    """The parent of the processes of one test module."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.recovery.processes"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CHATNB_OFFLINE_RHYTHM": "0"},
        )

    def _ask(self, **job: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, folder: Path, code: str, **options: Any) -> int:
        """Start a piece; return its pid."""
        number = len(list(folder.glob("result-*"))) + len(list(folder.glob("started-*")))
        (folder / f"started-{number}").touch()
        job = {"folder": str(folder), "code": textwrap.dedent(code), "number": number, **options}
        return int(self._ask(start=job))

    def wait(self, pid: int) -> Ended:
        """Wait for a piece."""
        answer = self._ask(wait=pid)
        return Ended(answer["status"], answer.get("result"), answer.get("error"))

    def close(self) -> None:
        """End the nursery."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(10)
        if self._process.stdout is not None:
            self._process.stdout.close()


@dataclass
class Scene:
    """One chat in one folder, looked at by processes that come and go."""

    nursery: Nursery
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, code: str, **options: Any) -> Any:
        """Run a piece to its end and return its result."""
        ended = self.end(self.start(code, **options))
        assert ended.status == 0, ended.error
        return ended.result

    def crash(self, code: str, at: str | None = None, **options: Any) -> None:
        """Run a piece that is killed: at a kill point, or by itself."""
        ended = self.end(self.start(code, at=at, **options))
        assert ended.is_killed, (ended.status, ended.error)

    def start(self, code: str, **options: Any) -> int:
        """Start a piece; return its pid."""
        return self.nursery.start(self.folder, code, **{**self.options, **options})

    def end(self, pid: int) -> Ended:
        """Wait for a piece."""
        return self.nursery.wait(pid)

    def lines(self, name: str) -> list[str]:
        """Return the lines that pieces have written to a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def calls(self) -> list[str]:
        """The entries of handlers, over all processes."""
        return self.lines("calls")

    @property
    def model_calls(self) -> int:
        """How often models were asked, over all processes."""
        return len(self.lines("models"))

    @property
    def hooks(self) -> list[dict[str, Any]]:
        """The calls of hooks, over all processes."""
        return [json.loads(line) for line in self.lines("hooks")]


def crash_in_text(scene: Scene, options: str = "", body: str = "", n: int = 2) -> None:
    """Let a process die while an answer of four words is written, after the n-th batch of its log."""
    scene.crash(PARTIAL.format(options=options, body=body), at=f"chunk.flushed:{n}")


def reopen(scene: Scene, steps: str = '"(on)"', **options: Any) -> Any:
    """Open the chat in another process, wait until it is stable, and return what is to be seen of it."""
    return scene.run(OPEN.format(steps=steps), **options)


def recoveries(scene: Scene) -> list[dict[str, Any]]:
    """Return what the calls of `on_chat_recovery` were told."""
    return [h for h in scene.hooks if h["hook"] == "on_chat_recovery"]


# --- the nursery's side ---------------------------------------------------------------------------------------------


def serve() -> None:
    """Fork a child for each job on stdin, say how children end."""
    from tests.recovery import stage

    folders: dict[int, tuple[Path, int]] = {}
    # Loaded once: the first opening of a store is the slow one.
    stage.warm_up()
    for line in sys.stdin:
        job = json.loads(line)
        if "start" in job:
            pid = os.fork()
            if pid == 0:
                _child(job["start"])
            folders[pid] = (Path(job["start"]["folder"]), job["start"]["number"])
            _say(pid)
        else:
            _say(_reap(job["wait"], folders))


def _say(value: Any) -> None:
    print(json.dumps(value), flush=True)


def _reap(pid: int, folders: dict[int, tuple[Path, int]]) -> Any:
    _, status = os.waitpid(pid, 0)
    folder, number = folders.pop(pid)
    answer: dict[str, Any] = {"status": os.waitstatus_to_exitcode(status)}
    path = folder / f"result-{number}"
    if path.exists():
        answer |= json.loads(path.read_text())
    return answer


def _child(job: dict[str, Any]) -> None:
    """Run one piece in the forked process; never returns."""
    status = 1
    folder = Path(job["folder"])
    answer: dict[str, Any]
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        answer = {"result": _run(job, folder)}
        status = 0
    except BaseException:  # noqa: BLE001 - reported to the test
        answer = {"error": traceback.format_exc()}
    (folder / f"result-{job['number']}").write_text(json.dumps(answer))
    if job.get("leave") == "exit":
        sys.exit(status)
    os._exit(status)


def _run(job: dict[str, Any], folder: Path) -> Any:
    from tests.recovery import stage

    if job.get("at"):
        os.environ["CHATNB_KILL_AT"] = job["at"]
        from chatnb.testing import enable_kill_points

        enable_kill_points()
    if job.get("shift"):
        from chatnb.testing import shift_clock

        shift_clock(job["shift"])
    names = stage.names(folder, job)
    source = "async def piece():\n    result = None\n" + textwrap.indent(job["code"], "    ") + "\n    return result\n"
    exec(compile(source, "piece", "exec"), names)
    return asyncio.run(_limited(names["piece"](), job.get("limit", 20.0)))


async def _limited(piece: Any, seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await piece


if __name__ == "__main__":
    serve()
