"""What one run of a prepared call is given, and the shapes of what writes it down."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from .._json import JsonValue
from .._ports import Phase
from .audit import CallPlace
from .ports import Books, GrantRow
from .prepare import PreparedCall
from .progress import Show
from .settled import Settled

OpenBooks = Callable[[], AbstractContextManager[Books]]
WriteRows = Callable[[Books], None]
Record = Callable[[Settled, WriteRows], None]
"""Writes how a call ended: it opens the transaction, lets the rows be written, and adds what is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRun:
    """One prepared call that goes to its handler.

    Attributes:
        grant: The stored, approved grant; it is consumed as the handler is entered.
        decision: A decision that needs no row: a proven click, a yes on a terminal.
        stop: When set, the call is stopped.
        context: The context of the input that led here.
        overlap: The call may run beside others of its batch.
        on_phase: Told when it waits, finds the kernel busy, runs.
        show: Takes progress and lines.
        show_outputs: Takes all outputs so far, on the loop.
        show_snapshot: Takes a child's message as it grows.
        record: Writes the end; None: the runner's own transaction.
    """

    prepared: PreparedCall
    place: CallPlace
    grant: GrantRow | None = None
    decision: GrantRow | None = None
    stop: asyncio.Event | None = None
    context: contextvars.Context | None = None
    overlap: bool = False
    client_data: JsonValue = None
    headers: Mapping[str, str] | None = None
    attachments: tuple[Any, ...] = ()
    on_phase: Callable[[Phase], None] | None = None
    show: Show | None = None
    show_outputs: Callable[[list[JsonValue]], None] | None = None
    show_snapshot: Callable[[JsonValue], None] | None = None
    record: Record | None = None
