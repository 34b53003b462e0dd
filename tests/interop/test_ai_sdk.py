"""The npm package `ai`, versions 6 and 7, drives a live server: both sides end with the same messages (issue 8)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chatnb import Agent, ClientTool, action
from chatnb.models import Reply, ScriptedModel
from tests.interop.node import HERE, NODE, install
from tests.sites.http_server import by_key, serving

VERSIONS = ("v6", "v7")
ran: list[Any] = []


@action(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    ran.append((order, amount))
    return "refunded"


@action
def note(text: str) -> str:
    """Write a note."""
    ran.append(text)
    return "noted"


@action
def fail() -> str:
    """Fail."""
    raise RuntimeError("no")


ASK = ClientTool("ask_page", "Asks the page.", {"type": "object", "properties": {}})
REFUND = ("refund", {"order": "7", "amount": 250.0})
NOTE = ("note", {"text": "n"})
SLOW = Reply("one two three four five six seven eight", delay=0.15)

SCRIPTS: dict[str, list[Any]] = {
    "plain": ["Hello there.", Reply("Well.", reasoning="hm")],
    "edit": ["one", "two", "three"],
    "regenerate": ["one", "two", "three"],
    "approve": [Reply("I ask.", calls=[REFUND]), "done", "never"],
    "reject": [Reply(calls=[REFUND]), "fine", "never"],
    "held": [Reply(calls=[REFUND, NOTE]), "done", "never"],
    "twice": [Reply(calls=[REFUND]), Reply(calls=[REFUND]), "done", "never"],
    "failing": [Reply(calls=[("fail", {})]), "sorry", "never"],
    "clientTool": [Reply(calls=[("ask_page", {})]), "red", "never"],
    "mixed": [Reply(calls=[("ask_page", {}), REFUND]), "both", "never"],
    "abort": [SLOW],
    "resume": [SLOW],
    "reload": [Reply(calls=[REFUND]), "done", "never"],
}
REQUESTS = {"plain": 2, "edit": 3, "regenerate": 3, "failing": 1, "twice": 3, "abort": 1, "reload": 3}
RUNS = {"approve": 1, "held": 2, "twice": 2, "mixed": 1, "reload": 1}


@pytest.fixture(scope="session", params=VERSIONS)
def package(request: pytest.FixtureRequest) -> Path:
    """The folder of one version, installed from the registry."""
    return install(request.param, "ai")


def drive(package: Path, scenario: str) -> dict[str, Any]:
    """Play one scenario; returns what the client has printed."""
    ran.clear()
    agent = Agent(ScriptedModel(SCRIPTS[scenario]), actions=[refund, note, fail])
    with serving(agent, authenticate=by_key, client_tools=[ASK], resume_within=0.2) as address:
        result = subprocess.run(
            [NODE, str(HERE / "drive.mjs"), str(package), scenario, address],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def without_reasons(messages: list[Any]) -> list[Any]:
    """Messages as version 6 keeps them: it knows no reason of a request."""
    for message in messages:
        for part in message["parts"]:
            part.get("approval", {}).pop("requestReason", None)
    return messages


class TestBothSides:
    """Each scenario ends with the same messages in the client and in the store, and both are valid."""

    @pytest.mark.parametrize("scenario", SCRIPTS)
    def test_scenario(self, package: Path, scenario: str) -> None:
        """The client's messages are the server's; nothing loops; approved calls ran once."""
        end = drive(package, scenario)
        assert end["invalid"] is None
        assert (end["status"], end["error"]) == ("ready", None)
        if scenario == "abort":
            said = [m["parts"][-1]["text"] for m in (end["messages"][-1], end["stored"][-1])]
            assert said[1].startswith(said[0])
            assert "eight" not in said[1]
        else:
            assert end["messages"] == (without_reasons(end["stored"]) if package.name == "v6" else end["stored"])
        assert end["requests"] == REQUESTS.get(scenario, 2)
        assert len(ran) == RUNS.get(scenario, 0)
