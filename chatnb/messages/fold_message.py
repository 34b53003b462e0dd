"""The fold: chunks in, a message out (spec/messages.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from chatnb.errors import MessageError, RemoteStreamError
from chatnb.messages.chunk_schema import check_shape, fields_of, validate_chunk
from chatnb.messages.fold_content import CONTENT_HANDLERS, Handler, data
from chatnb.messages.fold_state import FoldChange, FoldState
from chatnb.messages.fold_tools import TOOL_HANDLERS
from chatnb.messages.json_value import JsonObject, thaw
from chatnb.messages.message import UIMessage, as_message
from chatnb.messages.refusal import Refused

_HANDLERS: Final[dict[str, Handler]] = {**CONTENT_HANDLERS, **TOOL_HANDLERS}


class Fold:
    """Builds a message from chunks, one at a time.

    A text or input delta costs what the delta costs, whatever the length of the message. Parts are made when `message`
    is read, and only those that changed. After an error the fold refuses more with the same error, and the message up
    to the broken chunk stands.
    """

    def __init__(
        self,
        message: UIMessage | Mapping[str, Any] | None = None,
        *,
        id: str = "",
        on_data: Callable[[JsonObject], object] | None = None,
        strict: bool = True,
    ) -> None:
        """Begin a fold.

        Args:
            message: What to continue. An assistant's message is continued; of another role only the id is taken.
            id: The id of a new message.
            on_data: Called with a copy of each `data-*` chunk, transient ones included, after it was applied.
            strict: Whether an `error` chunk ends the fold; otherwise the first is kept in `error`.

        Raises:
            MessageValidationError: The message has not the outline of one.
        """
        self._state = FoldState(None if message is None else as_message(message), id)
        self._on_data = on_data
        self._strict = strict
        self._failure: MessageError | None = None
        self._remote: RemoteStreamError | None = None

    def feed(self, chunk: Any, *, validated: bool = False) -> FoldChange | None:
        """Apply one chunk.

        Args:
            chunk: A chunk in wire form.
            validated: Skip the checks, for a chunk that passed them already. Unknown types are then skipped.

        Returns:
            What changed, or None when the visible message is as before.

        Raises:
            MessageValidationError: The chunk breaks the schema.
            ChunkOrderError: It needs something that did not come before it.
            RemoteStreamError: It is an `error` chunk and the fold is strict.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        try:
            if not validated:
                validate_chunk(chunk)
            return self._apply(chunk)
        except Refused as refusal:
            self._failure = refusal.to_error("chunk")
            raise self._failure from None
        except MessageError as error:
            self._failure = error
            raise

    def forgive(self) -> None:
        """Go on after a chunk that was refused: nothing of it was applied, and its sender hears of it elsewhere."""
        self._failure = None

    def feed_unchecked(self, chunk: Any) -> FoldChange | None:
        """Apply a chunk that nobody checked: an unknown type is skipped, and only missing keys are refused."""
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        fields = fields_of(kind) if isinstance(kind, str) else None
        if fields is None and self._failure is None:
            return None
        if self._failure is None and isinstance(kind, str) and fields is not None:
            try:
                check_shape(chunk, kind, fields)
            except Refused as refusal:
                self._failure = refusal.to_error("chunk")
                raise self._failure from None
        return self.feed(chunk, validated=True)

    def _apply(self, chunk: JsonObject) -> FoldChange | None:
        kind = chunk["type"]
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self._state, chunk)
        if kind.startswith("data-"):
            return self._apply_data(chunk)
        if kind == "error":
            self._note_remote(str(chunk["errorText"]))
        return None

    def _apply_data(self, chunk: JsonObject) -> FoldChange | None:
        change = data(self._state, chunk)
        if self._on_data is not None:
            self._on_data(thaw(chunk))
        return change

    def _note_remote(self, text: str) -> None:
        error = RemoteStreamError(text)
        if self._strict:
            raise error
        if self._remote is None:
            self._remote = error

    @property
    def message(self) -> UIMessage:
        """The message as it is now. Parts that did not change since the last reading are the same objects."""
        state = self._state
        return UIMessage.make(state.id, "assistant", tuple([slot.build() for slot in state.slots]), state.metadata)

    @property
    def message_id(self) -> str:
        """The message's id, without building the message."""
        return self._state.id

    @property
    def error(self) -> MessageError | None:
        """The first error: an `error` chunk that a fold which is not strict went past, or what ended it; else None."""
        return self._remote or self._failure

    @property
    def finish_reason(self) -> str | None:
        """The last reason that a `finish` chunk gave, or None."""
        return self._state.finish_reason

    @property
    def open_text(self) -> tuple[str, ...]:
        """The ids of the open text blocks, in the order in which they were opened."""
        return tuple(self._state.open_text)

    @property
    def open_reasoning(self) -> tuple[str, ...]:
        """The ids of the open reasoning blocks, in the order in which they were opened."""
        return tuple(self._state.open_reasoning)

    @property
    def open_inputs(self) -> tuple[str, ...]:
        """The ids of the calls whose input is still being said, in the order in which they were opened."""
        opened = self._state.open_inputs
        return tuple(id for id, slot in opened.items() if slot.wire.get("state") == "input-streaming")
