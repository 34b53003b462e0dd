"""`Submission`: the handle that every input returns, from any thread, to be awaited or iterated on any loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Protocol

from ..errors import ChatBusyError
from .records import Outcome
from .wire import WireChunk

if TYPE_CHECKING:
    from .inputs import Input

inside: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("chatnb_inside", default=frozenset())
"""The chats in whose hooks, `run` or actions the current code works: waiting for one of them could never end."""


class ChunkLog:
    """The chunks of one turn, in order, for any number of readers on any loop. Thread-safe."""

    def __init__(self) -> None:
        self._chunks: list[WireChunk] = []
        self._ended = False
        self._wake: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def append(self, chunk: WireChunk) -> None:
        """Add one chunk."""
        with self._lock:
            self._chunks.append(chunk)
            if not self._wake:
                return
            waiting, self._wake = self._wake, []
        for wake in waiting:
            wake()

    @property
    def is_ended(self) -> bool:
        """Nothing more comes."""
        return self._ended

    def __len__(self) -> int:
        return len(self._chunks)

    def since(self, seen: int) -> list[WireChunk]:
        """Return the chunks after the first `seen`."""
        return self._chunks[seen:]

    def end(self) -> None:
        """Say that nothing more comes. Idempotent."""
        with self._lock:
            self._ended = True
            waiting, self._wake = self._wake, []
        for wake in waiting:
            wake()

    async def read(self, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> AsyncIterator[WireChunk]:
        """Yield all chunks from the first, then the live ones, each once; `around` wraps each wait."""
        async for batch in self.read_batches(around=around):
            for chunk in batch:
                yield chunk

    async def read_batches(
        self,
        most: int = 256,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        cross: Callable[[Callable[[], None]], None] | None = None,
    ) -> AsyncIterator[list[WireChunk]]:
        """Yield as `read`, but at once all that is there, up to `most` chunks.

        Args:
            most: Chunks of one batch.
            around: Wraps each wait.
            cross: Brings a function from any thread to the reader's loop; readers of one loop may share their hops.
        """
        index = 0
        while True:
            while index < len(self._chunks):
                batch = self._chunks[index : index + most]
                index += len(batch)
                yield batch
            loop = asyncio.get_running_loop()
            event = asyncio.Event()

            def wake(loop: asyncio.AbstractEventLoop = loop, event: asyncio.Event = event) -> None:
                if cross is not None:
                    cross(event.set)
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

            with self._lock:
                if index < len(self._chunks):
                    continue
                if self._ended:
                    return
                self._wake.append(wake)
            try:
                with around():
                    await event.wait()
            finally:
                with self._lock:
                    if wake in self._wake:
                        self._wake.remove(wake)


class Waiter(Protocol):
    """What a submission needs of its runtime."""

    def wait(
        self, future: concurrent.futures.Future[Outcome], timeout: float | None = None, *, chat_id: str | None = None
    ) -> Outcome:
        """Block until the future is done."""

    def waiting(self, chat_id: str | None = None) -> AbstractContextManager[None]:
        """Mark a block as awaiting a chat, so that its calls may run meanwhile."""


LOOK_SECONDS = 0.03
"""How long a blocking reader waits between two looks at what has come."""

OUTCOME_FIELDS = frozenset({*Outcome.__dataclass_fields__, "text"})


class Submission:
    """One input of a chat.

    `await submission` and `.result()` give the `Outcome` when the turn and its `on_turn_complete` are over. Iterating
    gives the turn's chunks in wire form. All of it may be done many times, by many readers, early or late.

    Example:
        submission = chat.send("Tell me a long story")
        async for chunk in submission:  # or `for`, where nothing can be awaited
            if chunk["type"] == "text-delta":
                print(chunk["delta"], end="")
        outcome = await submission
    """

    def __init__(self, runtime: Waiter, chat_id: str, stop: Callable[[Submission], None]) -> None:
        self._runtime = runtime
        self._chat_id = chat_id
        self._stop = stop
        self._future: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
        self._log = ChunkLog()
        self._admitted = False
        self._input: Input | None = None

    if not TYPE_CHECKING:  # a checker knows what is there

        def __getattr__(self, name: str) -> object:
            """Say how to get to the outcome when one of its fields is read here."""
            if name in OUTCOME_FIELDS:
                raise AttributeError(
                    f"a Submission has no {name!r}; the outcome has it: await the submission, or call .result()"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def done(self) -> bool:
        """The outcome is settled."""
        return self._future.done()

    @property
    def admitted(self) -> bool:
        """The input's row is written."""
        return self._admitted

    def result(self, timeout: float | None = None) -> Outcome:
        """Block until the outcome is there.

        On the main thread this runs the actions that are due there.

        Args:
            timeout: Seconds to wait at most; None waits as long as it takes.

        Raises:
            TimeoutError: The time is over; the turn goes on.
            ChatBusyError: Called inside this chat's own hook, `run` or action, or on the runtime's thread.
            KeyboardInterrupt: Ctrl-C; the turn goes on.
            CannotBlockError: Waiting is impossible here; use `await`.
        """
        self._check()
        return self._runtime.wait(self._future, timeout, chat_id=self._chat_id)

    def stop(self) -> None:
        """Stop this input: waiting, it ends `skipped`; running, its turn is stopped; done, nothing happens."""
        self._stop(self)

    def __await__(self) -> Generator[object, None, Outcome]:
        self._check()
        return self._wait().__await__()

    async def _wait(self) -> Outcome:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()

        def set_arrived() -> None:
            if not arrived.done():
                arrived.set_result(None)

        def wake(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(set_arrived)

        self._future.add_done_callback(wake)
        with self._runtime.waiting(self._chat_id):
            await arrived
        return self._future.result()

    def __aiter__(self) -> AsyncIterator[WireChunk]:
        self._check()
        return self._read()

    def __iter__(self) -> Iterator[WireChunk]:
        """Yield the turn's chunks, blocking as `.result()` does: actions that are due on the main thread run meanwhile.

        Raises:
            ChatBusyError, CannotBlockError: As from `.result()`.
        """
        seen = 0
        while True:
            is_over = self._log.is_ended or self.done
            chunks = self._log.since(seen)
            seen += len(chunks)
            yield from chunks
            if is_over:
                return
            if not chunks:
                with suppress(TimeoutError):
                    self.result(LOOK_SECONDS)

    async def _read(self) -> AsyncIterator[WireChunk]:
        async for chunk in self._log.read(lambda: self._runtime.waiting(self._chat_id)):
            yield chunk

    def _check(self) -> None:
        if not self._future.done() and self._chat_id in inside.get():
            raise ChatBusyError(
                "a hook, run or action of a chat can't wait for an input of the same chat, since it could never "
                "finish; make the submission without waiting, and it runs next"
            )

    # --- the engine's side --------------------------------------------------------------------------------------

    def _admit(self, input_: Input | None) -> None:
        self._input = input_
        self._admitted = input_ is not None

    def _settle(self, outcome: Outcome) -> None:
        self._log.end()
        if not self._future.done():
            self._future.set_result(outcome)

    def __repr__(self) -> str:
        if self.done:
            return f"Submission({self._future.result().status})"
        return f"Submission({'admitted' if self._admitted else 'new'}): await it, or call .result()"
