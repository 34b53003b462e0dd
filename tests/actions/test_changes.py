"""Refresh events: who hears of them, and those of other processes (spec/actions.md, 8.5)."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from chatnb import Agent
from chatnb.actions import Action, ActionContext, Change, action
from chatnb.chat import Chat
from chatnb.models import ScriptedModel

from .agents import calls, chat_of

OTHER = """
import sys
from chatnb import Agent, action, ActionContext

@action
def book(n: int, ctx: ActionContext) -> int:
    '''Book.'''
    ctx.changed("orders")
    return n

@action(read_only=True)
def look() -> int:
    '''Look.'''
    return 1

agent = Agent("offline", actions=[book, look], store=sys.argv[1])
look()
book(int(sys.argv[2]))
"""


def book_elsewhere(store: str, n: int) -> None:
    """Run a direct call in another process."""
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    subprocess.run([sys.executable, "-c", textwrap.dedent(OTHER), store, str(n)], check=True, env=environment)


@pytest.fixture
def book() -> Action:
    @action
    def book(n: int, ctx: ActionContext) -> int:
        """Book."""
        ctx.changed("orders")
        return n

    return book


class TestObservers:
    async def test_what_it_returns_ends_it(self, book: Action) -> None:
        """8.5: `on_change` returns an unsubscribe function; as a decorator it leaves the function callable."""
        heard: list[Any] = []
        step = calls(("book", {"n": 1}))
        async with chat_of([book], step, "ok", step, "ok") as mock:
            off = mock.chat.on_change(heard.append)

            @mock.chat.on_change
            def refresh(change: Any) -> None:
                heard.append(("refresh", change.action))

            await mock.chat.send("go")
            assert [heard[0].action, heard[1]] == ["book", ("refresh", "book")]
            off()
            refresh.unsubscribe()
            await mock.chat.send("go")
            assert len(heard) == 2
            off(Change(action="x", hash=None, site="python", at=heard[0].at))
            assert heard[-1].action == "x"

    async def test_a_cell_that_runs_again(self, book: Action) -> None:
        """8.5: the cell that defines an observer may run again: the function is called once for a change."""
        cell = "@chat.on_change\ndef refresh(change):\n    heard.append(round_)\n"
        loop = (
            "for each in 'ab':\n    def one(change, each=each):\n        heard.append(each)\n    chat.on_change(one)\n"
        )
        step = calls(("book", {"n": 1}))
        async with chat_of([book], step, "ok") as mock:
            heard: list[Any] = []
            names = {"__name__": "__main__", "chat": mock.chat, "heard": heard}
            for number in range(3):
                exec(compile(cell, "<cell>", "exec"), names | {"round_": number})
            exec(compile(loop, "<cell>", "exec"), names)
            await mock.chat.send("go")
            assert heard == [2, "a", "b"]


class TestOtherProcesses:
    def test_they_are_heard_of_within_three_seconds(self, tmp_path: Path, book: Action) -> None:
        """8.5: a write elsewhere reaches the observers of chat and agent, and the views, once each; reads do not."""
        store = f"sqlite:///{tmp_path / 'chats.db'}"
        agent = Agent(ScriptedModel([]), actions=[book], store=store)
        chat: Chat = agent.chat("here")
        heard: queue.Queue[tuple[str, Any]] = queue.Queue()
        try:
            chat.on_change(lambda change: heard.put(("chat", change)))
            agent.on_change(lambda change: heard.put(("agent", change)))
            chat._runtime.call(
                chat._engine.subscribe,
                lambda update: heard.put(("view", update.data)) if update.kind == "change" else None,
            )
            book_elsewhere(store, 7)
            found = dict(heard.get(timeout=3) for _ in range(3))
            assert sorted(found) == ["agent", "chat", "view"]
            change = found["chat"]
            assert (change.action, change.resources, change.chat_id) == ("book", ("orders",), None)
            assert found["view"] == change.to_json()
            book(8)  # here: told at once, and not again by way of the store
            book_elsewhere(store, 9)
            later = [heard.get(timeout=4)[0] for _ in range(6)]
            assert sorted(later) == ["agent", "agent", "chat", "chat", "view", "view"]
            assert heard.empty()
        finally:
            chat.close()

    def test_an_agent_is_heard_without_a_chat(self, tmp_path: Path, book: Action) -> None:
        """8.5: observers of an agent hear of other processes before any chat is open; nothing from before counts."""
        store = f"sqlite:///{tmp_path / 'chats.db'}"
        book_elsewhere(store, 1)
        heard: queue.Queue[Change] = queue.Queue()
        agent = Agent(ScriptedModel([]), actions=[book], store=store)
        off = agent.on_change(heard.put)
        book_elsewhere(store, 2)
        change = heard.get(timeout=3)
        assert (change.action, change.site, change.hash) == ("book", "python", book.prepare({"n": 2}).hash)
        off()
        assert heard.empty()
