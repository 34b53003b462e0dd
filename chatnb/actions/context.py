"""What a handler, a guard and a predicate are told about the call: `ActionContext` (spec/actions.md, 2.6)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from chatnb.runtime.reports import Reports, current_reports

from .._json import JsonValue
from ..errors import ActionError
from .identity import Identity
from .ports import GrantRow, Site


class Reporter(Protocol):
    """Where a running call says how it is getting on. Any thread, never blocks, never raises."""

    def progress(self, done: float, total: float | None, text: str | None) -> None:
        """Show progress."""

    def log(self, text: str, level: str) -> None:
        """Show a line."""

    def display(self, value: object) -> None:
        """Add an object to the call's output."""

    def changed(self, resources: Sequence[str]) -> None:
        """Name what the call has changed."""

    def child(self, agent: Any) -> Any:
        """Open the child chat of this call."""


class Silent:
    """A `Reporter` that shows nothing: for guards, and for work in another process."""

    def progress(self, done: float, total: float | None, text: str | None) -> None:
        """Do nothing."""

    def log(self, text: str, level: str) -> None:
        """Do nothing."""

    def display(self, value: object) -> None:
        """Do nothing."""

    def changed(self, resources: Sequence[str]) -> None:
        """Do nothing."""

    def child(self, agent: Any) -> Any:
        """Refuse.

        Raises:
            ActionError: Always.
        """
        raise ActionError("ctx.child() works in an action that an agent's turn calls, on this process.")


class Relayed(Silent):
    """A `Reporter` in another process, which passes progress and lines on as far as they get."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def progress(self, done: float, total: float | None, text: str | None) -> None:
        """Pass progress on."""
        self._reports.add("progress", done, total, text)

    def log(self, text: str, level: str) -> None:
        """Pass a line on."""
        self._reports.add("log", text, level)


class Cancellation:
    """Whether a call was told to stop, and until when it may run. Shared between threads."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.deadline: datetime | None = None

    def cancel(self) -> None:
        """Tell the call to stop."""
        self._event.set()

    @property
    def is_cancelled(self) -> bool:
        """The call was told to stop."""
        return self._event.is_set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """The circumstances of one call, set by the dispatcher and never from input. What does not apply is None.

    Attributes:
        site: From where the call came.
        action: The action's name.
        identity: Who calls.
        chat_id, turn_id, tool_call_id: Where it belongs.
        call_hash: The hash of the prepared call.
        approval: The consumed decision, or None.
        client_data: The chat's client data, parsed.
        attachments: Files that came with the call.
        headers: The request's headers, at the HTTP site only.
    """

    site: Site
    action: str
    identity: Identity | None = None
    chat_id: str | None = None
    turn_id: str | None = None
    tool_call_id: str | None = None
    call_hash: str | None = None
    approval: GrantRow | None = None
    client_data: JsonValue = None
    attachments: tuple[Any, ...] = ()
    headers: Mapping[str, str] | None = None
    reporter: Reporter = field(default_factory=Silent, repr=False, compare=False)
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)

    @property
    def deadline(self) -> datetime | None:
        """When the call times out, or None."""
        return self.cancellation.deadline

    @property
    def cancelled(self) -> bool:
        """The call was stopped or has timed out; return soon."""
        return self.cancellation.is_cancelled

    def check_cancelled(self) -> None:
        """Raise if the call was stopped.

        Raises:
            ActionError: Code `cancelled`.
        """
        if self.cancelled:
            raise ActionError("The call was stopped.", code="cancelled", status_code=499)

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Show how far the call is; at most 10 times a second, the last one wins."""
        self.reporter.progress(done, total, text)

    def log(self, text: str, level: str = "info") -> None:
        """Show a line in the call's card; at most 200."""
        self.reporter.log(text, level)

    def display(self, value: object) -> None:
        """Add an object to the call's output."""
        self.reporter.display(value)

    def changed(self, *resources: str) -> None:
        """Name what the call has changed, for those who watch (spec/actions.md, 8.5)."""
        self.reporter.changed(resources)

    def child(self, agent: Any) -> Any:
        """Open the chat `PARENT/CALL_ID` of another agent (spec/turns.md, section 8)."""
        return self.reporter.child(agent)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the live handles: another process can show progress and lines, no more."""
        return _restore, (
            {
                name: getattr(self, name)
                for name in ("site", "action", "identity", "chat_id", "turn_id", "tool_call_id", "call_hash")
            },
            self.deadline,
        )


def _restore(fields: dict[str, Any], deadline: datetime | None) -> ActionContext:
    reports = current_reports.get()
    context = ActionContext(**fields, reporter=Silent() if reports is None else Relayed(reports))
    context.cancellation.deadline = deadline
    return context
