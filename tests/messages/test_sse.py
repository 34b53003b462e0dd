"""SSE framing (spec/messages.md, section 6)."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatnb.errors import ChunkParseError
from chatnb.messages import SSE_DONE, SSE_HEADERS, SseDecoder, encode_sse

STREAM = (
    "\ufeff: a comment\r\nevent: x\r\nid: 1\r\nretry: 5\r\n"
    'data: {"type":"text-delta","id":"a","delta":"\U0001f600é"}\r\n\r\n'
    'data:{"a":\ndata: 1}\n\n'
    ":keep-alive\n\n"
    "\r\r"
    'data:  {"b":2}\r\rdata: [DONE]\n\ndata: {"c":3}\n\ndata: {"dropped":1}\n'
).encode()
CHUNKS = [{"type": "text-delta", "id": "a", "delta": "\U0001f600é"}, {"a": 1}, {"b": 2}, {"c": 3}]


def decode(data: bytes, cuts: list[int] | None = None) -> list[Any]:
    decoder = SseDecoder()
    edges = [0, *sorted(cuts or []), len(data)]
    return [chunk for start, end in itertools.pairwise(edges) for chunk in decoder.feed(data[start:end])]


class TestDecoder:
    def test_single_bytes(self) -> None:
        """C21 of messages.md: CRLF, comments, a BOM and a split emoji, cut into single bytes."""
        assert decode(STREAM) == CHUNKS
        assert decode(STREAM, list(range(len(STREAM)))) == CHUNKS

    @given(st.lists(st.integers(0, len(STREAM)), max_size=20))
    def test_any_split(self, cuts: list[int]) -> None:
        """C21 of messages.md, for any split."""
        assert decode(STREAM, cuts) == CHUNKS

    def test_an_open_event_is_dropped(self) -> None:
        """C22 of messages.md."""
        assert decode(b'data: {"a":1}\n') == []

    @pytest.mark.parametrize(
        "data",
        [b"{x", b"NaN", b'{"a":Infinity}', b'{"__proto__":1}', b'{"\\u005f_proto__":1}', b"1e999", b"[" * 100_000],
    )
    def test_bad_data(self, data: bytes) -> None:
        """C22 of messages.md: what is no JSON, or holds a forbidden key."""
        decoder = SseDecoder()
        with pytest.raises(ChunkParseError) as first:
            decoder.feed(b'data: {"good":1}\n\ndata: ' + data + b"\n\n")
        assert decoder.rescued == [{"good": 1}]
        with pytest.raises(ChunkParseError) as second:
            decoder.feed(b"data: 1\n\n")
        assert second.value is first.value

    def test_bad_utf8(self) -> None:
        assert decode(b'data: "a\xff\xf0\x9f"\n\n') == ["a\ufffd\ufffd"]

    def test_an_event_that_is_too_large(self) -> None:
        for data in (b"data: " + b"x" * 200, b"data: x\n" * 60, b":" + b"x" * 200):
            with pytest.raises(ChunkParseError):
                SseDecoder(max_event=100).feed(data)
        decoder = SseDecoder(max_event=100)
        assert sum(len(decoder.feed(b"data: 1\n\n" + b": x\n" * 20)) for _ in range(50)) == 50


class TestEncode:
    def test_line_separators(self) -> None:
        """C23 of messages.md: one data line, and decoding gives it back."""
        chunk = {"type": "text-delta", "id": "a", "delta": "a\nb\r\u2028c\u2029\x85"}
        event = encode_sse(chunk)
        assert len(event.decode().splitlines()) == 2
        assert event.startswith(b'data: {"type":"text-delta",')
        assert event.endswith(b"\n\n")
        assert decode(event + SSE_DONE) == [chunk]

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, object()])
    def test_refused(self, value: Any) -> None:
        with pytest.raises(ChunkParseError):
            encode_sse({"type": "data-x", "data": [value]})

    def test_surrogates(self) -> None:
        data = decode(encode_sse({"type": "data-x", "data": ["\ud83d", "x\ude00\ud83d", "\ud83d\ude00"]}))[0]["data"]
        assert data == ["\ufffd", "x\ufffd\ufffd", "\U0001f600"]

    def test_headers(self) -> None:
        assert SSE_HEADERS["x-vercel-ai-ui-message-stream"] == "v1"
        assert set(map(str.lower, SSE_HEADERS)) == set(SSE_HEADERS)

    @given(st.dictionaries(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=5), st.text()))
    def test_back_and_forth(self, data: dict[str, str]) -> None:
        if "__proto__" not in data:
            encoded = encode_sse({"type": "data-x", "data": data})
            assert decode(encoded) == [{"type": "data-x", "data": json.loads(json.dumps(data))}]
