"""Awaiting users' code: whatever it raises is its own failure, never the end of a loop and never a stop.

asyncio lets `SystemExit` and `KeyboardInterrupt` of a task break the loop it runs on, and takes a `CancelledError` for
a wish to stop. In a model, a hook or a `run` they are neither (spec/notebook.md, section 1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class EscapedError(RuntimeError):
    """A user's code raised what is no `Exception`.

    Attributes:
        raw: What it raised.
    """

    def __init__(self, raw: BaseException) -> None:
        text = str(raw)
        super().__init__(f"{type(raw).__name__}{': ' + text if text else ''}")
        self.raw = raw


async def contained(work: Awaitable[T]) -> T:
    """Await a user's code in the task at hand.

    Args:
        work: What it gave.

    Returns:
        Its result.

    Raises:
        Exception: What it raised.
        EscapedError: It raised what is no `Exception`.
        asyncio.CancelledError: The task at hand is being cancelled.
    """
    here = running_task()
    try:
        return await work
    except Exception:
        raise
    except BaseException as error:
        if isinstance(error, GeneratorExit) and (here is None or running_task() is not here):
            raise  # this coroutine is being closed: nobody runs it any more
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        raise EscapedError(error) from error


def running_task() -> asyncio.Task[object] | None:
    """Return the task that runs this code, or None. Who is closed from outside is not in its own any more."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None


def is_being_cancelled() -> bool:
    """Tell whether somebody has asked the task at hand to end; else a `CancelledError` is a stray one."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
