"""Runtimes for tests, each ended after its test."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from chatnb._ports import FunctionCall, FunctionResult
from chatnb.runtime import Runtime, ScriptHost
from chatnb.runtime.kinds import ThreadRuntime

Ask = Callable[..., "concurrent.futures.Future[FunctionResult]"]


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    made = ThreadRuntime(ScriptHost())
    yield made
    made.shut_down()
    made.loop.close()


@pytest.fixture
def ask(runtime: Runtime) -> Ask:
    """Ask for a call from this thread: `ask(function, **options)` gives a future of its result."""

    def asking(function: Callable[..., Any], **options: Any) -> concurrent.futures.Future[FunctionResult]:
        return later(runtime, runtime.calls.run(FunctionCall(function=function, **options)))

    return asking


def later(runtime: Runtime, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
    """Run a coroutine on the runtime; a future that any thread may wait for."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    async def run() -> None:
        try:
            future.set_result(await work)
        except BaseException as error:  # noqa: BLE001 - told to the test
            future.set_exception(error)

    runtime.spawn(run(), name="test")
    return future
