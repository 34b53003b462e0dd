"""The partial answer of an interrupted turn, rebuilt by the fold over its chunk log (spec/recovery.md, 4.2)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .._json import JsonValue
from ..errors import MessageError
from ..messages import Fold, Part, ReasoningPart, TextPart, UIMessage, replace_parts, validate_part
from ..store.records import InputRow
from ..turns.decisions import lay_decision

log = logging.getLogger("chatnb")

FRAME = frozenset({"start", "start-step", "finish-step", "finish", "abort", "error", "message-metadata"})
BLOCKS = frozenset(f"{kind}-{step}" for kind in ("text", "reasoning") for step in ("start", "delta", "end"))


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a chunk log says.

    Attributes:
        fold: The fold, with what is open.
        chunks: The log without its note and without what comes after a broken chunk.
        base_parts: How many parts the message had before the turn.
        has_part: Something beyond the frame was logged, and beyond blocks in which nothing was said.
        is_step_open: The log ends inside a step.
        end: The turn's end, if it was logged.
        finish_reason: What the end said.
        error_text: What an `error` chunk said.
        laid: Ids of the decisions that were laid over the message.
    """

    fold: Fold
    chunks: tuple[JsonValue, ...] = ()
    base_parts: int = 0
    has_part: bool = False
    is_step_open: bool = False
    end: Literal["finish", "abort", "error"] | None = None
    finish_reason: str | None = None
    error_text: str | None = None
    laid: tuple[str, ...] = ()

    @property
    def next_seq(self) -> int:
        """The number of the next chunk."""
        return len(self.chunks)

    @property
    def message(self) -> UIMessage:
        """The partial, with open blocks as they are."""
        return self.fold.message


def rebuild(
    chunks: Sequence[JsonValue],
    message_id: str,
    stored: UIMessage | None,
    decisions: Sequence[InputRow] = (),
) -> Rebuilt:
    """Fold a log.

    Args:
        chunks: The log, up to the first unreadable batch.
        message_id: The id of the answer, unless its own `start` chunk names another.
        stored: The message with this id as it is stored, or None.
        decisions: Decisions that came while the message streamed.
    """
    chunks = list(chunks)
    note = chunks.pop(0) if chunks and _is_note(chunks[0]) else None
    base = _base(stored, note)
    fold = Fold(base, id=message_id, strict=False)
    made = Rebuilt(fold=fold, chunks=tuple(chunks), base_parts=len(base.parts) if base is not None else 0)
    asked = {row.payload["id"]: row for row in decisions}
    for number, chunk in enumerate(chunks):
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        try:
            made.fold.feed(chunk)
        except MessageError as error:
            log.warning("the chunk log of a turn ends at a broken chunk (%s)", type(error).__name__)
            good = replace(made, chunks=tuple(chunks[:number]))
            return _lay(replace(good, fold=Fold(made.fold.message, id=message_id, strict=False)), decisions, message_id)
        made = _noted(made, kind, chunk)
        if kind == "tool-approval-request" and chunk["approvalId"] in asked:
            made = _lay(made, [asked[chunk["approvalId"]]], message_id)
    return _lay(made, [row for row in decisions if row.id not in made.laid], message_id)


def _noted(made: Rebuilt, kind: str | None, chunk: Mapping[str, JsonValue]) -> Rebuilt:
    if kind == "start-step":
        return replace(made, is_step_open=True)
    if kind == "finish-step":
        return replace(made, is_step_open=False)
    if kind == "finish":
        return replace(made, end="finish", finish_reason=chunk.get("finishReason"))
    if kind == "abort":
        return replace(made, end="abort")
    if kind == "error":
        return replace(made, end="error", error_text=str(chunk.get("errorText")))
    if kind not in FRAME and not made.has_part and not _is_blank(chunk):
        return replace(made, has_part=True)
    return made


def _is_blank(chunk: Mapping[str, JsonValue]) -> bool:
    """Tell whether a chunk is of a block in which nothing is said by it: a block alone is nothing to go on from."""
    if chunk.get("type") not in BLOCKS or chunk.get("providerMetadata"):
        return False
    return not chunk.get("delta")


def _lay(made: Rebuilt, decisions: Sequence[InputRow], message_id: str) -> Rebuilt:
    for row in decisions:
        message = lay_decision(made.fold.message, row.payload)
        if message is not None:
            fold = Fold(message, id=message_id, strict=False)
            made = replace(made, fold=fold, has_part=True, laid=(*made.laid, row.id))
    return made


def _is_note(chunk: JsonValue) -> bool:
    return isinstance(chunk, dict) and chunk.get("type") == "base"


def _base(stored: UIMessage | None, note: JsonValue) -> UIMessage | None:
    """Return the message as it was before the turn; None for a new one."""
    if stored is None or note is None:
        return stored
    count = int(note["parts"])
    return replace_parts(stored, stored.parts[:count]) if count else None


def close_parts(message: UIMessage) -> UIMessage:
    """Mark text and reasoning that was cut off as done."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, TextPart | ReasoningPart) and part.state == "streaming":
            part = validate_part({**part.to_wire(), "state": "done"})
        parts.append(part)
    return replace_parts(message, tuple(parts))
