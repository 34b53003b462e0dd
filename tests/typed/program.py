"""What a type checker must know of the public interface. `mypy` checks this file; nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, Literal, assert_type

from chatnb import (
    Action,
    ActionContext,
    Agent,
    Chat,
    ChatWidget,
    Interruption,
    Model,
    ModelRequest,
    Outcome,
    Reply,
    ScriptedModel,
    StepEnd,
    Submission,
    Turn,
    TurnError,
    UIMessage,
    Usage,
    action,
)
from chatnb.testing import mock_chat
from chatnb.turns.turn import TextStream


@action
def plain(region: str, year: int = 2025) -> list[int]:
    """A bare decorator keeps the signature."""
    return [year]


@action(read_only=lambda args: args["order"] == "7", needs_approval=lambda args, ctx: ctx.site != "python")
async def slow(order: str) -> float:
    """So does one with options, and an async action gives an awaitable."""
    return 1.0


def allowed(args: dict[str, Any], ctx: ActionContext) -> bool:
    return ctx.identity is not None


@action(authorize=allowed, needs_approval=True)
def guarded(amount: float) -> str:
    """Guards are functions of the arguments and the context."""
    return str(amount)


class Loud:
    """A model of one's own needs no base class."""

    name = "loud"

    async def stream(self, request: ModelRequest) -> AsyncIterator[dict[str, Any] | StepEnd | None]:
        yield {"type": "text-start", "id": request.chat_id}
        yield StepEnd("stop", Usage(input_tokens=1))


def calls() -> None:
    assert_type(plain("EU"), list[int])
    _: Coroutine[Any, Any, float] = slow("7")
    slow("7")  # type: ignore[unused-coroutine]
    assert_type(guarded(amount=2.5), str)
    plain(5)  # type: ignore[arg-type]
    plain("EU", month=3)  # type: ignore[call-arg]
    several: list[Action] = [plain, slow, guarded]
    Agent("offline", actions=[*several, calls], instructions=lambda turn: f"Turn {turn.number}")
    Agent("offline", instruction="x")  # type: ignore[call-arg]
    action(readonly=True)  # type: ignore[call-overload]


def models() -> None:
    model: Model = Loud()
    Agent(model)
    Agent(ScriptedModel([Reply("Hello.", calls=[("plain", {"region": "EU"})]), "Done."]))


async def chats(agent: Agent) -> None:
    chat = agent.chat("typed")
    assert_type(chat, Chat)
    submission = chat.send("Hello", files=["a.png"])
    assert_type(submission, Submission)
    outcome = await submission
    assert_type(outcome, Outcome)
    assert_type(outcome.text, str)
    assert_type(outcome.message, UIMessage | None)
    _ = submission.text  # type: ignore[attr-defined]
    async for chunk in submission:
        assert_type(chunk, dict[str, Any])
    assert_type(chat.messages, tuple[UIMessage, ...])
    assert_type(chat.status, Literal["ready", "submitted", "streaming", "error"])
    assert_type(chat.error, TurnError | None)
    assert_type(chat.interruption, Interruption | None)
    assert_type(chat.usage.total, Usage)
    assert_type(chat.view(height="320px"), ChatWidget)
    assert_type(chat.approve().result(timeout=3), Outcome)


def hooks(agent: Agent) -> None:
    @agent.run
    async def answer(turn: Turn) -> TextStream:
        assert_type(turn.chat, Chat)
        return turn.stream_text(max_steps=2)

    @agent.on_turn_complete
    def count(event: Any) -> int:
        return 1

    assert_type(count(None), int)


async def doubles(agent: Agent) -> None:
    async with mock_chat(agent, model=ScriptedModel(["Hello."])) as mock:
        assert_type(mock.chat, Chat)
        assert_type(mock.requests, list[ModelRequest])
