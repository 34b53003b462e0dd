"""Many who decide at once: two views, each with a comm and a command desk, and a cell (spec/actions.md, 4.3)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from chatnb import Agent, action
from chatnb.chat import Chat
from chatnb.models import Reply, ScriptedModel
from chatnb.store import memory_store
from chatnb.turns.records import Pending
from chatnb.widget.panel import Panel
from chatnb.widget.settings import Settings

ROUNDS, ASKS = 100, 10


class Comm:
    """The page's end of one comm: says hello, approves, and keeps the answers."""

    def __init__(self, chat: Chat, name: str) -> None:
        self._name = name
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._changed = threading.Condition()
        self._nonce = ""
        live = {"height": "560px", "theme": "auto", "placeholder": None, "title": None, "suggestions": ()}
        self.panel = Panel(
            chat, name, Settings(), lambda: live, self._receive, lambda *told: None, lambda: None, lambda: False
        )
        self.answer(self.send("hello", versions=[1]))

    def _receive(self, frame: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
        with self._changed:
            if frame["type"] == "secret":
                self._nonce = frame["nonce"]
            elif frame["type"] == "ack":
                self._answers[frame["id"]] = frame
                self._changed.notify_all()

    def send(self, kind: str, **fields: Any) -> str:
        id = f"{self._name}-{kind}-{fields.get('approvalId', '')}"
        content = {"v": 1, "epoch": self.panel.channel.epoch, "view": self._name, "id": id, "type": kind, **fields}
        self.panel.desk.receive(content)
        return id

    def approve(self, asked: Pending) -> str:
        return self.send("approve", approvalId=asked.id, hash=asked.hash, nonce=self._nonce)

    def answer(self, id: str) -> Mapping[str, Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: id in self._answers, 30), f"no answer to {id}"
            return self._answers[id]


class TestRace:
    def test_two_views_and_a_cell_a_thousand_times(self) -> None:
        """C19: they approve the same call at once: it runs once, one of the three has decided, the others hear so."""
        ran: list[int] = []

        @action(needs_approval=True, run_in="thread")
        def pay(n: int) -> str:
            """Pay."""
            ran.append(n)
            return f"paid {n}"

        steps: list[Any] = []
        for turn in range(ROUNDS):
            steps += [Reply(calls=[("pay", {"n": turn * ASKS + n}) for n in range(ASKS)]), "done"]
        chat = Agent(ScriptedModel(steps), actions=[pay], store=memory_store()).chat("race")
        views = [Comm(chat, "view-1"), Comm(chat, "view-2")]
        gate = threading.Barrier(3)
        winners: list[str] = []

        def click(view: Comm, asks: Sequence[Pending]) -> None:
            for asked in asks:
                gate.wait(30)
                answer = view.answer(view.approve(asked))
                assert answer["ok"] or answer["error"]["code"] == "already_decided", answer
                winners.extend([asked.id] if answer["ok"] else [])

        def decide(asks: Sequence[Pending]) -> None:
            for asked in asks:
                gate.wait(30)
                status = chat.approve(asked.id).result(30).status
                assert status in ("applied", "completed", "skipped"), status
                winners.extend([asked.id] if status != "skipped" else [])

        try:
            for _ in range(ROUNDS):
                assert chat.send("go").result(30).status == "awaiting"
                asks = tuple(chat.pending)
                work = [threading.Thread(target=click, args=(view, asks)) for view in views]
                work.append(threading.Thread(target=decide, args=(asks,)))
                for thread in work:
                    thread.start()
                for thread in work:
                    thread.join(60)
                assert sorted(winners) == sorted(asked.id for asked in asks)
                winners.clear()
                assert asyncio.run(chat.stable(30))
                chat.clear().result(30)
            assert ran == list(range(ROUNDS * ASKS))
        finally:
            for view in views:
                view.panel.close()
            chat.close()
