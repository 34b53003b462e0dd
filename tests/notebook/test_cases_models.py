"""Models as chats use them: offline, recorded, Anthropic (spec/notebook.md, section 8; cases C31 to C38, C45, C46)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from chatnb import Agent, StepEnd, action
from chatnb.errors import ConfigError
from chatnb.models import AnthropicModel, OfflineModel, RecordedModel, Reply, ScriptedModel, Usage
from chatnb.testing import FakeAnthropic, FakeReply

KEY = "sk-ant-test-0123456789abcdef"


def calls_of(chat: Any) -> list[Any]:
    """The tool parts of the newest answer."""
    return [part for part in chat.messages[-1].parts if part.tool_call_id is not None]


def claude(server: FakeAnthropic, **options: Any) -> AnthropicModel:
    return AnthropicModel("claude-sonnet-4-5", base_url=server.url, api_key=KEY, **options)


@action(needs_approval=True)
def refund(order: str, amount: float) -> dict[str, Any]:
    """Refund an order."""
    return {"order": order, "amount": amount}


@action(read_only=True)
def look_up_sales(region: str) -> list[dict[str, Any]]:
    """Look up sales.

    Args:
        region: The region.
    """
    return [{"region": region, "amount": 5}, {"region": region, "amount": 7}]


class TestOffline:
    """The offline model carries the tour with the reader's own actions."""

    async def test_refund(self) -> None:
        """C31: "Refund order 7, 250 EUR" is one pending call with order "7" and amount 250.0."""
        chat = Agent("offline", actions=[refund]).chat()
        outcome = await chat.send("Refund order 7, 250 EUR")
        assert outcome.status == "awaiting"
        [pending] = chat.pending
        assert pending.args == {"order": "7", "amount": 250.0}
        assert isinstance(pending.args["amount"], float)
        assert (await chat.approve()).status == "completed"
        assert "offline" in chat.messages[-1].text

    async def test_facts(self) -> None:
        """C32: it names no city, says that it is the offline model, and how to plug in Claude."""
        chat = Agent("offline").chat()
        text = (await chat.send("What is the capital of France?")).text
        assert "Paris" not in text
        assert "offline model" in text
        assert "ANTHROPIC_API_KEY" in text

    async def test_asks(self) -> None:
        """C33: "look up sales" asks for the region; after "EU" it calls with region "EU", and shows a table."""
        chat = Agent("offline", actions=[look_up_sales]).chat()
        assert "region" in (await chat.send("look up sales")).text
        assert not calls_of(chat)
        text = (await chat.send("EU")).text
        assert [call.input for call in calls_of(chat)] == [{"region": "EU"}]
        assert "| region | amount |" in text

    async def test_the_default(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        """DESIGN: `Agent()` takes Claude where the key is set, else the offline model, and says so in one line."""
        with caplog.at_level(logging.INFO, "chatnb"):
            assert Agent().model.name == "offline"
            assert len(caplog.records) == 1
            monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
            assert Agent().model.name.startswith("claude")
            assert len(caplog.records) == 2
            assert Agent("offline").model.name == "offline"
        assert len(caplog.records) == 2
        assert "claude-sonnet-4-5" in caplog.records[1].getMessage()
        assert KEY not in caplog.text
        with pytest.raises(ConfigError, match="offline"):
            Agent("gpt-9")


class TestRecorded:
    """A recorded turn replays in a chat."""

    def agent(self, path: Path, live: Any = None, **options: Any) -> Agent:
        return Agent(RecordedModel(path, live, **options), actions=[look_up_sales])

    def script(self) -> ScriptedModel:
        usage = Usage(input_tokens=3, output_tokens=4, cost=0.5)
        return ScriptedModel(
            [Reply("Let me see.", calls=[("look_up_sales", {"region": "EU"})], delay=0.01), Reply("12.", usage=usage)]
        )

    @pytest.mark.parametrize("speed", [1.0, None])
    async def test_two_steps_and_a_call(self, tmp_path: Path, speed: float | None) -> None:
        """Section 8: a turn with two steps and a call replays, with its timing and without, and asks nobody."""
        path = tmp_path / "turn.jsonl"
        live = self.agent(path, self.script(), mode="record").chat()
        recorded = await live.send("sales in the EU?")
        assert recorded.status == "completed"
        chat = self.agent(path, mode="replay", speed=speed).chat()
        replayed = await chat.send("sales in the EU?")
        assert (replayed.status, replayed.text, replayed.usage) == ("completed", recorded.text, recorded.usage)
        assert [call.input for call in calls_of(chat)] == [{"region": "EU"}]
        assert [call.output for call in calls_of(chat)] == [call.output for call in calls_of(live)]

    async def test_drift(self, tmp_path: Path) -> None:
        """C34: another prompt: `RecordingDriftError` naming request 1 and the path; the prompt is not in the text."""
        path = tmp_path / "turn.jsonl"
        await self.agent(path, self.script(), mode="record").chat().send("sales in the EU?")
        outcome = await self.agent(path, mode="replay").chat().send("something else")
        assert outcome.status == "error"
        assert outcome.error is not None
        assert type(outcome.error.cause).__name__ == "RecordingDriftError"
        assert "Request 1" in outcome.error.message
        assert "messages" in outcome.error.message
        assert "something" not in outcome.error.message
        assert "EU" not in outcome.error.message

    async def test_a_key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """C35: a key that the model echoes is not in the file; replay works with no key set."""
        path = tmp_path / "turn.jsonl"
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        await Agent(RecordedModel(path, ScriptedModel([f"your key is {KEY}"]))).chat().send("hi")
        assert KEY not in path.read_text("utf-8")
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        outcome = await Agent(RecordedModel(path, mode="replay")).chat().send("hi")
        assert outcome.text == "your key is [redacted]"


class TestAnthropic:
    """Claude by way of the strict fake."""

    @pytest.mark.parametrize("case", ["C36", "C45"])
    async def test_no_end(self, case: str) -> None:
        """C36, C45: no `message_stop`: `ModelStreamError`, incomplete; the partial text is kept; one body, no key."""
        with FakeAnthropic([FakeReply(kind="close", text="Half")]) as server:
            chat = Agent(claude(server)).chat()
            outcome = await chat.send("hi")
            requests = list(server.requests)
        assert outcome.status != "completed"
        assert outcome.error is not None
        assert (type(outcome.error.cause).__name__, outcome.error.cause.kind) == ("ModelStreamError", "incomplete")
        assert chat.messages[-1].text == "Half"
        assert len(requests) == 1
        assert KEY not in repr(requests)

    async def test_cut_input(self) -> None:
        """C37: tool input that is cut off: the action does not run and the next request is accepted."""
        ran: list[str] = []

        @action(read_only=True)
        def run(code: str) -> str:
            """Run."""
            ran.append(code)
            return "ran"

        with FakeAnthropic([FakeReply("cut-json", calls=[("run", {"code": "print(1)"})]), "after"]) as server:
            outcome = await Agent(claude(server), actions=[run]).chat().send("hi")
            assert len(server.requests) == 2
        assert (outcome.status, outcome.text, ran) == ("completed", "after", [])

    async def test_overloaded_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """C38: two 529 and then success: three requests, two `data-retry` chunks, none stored, completed."""
        overload = FakeReply("status", status=529, error_type="overloaded_error", headers={"retry-after": "0"})
        with FakeAnthropic([overload, overload, "there"]) as server:
            chat = Agent(claude(server)).chat()
            submission = chat.send("hi")
            chunks = [chunk async for chunk in submission]
            outcome = await submission
            assert len(server.requests) == 3
        assert (outcome.status, outcome.text) == ("completed", "there")
        assert [c["type"] for c in chunks].count("data-retry") == 2
        assert "data-retry" not in chat.export("json")

    async def test_no_key(self) -> None:
        """Section 8: no key: `ModelAuthError` that names the variable."""
        outcome = await Agent("claude-sonnet-4-5").chat().send("hi")
        assert outcome.error is not None
        assert type(outcome.error.cause).__name__ == "ModelAuthError"
        assert "ANTHROPIC_API_KEY" in outcome.error.message


class Model:
    """A model of a user's own."""

    name = "own"

    def __init__(self, *items: Any, timeout: float | None = None) -> None:
        self.items = items
        self.timeout = timeout

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        for item in self.items:
            if isinstance(item, float):
                await asyncio.sleep(item)
            else:
                yield item


TEXT = (
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "hi"},
    {"type": "text-end", "id": "t"},
)


