"""What holds for any stream of chunks (spec/messages.md, 4.1)."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chatnb.errors import MessageError
from chatnb.messages import Fold, SseDecoder, UIMessage, check_emittable, encode_sse, fold, validate_chunk

IDS = st.sampled_from(["a", "b"])
VALUES: st.SearchStrategy[Any] = st.sampled_from([None, 1, "s", {"k": [1]}, {}])
TEXTS = st.sampled_from(["", "x", '{"a":', "1}", "é\U0001f600", "\ud83d", "\ude00"])


def chunk(type: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(type), **keys})


CHUNKS = st.one_of(
    chunk("start", messageId=st.sampled_from(["m", "m", "n"])),
    chunk("start", messageMetadata=VALUES),
    chunk("message-metadata", messageMetadata=VALUES),
    chunk("finish", finishReason=st.sampled_from(["stop", "length"])),
    *(chunk(type) for type in ("start-step", "finish-step", "reset-step", "abort")),
    *(chunk(f"{kind}-start", id=IDS) for kind in ("text", "reasoning")),
    *(chunk(f"{kind}-delta", id=IDS, delta=TEXTS) for kind in ("text", "reasoning")),
    *(chunk(f"{kind}-end", id=IDS) for kind in ("text", "reasoning")),
    chunk("data-x", id=IDS, data=VALUES, transient=st.booleans()),
    chunk("data-x", data=VALUES),
    chunk("source-url", sourceId=IDS, url=TEXTS),
    chunk("tool-input-start", toolCallId=IDS, toolName=IDS, dynamic=st.booleans()),
    chunk("tool-input-delta", toolCallId=IDS, inputTextDelta=TEXTS),
    chunk("tool-input-available", toolCallId=IDS, toolName=IDS, input=VALUES, dynamic=st.booleans()),
    chunk("tool-input-error", toolCallId=IDS, toolName=IDS, input=VALUES, errorText=TEXTS),
    chunk("tool-approval-request", toolCallId=IDS, approvalId=IDS),
    chunk("tool-approval-response", approvalId=IDS, approved=st.booleans()),
    chunk("tool-output-available", toolCallId=IDS, output=VALUES, preliminary=st.booleans()),
    chunk("tool-output-error", toolCallId=IDS, errorText=TEXTS),
    chunk("tool-output-denied", toolCallId=IDS),
)


def feedable(chunks: list[dict[str, Any]], message: UIMessage | None = None) -> list[dict[str, Any]]:
    """The chunks without those that come out of order."""
    good: list[dict[str, Any]] = []
    for each in chunks:
        if fold([*good, each], message).error is None:
            good.append(each)
    return good


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    return feedable(draw(st.lists(CHUNKS, max_size=25)))


class TestFold:
    @settings(max_examples=60)
    @given(streams())
    def test_snapshots_never_change(self, chunks: list[dict[str, Any]]) -> None:
        """C6 of messages.md: the wire form of a snapshot stays, whatever comes."""
        made, taken = Fold(), []
        for each in chunks:
            made.feed(each)
            taken.append((made.message, copy.deepcopy(made.message.to_wire())))
        assert all(message.to_wire() == wire for message, wire in taken)

    @settings(max_examples=60)
    @given(streams(), streams())
    def test_one_by_one_or_at_once(self, first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
        """C7 of messages.md: the results are equal and the arguments unchanged."""
        start = Fold()
        for each in first:
            start.feed(each)
        message = start.message
        second = feedable(second, message)
        wires = copy.deepcopy((message.to_wire(), second))
        result, made, last = fold(second, message), Fold(message), {}
        for at, each in enumerate(second):
            change = made.feed(each)
            if change is not None and each["type"] != "start-step":
                last[at] = made.message
        assert [(at, snapshot) for at, snapshot in result.snapshots] == list(last.items())
        assert result.finish_reason == made.finish_reason
        ends = [snapshot for at, snapshot in last.items()][-1:]
        assert result.messages[-1:] == ends
        assert wires == (message.to_wire(), second)

    @settings(max_examples=60)
    @given(streams())
    def test_reading_in_between_changes_nothing(self, chunks: list[dict[str, Any]]) -> None:
        """The lazy build gives the same message whenever it is read."""
        often, once = Fold(), Fold()
        for each in chunks:
            often.feed(each)
            _ = often.message
            once.feed(each)
        assert often.message == once.message
        assert (often.open_text, often.open_inputs) == (once.open_text, once.open_inputs)

    @settings(max_examples=60)
    @given(streams())
    def test_none_means_unchanged(self, chunks: list[dict[str, Any]]) -> None:
        """`feed` returns None only when the visible message is as before, and a text change is an append."""
        made = Fold()
        for each in chunks:
            before = made.message
            change = made.feed(each)
            after = made.message
            if change is None:
                assert before == after
            elif change.kind == "text" and change.index is not None and change.delta is not None:
                key = "text" if change.field == "text" else "rawInput"
                old = before.parts[change.index].wire.get(key, "")
                joined = (old + change.delta).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
                assert after.parts[change.index].wire[key] == joined
                assert before.parts[: change.index] == after.parts[: change.index]
            elif change.kind == "part" and change.index is not None:
                assert before.parts[: change.index] == after.parts[: change.index]
                assert before.parts[change.index + 1 :] == after.parts[change.index + 1 :]

    @settings(max_examples=60)
    @given(st.lists(CHUNKS, max_size=10), st.integers(1, 50))
    def test_the_same_through_sse(self, chunks: list[dict[str, Any]], size: int) -> None:
        """Bytes may be cut anywhere."""
        data = b"".join(map(encode_sse, chunks))
        decoder = SseDecoder()
        found = [each for at in range(0, len(data), size) for each in decoder.feed(data[at : at + size])]
        whole = [SseDecoder().feed(encode_sse(each))[0] for each in chunks]
        assert found == whole
        assert [each["type"] for each in found] == [each["type"] for each in chunks]

    @settings(max_examples=200)
    @given(st.recursive(VALUES, lambda v: st.dictionaries(st.sampled_from(["type", "id", "delta", "data"]), v)))
    def test_any_value_is_refused_or_taken(self, value: Any) -> None:
        """Only the errors of chatnb come out."""
        for work in (validate_chunk, check_emittable, Fold().feed):
            try:
                work(value)
            except MessageError:
                continue
