"""The exposure and approval matrix of spec/actions.md, section 11, as one test over six sites and direct calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chatnb import Agent, Identity, action
from chatnb.actions import Action
from chatnb.actions.exposure import is_exposed
from chatnb.models import Reply, ScriptedModel
from chatnb.sites.place import SitePlace
from chatnb.testing import mock_chat

SITES = ("agent", "widget", "http", "mcp", "a2a", "cli", "python")
ran: list[str] = []


def make(name: str, **options: Any) -> Action:
    """An action that notes that it ran."""

    def handler() -> str:
        """Run."""
        ran.append(name)
        return name

    return Action(handler, name=name, **options)


# Which sites show it, in the order of SITES.
SHOWN = {
    "plain": ({}, "1111111"),
    "ui_only": ({"ui_only": True}, "0110001"),
    "no_http": ({"http": False}, "1101111"),
    "no_agent": ({"agent_tool": False}, "0110011"),
    "no_mcp": ({"mcp_tool": False}, "1110011"),
    "mcp_alone": ({"agent_tool": False, "mcp_tool": True}, "0111111"),
    "ends_turn": ({"ends_turn": True}, "1110011"),
    "ends_turn_mcp": ({"ends_turn": True, "mcp_tool": True}, "1111111"),
}


class TestExposure:
    """What a site does not show, it does not run."""

    @pytest.mark.parametrize("kind", SHOWN)
    @pytest.mark.parametrize("site", SITES)
    async def test_shown(self, kind: str, site: Any) -> None:
        """11, first row: shown or `unknown_action`, at the list and at the call."""
        options, shown = SHOWN[kind]
        made = make(kind, **options)
        wanted = shown[SITES.index(site)] == "1"
        assert is_exposed(made, site) is wanted
        if site == "agent":
            model = ScriptedModel([Reply(calls=[(kind, {})]), "done", "done"])
            ran.clear()
            async with mock_chat(Agent(model, actions=[made])) as mock:
                await mock.chat.send("x")
            assert (ran == [kind]) is wanted
        elif site != "python":
            place = SitePlace(Agent(ScriptedModel([]), actions=[made]))
            settled = await place.work(
                lambda: place.dispatcher.dispatch(kind, {}, site=site, identity=Identity("ann"), proof=True), "call"
            )
            code = settled.failure.code if settled.failure is not None else None
            assert (code == "unknown_action") is not wanted


async def at_agent(made: Action) -> str:
    async with mock_chat(Agent(ScriptedModel([Reply(calls=[(made.name, {})])]), actions=[made])) as mock:
        return (await mock.chat.send("x")).status


async def at_python(made: Action) -> str:
    made()
    return "runs"


def at_site(site: Any, **options: Any) -> Callable[[Action], Awaitable[str]]:
    async def call(made: Action) -> str:
        place = SitePlace(Agent(ScriptedModel([]), actions=[made]))
        given = {"identity": Identity("ann"), **options}
        settled = await place.work(
            lambda: place.dispatcher.dispatch(made.name, {}, site=site, **given),  # type: ignore[arg-type]
            "call",
        )
        return "runs" if settled.failure is None else settled.failure.code

    return call


async def yes(_prepared: Any) -> bool:
    return True


async def no(_prepared: Any) -> bool:
    return False


ROBOT = Identity("robot", kind="service")
GATED: dict[str, tuple[Callable[[Action], Awaitable[str]], str]] = {
    "agent": (at_agent, "awaiting"),
    "widget, click with nonce": (at_site("widget", proof=True), "runs"),
    "widget, no nonce": (at_site("widget"), "approval_required"),
    "http, no proof": (at_site("http"), "approval_required"),
    "http, proof": (at_site("http", proof=True), "runs"),
    "http, service with proof": (at_site("http", proof=True, identity=ROBOT), "approval_required"),
    "mcp, no elicitation": (at_site("mcp"), "approval_required"),
    "mcp, approve": (at_site("mcp", confirm=yes), "runs"),
    "mcp, deny": (at_site("mcp", confirm=no), "approval_required"),
    "mcp, service": (at_site("mcp", confirm=yes, identity=ROBOT), "approval_required"),
    "a2a": (at_site("a2a"), "approval_required"),
    "cli, no terminal": (at_site("cli"), "approval_required"),
    "cli, yes": (at_site("cli", confirm=yes), "runs"),
    "cli, other hash": (at_site("cli", approved_hash="0" * 64), "approval_mismatch"),
    "direct": (at_python, "runs"),
}


class TestApproval:
    """A gated call that nobody has approved."""

    @pytest.mark.parametrize("where", GATED)
    async def test_gated(self, where: str) -> None:
        """11, second row."""
        call, wanted = GATED[where]
        made = make("gated", needs_approval=True)
        ran.clear()
        assert await call(made) == wanted
        assert (ran == ["gated"]) is (wanted == "runs")

    @pytest.mark.parametrize("where", GATED)
    async def test_broken_predicate(self, where: str) -> None:
        """C2 of actions.md: a predicate that raises asks, at each site."""
        call, wanted = GATED[where]

        @action(needs_approval=lambda args: args["nothing"])
        def broken() -> str:
            """Run."""
            ran.append("broken")
            return "x"

        ran.clear()
        assert await call(broken) == wanted
        assert (ran == ["broken"]) is (wanted == "runs")
