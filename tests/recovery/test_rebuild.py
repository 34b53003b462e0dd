"""The partial is the fold of the log, and repair makes any history valid (spec/recovery.md, sections 4 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chatnb.history.repair import ActionFacts, Records, has_unfinished, repair
from chatnb.messages import Fold, UIMessage, validate_messages
from chatnb.recovery.rebuild import close_parts, rebuild
from chatnb.turns.live import base_note


@dataclass(frozen=True)
class Row:
    """A row of the ledger."""

    message_id: str | None
    step: int | None
    tool_call_id: str | None
    state: str
    output: Any = None
    error: Any = None


LOG: list[dict[str, Any]] = [
    {"type": "start", "messageId": "m"},
    {"type": "start-step"},
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": "hm"},
    {"type": "reasoning-end", "id": "r"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "one "},
    {"type": "text-delta", "id": "t", "delta": "two"},
    {"type": "text-end", "id": "t"},
    {"type": "tool-input-start", "toolCallId": "1", "toolName": "pay"},
    {"type": "tool-input-delta", "toolCallId": "1", "inputTextDelta": '{"order": '},
    {"type": "tool-input-delta", "toolCallId": "1", "inputTextDelta": '"7"}'},
    {"type": "tool-input-available", "toolCallId": "1", "toolName": "pay", "input": {"order": "7"}},
    {"type": "tool-input-available", "toolCallId": "2", "toolName": "look", "input": {}},
    {"type": "tool-output-available", "toolCallId": "1", "output": "paid"},
    {"type": "tool-output-available", "toolCallId": "2", "output": "seen"},
    {"type": "finish-step"},
    {"type": "start-step"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "done"},
    {"type": "text-end", "id": "t"},
    {"type": "finish-step"},
    {"type": "finish", "finishReason": "stop"},
]


class TestRebuild:
    """The ordinary fold over the log."""

    @given(st.integers(0, len(LOG)))
    def test_any_prefix(self, length: int) -> None:
        """Any prefix of a log folds to the message that a view saw after it."""
        fold = Fold(id="m", strict=False)
        for chunk in LOG[:length]:
            fold.feed(chunk)
        made = rebuild(LOG[:length], "m", None)
        assert made.message == fold.message
        assert made.next_seq == length
        assert (made.end == "finish") is (length == len(LOG))

    @given(st.integers(0, len(LOG)))
    def test_once_it_is_stored(self, length: int) -> None:
        """Once the partial is stored, folding the log onto its base gives the same again."""
        before = UIMessage.from_wire({"id": "m", "role": "assistant", "parts": [{"type": "text", "text": "former"}]})
        made = rebuild(LOG[:length], "m", before)
        again = rebuild([base_note(made.base_parts), *LOG[:length]], "m", close_parts(made.message))
        assert again.message == made.message
        assert again.chunks == made.chunks

    def test_a_broken_chunk(self) -> None:
        """A chunk that can't be applied ends the log there."""
        made = rebuild([*LOG[:8], {"type": "text-delta", "id": "nobody", "delta": "x"}, *LOG[8:]], "m", None)
        assert made.next_seq == 8
        assert made.message.text == "one two"


class TestRepair:
    """Each call gets a valid input and a result; nothing is deleted; a second pass changes nothing."""

    @given(
        st.integers(0, len(LOG)),
        st.sampled_from([None, "entered", "unknown", "done", "failed"]),
        st.booleans(),
        st.booleans(),
    )
    def test_any_prefix(self, length: int, state: str | None, is_read: bool, is_idempotent: bool) -> None:
        """Any prefix becomes valid and stays as it is in a second pass."""
        message = close_parts(rebuild(LOG[:length], "m", None).message)
        error = {"text": "no"} if state == "failed" else None
        rows = [Row("m", 1, "1", state, "paid", error)] if state is not None else []
        records = Records(rows=rows, facts=lambda name, given: ActionFacts(is_read, is_idempotent))
        mended = repair([message], records)
        assert len(mended[0].parts) == len(message.parts)
        assert not has_unfinished(mended)
        assert repair(mended, records)[0] is mended[0]
        if mended[0].parts:
            validate_messages([mended[0].to_wire()])

    def test_what_waits_is_left(self) -> None:
        """Asked, decided, client-side and held calls are untouched."""
        parts = [
            {"type": "tool-a", "toolCallId": "1", "state": "approval-requested", "input": {}, "approval": {"id": "x"}},
            {"type": "tool-b", "toolCallId": "2", "state": "input-available", "input": {}},
            {"type": "tool-c", "toolCallId": "3", "state": "input-available", "input": {}},
        ]
        message = UIMessage.from_wire({"id": "m", "role": "assistant", "parts": parts})
        records = Records(client_tools=("b",), held=("3",))
        assert repair([message], records)[0] is message

    def test_a_recorded_result(self) -> None:
        """A `done` row whose part lacks the result: the recorded result is put into the part."""
        part = {"type": "tool-pay", "toolCallId": "1", "state": "input-available", "input": {}}
        message = UIMessage.from_wire({"id": "m", "role": "assistant", "parts": [part]})
        mended = repair([message], Records(rows=[Row("m", 1, "1", "done", {"paid": 7})]))
        assert mended[0].parts[0].to_wire() == {**part, "state": "output-available", "output": {"paid": 7}}
