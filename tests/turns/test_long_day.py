"""What turns leave behind when they are over: nothing that a long day would gather (spec/recovery.md, section 11)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from sqlalchemy import text

from chatnb import Agent
from chatnb.errors import StoreUnavailableError
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import mock_chat


def logged_turns(mock: Any) -> int:
    """Count the turns whose chunk log is in the store."""
    with mock.chat._engine.store._reading() as connection:
        return int(connection.execute(text("select count(distinct turn_id) from chunks")).scalar_one())


def forget_requests(mock: Any, model: ScriptedModel) -> None:
    """A request knows its turn; that tests and scripts keep all of them is their own affair."""
    mock.requests.clear()
    mock.chunks.clear()
    model.requests.clear()


class TestLogs:
    """The chunk log of an ended turn goes 10 minutes after its end, and no sooner because of another one's."""

    async def test_each_at_its_time(self) -> None:
        async with mock_chat(Agent(ScriptedModel(["a", "b", "c"]))) as mock:
            await mock.chat.send("1")
            await mock.clock.advance(300)
            await mock.chat.send("2")
            assert logged_turns(mock) == 2
            await mock.clock.advance(301)
            assert logged_turns(mock) == 1
            await mock.clock.advance(300)
            assert logged_turns(mock) == 0
            await mock.chat.send("3")  # also after a pause
            await mock.clock.advance(601)
            assert logged_turns(mock) == 0


class TestMemory:
    """A turn that is over is held by nobody, nor does it leave a task."""

    async def test_tasks_and_runs(self) -> None:
        model = ScriptedModel(["answer"], loop=True)
        async with mock_chat(Agent(model)) as mock:
            await mock.chat.send("first")
            before, runs = len(asyncio.all_tasks()), []
            for number in range(5):
                submission = mock.chat.send(f"message {number}")
                await mock.clock.advance(0)
                runs.append(weakref.ref(submission._log))
                await submission
                del submission
            assert len(asyncio.all_tasks()) == before
            forget_requests(mock, model)
            gc.collect()
            assert [ref for ref in runs[:-1] if ref() is not None] == []

    async def test_stopped_turns(self) -> None:
        model = ScriptedModel([Reply("one two three", delay=1.0)], loop=True)
        async with mock_chat(Agent(model)) as mock:
            runs = []
            for number in range(3):
                submission = mock.chat.send(f"message {number}")
                await mock.clock.advance(1.0)
                mock.chat.stop()
                assert (await submission).status == "stopped"
                runs.append(weakref.ref(submission._log))
                del submission
            await mock.clock.advance(130)
            forget_requests(mock, model)
            gc.collect()
            assert [ref for ref in runs[:-1] if ref() is not None] == []


class TestSignsOfLife:
    """An outage of the store is told once, however long it is, and the heart goes on beating."""

    async def test_outages(self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        async with mock_chat(Agent(ScriptedModel(["answer"]))) as mock:
            composition, store = mock.chat._composition, mock.chat._engine.store
            fates = [StoreUnavailableError("away"), StoreUnavailableError("away"), None, ValueError("odd"), None]
            beats: list[object] = []

            def heartbeat(leases: dict[str, str]) -> set[str]:
                beats.append(leases)
                fate = fates[min(len(beats), len(fates)) - 1]
                if fate is not None:
                    raise fate
                return set()

            monkeypatch.setattr(store, "heartbeat", heartbeat)
            composition.runtime.spawn(composition._beat(store), name="heartbeat")
            await mock.clock.advance(30)
            assert len(beats) == 6
            told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
            assert told == [f"no sign of life can be written: {text}" for text in ("away", "odd")]
            assert all(record.exc_info is None for record in caplog.records)
