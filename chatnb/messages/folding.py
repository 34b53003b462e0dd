"""`fold`: a whole stream of chunks to its messages and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chatnb.errors import MessageError
from chatnb.messages.chunk_schema import is_plain_delta
from chatnb.messages.fold_message import Fold
from chatnb.messages.json_value import FrozenDict, JsonObject, freeze
from chatnb.messages.message import UIMessage, as_message, replace_parts
from chatnb.messages.refusal import Refused


class Snapshot(NamedTuple):
    """A message after one chunk.

    Attributes:
        at: The chunk's index.
        message: The message.
    """

    at: int
    message: UIMessage


class FoldResult:
    """What a stream folds to.

    Attributes:
        messages: The last snapshot of each message, in order.
        error: What ended the fold, or with `strict=False` the first `error` chunk; else None.
        error_at: The index of the chunk that holds the error, or None.
        data: Copies of all `data-*` chunks, transient ones included.
        finish_reason: The last reason, or None.
    """

    def __init__(self, start: UIMessage | None, validate: bool, strict: bool) -> None:
        self.messages: list[UIMessage] = []
        self.error: MessageError | None = None
        self.error_at: int | None = None
        self.data: list[JsonObject] = []
        self.finish_reason: str | None = None
        self._start = start
        self._validate = validate
        self._strict = strict
        self._chunks: list[Any] = []
        self._snapshots: tuple[Snapshot, ...] | None = None

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Every snapshot with the index of its chunk. Made when asked for: together they hold each text many times."""
        if self._snapshots is None:
            found: list[Snapshot] = []
            fold = Fold(self._start, strict=False)
            for at, chunk in enumerate(self._chunks):
                change = fold.feed_unchecked(chunk)
                if change is not None and chunk["type"] != "start-step":
                    found.append(Snapshot(at, fold.message))
            self._snapshots = tuple(found)
        return self._snapshots

    def __repr__(self) -> str:
        return f"FoldResult(messages={len(self.messages)}, error={self.error!r}, finish_reason={self.finish_reason!r})"

    def _run(self, chunks: Iterable[Any]) -> None:
        fold = Fold(self._start, on_data=self.data.append, strict=self._strict)
        last = _LastSnapshot(fold, self.messages)
        for at, given in enumerate(chunks):
            chunk = _kept_copy(given)
            last.before(chunk)
            try:
                change = fold.feed(chunk) if self._validate else fold.feed_unchecked(chunk)
            except MessageError:
                self.error_at = at if self.error_at is None else self.error_at
                break
            if fold.error is not None and self.error_at is None:
                self.error_at = at
            if change is not None:
                last.after(chunk)
            self._chunks.append(chunk)
        last.close()
        self.error = fold.error
        self.finish_reason = fold.finish_reason


class _LastSnapshot:
    """Takes the last snapshot of each message, without making those before it."""

    def __init__(self, fold: Fold, messages: list[UIMessage]) -> None:
        self._fold = fold
        self._messages = messages
        self._due = False
        self._borders = 0  # step-starts since the last snapshot: they are in the message but in no snapshot

    def before(self, chunk: Any) -> None:
        """Finish the current message when the chunk is going to begin another."""
        if isinstance(chunk, dict) and chunk.get("type") == "start":
            id = chunk.get("messageId")
            if isinstance(id, str) and id != self._fold.message_id:
                self.close()

    def after(self, chunk: JsonObject) -> None:
        """Note a change."""
        if chunk["type"] == "start-step":
            self._borders += 1
        else:
            self._due, self._borders = True, 0

    def close(self) -> None:
        """Take the snapshot of the current message, if one is due."""
        if self._due:
            message = self._fold.message
            if self._borders:
                message = replace_parts(message, message.parts[: -self._borders])
            self._messages.append(message)
        self._due, self._borders = False, 0


def _kept_copy(chunk: Any) -> Any:
    """Return a copy that stays as it is when the caller changes the chunk later; a bad chunk is left to `feed`."""
    if is_plain_delta(chunk) or not isinstance(chunk, dict):
        return dict(chunk) if isinstance(chunk, dict) else chunk
    try:
        return FrozenDict({key: freeze(value) for key, value in chunk.items()})
    except Refused:
        return chunk


def fold(
    chunks: Iterable[Any],
    message: UIMessage | Mapping[str, Any] | None = None,
    *,
    validate: bool = True,
    strict: bool = True,
) -> FoldResult:
    """Fold a stream of chunks.

    Args:
        chunks: Chunks in wire form.
        message: The message to continue, or None.
        validate: Whether each chunk is validated first; otherwise unknown types are skipped.
        strict: Whether an `error` chunk ends the fold.

    Returns:
        The result. Bad chunks don't raise: see `error` and `error_at`.

    Raises:
        MessageValidationError: The message to continue has not the outline of one.
    """
    result = FoldResult(None if message is None else as_message(message), validate, strict)
    result._run(chunks)
    return result
