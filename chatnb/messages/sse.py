"""Server-sent events: chunks to bytes and back (spec/messages.md, section 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from chatnb.errors import ChunkParseError
from chatnb.messages.json_value import JsonValue
from chatnb.messages.partial_json import has_forbidden_key, load_json

SSE_DONE: Final = b"data: [DONE]\n\n"
"""The event that ends a stream."""

SSE_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "connection": "keep-alive",
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    }
)
"""The headers of a response that streams chunks."""

MAX_EVENT: Final = 32 * 1024 * 1024
"""The largest event that is read, in bytes."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
# JSON allows these raw, but many readers of lines end a line at them.
_LINE_SEPARATORS: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
# Made once: `json.dumps` makes an encoder for each call, which is most of what a delta costs.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode_sse(chunk: Any) -> bytes:
    """Return the event of one chunk: `data: `, compact JSON on one line, and a blank line.

    Lone surrogates become U+FFFD.

    Raises:
        ChunkParseError: The chunk holds a number that is not finite, or a value that JSON does not have.
    """
    try:
        text = _encode(chunk)
    except (ValueError, TypeError, RecursionError):
        raise ChunkParseError(
            "a chunk can't be written as JSON: it holds a number that is not finite, a value of another type, or is "
            "nested too deep"
        ) from None
    if not text.isascii():
        text = _SURROGATES.sub(_well_formed, text).translate(_LINE_SEPARATORS)
    return b"data: " + text.encode("utf-8") + b"\n\n"


def _well_formed(found: re.Match[str]) -> str:
    half = found.group()
    return half.encode("utf-16-le", "surrogatepass").decode("utf-16-le") if len(half) == 2 else "\ufffd"


class SseDecoder:
    """Reads chunks from bytes that may be cut anywhere.

    It holds at most one event. What was not closed by a blank line when the stream ends is dropped.

    Attributes:
        rescued: After an error, the chunks of that call which were complete before it.
    """

    def __init__(self, *, max_event: int = MAX_EVENT) -> None:
        """Begin a stream; `max_event` is the largest event in bytes."""
        self.rescued: list[JsonValue] = []
        self._max_event = max_event
        self._pieces: list[bytes] = []  # of the line that is not complete
        self._pending = 0  # their bytes
        self._data: list[bytes] = []  # the data lines of the event that is not complete
        self._size = 0  # their bytes
        self._after_cr = False
        self._at_start = True
        self._failure: ChunkParseError | None = None

    def feed(self, data: bytes) -> list[JsonValue]:
        """Take bytes and return the chunks that are complete now; they are not validated.

        Raises:
            ChunkParseError: An event is no JSON, holds a forbidden key, or is too large. From then on every call
                raises the same error.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        chunks: list[JsonValue] = []
        try:
            self._read(bytes(data), chunks)
        except ChunkParseError as error:
            self._failure = error
            self.rescued = chunks
            raise
        return chunks

    def _read(self, data: bytes, chunks: list[JsonValue]) -> None:
        at = 0
        if self._after_cr and data:
            # The LF of a CRLF that was cut in two ends no second line.
            at = 1 if data[:1] == b"\n" else 0
        for end in _LINE_END.finditer(data, at):
            self._take(data[at : end.start()])
            self._line(chunks)
            at = end.end()
        if data:
            self._after_cr = data.endswith(b"\r")
        self._take(data[at:])

    def _take(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._pending += len(piece)
        if self._size + self._pending > self._max_event:
            raise ChunkParseError(f"an event of the stream is larger than {self._max_event} bytes")

    def _line(self, chunks: list[JsonValue]) -> None:
        line = b"".join(self._pieces)
        self._pieces, self._pending = [], 0
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._event(chunks)
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._size += len(value) + 1

    def _event(self, chunks: list[JsonValue]) -> None:
        data = b"\n".join(self._data)
        self._data, self._size = [], 0
        if data and data != b"[DONE]":
            chunks.append(_parse(data.decode("utf-8", "replace")))


def _parse(text: str) -> JsonValue:
    try:
        value = load_json(text)
    except ValueError:
        raise ChunkParseError("an event of the stream is no JSON") from None
    may_hold_one = "__proto__" in text or "constructor" in text or "\\u" in text
    if may_hold_one and has_forbidden_key(value):
        raise ChunkParseError("an event of the stream holds a key that could change every object of a page")
    return value
