"""Builders for tests that drive actions through a chat."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from chatnb import Agent
from chatnb.actions import Action
from chatnb.messages import ToolPart, is_tool_part
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import MockChat, mock_chat

Call = tuple[str, Any] | tuple[str, Any, str]


def calls(*called: Call) -> Reply:
    """One step of the model that makes these calls."""
    return Reply(calls=list(called))


@asynccontextmanager
async def chat_of(
    actions: Sequence[Action], *steps: Reply | str, done: bool = True, **options: Any
) -> AsyncIterator[MockChat]:
    """A chat whose model says these steps, and then "done"."""
    script = [*steps, *(["done"] * 3 if done else [])]
    agent = Agent(ScriptedModel(script), actions=list(actions), **options)
    async with mock_chat(agent) as mock:
        yield mock


def parts(mock: MockChat) -> list[ToolPart]:
    """All calls of the last message, in order."""
    return [part for part in mock.chat.messages[-1].parts if is_tool_part(part)]


def part(mock: MockChat, tool_call_id: str) -> ToolPart:
    """The newest part of one call."""
    return next(p for p in reversed(parts(mock)) if p.tool_call_id == tool_call_id)


def audits(mock: MockChat) -> list[tuple[str, str, str | None]]:
    """Action, status and error code of every audit row."""
    return [(row.action, row.status, row.error_code) for row in mock.store.load_audit()]


def ledger(mock: MockChat) -> list[tuple[str, str, str]]:
    """Action, state and effect of every row of the calls ledger."""
    return [(row.action, row.state, row.effect) for row in mock.store.load_calls(mock.chat.id)]


def last_results(mock: MockChat) -> str:
    """The tool messages of the last model request, as text."""
    return json.dumps([m for m in mock.requests[-1].messages if m["role"] == "tool"], default=str)
