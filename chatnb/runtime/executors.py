"""Calls on a `concurrent.futures.Executor`: process pools, Dask, ipyparallel (spec/notebook.md, section 2).

Functions of importable modules go by name, so that the worker finds them behind their decorator; all others go by value
with cloudpickle. What cannot be pickled is found here, before or after the executor, and named.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib.util
import pickle
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from chatnb._ports import FunctionCall, FunctionResult
from chatnb.errors import ActionDefinitionError, ActionError
from chatnb.runtime.calls import GIVEN_UP_AFTER
from chatnb.runtime.entry import Entry, Why, current_entry
from chatnb.runtime.remote import ByName, Item, Packed, describe, type_name_of, work
from chatnb.runtime.tasks import start_task

if TYPE_CHECKING:
    from chatnb.runtime.runtime import Runtime

_DEEPEST = 20  # decorators on one function
_BEGUN_CHECK = 0.05  # seconds between looks whether a worker has begun

Future = concurrent.futures.Future


async def run_on_executor(runtime: Runtime, entry: Entry, executor: concurrent.futures.Executor) -> FunctionResult:
    """Run a call on an executor to its end; called on the runtime's loop.

    Args:
        runtime: The runtime.
        entry: The call.
        executor: Where it runs. It is never restarted.

    Returns:
        How it ended.
    """
    if entry.is_async:
        return _failed(ActionDefinitionError('An async function cannot run on an executor; use run_in="thread".'))
    entry.context.run(current_entry.set, entry)
    try:
        job = _job(entry, executor)
    except ActionError as error:
        return _failed(error)
    if not runtime.calls_runner.admit(entry):
        return entry.done.result()
    try:
        future: Future[FunctionResult] = executor.submit(job.function, *job.arguments)
    except Exception as error:  # noqa: BLE001 - shut down or broken: the call's error
        entry.is_over = True
        return _failed(_executor_failed(executor, error), entered=True)
    return await _watch(runtime, entry, executor, future, job.unpack)


class _Job:
    """What is submitted, and how its outcome is read."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], unpack: Callable[[Any], FunctionResult]
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.unpack = unpack


def _job(entry: Entry, executor: concurrent.futures.Executor) -> _Job:
    call = entry.call
    if shares_memory(executor):
        return _Job(partial(entry.context.run, _call_here, call), (), lambda result: result)
    function = portable_function(call.function)
    try:
        import cloudpickle

        arguments = cloudpickle.dumps(dict(call.kwargs))
    except Exception as error:
        raise _cannot_pickle("argument", *_culprit(call.kwargs, error)) from error
    return _Job(work, (function, arguments), partial(_unpack, entry))


def shares_memory(executor: concurrent.futures.Executor) -> bool:
    """Tell whether an executor's workers are threads of this process, so that nothing has to be pickled."""
    # Python 3.14's InterpreterPoolExecutor is a ThreadPoolExecutor too, and pickles.
    is_threads = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
    return is_threads and type(executor).__name__ != "InterpreterPoolExecutor"


def _call_here(call: FunctionCall) -> FunctionResult:
    try:
        with call.scope() if call.scope is not None else nullcontext():
            return FunctionResult(value=call.function(**call.kwargs))
    except BaseException as error:  # noqa: BLE001 - any of them is the call's error
        return _failed(error, entered=True)


# --- packing ----------------------------------------------------------------------------------------------------


def portable_function(function: Callable[..., Any]) -> ByName | bytes:
    """Return a function by its name if a worker can import it, else pickled by value.

    Raises:
        ActionError: It cannot be pickled.
    """
    by_name = _by_name(function)
    if by_name is not None:
        return by_name
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    # cloudpickle itself goes by name for every loaded module but `__main__`, importable elsewhere or not.
    by_value = module is not None and module.__name__ != "__main__" and not _is_importable(module.__name__)
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            data: bytes = cloudpickle.dumps(function)
        finally:
            if by_value:
                cloudpickle.unregister_pickle_by_value(module)
    except Exception as error:
        raise _cannot_pickle("function", getattr(function, "__qualname__", "function"), describe(error)) from error
    return data


def _by_name(function: Callable[..., Any]) -> ByName | None:
    module = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", None)
    if not module or not qualname or module == "__main__" or "<" in qualname or not _is_importable(module):
        return None
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    for depth in range(_DEEPEST):
        if found is function:
            return ByName(module, qualname, depth)
        found = getattr(found, "__wrapped__", None)
    return None


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _culprit(kwargs: Any, error: Exception) -> tuple[str, str]:
    import cloudpickle

    for value in kwargs.values():
        try:
            cloudpickle.dumps(value)
        except Exception as why:  # noqa: BLE001 - this is the one
            return type_name_of(value), describe(why)
    return "dict", describe(error)


def _unpack(entry: Entry, packed: Packed) -> FunctionResult:
    if packed.stdout or packed.stderr:
        entry.context.run(_replay, entry.call, packed)
    if packed.kind == "value":
        return _load(packed.data, "result", lambda value: FunctionResult(value=value))
    if packed.kind == "error":
        return _load(packed.data, "exception", lambda error: _failed(error, entered=True))
    return _failed(_cannot_pickle(packed.kind, packed.type_name, packed.reason), entered=True)


