"""The kinds of runtime: on a thread of its own, on the kernel's loop, and on a test's loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from chatnb._clock import Clock
from chatnb._ports import Host
from chatnb.errors import CannotBlockError, ChatBusyError
from chatnb.runtime.entry import running_entry
from chatnb.runtime.interrupt import Guard
from chatnb.runtime.nesting import make_nestable
from chatnb.runtime.runtime import Runtime
from chatnb.runtime.tasks import is_started_here, log_failure, report, start_task

T = TypeVar("T")


class ScriptHost:
    """The host where there is nothing around: a script, a test, a web server."""

    kind: Literal["kernel", "terminal", "script"] = "script"
    kernel_id: str | None = None
    label: str | None = None

    def main_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return None: no loop turns between cells."""
        return None

    def wake_main(self) -> None:
        """Do nothing."""

    def namespace(self) -> dict[str, Any]:
        """Return the namespace of `__main__`."""
        return vars(sys.modules["__main__"])


class ThreadRuntime(Runtime):
    """A daemon thread `chatnb-runtime` with its own loop."""

    kind = "thread"

    def __init__(self, host: Host, clock: Clock | None = None) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(report)
        super().__init__(loop, host, clock, host.main_loop())
        self._is_ending = False
        self._thread = threading.Thread(target=self._turn, name="chatnb-runtime", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            loop.close()
            raise

    @property
    def is_alive(self) -> bool:  # noqa: D102
        return self._thread.is_alive()

    def on_loop(self) -> bool:  # noqa: D102
        return threading.current_thread() is self._thread

    def post(self, fn: Callable[..., object], *args: Any) -> None:  # noqa: D102
        if self._is_ending and self.loop.is_closed():
            return  # the process ends, and nobody waits for it
        super().post(fn, *args)

    def undisturbed(self, fn: Callable[[], T]) -> T:  # noqa: D102
        if threading.current_thread() is not threading.main_thread():
            return fn()  # only the main thread is interrupted
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                value = context.run(fn)
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                done.set_exception(error)
            else:
                done.set_result(value)

        threading.Thread(target=work, name="chatnb-undisturbed", daemon=True).start()
        return done.result()

    def shut_down(self, seconds: float = 1.0) -> None:  # noqa: D102
        if self._is_ending or not self._thread.is_alive():
            return
        self._is_ending = True
        self.loop.set_exception_handler(lambda _loop, _details: None)  # whoever reads it is leaving

        def begin() -> None:
            task = start_task(self.loop, self._run_at_exit(), name="exit")
            task.add_done_callback(lambda _: self.loop.stop())

        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(begin)
        self._thread.join(seconds)

    def _turn(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_ending:
            try:
                self.loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - SystemExit of a task, say: it never ends the runtime
                log_failure("Something on the runtime", error)
        # A stop that was already on its way when the exit began.
        if self._at_exit:
            with contextlib.suppress(RuntimeError):
                self.loop.run_forever()


class LoopRuntime(Runtime):
    """Works as tasks on a loop that somebody else turns; calls run on that loop's thread."""

    kind = "kernel"

    def __init__(self, loop: asyncio.AbstractEventLoop, host: Host, clock: Clock | None = None) -> None:
        super().__init__(loop, host, clock, loop)
        self._thread_id = threading.get_ident()

    def on_loop(self) -> bool:  # noqa: D102
        return threading.get_ident() == self._thread_id

    def shut_down(self, seconds: float = 1.0) -> None:  # noqa: D102
        if self.loop.is_closed() or self.loop.is_running() or not self._at_exit:
            return
        with contextlib.suppress(TimeoutError):
            self.loop.run_until_complete(asyncio.wait_for(self._run_at_exit(), seconds))


class KernelRuntime(LoopRuntime):
    """Works on the kernel's loop; `.result()` nests it."""

    def _refuse_to_block(self) -> None:
        if not self.on_loop():
            return
        with contextlib.suppress(RuntimeError):
            if is_started_here(asyncio.current_task(self.loop)) and running_entry() is None:
                raise ChatBusyError("Waiting here would block chatnb's own work for ever. Use `await` instead.")
        make_nestable(self.loop)

    def _to_nest(self, guard: Guard) -> asyncio.AbstractEventLoop | None:
        return self.loop if guard is self.main.main_guard else None


class InlineRuntime(LoopRuntime):
    """Works on the running loop of a test: no thread is started; sync users' functions run on that loop.

    Args:
        loop: The running loop.
        clock: A clock that may stand still.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock | None = None, host: Host | None = None) -> None:
        super().__init__(loop, ScriptHost() if host is None else host, clock)

    async def in_worker(self, key: str, fn: Callable[..., T], *args: Any) -> T:  # noqa: D102
        return fn(*args)

    def notify(self, fn: Callable[..., object], *args: Any) -> None:  # noqa: D102
        self.post(fn, *args)


def kernel_runtime(host: Host, clock: Clock | None = None) -> KernelRuntime:
    """Make a runtime on the kernel's loop, or on the running loop where there is no kernel.

    Raises:
        CannotBlockError: No loop runs.
    """
    loop = host.main_loop()
    if loop is None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise CannotBlockError(
                'runtime="kernel" needs a running event loop, and there is none here. Use runtime="thread".'
            ) from None
    return KernelRuntime(loop, host, clock)
