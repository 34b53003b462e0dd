"""The message that a turn writes: every chunk is checked, folded, logged and shown here, in this order.

The emission rules of spec/messages.md, section 7 that concern the frame of a turn live here too: `start` comes with the
first chunk, open blocks are ended, calls that were begun and not finished are settled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from .._clock import AGAIN_SECONDS, GONE_SECONDS, Clock
from .._json import JsonValue
from .._killpoint import is_armed, kill_point
from ..errors import ChatBusyError, ChunkOrderError, StoreUnavailableError
from ..messages import Fold, FoldChange, Part, ReasoningPart, TextPart, UIMessage, check_emittable
from ..store.port import WriteTx
from .limits import fit_chunk
from .view import UNFINISHED
from .wire import WireChunk

BASE_SEQ = -1
"""Where a chunk log notes how many parts its message had before, once its partial has been stored."""
FLUSH_SECONDS = 0.05
FLUSH_BYTES = 4096
DELTA_SECONDS = 5.0
CALL_ENDS = frozenset(
    {
        "tool-approval-request",
        "tool-input-error",
        "tool-output-available",
        "tool-output-denied",
        "tool-output-error",
    }
)


SETTLES = CALL_ENDS | {"abort", "error", "finish", "finish-step"}
"""What is committed at once, never batched (W5)."""
BLOCK_STARTS = frozenset({"reasoning-start", "text-start"})
STARTS = frozenset({"reasoning-start", "text-start", "tool-input-available", "tool-input-start"})


def holds_content(message: UIMessage) -> bool:
    """Tell whether a message has a part beyond the marks of steps and blocks that nothing was said in."""
    return any(part.type != "step-start" and not _is_blank(part) for part in message.parts)


def _is_blank(part: Part) -> bool:
    return (
        isinstance(part, TextPart | ReasoningPart)
        and not part.text
        and part.provider_metadata in (None, UNFINISHED)  # a signature alone is something
    )


def base_note(parts: int) -> JsonValue:
    """Return the note that goes to `BASE_SEQ` of a chunk log."""
    return {"type": "base", "parts": parts}


class Progress:
    """Counts the progress of a turn: what it begins and settles, and its deltas once in 5 s (spec/recovery.md, 7)."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last_delta: float | None = None
        self.gained = 0

    def note(self, chunk: WireChunk) -> None:
        """Look at one chunk."""
        kind = chunk["type"]
        if kind in STARTS or (kind in CALL_ENDS and chunk.get("preliminary") is not True):
            self.gained += kind != "tool-approval-request"
        elif kind.endswith("-delta"):
            now = self._monotonic()
            if self._last_delta is None or now - self._last_delta >= DELTA_SECONDS:
                self._last_delta = now
                self.gained += 1

    def take(self) -> int:
        """Return what was gained since the last call."""
        gained, self.gained = self.gained, 0
        return gained


class Surroundings(Protocol):
    """What a live message needs of the engine."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[WriteTx]:
        """Open a transaction of this chat."""

    def schedule(self, seconds: float, function: Callable[[], None]) -> Callable[[], None]:
        """Call a function on the loop later; return what cancels it."""

    def show(self, change: FoldChange | None, chunk: WireChunk, message_id: str) -> None:
        """Publish one chunk to views and submissions."""

    def broken(self, error: Exception) -> None:
        """The log can't be written; the turn has to end."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    @property
    def progress(self) -> int:
        """The chat's progress counter, as it is stored."""

    def add_progress(self, gained: int) -> None:
        """Take note of progress that has been stored."""


