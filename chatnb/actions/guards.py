"""Runs guards, predicates and classifiers: off the kernel's main thread, for at most 10 s (spec/actions.md, 2.4)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any

from .._clock import Clock, within
from .context import ActionContext
from .options import accepts_positionals, required_positionals

LIMIT_SECONDS = 10.0


def ask_guard(guard: Callable[..., Any], args: dict[str, Any], context: ActionContext | None) -> Callable[[], Any]:
    """Return the call of a guard: `fn(args, ctx)`, or `fn(args)` where it takes one argument."""
    wants_context = context is not None and _wants_context(guard)
    return (lambda: guard(args, context)) if wants_context else (lambda: guard(args))


async def run_guard(call: Callable[[], Any], *, is_async: bool, clock: Clock) -> Any:
    """Run a guard from the runtime's loop.

    Raises:
        TimeoutError: It took longer than 10 s.
        BaseException: What the guard raised.
    """
    if is_async:
        return await within(clock, LIMIT_SECONDS, _awaited(call))
    future = start_worker(call)
    result = await within(clock, LIMIT_SECONDS, asyncio.wrap_future(future))
    if inspect.isawaitable(result):
        return await within(clock, LIMIT_SECONDS, _await(result))
    return result


def run_guard_here(call: Callable[[], Any]) -> Any:
    """Run a guard for a caller that is not async; the caller's thread waits.

    Raises:
        TimeoutError: It took longer than 10 s.
        BaseException: What the guard raised.
    """
    return start_worker(lambda: _complete(call())).result(LIMIT_SECONDS)


def start_worker(call: Callable[[], Any]) -> concurrent.futures.Future[Any]:
    """Run a function on a thread of its own, which never keeps the process alive; inline where there are no threads."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(call)
        except BaseException as error:  # noqa: BLE001 - it is the future's error, whatever it is
            future.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
        else:
            future.set_result(result)

    try:
        threading.Thread(target=work, name="chatnb-guard", daemon=True).start()
    except RuntimeError:
        work()
    return future


def _wants_context(guard: Callable[..., Any]) -> bool:
    needed = required_positionals(guard)
    if needed is None or needed >= 2:
        return True
    if not accepts_positionals(guard, 2):
        return False
    names = [name for name, p in inspect.signature(guard).parameters.items() if p.kind is not p.VAR_POSITIONAL]
    return len(names) < 2 or names[1] in ("ctx", "context")


async def _awaited(call: Callable[[], Any]) -> Any:
    return await _await(call())


async def _await(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _complete(result: Any) -> Any:
    return asyncio.run(_await(result)) if inspect.isawaitable(result) else result
