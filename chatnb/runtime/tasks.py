"""The one module that starts tasks.

Whatever a task raises and nobody asks for goes to the logger `chatnb`, once and soon: never into a cell, and never
only when garbage is collected (spec/notebook.md, section 1).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger("chatnb")

# How many turns of the loop an exception may wait for whoever awaits the task. `asyncio.wait` and TaskGroup need two.
_TURNS_OF_GRACE = 5

_living: set[asyncio.Task[Any]] = set()  # a loop holds its tasks weakly


def start_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    *,
    name: str,
    context: contextvars.Context | None = None,
) -> asyncio.Task[T]:
    """Start `work` as a task of `loop`; called on the loop's thread.

    Args:
        loop: Where the task runs.
        work: The coroutine.
        name: The task's name, for logs.
        context: The context it runs in; the current one's copy if left out.

    Returns:
        The task. It is held until it ends.
    """
    task = loop.create_task(work, name=name, context=context)
    _living.add(task)
    task.add_done_callback(_ended, context=contextvars.Context())
    return task


def is_started_here(task: asyncio.Task[Any] | None) -> bool:
    """Say whether `task` was started by this module and has not ended."""
    return task in _living


def log_failure(what: str, error: BaseException) -> None:
    """Write an exception that belongs to no turn to the logger `chatnb`, with its traceback."""
    log.error("%s failed", what, exc_info=(type(error), error, error.__traceback__))


def report(loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
    """Log what a loop has to say: the exception handler of the runtime's own loop."""
    error = details.get("exception")
    message = str(details.get("message", "Something on the runtime"))
    if isinstance(error, BaseException):
        log.error("%s", message, exc_info=(type(error), error, error.__traceback__))
    else:
        log.error("%s", message)


def _ended(task: asyncio.Task[Any]) -> None:
    _living.discard(task)
    if task.cancelled():
        return
    _later(task.get_loop(), _TURNS_OF_GRACE, lambda: _log_unless_retrieved(task))


def _later(loop: asyncio.AbstractEventLoop, turns: int, work: Callable[[], None]) -> None:
    if loop.is_closed():
        work()
    elif turns:
        loop.call_soon(_later, loop, turns - 1, work)
    else:
        work()


def _log_unless_retrieved(task: asyncio.Task[Any]) -> None:
    # The flag by which asyncio itself decides whether to complain when the task is collected.
    if getattr(task, "_log_traceback", True):
        error = task.exception()  # marks it as retrieved
        if error is not None:
            log_failure(f"The task {task.get_name()!r}", error)
