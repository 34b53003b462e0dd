"""One call on its way: what the queue, the guards and the runner know of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal

from chatnb._ports import FunctionCall, FunctionResult

if TYPE_CHECKING:
    from chatnb.runtime.interrupt import Guard
    from chatnb.runtime.pump import Pump

Why = Literal["timeout", "stopped"]


def is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling `function` gives a coroutine: async functions, partials of them, async `__call__`."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@dataclass(eq=False, slots=True)
class Entry:
    """A call that was asked for.

    Attributes:
        call: What was asked.
        context: The fresh copy of a context in which the function runs.
        done: Its result; a future of the runtime's loop.
        started: Set when the function may be entered; a future of the runtime's loop.
        is_async: The function is async.
        waits: The chats that the running function waits for (guarded by the queue's lock).
        admitted: `enter` was called and raised nothing (the runtime's loop alone).
        refused: Why the function must not be entered any more (the runtime's loop alone).
        why: Why it is being ended (the runtime's loop alone).
        wanted: An interrupt is wanted (guarded by the guard's lock).
        is_open: The thread `chatnb-calls` may take it (guarded by the queue's lock).
        is_over: The function has returned; set by the thread where it ran.
        by_user: A person's Ctrl-C cancelled the async function.
        guard: The guard of the thread where the function runs.
        pump: The pump in which the function waits for a chat (guarded by the guard's lock).
        task: The task of an async function.
        late: Given out when the function did not stop in time.
    """

    call: FunctionCall
    context: contextvars.Context
    done: asyncio.Future[FunctionResult]
    started: asyncio.Future[None]
    is_async: bool = False
    waits: list[str] = field(default_factory=list)
    admitted: bool = False
    refused: Why | None = None
    why: Why | None = None
    wanted: bool = False
    is_open: bool = False
    is_over: bool = False
    by_user: bool = False
    guard: Guard | None = None
    pump: Pump | None = None
    task: asyncio.Task[Any] | None = None
    late: concurrent.futures.Future[FunctionResult] | None = None

    def leave_context(self) -> None:
        """Take the call out of its own context. The two hold each other, and what the function returned with them."""
        with suppress(RuntimeError):  # something that the function has left behind runs in it
            self.context.run(current_entry.set, None)

    @property
    def chat_id(self) -> str | None:
        """The chat that the call belongs to."""
        return self.call.chat_id


# The call that the running code belongs to; carried into threads and tasks that carry the call's context.
current_entry: contextvars.ContextVar[Entry | None] = contextvars.ContextVar("chatnb_current_entry", default=None)


def running_entry() -> Entry | None:
    """Return the call that the caller's code belongs to, if that call still runs."""
    entry = current_entry.get()
    return None if entry is None or entry.is_over else entry
