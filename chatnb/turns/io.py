"""What the agent site sees of the turn it works in: a way to send chunks and to write."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from .._clock import Clock
from .._ids import NewId
from .._json import JsonValue
from .._ports import Calls
from ..messages import UIMessage
from ..store.port import WriteTx
from .records import CallPhase
from .wire import WireChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnIdentity:
    """Which turn, in which attempt."""

    chat_id: str
    turn_id: str
    number: int
    attempt: int
    message_id: str


class TurnIO(Protocol):
    """A running turn, as the agent site uses it. All on the runtime's loop."""

    identity: TurnIdentity
    stop: asyncio.Event
    context: contextvars.Context
    client_data: JsonValue
    """Client data, parsed."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    @property
    def new_id(self) -> NewId:
        """Makes ids."""

    @property
    def calls(self) -> Calls:
        """Runs functions."""

    @property
    def step(self) -> int:
        """The number of the step, from 1. 0 while old calls of a continued message are settled."""

    @property
    def message(self) -> UIMessage:
        """The message as it is now, with all its calls."""

    def emit(self, chunk: WireChunk) -> None:
        """Check, fold, log and show one chunk.

        Inside `write()` the chunk is part of that transaction and is shown after it has been committed.
        """

    def write(self) -> AbstractContextManager[WriteTx]:
        """Open one durable transaction; the open batch of chunks goes with it (W5)."""

    def edit(self, change: Callable[[UIMessage], UIMessage]) -> None:
        """Replace the message by an edit that is no chunk (`decide_call`, tool metadata); inside `write()` only."""

    def show_call(self, tool_call_id: str, phase: CallPhase, **fields: Any) -> None:
        """Tell the views about a running call: phase (waiting, busy, running, done), progress, log, durationMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """One call that the model has said in full, of an action that the agent has."""

    tool_call_id: str
    name: str
    input: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsEnd:
    """How the calls of a step, or the resumed calls of a message, ended.

    Attributes:
        awaiting: A call waits for a person (asked or held); the turn ends `awaiting`.
        ends_turn: A successful `ends_turn` call, or a `StopTurn`: no further step; the turn completes.
        breaker: A loop breaker's code and text (spec/actions.md, 8.4): the turn ends in error, stage `calls`.
        images: Content items for the model's next request in this turn, by tool call id (spec/actions.md, 9.4).
        ran: How many calls were settled here.
    """

    awaiting: bool = False
    ends_turn: bool = False
    breaker: tuple[str, str] | None = None
    images: dict[str, list[JsonValue]] | None = None
    ran: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedInput:
    """One call that never came to the agent site: no such action, or no arguments that can be read."""

    name: str
    input: JsonValue
    text: str


class CallSite(Protocol):
    """The agent site, as the turn uses it. One object a turn, so that it can count for the loop breakers."""

    async def run_calls(self, io: TurnIO, calls: Sequence[Announced]) -> CallsEnd:
        """Run the calls of one model step in batches; every call gets one result, or waits for a person.

        When `io.stop` is set it settles what is unfinished (spec/turns.md, section 7) and returns.
        """

    def count_refused(self, refused: Sequence[RefusedInput]) -> tuple[str, str] | None:
        """Count the calls of a step that never came here; return a loop breaker's code and text if one is due."""

    async def resume_calls(self, io: TurnIO) -> CallsEnd:
        """Run what is decided in `io.message` and not run yet: approved and held calls, in model order.

        Rejected calls get `tool-output-denied`. Used before the first step of a continuation.
        """
