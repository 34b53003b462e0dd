"""`Turn`, which a custom `run` works with, and `TextStream`, which `stream_text()` gives (spec/turns.md, 8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .._json import JsonValue
from ..messages import UIMessage
from ..models import Usage
from .wire import WireChunk

if TYPE_CHECKING:
    from ..chat import Chat
    from .turn_run import TurnRun


class EmittedChunk(dict[str, Any]):
    """A chunk that has been sent already: yielding it again sends nothing."""


class TextStream:
    """The steps of a model, as an async iterator of chunks.

    Returned from `run`, or its chunks yielded, it lands in the response. Not consumed, it does nothing.
    """

    def __init__(self, chunks: Callable[[], AsyncIterator[WireChunk]]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[WireChunk]:
        return self._chunks()

    if not TYPE_CHECKING:  # a checker says so before it runs

        def __await__(self) -> NoReturn:
            raise TypeError(
                "a TextStream is not awaited: return turn.stream_text() from `run`, or go through it with `async for`"
            )


class Turn:
    """One turn, as `run`, instructions and `prepare` callbacks see it.

    Example:
        @agent.run
        async def answer(turn):
            turn.write({"type": "data-source", "data": {"name": "North pier"}, "transient": True})
            async for chunk in turn.stream_text():
                yield chunk
    """

    def __init__(self, run: TurnRun) -> None:
        self._run = run

    @property
    def number(self) -> int:
        """Counts over the chat's life, from 0."""
        return self._run.number

    @property
    def trigger(self) -> str:
        """Why it runs."""
        return self._run.trigger

    @property
    def chat(self) -> Chat:
        """The chat."""
        chat: Chat = self._run.engine.chat
        return chat

    @property
    def chat_id(self) -> str:
        """The chat's id."""
        return self._run.engine.chat_id

    @property
    def messages(self) -> tuple[dict[str, JsonValue], ...]:
        """The prepared model view."""
        return tuple(self._run.view)

    @property
    def ui_messages(self) -> tuple[UIMessage, ...]:
        """The chain that is answered."""
        return self._run.engine.tree.messages

    @property
    def client_data(self) -> Any:
        """Parsed client data."""
        return self._run.client_data

    @property
    def body(self) -> Mapping[str, JsonValue] | None:
        """The extra request fields."""
        return self._run.body

    @property
    def actions(self) -> tuple[Any, ...]:
        """The actions the model may call."""
        return tuple(self._run.definition.catalog.agent_tools())

    @property
    def instructions(self) -> str | None:
        """The evaluated instructions."""
        return self._run.instructions

    @property
    def stop_requested(self) -> bool:
        """A stop has been asked for."""
        return self._run.stop.is_set()

    @property
    def previous_turn_usage(self) -> Usage | None:
        """What the turn before used."""
        return self._run.engine.previous_usage

    @property
    def total_usage(self) -> Usage:
        """What the chat has used so far."""
        return self._run.engine.total_usage

    @property
    def step(self) -> int:
        """The number of the current step, from 1; 0 before the first."""
        return self._run.step

    def write(self, part: Mapping[str, JsonValue]) -> None:
        """Send a data part: `{"type": "data-NAME", "id"?, "data", "transient"?}`.

        Raises:
            ChatBusyError: The stream is closed.
            MessageValidationError: It is no data part.
        """
        self._run.write_part(part)

    def stream_text(
        self,
        messages: Sequence[Mapping[str, JsonValue]] | None = None,
        *,
        model: Any = None,
        instructions: str | None = None,
        actions: Sequence[Any] | None = None,
        max_steps: int | None = None,
        **settings: Any,
    ) -> TextStream:
        """Let the model answer, step by step, with the agent's actions.

        Args:
            messages: Model messages; default: the prepared view.
            model: Another model, or its name.
            instructions: Other instructions.
            actions: Only these actions, by name or object.
            max_steps: Another limit.
            **settings: Passed to the model.
        """
        from .steps import Steps

        steps = Steps(
            self._run,
            messages=messages,
            model=model,
            instructions=instructions,
            actions=actions,
            max_steps=max_steps,
            settings=settings,
        )
        return TextStream(steps.chunks)