def _load(data: bytes, item: Item, then: Callable[[Any], FunctionResult]) -> FunctionResult:
    try:
        value = pickle.loads(data)
    except Exception as error:  # noqa: BLE001 - told to the caller
        return _failed(_cannot_pickle(item, "unknown", describe(error)), entered=True)
    return then(value)


def _replay(call: FunctionCall, packed: Packed) -> None:
    """Print what the worker printed within the call's scope, so that it gets into the card."""
    if call.scope is None:
        return
    with call.scope():
        sys.stdout.write(packed.stdout)
        sys.stderr.write(packed.stderr)


# --- waiting ----------------------------------------------------------------------------------------------------


async def _watch(
    runtime: Runtime,
    entry: Entry,
    executor: concurrent.futures.Executor,
    future: Future[Any],
    unpack: Callable[[Any], FunctionResult],
) -> FunctionResult:
    loop, call = runtime.loop, entry.call
    finished = loop.create_future()
    future.add_done_callback(lambda _: runtime.post(_finish, finished))
    helpers: dict[asyncio.Future[Any], Why] = {}
    if call.stop is not None:
        helpers[start_task(loop, _until(call.stop), name="stop of an executor's call")] = "stopped"
    if call.timeout is not None:
        timer = _time_over(runtime, future, call.timeout, counts_start=_tells_start(executor))
        helpers[start_task(loop, timer, name="timeout of an executor's call")] = "timeout"
    waits: set[asyncio.Future[Any]] = {finished, *helpers}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if finished.done():
            return _outcome(entry, executor, future, unpack)
        why = next(why for helper, why in helpers.items() if helper.done())
        return await _end(runtime, entry, executor, future, unpack, finished, why)
    except asyncio.CancelledError:
        future.cancel()
        raise
    finally:
        for helper in helpers:
            helper.cancel()


async def _end(
    runtime: Runtime,
    entry: Entry,
    executor: concurrent.futures.Executor,
    future: Future[Any],
    unpack: Callable[[Any], FunctionResult],
    finished: asyncio.Future[None],
    why: Why,
) -> FunctionResult:
    entry.why = why
    if future.cancel():
        entry.is_over = True
        return FunctionResult(reason=why, entered=False)
    error = None if why == "stopped" else TimeoutError(f"timed out after {entry.call.timeout:g} s; still running")
    patience = start_task(runtime.loop, runtime.clock.sleep(GIVEN_UP_AFTER), name="end of an executor's call")
    try:
        either: set[asyncio.Future[Any]] = {finished, patience}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        patience.cancel()
    if finished.done():
        result = _outcome(entry, executor, future, unpack)
        if why == "timeout":
            error = TimeoutError(f"timed out after {entry.call.timeout:g} s")
            return FunctionResult(value=result.value, error=error, reason=why)
        return result
    late: Future[FunctionResult] = Future()
    future.add_done_callback(lambda _: runtime.post(lambda: late.set_result(_outcome(entry, executor, future, unpack))))
    return FunctionResult(reason=why, error=error, late=late)


def _outcome(
    entry: Entry,
    executor: concurrent.futures.Executor,
    future: Future[Any],
    unpack: Callable[[Any], FunctionResult],
) -> FunctionResult:
    entry.is_over = True
    try:
        outcome = future.result()
    except BaseException as error:  # noqa: BLE001 - what the function raises comes packed: this is the executor's
        return _failed(_executor_failed(executor, error), entered=True)
    return unpack(outcome)


def _tells_start(executor: concurrent.futures.Executor) -> bool:
    # Others (Dask) mark a future as running when it is done, if at all: their calls count from the hand-over.
    return isinstance(executor, concurrent.futures.ProcessPoolExecutor | concurrent.futures.ThreadPoolExecutor)


async def _time_over(runtime: Runtime, future: Future[Any], seconds: float, *, counts_start: bool) -> None:
    while counts_start and not (future.running() or future.done()):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(_BEGUN_CHECK)
    await runtime.clock.sleep(seconds)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _finish(finished: asyncio.Future[None]) -> None:
    if not finished.done():
        finished.set_result(None)


# --- errors -----------------------------------------------------------------------------------------------------


def _failed(error: BaseException, *, entered: bool = False) -> FunctionResult:
    return FunctionResult(error=error, reason="raised", entered=entered)


def _cannot_pickle(item: str, type_name: str, reason: str) -> ActionError:
    return ActionError(
        f"The {item} cannot be pickled for the executor ({type_name}; {reason}). Put the function and its classes into "
        'a module, pass and return plain data, or use run_in="thread".'
    )


def _executor_failed(executor: concurrent.futures.Executor, error: BaseException) -> ActionError:
    failure = ActionError(
        f"The executor {type(executor).__name__} did not finish the call: a worker died, or it is broken or shut down "
        f"({type(error).__name__}). It is not restarted."
    )
    failure.__cause__ = error
    return failure
