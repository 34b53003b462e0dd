"""The ports through which rows 1 to 5 reach what lies below them. Protocols and plain records alone."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

RunIn = Literal["kernel", "thread"] | concurrent.futures.Executor
Phase = Literal["waiting", "busy", "running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """One call of a user's function.

    Attributes:
        function: What is called; sync or async.
        kwargs: Its arguments.
        run_in: `"kernel"` (the main thread), `"thread"` or an executor.
        chat_id: The chat it belongs to; a function that waits for a chat pumps calls of that chat only.
        context: The context of the input that led here; the call runs in a fresh copy.
        timeout: Seconds from the function's start.
        overlap: An async function may run beside others of its batch.
        enter: Called on the runtime's loop right before the function is entered. If it raises, the function is not
            entered and the exception is the result's error.
        on_phase: Told, on the runtime's loop, when the call waits, when the kernel is found busy (after 300 ms), and
            when the function runs.
        stop: When set, the call is stopped: dropped if queued; cancelled or interrupted if running; left after 2 s.
        scope: Wraps the function on the thread where it runs: output capture and context variables.
        report: Told, on any thread, what a function in another process reports: the name of a method of its
            `ActionContext`, "progress" or "log", and the arguments.
    """

    function: Callable[..., Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    run_in: RunIn = "kernel"
    chat_id: str | None = None
    context: contextvars.Context | None = None
    timeout: float | None = None
    overlap: bool = False
    enter: Callable[[], None] | None = None
    on_phase: Callable[[Phase], None] | None = None
    stop: asyncio.Event | None = None
    scope: Callable[[], AbstractContextManager[Any]] | None = None
    report: Callable[[str, tuple[Any, ...]], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionResult:
    """How a call of a user's function ended.

    Attributes:
        value: What it returned.
        error: What it raised, any BaseException; also what `enter` raised.
        reason: How it ended. `"interrupted"`: by Ctrl-C.
        entered: The function was entered.
        late: When the function did not stop within 2 s: a future of its later, real result.
    """

    value: Any = None
    error: BaseException | None = None
    reason: Literal["returned", "raised", "timeout", "interrupted", "stopped"] = "returned"
    entered: bool = True
    late: concurrent.futures.Future[FunctionResult] | None = None


class Calls(Protocol):
    """Runs users' functions where they want to run (spec/notebook.md, section 2)."""

    async def run(self, call: FunctionCall) -> FunctionResult:
        """Run one call to its end. Never raises for what the function does."""


class Host(Protocol):
    """What chatnb needs from the place it runs in: a kernel, a terminal, a script."""

    kind: Literal["kernel", "terminal", "script"]
    kernel_id: str | None
    label: str | None

    def main_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the main thread's event loop if it is a kernel's, which turns between cells."""

    def wake_main(self) -> None:
        """Wake a GUI loop that owns the main thread, so that the event loop turns."""

    def namespace(self) -> dict[str, Any]:
        """Return the user's namespace."""


class OnInterrupted(Protocol):
    """Told when an attempt of a turn was broken off in this process: a stall, a lost connection."""

    def __call__(self, chat_id: str, turn_id: str, cause: str) -> bool:
        """Put the turn in line, to be decided about in its place; False when it can't be. Called on the runtime."""


class Span(Protocol):
    """One traced piece of work."""

    def set(self, name: str, value: str | float | bool) -> None:
        """Add an attribute."""

    def fail(self, message: str) -> None:
        """Mark it failed, once."""


class Tracer(Protocol):
    """Traces work as spans (spec/turns.md, section 8)."""

    def span(self, name: str, /, **attributes: str | float | bool) -> AbstractContextManager[Span]:
        """Open a span around a block."""
