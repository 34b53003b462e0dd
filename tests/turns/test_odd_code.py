"""Users' code that does what nobody expects: the turn fails, the chat goes on (spec/turns.md, 7; notebook.md, 1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from chatnb import Agent, StepEnd, Usage
from chatnb.messages import validate_messages
from chatnb.models import ModelRequest, Reply, ScriptedModel
from chatnb.store import memory_store
from chatnb.testing import mock_chat

TEXT = [
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "half"},
]
NOT_EXCEPTIONS = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), BaseException("odd")]
HOOKS = [
    "on_boot",
    "on_validate_messages",
    "hydrate_messages",
    "on_chat_start",
    "on_turn_start",
    "prepare_messages",
    "run",
    "on_before_turn_complete",
]


class Odd:
    """A model that yields what it is given, then raises, once; later it says "fine"."""

    name = "odd"

    def __init__(self, *items: Any, error: BaseException | None = None) -> None:
        self.items = items
        self.error = error
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self.asked += 1
        if self.asked > 1:
            for item in ({**TEXT[0]}, {**TEXT[1], "delta": "fine"}, StepEnd("stop")):
                yield item
            return
        for item in self.items:
            yield item
        if self.error is not None:
            raise self.error


class TestModel:
    """A model that breaks the port's rules."""

    @pytest.mark.parametrize("error", NOT_EXCEPTIONS, ids=lambda e: type(e).__name__)
    async def test_raises_what_is_no_exception(self, error: BaseException) -> None:
        """Section 8 of notebook.md: any other exception is wrapped; it ends no loop, and passes for no stop."""
        async with mock_chat(Agent(Odd(*TEXT, error=error))) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.status == "error"
            assert outcome.error is not None
            assert (outcome.error.stage, outcome.text) == ("model", "half")
            assert f"failed: {type(error).__name__}" in outcome.error.message
            assert (await mock.chat.send("and now?")).text == "fine"

    @pytest.mark.parametrize(
        ("chunk", "named"),
        [
            ({"type": "text-delta", "id": "other", "delta": "x"}, "text-delta"),
            ({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{"}, "tool-input-delta"),
            ({"type": "text-start"}, "text-start"),
            ({"type": "data-x", "data": float("nan")}, "data-x"),
            ({"type": "data-x", "data": {"deep": [float("inf")]}}, "data-x"),
            ({"type": "text-end", "id": "t", "providerMetadata": None}, "providerMetadata"),
            ("text", "str"),
            (StepEnd("stop", {"input_tokens": 1}), "usage"),  # type: ignore[arg-type]
            (StepEnd("stop", Usage(input_tokens="many")), "input_tokens"),  # type: ignore[arg-type]
            (StepEnd("stop", Usage(cost=float("nan"))), "cost"),
        ],
    )
    async def test_yields_what_it_must_not(self, chunk: Any, named: str) -> None:
        """Section 7.1 of messages.md: the turn fails with an error that names it; what was said before is kept."""
        async with mock_chat(Agent(Odd(*TEXT, chunk, StepEnd("stop")))) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.error is not None
            assert outcome.error.stage == "model"
            assert named in outcome.error.message
            assert outcome.text == "half"
            assert [p.state for p in mock.chat.messages[-1].parts[1:]] == ["done"]
            assert mock.chunks[-1]["type"] == "error"
            stored = [m.to_wire() for m in mock.chat.messages]
            chat = await mock.restart()
            assert [m.to_wire() for m in chat.messages] == stored
            assert (await chat.send("and now?")).text == "fine"

    async def test_opens_an_id_twice(self) -> None:
        """Section 7.2 of messages.md: every open block is ended, also one whose id begins anew or is shared."""
        items = [*TEXT, {"type": "reasoning-start", "id": "t"}, *TEXT, StepEnd("stop")]
        async with mock_chat(Agent(Odd(*items))) as mock:
            assert (await mock.chat.send("hi")).status == "completed"
            parts = mock.chat.messages[-1].parts[1:]
            assert [(p.type, p.state) for p in parts] == [("text", "done"), ("reasoning", "done"), ("text", "done")]
            validate_messages([m.to_wire() for m in mock.chat.messages])

    async def test_ends_without_a_reason(self) -> None:
        """Section 6 of turns.md: the finish reason is one of the known ones."""
        async with mock_chat(Agent(Odd(*TEXT, StepEnd(None)))) as mock:  # type: ignore[arg-type]
            assert (await mock.chat.send("hi")).finish_reason == "other"


class TestHook:
    """A hook that raises what is no exception."""

    @pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
    @pytest.mark.parametrize("error", NOT_EXCEPTIONS, ids=lambda e: type(e).__name__)
    @pytest.mark.parametrize("name", HOOKS)
    async def test_fails_in_its_own_stage(self, name: str, error: BaseException, is_async: bool) -> None:
        """Section 7 of turns.md: the outcome names the stage, and the next input works."""
        agent = Agent(ScriptedModel(["hello"], loop=True))
        raised: list[str] = []

        def hook(event: Any) -> None:
            if not raised:
                raised.append(name)
                raise error

        async def async_hook(event: Any) -> None:
            hook(event)

        register: Callable[[Any], Any] = getattr(agent, name)
        register(async_hook if is_async else hook)
        async with mock_chat(agent) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.error is not None
            assert outcome.error.stage == name
            assert type(error).__name__ in outcome.error.message
            assert (await mock.chat.send("again")).status == "completed"

    async def test_complete_hook_is_cancelled_from_inside(self) -> None:
        """C31 of turns.md: `on_turn_complete` raises: still `completed`; `chat.error` set, status `ready`."""
        agent = Agent(ScriptedModel([Reply("hello")], loop=True))

        @agent.on_turn_complete
        async def complete(event: Any) -> None:
            raise asyncio.CancelledError

        async with mock_chat(agent) as mock:
            assert (await mock.chat.send("hi")).status == "completed"
            assert (mock.chat.status, mock.chat.error is not None) == ("ready", True)

    async def test_instructions_exit(self) -> None:
        """Section 7 of turns.md: instructions that raise anything: `error`, that name; the user message stays."""

        async def instructions(turn: Any) -> str:
            raise SystemExit

        async with mock_chat(Agent(ScriptedModel(["hello"]), instructions=instructions)) as mock:
            outcome = await mock.chat.send("hi")
            assert outcome.error is not None
            assert outcome.error.stage == "instructions"
            assert [m.role for m in mock.chat.messages] == ["user"]


class SpeechlessError(Exception):
    """It fails to say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class TestHowItIsTold:
    """`TurnError.message` is "TypeName: first line", whatever was raised."""

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_stop_iteration(self, is_async: bool) -> None:
        """A stray `next()` is told by its own name, not by that of what Python makes of it in a coroutine."""
        agent = Agent(ScriptedModel(["one", "two"]))

        def plain(event: Any) -> None:
            raise StopIteration("empty")

        async def waiting(event: Any) -> None:
            raise StopIteration("empty")

        agent.on_turn_start(waiting if is_async else plain)
        async with mock_chat(agent) as mock:
            error = (await mock.chat.send("hi")).error
            assert error is not None
            assert (error.stage, error.message) == ("on_turn_start", "StopIteration: empty")
            assert isinstance(error.cause, StopIteration)

    def test_stop_iteration_in_the_worker(self) -> None:
        """So it is on a chat's worker thread, where a future can't hold it."""
        agent = Agent(ScriptedModel(["one"]), store=memory_store())
        agent.on_turn_start(lambda event: next(iter([])))
        error = agent.chat("worker").send("hi").result(10).error
        assert error is not None
        assert (error.stage, error.message) == ("on_turn_start", "StopIteration")

    async def test_no_text(self) -> None:
        """An exception whose text can't be made has its stage and its name."""
        agent = Agent(ScriptedModel(["one", "two"]))

        @agent.on_turn_start
        def start(event: Any) -> None:
            if event.turn_number == 0:
                raise SpeechlessError

        async with mock_chat(agent) as mock:
            error = (await mock.chat.send("hi")).error
            assert error is not None
            assert (error.stage, error.message) == ("on_turn_start", "SpeechlessError")
            assert (await mock.chat.send("again")).status == "completed"
