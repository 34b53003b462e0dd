"""What hooks get: one frozen event each (spec/turns.md, section 3). Lists are tuples taken when the hook starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from .._json import JsonValue
from ..messages import UIMessage, to_model_messages
from ..models import Usage
from .records import TurnError

HookName = Literal[
    "hydrate_messages",
    "on_action",
    "on_before_turn_complete",
    "on_boot",
    "on_chat_recovery",
    "on_chat_start",
    "on_compacted",
    "on_tool_repair",
    "on_turn_complete",
    "on_turn_start",
    "on_validate_messages",
    "prepare_messages",
    "run",
]


@dataclass(frozen=True, kw_only=True)
class HookEvent:
    """What every event has.

    Attributes:
        chat: The chat.
        turn_number: Counts over the chat's life from 0; in `on_action` the number the next turn would get.
        trigger: Why the turn runs, or `"action"`.
        client_data: Parsed by the agent's schema.
        body: The extra request fields of the input.
    """

    chat: Any
    chat_id: str
    turn_number: int
    trigger: str
    client_data: Any = None
    body: Mapping[str, JsonValue] | None = None
    stopping: Callable[[], bool] = field(default=lambda: False, repr=False)

    @property
    def stop_requested(self) -> bool:
        """A stop of this turn has been asked for."""
        return self.stopping()


@dataclass(frozen=True, kw_only=True)
class BootEvent(HookEvent):
    """`on_boot`: the chat has been opened. `is_new`: for the first time in its life."""

    is_new: bool


@dataclass(frozen=True, kw_only=True)
class ValidateEvent(HookEvent):
    """`on_validate_messages`: the incoming messages, before anything is done with them."""

    messages: tuple[UIMessage, ...]


@dataclass(frozen=True, kw_only=True)
class HydrateEvent(HookEvent):
    """`hydrate_messages`: return the whole chain. `message_id`: the message that is regenerated, if any."""

    incoming_messages: tuple[UIMessage, ...]
    previous_messages: tuple[UIMessage, ...]
    message_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChainEvent(HookEvent):
    """An event that shows the chain, as UI messages and as a model sees it."""

    ui_messages: tuple[UIMessage, ...]
    send_part: Callable[[Mapping[str, JsonValue]], None] | None = field(default=None, repr=False)
    make_view: Callable[[], list[dict[str, JsonValue]]] = field(repr=False)

    @cached_property
    def messages(self) -> tuple[dict[str, JsonValue], ...]:
        """The chain as a model sees it, a summary in the place of what was compacted. Made when it is first read."""
        return tuple(self.make_view())

    def write(self, part: Mapping[str, JsonValue]) -> None:
        """Send a data part: `{"type": "data-NAME", "id"?, "data", "transient"?}`.

        Raises:
            ChatBusyError: The turn's stream is closed, or this hook has none.
            MessageValidationError: It is no data part.
        """
        if self.send_part is None:
            from ..errors import ChatBusyError

            raise ChatBusyError("the turn's stream is closed; write data parts in an earlier hook")
        self.send_part(part)


@dataclass(frozen=True, kw_only=True)
class ChatStartEvent(ChainEvent):
    """`on_chat_start`: exactly once in a chat's life, before its first turn."""


@dataclass(frozen=True, kw_only=True)
class TurnStartEvent(ChainEvent):
    """`on_turn_start`: every turn."""

    previous_turn_usage: Usage | None
    total_usage: Usage


@dataclass(frozen=True, kw_only=True)
class PrepareEvent(HookEvent):
    """`prepare_messages`: the model view of this turn; return another one, or None."""

    messages: tuple[dict[str, JsonValue], ...]
    reason: Literal["run", "compaction"]


@dataclass(frozen=True, kw_only=True)
class CompletionEvent(ChainEvent):
    """`on_before_turn_complete` and `on_turn_complete`.

    Attributes:
        new_ui_messages: This turn's new user messages and the response.
        response_message: The response as stored; None when nothing was produced.
        raw_response_message: The response before unfinished calls were settled.
        replayed: The process died in this hook before; it is called again.
    """

    new_ui_messages: tuple[UIMessage, ...]
    response_message: UIMessage | None
    raw_response_message: UIMessage | None
    status: str
    stopped: bool
    usage: Usage
    total_usage: Usage
    finish_reason: str | None
    error: TurnError | None = None
    replayed: bool = False

    @cached_property
    def new_messages(self) -> tuple[dict[str, JsonValue], ...]:
        """`new_ui_messages` as model messages."""
        return tuple(to_model_messages(self.new_ui_messages))


class TurnRequest:
    """What `event.turn()` of a chat action returns: hand it back to ask for an answer."""


@dataclass(frozen=True, kw_only=True)
class ActionEvent(ChainEvent):
    """`on_action`: a chat action of the app's own schema. Return nothing, or `event.turn()`."""

    action: Any
    request: TurnRequest = field(default_factory=TurnRequest, repr=False)

    def turn(self) -> TurnRequest:
        """Ask for an answer on the edited history; return what this gives."""
        return self.request


@dataclass(frozen=True, kw_only=True)
class CompactedEvent(HookEvent):
    """`on_compacted`: a compaction was stored."""

    summary: str
    messages: tuple[dict[str, JsonValue], ...]
    usage: Usage | None
    source: Literal["inner", "outer"]
    step: int | None
