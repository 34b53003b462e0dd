"""The examples in docstrings run: what `help()` shows can be copied."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chatnb
from chatnb import Agent, ScriptedModel, action
from chatnb.testing import mock_chat

HOOKS = (
    "on_boot on_chat_start on_validate_messages hydrate_messages on_turn_start prepare_messages run "
    "on_before_turn_complete on_turn_complete on_action on_chat_recovery on_compacted"
).split()
NAMES = """
Agent Agent.chat Agent.load Agent.on_change AnthropicModel Chat.approve Chat.edit Chat.export Chat.fork Chat.inject
Chat.regenerate Chat.reject Chat.send Chat.undo Compaction Debounce Model Objects Outcome PydanticAIModel RecordedModel
Reply ScriptedModel Steering Submission Turn Variables action action_errors compare mock_chat
"""
MUST_HAVE = [*NAMES.split(), *(f"Agent.{name}" for name in HOOKS)]


def documented() -> Iterator[tuple[str, Any]]:
    """Every public name and the public functions of every public class, and `mock_chat`."""
    yield "mock_chat", mock_chat
    for name in chatnb.__all__:
        thing = getattr(chatnb, name)
        yield name, thing
        if inspect.isclass(thing):
            own = (cls for cls in thing.__mro__ if cls.__module__.startswith("chatnb"))
            for inner, member in (pair for cls in own for pair in vars(cls).items()):
                if not inner.startswith("_") and inspect.isfunction(member):
                    yield f"{name}.{inner}", member


def example_of(thing: Any) -> str | None:
    found = re.search(r"^Example:\n((?:[ ]{4}.*\n?|\n)+)", inspect.getdoc(thing) or "", re.M)
    return textwrap.dedent(found[1]) if found else None


EXAMPLES = {name: code for name, thing in documented() if (code := example_of(thing)) is not None}


@action(read_only=True)
def sales(region: str) -> int:
    """Look up the sales of a region."""
    return 1250


@action(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return "refunded"


class TestExamples:
    """Docstrings of public names: an example where one helps, and it runs."""

    def test_who_has_one(self) -> None:
        """The names that a newcomer looks up first."""
        assert sorted(set(MUST_HAVE) - set(EXAMPLES)) == []

    @pytest.mark.parametrize("name", sorted(EXAMPLES))
    async def test_it_runs(self, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Each in a namespace of its own, with an agent, a chat that has had a question, and one that asks."""
        if name == "PydanticAIModel":
            pytest.importorskip("pydantic_ai")
        monkeypatch.setenv("CHATNB_STORE", str(tmp_path / "chats.db"))
        monkeypatch.chdir(tmp_path)
        (tmp_path / "plot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        monkeypatch.setenv("CHATNB_OFFLINE_RHYTHM", "0")
        agent = Agent(ScriptedModel(["Fine."], loop=True), actions=[sales])
        chat, gated = agent.chat(), Agent("offline", actions=[refund]).chat()
        await chat.send("Show the sales in the North")
        namespace = {**{public: getattr(chatnb, public) for public in chatnb.__all__}, "mock_chat": mock_chat}
        namespace |= {"agent": agent, "chat": chat, "gated": gated, "sales": sales}
        code = compile(EXAMPLES[name], name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        try:
            result = eval(code, namespace)
            if inspect.isawaitable(result):
                await result
            if name.startswith("Agent.") or name == "Turn":  # a hook: it is called
                outcome = await agent.chat().send("Go on")
                assert outcome.status == "completed", outcome
        finally:
            for opened in list(agent.composition().chats.values()):
                opened.close()