class TestTheSeam:
    """C46: what any model must give."""

    async def test_no_step_end(self) -> None:
        """C46: a stream that ends without `StepEnd`: the outcome is not completed, though no exception came."""
        outcome = await Agent(Model(*TEXT)).chat().send("hi")
        assert outcome.status == "error"
        assert outcome.error is not None
        assert type(outcome.error.cause).__name__ == "ModelStreamError"

    async def test_keep_alive(self) -> None:
        """C46: one that yields None now and then is not stalled, whatever its timeout to the first chunk."""
        alive = [item for _ in range(6) for item in (0.1, None)]
        outcome = await Agent(Model(*alive, *TEXT, StepEnd("stop"), timeout=0.3)).chat().send("hi")
        assert (outcome.status, outcome.text) == ("completed", "hi")

    async def test_other_exceptions(self) -> None:
        """Section 8: an exception of a model that is no `ModelError` is wrapped."""
        outcome = await Agent(ScriptedModel([Reply(fail=ZeroDivisionError("oh"))])).chat().send("hi")
        assert outcome.error is not None
        assert type(outcome.error.cause).__name__ == "ModelError"

    async def test_exhausted(self) -> None:
        """Section 8: steps used up: `ScriptExhaustedError` with the number."""
        chat = Agent(ScriptedModel(["one"])).chat()
        await chat.send("a")
        outcome = await chat.send("b")
        assert outcome.error is not None
        assert type(outcome.error.cause).__name__ == "ScriptExhaustedError"
        assert "2" in outcome.error.message

    def test_offline_options(self) -> None:
        """Section 8: name `offline`, cost 0, prefill."""
        model = OfflineModel(rhythm=False)
        assert (model.name, model.continuation) == ("offline", "prefill")
