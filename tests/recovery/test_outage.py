"""A database that does not answer for a while: the turn waits for it, and nothing runs twice (spec/recovery.md, 9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chatnb import Agent, action
from chatnb.errors import StoreError, StoreFullError, StoreUnavailableError
from chatnb.history.repair import UNKNOWN
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import mock_chat
from tests.recovery.processes import Scene

entered: list[str] = []


@action(run_in="thread")
async def pay(order: str) -> str:
    """Pay an order."""
    entered.append(order)
    return f"paid {order}"


class Outage:
    """A store whose transactions fail from one of them on, as often as wanted."""

    def __init__(self, store: Any) -> None:
        self._write = store.write
        store.write = self.write
        self.count = 0
        self.first: int | None = None
        self.left = 0
        self.error: StoreError = StoreUnavailableError("it does not answer")

    @contextmanager
    def write(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Open a transaction, or fail."""
        self.count += 1
        if self.first is not None and self.count >= self.first and self.left > 0:
            self.left -= 1
            raise self.error
        with self._write(*args, **options) as tx:
            yield tx


async def answered(mock: Any, seconds: int = 40) -> Any:
    submission = mock.chat.send("hi")
    for _ in range(seconds):
        if submission.done:
            break
        await mock.clock.advance(1.0)
    return await submission


def script() -> ScriptedModel:
    return ScriptedModel([Reply("sure", calls=[("pay", {"order": "7"}, "c1")]), "done", "more"])


WRITES = 13
"""At least so many transactions make a turn with one call, after that of its input."""


class TestShort:
    """Less than 30 s: nobody notices."""

    @pytest.mark.parametrize("first", range(2, WRITES + 1))
    async def test_any_write(self, first: int) -> None:
        """Whichever write of a turn the outage begins with, the turn completes and the handler runs once."""
        entered.clear()
        async with mock_chat(Agent(script(), actions=[pay])) as mock:
            outage = Outage(mock.store)
            outage.first, outage.left = first, 5
            outcome = await answered(mock)
            assert (outage.left, outcome.status, entered) == (0, "completed", ["7"])
            assert [p.type for p in outcome.message.parts].count("tool-pay") == 1
            assert [c["type"] for c in mock.chunks].count("tool-output-available") == 1
            assert [row.state for row in mock.store.load_calls(mock.chat.id)] == ["done"]
            await mock.restart()
            assert mock.chat.messages[-1].text == outcome.text == "sure\n\ndone"

    async def test_a_decision_and_the_end(self) -> None:
        """A decision that came while its message streamed counts once, also when the turn's end is written twice."""
        entered.clear()
        asked = action(needs_approval=True)(pay.function)
        agent = Agent(ScriptedModel([Reply(calls=[("pay", {"order": "7"}, "c1")]), "done"]), actions=[asked])
        async with mock_chat(agent) as mock:
            outage = Outage(mock.store)
            decided: list[Any] = []

            @agent.on_before_turn_complete
            def before(event: Any) -> None:
                if not decided:
                    decided.append(mock.chat.approve())
                    outage.first, outage.left = outage.count + 2, 3

            await answered(mock)
            await mock.done()
            assert (outage.left, entered, len(mock.chat.pending)) == (0, ["7"], 0)
            assert (await decided[0]).status == "completed"
            assert mock.chat.messages[-1].text == "done"


class TestLocked:
    """Another program holds the database for longer than SQLite waits."""

    def test_while_a_handler_runs(self, scene: Scene) -> None:
        """The result of a call is written when the database answers again; the turn completes."""
        found = scene.run("""
        import sqlite3, threading, time
        held = threading.Event()

        def hold():
            db = sqlite3.connect(folder / "chats.db", isolation_level=None)
            db.execute("begin immediate")
            held.set()
            time.sleep(5.5)
            db.execute("rollback")
            db.close()

        @action(run_in="thread")
        def lock(order: str) -> str:
            "Lock the database."
            mark(f"lock {order}")
            threading.Thread(target=hold).start()
            held.wait()
            return "locked"

        chat = make_agent(Reply(calls=[("lock", {"order": "7"}, "c1")]), "done", actions=[lock]).chat("c")
        outcome = await chat.send("hi")
        result = [outcome.status, outcome.text, shown(chat)["parts"][1][1]]
        """)
        assert found == ["completed", "done", ["lock", "output-available", "locked"]]
        assert scene.calls == ["lock 7"]


class TestLong:
    """30 s and more: the turn ends, and says what is known."""

    @pytest.mark.parametrize("error", [StoreUnavailableError("gone"), StoreFullError("full")])
    async def test_a_result_that_could_not_be_written(self, error: StoreError) -> None:
        """The handler has run: its result is reported as unknown, not as never made; later it is not run again."""
        entered.clear()
        outages: list[Outage] = []

        @action(name="pay", run_in="thread")
        async def pay_and_lose(order: str) -> str:
            """Pay an order; then nothing can be written any more."""
            entered.append(order)
            outages[0].first, outages[0].left = 0, 10**6
            return f"paid {order}"

        async with mock_chat(Agent(script(), actions=[pay_and_lose])) as mock:
            outage = Outage(mock.store)
            outages.append(outage)
            outage.error = error
            submission = mock.chat.send("hi")
            for _ in range(60):
                if submission.done:
                    break
                await mock.clock.advance(1.0)
            outcome = await submission
            assert (outcome.status, outcome.error.stage, entered) == ("error", "store", ["7"])
            assert type(outcome.error.cause) is type(error)
            part = next(p for p in mock.chat.messages[-1].parts if p.type == "tool-pay")
            assert (part.state, part.error_text) == ("output-error", UNKNOWN)
            outage.left = 0
            assert (await mock.chat.send("and now?")).status == "completed"
            assert entered == ["7"]
            assert UNKNOWN in str(mock.requests[-1].messages)
