"""The public records of recovery (spec/recovery.md, sections 4, 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from .._clock import is_duration
from ..errors import ConfigError, InputError

Cause = Literal[
    "process_died", "kernel_restarted", "taken_over", "stalled", "connection_lost", "store_error", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How interrupted turns are taken up again.

    Attributes:
        max_attempts: Attempts without progress.
        no_progress_timeout: Seconds of attempts without progress.
        max_work: Units of progress since the incident opened.
        should_keep_recovering: Asked from the second attempt on.
        on_exhausted: Told when the budget is used up.
        terminal_message: What the person reads then.
        auto_within: Seconds since the last sign of life within which a turn goes on by itself; older ones are offered.
        auto: False: every interrupted turn is only offered.
        stall_timeout: Seconds of silence of a streaming model; None: no watchdog.
    """

    max_attempts: int = 10
    no_progress_timeout: float = 300.0
    max_work: int = 1000
    should_keep_recovering: Callable[[Any], Any] | None = None
    on_exhausted: Callable[[Any], Any] | None = None
    terminal_message: str = "The reply could not be finished. Send a message to go on."
    auto_within: float = 600.0
    auto: bool = True
    stall_timeout: float | None = 120.0

    def __post_init__(self) -> None:
        if not isinstance(self.max_attempts, int) or isinstance(self.max_attempts, bool) or self.max_attempts < 1:
            raise ConfigError("Recovery(max_attempts): a whole number, at least 1")
        for name in ("no_progress_timeout", "max_work", "auto_within", "stall_timeout"):
            value = getattr(self, name)
            if value is None and name == "stall_timeout":
                continue
            if not is_duration(value):
                raise ConfigError(f"Recovery({name}): a finite number above 0")
        if not isinstance(self.auto, bool):
            raise ConfigError("Recovery(auto): True or False")
        for name in ("should_keep_recovering", "on_exhausted"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"Recovery({name}): a function of an event, or None")
        if not isinstance(self.terminal_message, str) or not self.terminal_message.strip():
            raise ConfigError("Recovery(terminal_message): what the person reads, as text")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryDecision:
    """What `on_chat_recovery` may return.

    Attributes:
        persist: Keep the partial answer. One with settled work is always kept.
        continue_: Run the turn again; False ends it.
        chain: The history before anything runs; it becomes a branch.
        recovered_inputs: The in-flight inputs that run, in order; None: all.
    """

    persist: bool = True
    continue_: bool = True
    chain: Sequence[Any] | None = None
    recovered_inputs: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("persist", "continue_"):
            if not isinstance(getattr(self, name), bool):
                kind = type(getattr(self, name)).__name__
                raise InputError(f"RecoveryDecision({name}) is True or False, not {kind}")
        for name, what in (("chain", "messages"), ("recovered_inputs", "inputs and messages")):
            value = getattr(self, name)
            if value is not None and not isinstance(value, list | tuple):
                kind = type(value).__name__
                raise InputError(f"RecoveryDecision({name}) is a list of {what} or None, not {kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """An interrupted turn that is not running again: `chat.interruption`.

    Attributes:
        kind: `"retry"` (nothing was produced) or `"continue"`.
        offered: A Continue button stands in the view.
        reason: Why it is not running, if there is more to say.
        inputs: How many inputs wait behind it.
    """

    turn_id: str
    message_id: str | None
    kind: Literal["retry", "continue"]
    cause: Cause
    incident_id: str | None
    created_at: datetime | None
    interrupted_at: datetime | None
    offered: bool = True
    reason: str | None = None
    inputs: int = 0
