"""The A2A server dies between a decision and its result; another takes the task up (spec/actions.md, 11.5)."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, TaskState
from a2a.utils.errors import InternalError

from tests.sites.http_server import served_by_command
from tests.sites.test_a2a_tasks import approvals, ask, caller, text_of

DONE, WAITS, FAILED, WORKING = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_INPUT_REQUIRED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_WORKING,
)
PROTOTYPE = '''
from chatnb import Agent, Identity, action
from chatnb.models import StepEnd
from chatnb.testing import enable_kill_points

enable_kill_points()


@action(needs_approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    with open("ran.txt", "a") as file:
        file.write(order + "\\\\n")
    return "refunded"


class Model:
    name = "model"

    async def stream(self, request):
        if any(message["role"] == "tool" for message in request.messages):
            yield {"type": "text-start", "id": "t"}
            yield {"type": "text-delta", "id": "t", "delta": "done"}
            yield {"type": "text-end", "id": "t"}
            yield StepEnd("stop")
        else:
            yield {"type": "tool-input-start", "toolCallId": "c1", "toolName": "refund"}
            yield {"type": "tool-input-available", "toolCallId": "c1", "toolName": "refund", "input": {"order": "7"}}
            yield StepEnd("tool-calls")


def who(request):
    return Identity("ann")


agent = Agent(Model(), actions=[refund])
'''.replace("\\\\n", "\\n")


@contextmanager
def serving(folder: Path, kill_at: str | None = None) -> Iterator[str]:
    """Run `chatnb a2a`; yields its address."""
    with served(folder, kill_at) as (address, _):
        yield address


@contextmanager
def served(folder: Path, kill_at: str | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `chatnb a2a`; yields its address and process."""
    (folder / "prototype.py").write_text(PROTOTYPE)
    variables = {"CHATNB_STORE": str(folder / "chats.db"), "CHATNB_IDENTITY": "ann"}
    if kill_at is not None:
        variables["CHATNB_KILL_AT"] = kill_at
    words = ("a2a", "prototype:agent", "--port", "0", "--authenticate", "prototype:who")
    with served_by_command(folder, *words, **variables) as (address, process):
        try:
            yield address, process
            if kill_at is not None:
                assert process.wait(15) == -9
        finally:
            process.send_signal(signal.SIGCONT)


def decide(address: str, task: Any) -> httpx.Response | None:
    """Approve as the page does; None when the server dies of it."""
    with httpx.Client(base_url=address, timeout=15) as page:
        assert page.get("/ui-capability").status_code == 204
        headers = {"x-chatnb-ui": "1", "origin": address}
        body = {"approvalId": approvals(task)[0]["id"], "approved": True}
        try:
            return page.post(f"/actions/-/tasks/{task.id}/decision", json=body, headers=headers)
        except httpx.TransportError:
            return None


async def ended(client: Any, task_id: str) -> Any:
    """Return the task when it neither works nor waits to be taken up."""
    for _ in range(500):
        task = await client.get_task(GetTaskRequest(id=task_id))
        if task.status.state != WORKING:
            return task
        await asyncio.to_thread(threading.Event().wait, 0.02)
    raise AssertionError("the task does not end")


class TestDeath:
    """A lost lease before the entry is taken again; after it the outcome is unknown, and nothing runs again."""

    @pytest.mark.parametrize(
        ("point", "state", "runs"),
        [
            ("tool.before_entry", DONE, 1),
            ("tool.entered", FAILED, 0),
            ("tool.returned", FAILED, 1),
        ],
    )
    async def test_after_the_decision(self, tmp_path: Path, point: str, state: Any, runs: int) -> None:
        """11.5: wherever the server dies, the stored call is entered once at most, and the task says what is known."""
        with serving(tmp_path, point) as address:
            async with caller(address) as client:
                task = await ask(client, "refund")
                assert task.status.state == WAITS
            decide(address, task)
        with serving(tmp_path) as address:
            async with caller(address) as client:
                end = await ended(client, task.id)
                again = await client.get_task(GetTaskRequest(id=task.id))
        assert end.status.state == state
        assert again.status.state == state
        if state == FAILED:
            assert "outcome unknown" in end.status.message.parts[0].text.lower()
        else:
            assert text_of(end) == "done"
        ran = tmp_path / "ran.txt"
        assert (ran.read_text().splitlines() if ran.exists() else []) == ["7"] * runs

    async def test_a_lease_that_is_not_renewed(self, tmp_path: Path) -> None:
        """11.5: a server that hangs keeps the task for 60 s; then another takes it, and the first runs nothing."""
        with served(tmp_path) as (first, process):
            async with caller(first) as client:
                task = await ask(client, "refund")
            process.send_signal(signal.SIGSTOP)
            with serving(tmp_path) as second:
                async with caller(second) as client:
                    with pytest.raises(InternalError):
                        await client.get_task(GetTaskRequest(id=task.id))
                    with sqlite3.connect(tmp_path / "chats.db") as store:
                        past = "2026-01-01T00:00:00.000000+00:00"
                        store.execute("UPDATE chats SET heartbeat_at = ? WHERE id LIKE 'a2a-%'", [past])
                    decide(second, await client.get_task(GetTaskRequest(id=task.id)))
                    assert (await ended(client, task.id)).status.state == DONE
                    process.send_signal(signal.SIGCONT)
                    late = decide(first, task)
                    assert late is not None
                    assert late.status_code == 409
        assert (tmp_path / "ran.txt").read_text().splitlines() == ["7"]