class LiveMessage:
    """One message while its turn writes it.

    Args:
        around: The engine's side.
        turn_id: Names the chunk log.
        message_id: The response's id, from its first chunk to the store.
        message: The message that is continued, or None.
        first_seq: Number of the first chunk in the log.
        fold: What has rebuilt the log, for a turn that goes on.
        is_step_open: Its log ends inside a step.
    """

    def __init__(
        self,
        around: Surroundings,
        turn_id: str,
        message_id: str,
        message: UIMessage | None = None,
        *,
        first_seq: int = 0,
        fold: Fold | None = None,
        is_step_open: bool = False,
    ) -> None:
        self._around = around
        self._turn_id = turn_id
        self.message_id = message_id
        self._fold = Fold(message, id=message_id, strict=False) if fold is None else fold
        self._lock = threading.Lock()
        self._seq = first_seq
        self._batch: list[WireChunk] = []
        self._batch_bytes = 0
        self._cancel_flush: Callable[[], None] | None = None
        self._failing_since: float | None = None
        self._tx: WriteTx | None = None
        self._held: list[WireChunk | Callable[[UIMessage], UIMessage]] = []
        # The log of a turn that goes on has its `start` already.
        self.is_started = fold is not None and first_seq > 0
        self.is_step_open = is_step_open
        self.is_closed = False
        self.has_shown = fold is not None
        self.client_tools: frozenset[str] = frozenset()
        self._progress = Progress(around.clock.monotonic)
        self._counts = True

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def message(self) -> UIMessage:
        """The message as it is now; thread-safe."""
        with self._lock:
            return self._fold.message

    @property
    def has_content(self) -> bool:
        """Something was produced."""
        return holds_content(self.message)

    # --- sending ------------------------------------------------------------------------------------------------

    def emit(self, chunk: WireChunk) -> None:
        """Check, fold, log and show one chunk. Inside `write()` it waits for the commit.

        Raises:
            MessageValidationError: chatnb does not send such a chunk; nothing happened.
            ChunkOrderError: It needs something that did not come before it; nothing happened.
            ChatBusyError: The stream is closed.
        """
        if self.is_closed:
            raise ChatBusyError("the turn's stream is closed")
        check_emittable(chunk)
        if chunk["type"] in BLOCK_STARTS:
            self._end_open(chunk)
        if not self.is_started:
            if chunk["type"] == "start":
                self.is_started = True
            else:
                self.emit({"type": "start", "messageId": self.message_id})
        if self._tx is not None:
            self._held.append(chunk)
        else:
            self._accept(chunk)

    def _end_open(self, chunk: WireChunk) -> None:
        """End a block whose id begins anew, so that no part stays open for good."""
        kind = chunk["type"]
        if kind == "text-start" and chunk["id"] in self._fold.open_text:
            self.emit({"type": "text-end", "id": chunk["id"]})
        elif kind == "reasoning-start" and chunk["id"] in self._fold.open_reasoning:
            self.emit({"type": "reasoning-end", "id": chunk["id"]})

    def _accept(self, chunk: WireChunk, *, logged: bool = False) -> None:
        with self._lock:
            try:
                change = self._fold.feed(chunk, validated=True)
            except ChunkOrderError:
                self._fold.forgive()  # what follows, the turn's end above all, still has to be told
                raise
        kind = chunk["type"]
        if kind == "start-step":
            self.is_step_open = True
        elif kind == "finish-step":
            self.is_step_open = False
        if not logged and chunk.get("transient") is not True:
            self._log(chunk)
        if change is not None and kind not in ("start", "start-step"):
            self.has_shown = True
        self._around.show(change, chunk, self.message_id)

    def edit(self, change: Callable[[UIMessage], UIMessage]) -> None:
        """Replace the message by an edit that is no chunk; inside `write()` only."""
        if self._tx is None:
            raise AssertionError("an edit of the live message belongs into a transaction")
        self._held.append(change)

    def replace(self, message: UIMessage) -> None:
        """Go on with another message under the same id."""
        with self._lock:
            self._fold = Fold(message, id=self.message_id, strict=False)

    def restart(self, message: UIMessage) -> None:
        """Go on with another message, in a log that begins anew inside the open step."""
        self.replace(message)
        self._seq = 0
        self.is_started = False

    # --- the log ------------------------------------------------------------------------------------------------

    def _log(self, chunk: WireChunk) -> None:
        delta = chunk.get("delta") or chunk.get("inputTextDelta")
        is_short = isinstance(delta, str) and len(delta) < FLUSH_BYTES
        self._batch.append(chunk if is_short else fit_chunk(chunk))
        if self._counts:
            self._progress.note(chunk)
        self._batch_bytes += 64 + _bytes_of(delta) if isinstance(delta, str) else 256
        kill_point("chunk.buffered")
        kind = chunk["type"]
        if kind in SETTLES or (kind == "tool-input-available" and chunk["toolName"] in self.client_tools):
            self._flush_quietly(durable=True)
        elif self._batch_bytes >= FLUSH_BYTES:
            self._flush_quietly()
        elif self._cancel_flush is None:
            self._cancel_flush = self._around.schedule(FLUSH_SECONDS, self._flush_quietly)
        if kind == "tool-input-delta":
            self.pass_kill_point("tool.input")

    def pass_kill_point(self, name: str) -> None:
        """Pass a kill point at which all that was said so far is in the log."""
        if is_armed(name):
            self.flush()
        kill_point(name)

    def _flush_quietly(self, *, durable: bool = False) -> None:
        try:
            self.flush(durable=durable)
            self._failing_since = None
        except StoreUnavailableError as error:
            now = self._around.clock.monotonic()
            self._failing_since = self._failing_since if self._failing_since is not None else now
            if now - self._failing_since >= GONE_SECONDS:
                self._around.broken(error)
            else:
                self._cancel_flush = self._around.schedule(AGAIN_SECONDS, self._flush_quietly)
        except Exception as error:  # noqa: BLE001 - whatever the store raises ends the turn
            self._around.broken(error)

    def flush(self, *, durable: bool = False) -> None:
        """Commit the open batch.

        Raises:
            StoreError: It can't be written; the batch is kept.
        """
        if not self._batch:
            return
        with self._around.write(durable=durable) as tx:
            count = self._put_batch(tx)
        self._forget_batch(count)
        kill_point("chunk.flushed")

    def _put_batch(self, tx: WriteTx) -> int:
        if self._batch:
            tx.add_chunks(self._turn_id, self._seq, self._batch)
            if self._progress.gained:
                tx.set_chat(progress=self._around.progress + self._progress.gained)
        return len(self._batch)

    def _forget_batch(self, count: int) -> None:
        if count:
            self._around.add_progress(self._progress.take())
        self._seq += count
        self._batch = self._batch[count:]
        self._batch_bytes = 0
        if self._cancel_flush is not None:
            self._cancel_flush()
            self._cancel_flush = None

    @contextmanager
    def write(self) -> Iterator[WriteTx]:
        """Open one durable transaction; the open batch and what is emitted inside go with it, and show after it."""
        if self._tx is not None:
            raise AssertionError("transactions of a turn do not nest")
        before = list(self._batch)
        try:
            with self._around.write(durable=True) as tx:
                self._tx = tx
                yield tx
                for item in self._held:
                    if isinstance(item, dict) and item.get("transient") is not True:
                        self._batch.append(fit_chunk(item))
                        if self._counts:
                            self._progress.note(item)
                count = self._put_batch(tx)
        except BaseException:
            self._batch, self._held = before, []
            raise
        finally:
            self._tx = None
        self._forget_batch(count)
        held, self._held = self._held, []
        for item in held:
            if isinstance(item, dict):
                self._accept(item, logged=True)
            else:
                self.replace(item(self.message))

    # --- endings ------------------------------------------------------------------------------------------------

    def end_blocks(self) -> None:
        """End every open text and reasoning block."""
        for block in self._fold.open_text:
            self.emit({"type": "text-end", "id": block})
        self.end_reasoning()

    def end_reasoning(self) -> None:
        """End every open reasoning block; what the model has not ended itself is never sent back to one."""
        for block in self._fold.open_reasoning:
            self.emit({"type": "reasoning-end", "id": block, "providerMetadata": UNFINISHED})

    @property
    def joinable_text(self) -> str | None:
        """The id of the text block that the message ends in, if it is open."""
        open_text = self._fold.open_text
        parts = self.message.parts
        if not open_text or not self.is_step_open or not parts or parts[-1].type != "text":
            return None
        return open_text[-1]

    @contextmanager
    def without_progress(self) -> Iterator[None]:
        """Send chunks that are repairs and no work."""
        self._counts = False
        try:
            yield
        finally:
            self._counts = True

    def end_step(self) -> None:
        """Send finish-step if a step is open."""
        if self.is_step_open:
            self.emit({"type": "finish-step"})

    def close(self) -> None:
        """Take no more chunks."""
        self.is_closed = True
        if self._cancel_flush is not None:
            self._cancel_flush()
            self._cancel_flush = None


def _bytes_of(text: str) -> int:
    # Most deltas are ASCII, and know it.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
