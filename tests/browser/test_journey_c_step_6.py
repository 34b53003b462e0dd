"""Journey C, step 6: the prototype is handed on. A page, the front-end team's client, an MCP server; one gate."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from playwright.sync_api import Page, expect

from tests.browser.jupyter_server import ROOT
from tests.browser.notebook_page import Panel
from tests.browser.test_panel_live import approve, ask
from tests.interop.node import HERE, NODE, install

PROTOTYPE = '''
from chatnb import Agent, action
from chatnb.models import StepEnd


@action(needs_approval=True, title="Refund an order")
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    with open("ran.txt", "a") as file:
        print(order, amount, file=file)
    return "refunded"


class Model:
    name = "clerk"

    async def stream(self, request):
        if request.messages[-1]["role"] == "user" and "refund" in str(request.messages[-1]):
            yield {"type": "tool-input-start", "toolCallId": "c1", "toolName": "refund"}
            call = {"toolCallId": "c1", "toolName": "refund", "input": {"order": "7", "amount": 250.0}}
            yield {"type": "tool-input-available", **call}
            yield StepEnd("tool-calls")
            return
        for chunk in ({"type": "text-start"}, {"type": "text-delta", "delta": "Paid back."}, {"type": "text-end"}):
            yield {"id": "t", **chunk}
        yield StepEnd("stop")


agent = Agent(Model(), name="desk", actions=[refund])
'''
COMMAND = [sys.executable, "-c", "from chatnb.sites.cli import main; main()"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the prototype is."""
    (tmp_path / "prototype.py").write_text(PROTOTYPE)
    return tmp_path


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    """What its processes find there."""
    return {
        **os.environ,
        "CHATNB_STORE": str(folder / "chats.db"),
        "CHATNB_IDENTITY": "ann",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def address(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """`chatnb serve prototype:agent`, running."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "prototype:agent", "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    yield found.group() if found else ""
    process.terminate()
    _, errors = process.communicate(timeout=15)
    assert found, errors


def ran(folder: Path) -> list[str]:
    """What was refunded so far."""
    file = folder / "ran.txt"
    return file.read_text().splitlines() if file.exists() else []


async def refund_by_mcp(folder: Path, environment: dict[str, str], *answers: str) -> list[str]:
    """Call the action at `chatnb mcp` once for each answer of the client's person; without one it can't ask."""
    waiting = list(answers)

    async def say(_context: Any, params: Any) -> types.ElicitResult:
        assert "250" in params.message
        return types.ElicitResult(action="accept", content={"decision": waiting.pop(0)})

    command = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "mcp", "prototype:agent"], cwd=folder, env=environment
    )
    said: list[str] = []
    async with Client(command, elicitation_callback=say if answers else None) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["refund"]
        for _ in answers or (None,):
            [block] = (await client.call_tool("refund", {"order": "7", "amount": 250.0})).content
            assert isinstance(block, types.TextContent)
            said.append(block.text)
    return said


class TestHandedOn:
    """The same panel for colleagues, `useChat` for the front end, the same actions for operations."""

    def test_page_client_and_mcp(
        self,
        address: str,
        folder: Path,
        environment: dict[str, str],
        new_page: Callable[[], Page],
        page_errors: list[str],
    ) -> None:
        """The approvals hold everywhere: nothing runs before a person's yes, and after it exactly once."""
        page = new_page()
        page.goto(address)
        panel = Panel(page.locator(".chatnb-view"))
        expect(panel.root).to_have_attribute("data-connection", "live")
        panel.send("Please refund order 7")
        expect(ask(panel, "refund")).to_contain_text("250")
        assert ran(folder) == []
        approve(panel, "refund")
        expect(panel.message("assistant")).to_contain_text("Paid back.")
        assert ran(folder) == ["7 250.0"]

        played = subprocess.run(
            [NODE, str(HERE / "drive.mjs"), str(install("v7", "ai")), "approve", address],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert played.returncode == 0, played.stderr
        end = json.loads(played.stdout)
        assert (end["invalid"], end["error"], end["requests"]) == (None, None, 2)
        assert end["messages"] == end["stored"]
        assert ran(folder) == ["7 250.0"] * 2

        with httpx.Client(base_url=address) as client:
            listed = client.get("/api/chats").json()["chats"]
            assert "c" in [chat["id"] for chat in listed]
            refused = client.post("/actions/refund", json={"order": "7", "amount": 250.0})
            assert (refused.status_code, refused.json()["errorCode"]) == (409, "approval_required")
        assert len(ran(folder)) == 2
        assert page_errors == []

    def test_mcp(self, folder: Path, environment: dict[str, str]) -> None:
        """The operations team's clients ask their person; without one, or after a no, nothing runs."""

        def call(*answers: str) -> list[str]:
            # Playwright's loop runs in this thread for good.
            with ThreadPoolExecutor(1) as threads:
                return threads.submit(asyncio.run, refund_by_mcp(folder, environment, *answers)).result()

        [refused] = call()
        assert "approval_required" in refused
        assert ran(folder) == []
        refused, said = call("deny", "approve")
        assert "approval_required" in refused
        assert said == "refunded"
        assert ran(folder) == ["7 250.0"]
