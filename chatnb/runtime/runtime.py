"""The runtime: one loop on which chatnb works, and the ways in and out of it (spec/notebook.md, section 1)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeVar

from chatnb._clock import Clock, SystemClock
from chatnb._ports import Calls, Host
from chatnb.errors import ChatBusyError
from chatnb.runtime.calls import RuntimeCalls
from chatnb.runtime.entry import running_entry
from chatnb.runtime.interrupt import Guard
from chatnb.runtime.main_calls import MainCalls
from chatnb.runtime.nesting import turning
from chatnb.runtime.pump import REPLY_GOES_ON
from chatnb.runtime.tasks import log_failure, start_task
from chatnb.runtime.workers import Pool, Worker, Workers

T = TypeVar("T")

RuntimeKind = Literal["thread", "kernel"]
AtExit = Callable[[], Awaitable[None] | None]

POOL_SIZE = 8
_ALIVE_CHECK = 1.0  # seconds


class Runtime:
    """What all kinds of runtime share; made by `get_runtime`.

    Attributes:
        kind: `"thread"` or `"kernel"`.
        loop: The loop that chatnb works on.
        host: The place that chatnb runs in.
        clock: What time-based waits are measured by.
        calls: Runs users' functions.
        main: The queue of calls for the main thread, and who serves it.
        pool: The threads for `run_in="thread"`.
        shared: What must outlive a reload of modules, by name: live chats, clients.
    """

    kind: RuntimeKind
    calls: Calls

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: Host,
        clock: Clock | None,
        main_loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.loop = loop
        self.host = host
        self.clock: Clock = SystemClock() if clock is None else clock
        self.shared: dict[str, object] = {}
        calls = RuntimeCalls(self)
        self.calls = calls
        self.calls_runner = calls
        self.main = MainCalls(host, main_loop, loop, calls.perform)
        self.pool = Pool(POOL_SIZE, "chatnb-pool")
        self._workers = Workers("chatnb-hooks")
        self._notifier = Worker("chatnb-notify")
        self._at_exit: list[AtExit] = []

    @property
    def is_alive(self) -> bool:
        """The loop still turns, as far as one can tell."""
        return not self.loop.is_closed()

    def on_loop(self) -> bool:
        """Say whether the calling thread is the loop's."""
        raise NotImplementedError

    # --- to the loop ------------------------------------------------------------------------------------------

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        """Run `fn` on the loop soon, in order of posting; from any thread. What it raises is logged.

        Raises:
            RuntimeError: The loop is closed.
        """
        self.loop.call_soon_threadsafe(_logged, fn, args)

    def call(self, fn: Callable[..., T], *args: Any, timeout: float | None = None) -> T:
        """Run `fn` on the loop and return what it returns; at once if the calling thread is the loop's.

        Args:
            fn: A sync function that never waits for the calling thread.
            *args: Its arguments.
            timeout: Seconds.

        Raises:
            TimeoutError: It was not done in time.
            RuntimeError: The runtime has ended.
            BaseException: Whatever `fn` raises.
        """
        if self.on_loop():
            return fn(*args)
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.loop.call_soon_threadsafe(_into, future, fn, args)
        if timeout is not None:
            return future.result(timeout)
        while not concurrent.futures.wait([future], timeout=_ALIVE_CHECK).done:
            if not self.is_alive:
                raise RuntimeError("The runtime of chatnb has ended.")
        return future.result()

    def call_if_free(self, fn: Callable[[], T], within: float) -> T | None:
        """Run `fn` on the loop if that comes to it in time; what was not begun by then is never run.

        Args:
            fn: A sync function that never waits for the calling thread.
            within: Seconds. The loop may wait for a locked store.

        Returns:
            What it returns; None if it was not run. What it raises is raised.
        """
        if self.on_loop():
            return fn()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                _into(future, fn, ())

        self.loop.call_soon_threadsafe(run)
        concurrent.futures.wait([future], within)
        return None if future.cancel() else future.result()

    def spawn(
        self, work: Coroutine[Any, Any, T], *, name: str, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        """Start a task on the loop; from any thread.

        Args:
            work: The coroutine.
            name: The task's name.
            context: The context it runs in; a copy of the caller's if left out.

        Returns:
            The task. It is held until it ends; an exception that nobody retrieves is logged once.
        """
        return self.call(lambda: start_task(self.loop, work, name=name, context=context))

    # --- waiting ----------------------------------------------------------------------------------------------

    def wait(
        self,
        future: concurrent.futures.Future[T],
        timeout: float | None = None,
        *,
        chat_id: str | None = None,
    ) -> T:
        """Block the calling thread until `future` is done; on the main thread, run the calls that are due.

        Args:
            future: What to wait for.
            timeout: Seconds; after them the reply goes on.
            chat_id: The chat that is waited for.

        Returns:
            The future's result.

        Raises:
            TimeoutError: Not within `timeout`.
            ChatBusyError: On the runtime's own thread or loop, or the wait would close a circle of chats.
            CannotBlockError: The kernel's loop has to be nested and can't be.
            KeyboardInterrupt: Ctrl-C while no user function ran.
        """
        if not future.done():
            self._refuse_to_block()
            with self._edge(chat_id):
                guard = self.main.guard_here()
                if guard is None:
                    return future.result(timeout)
                self._pump(guard, future, timeout)
        return future.result()

    @contextmanager
    def waiting(self, chat_id: str | None = None) -> Iterator[None]:
        """Mark the block as awaiting a chat: what `await submission` and `async for` are wrapped in.

        Calls of that chat may run while the caller's own function holds the place, and outside a kernel calls may run
        on the caller's loop if that is the main thread's.

        Args:
            chat_id: The chat.

        Raises:
            ChatBusyError: The wait would close a circle of chats.
        """
        with ExitStack() as stack:
            stack.enter_context(self._edge(chat_id))
            if threading.current_thread() is threading.main_thread():
                loop = asyncio.get_running_loop()
                if self.main.main_loop is None:
                    stack.enter_context(self.main.awaiting(loop))
                    self.main.wake()
                elif loop is self.main.main_loop:
                    stack.enter_context(turning(loop))
            yield

    def _pump(self, guard: Guard, future: concurrent.futures.Future[T], timeout: float | None) -> None:
        slot = guard.current
        with self.main.pumping(guard, lambda: self._to_nest(guard)) as pump:

            def on_interrupt(by_user: bool) -> None:
                if by_user and self.main.tasks.cancel():
                    return  # an async user function runs on the main thread: it is that which is interrupted
                pump.put("interrupt" if by_user else "stop")

            with guard.hosting(pump), guard.waiting(on_interrupt):
                pump.run(future, timeout)
        if pump.ended_by is None:
            return
        error = KeyboardInterrupt()
        if pump.ended_by == "interrupt":
            error.add_note(REPLY_GOES_ON)
            if slot is not None:
                slot.hit_by_user = True
        raise error

    def _to_nest(self, guard: Guard) -> asyncio.AbstractEventLoop | None:
        """The loop to turn while the calling thread waits."""
        if guard is self.main.main_guard and self.main.main_loop is not None and self.main.queue.holds_async():
            return self.main.main_loop
        return None

    def _refuse_to_block(self) -> None:
        if self.on_loop():
            raise ChatBusyError("Waiting here would block chatnb's own loop for ever. Use `await` instead.")

    @contextmanager
    def _edge(self, chat_id: str | None) -> Iterator[None]:
        entry = running_entry()
        if entry is None or chat_id is None:
            yield
            return
        self.main.queue.begin_wait(entry, chat_id)
        try:
            self.main.wake()
            yield
        finally:
            self.main.queue.end_wait(entry, chat_id)

    def undisturbed(self, fn: Callable[[], T]) -> T:
        """Run `fn` to its end, though Ctrl-C may end the wait for it: half of it would leave something taken.

        Args:
            fn: A sync function that needs no particular thread.

        Returns:
            What it returns; what it raises is raised.

        Raises:
            KeyboardInterrupt: Ctrl-C. The function goes on, and nobody hears of its result.
        """
        return fn()

    # --- users' code off the loop -------------------------------------------------------------------------------

    def leave_worker(self, key: str) -> None:
        """Leave the worker of a key behind, whose function has overrun its time; the next function gets another one."""
        self._workers.leave(key)

    async def in_worker(self, key: str, fn: Callable[..., T], *args: Any) -> T:
        """Run a sync function on the one worker thread of `key`, in a copy of the caller's context.

        Args:
            key: Whose thread: a chat's id.
            fn: The function.
            *args: Its arguments.

        Returns:
            What it returns; what it raises is raised.
        """
        future: asyncio.Future[T] = self.loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            try:
                value = fn(*args)
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                self.post(_fail, future, error)
            else:
                self.post(_succeed, future, value)

        self._workers.submit(key, lambda: context.run(job))
        return await future

    def notify(self, fn: Callable[..., object], *args: Any) -> None:
        """Run an observer, in order: on a kernel's main thread when that is free, else on one notifier thread."""
        if self.main.main_loop is not None:
            self.main.notify(lambda: fn(*args))
        else:
            self._notifier.submit(lambda: _logged(fn, args))

    def send_calls_to_thread(self) -> None:
        """Run main-thread calls on `chatnb-calls` at once: what a server site says at its start."""
        self.main.goes_to_calls_thread = True

    # --- the end ----------------------------------------------------------------------------------------------

    def at_exit(self, fn: AtExit) -> None:
        """Call `fn` on the loop at an orderly shutdown; a coroutine is awaited. All together have 1 s."""
        self._at_exit.append(fn)

    def shut_down(self, seconds: float = 1.0) -> None:
        """Run what was registered with `at_exit` and end, in at most `seconds`. Called once, by the process's exit."""
        raise NotImplementedError

    async def _run_at_exit(self) -> None:
        for fn in reversed(self._at_exit):
            try:
                outcome = fn()
                if outcome is not None:
                    await outcome
            except Exception as error:  # noqa: BLE001 - the others have their turn
                log_failure("A step of the exit", error)
        self._at_exit.clear()


def _logged(fn: Callable[..., object], args: tuple[Any, ...]) -> None:
    try:
        fn(*args)
    except BaseException as error:  # noqa: BLE001 - nothing that is posted may end the loop
        log_failure("Something posted to the runtime", error)


def _into(future: concurrent.futures.Future[T], fn: Callable[..., T], args: tuple[Any, ...]) -> None:
    try:
        value = fn(*args)
    except BaseException as error:  # noqa: BLE001 - raised to the caller
        future.set_exception(error)
    else:
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        # A future refuses StopIteration, and the loop re-raises the others of this kind.
        if not isinstance(error, Exception) or isinstance(error, StopIteration):
            wrapped = RuntimeError(f"{type(error).__name__} in a worker")
            wrapped.__cause__ = error
            error = wrapped
        future.set_exception(error)


def _succeed(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
