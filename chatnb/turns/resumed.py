"""What recovery hands to the engine: an interrupted turn to take up, and an offer that waits for a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .._json import JsonValue
from ..messages import Fold, UIMessage
from ..store.port import WriteTx
from ..store.records import Trigger, TurnRow
from .records import Outcome

if TYPE_CHECKING:
    from .inputs import Input


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """An interrupted turn, put back in line (spec/recovery.md, sections 4 and 6).

    Attributes:
        row: The turn's row, its attempt raised.
        continues: The node whose message goes on, or None: a new answer.
        fold: The fold that rebuilt the log; the attempt goes on with it. None: the log is empty.
        next_seq: The number of the next chunk in the log.
        is_step_open: The log ends inside a step.
        is_anew: The chain was not written: everything from the input on is done again.
        incoming: The user messages of its input, when it runs anew.
        regenerates: The message id that a regenerate names, when it runs anew.
        inputs: Ids of the inputs that are done when the turn ends: its own, steered and superseded ones, decisions.
        chunks: The log so far.
        seal: Called in the transaction that ends the turn, with its state.
        beside: Runs beside the attempt; it may break it off with a cause.
    """

    row: TurnRow
    continues: str | None = None
    fold: Fold | None = None
    next_seq: int = 0
    is_step_open: bool = False
    is_anew: bool = False
    incoming: tuple[UIMessage, ...] = ()
    regenerates: str | None = None
    inputs: tuple[str, ...] = ()
    chunks: tuple[JsonValue, ...] = ()
    seal: Callable[[WriteTx, str], None] | None = None
    beside: Callable[[Callable[[str], None]], Awaitable[None]] | None = None

    @property
    def trigger(self) -> Trigger:
        """Why the turn ran first."""
        return self.row.trigger


class TakeUp(Protocol):
    """Decides, in the slot, what becomes of an interrupted turn."""

    async def __call__(self, input_: Input) -> Resumed | Outcome:
        """Return the turn to run, or the outcome when nothing runs."""

    def drop(self, reason: str) -> None:
        """End the turn `stopped` before its place has come (`clear`)."""

    async def tell(self, input_: Input) -> None:
        """Call `on_turn_complete` for a turn that was ended."""


class Offer(Protocol):
    """An interrupted turn that waits for a person."""

    turn_id: str

    async def accept(self, input_: Input) -> Resumed | Outcome:
        """Take the turn up; the held inputs go behind it."""

    def end(self, reason: str) -> None:
        """End the turn `stopped`; its partial stays."""

    async def tell(self, input_: Input) -> None:
        """Call `on_turn_complete` for a turn that was ended."""

    def release(self) -> list[Input]:
        """Put the held inputs in line."""

    def give_up(self) -> list[Input]:
        """Return the held sends, to become history before a new message; skip the other held inputs."""
