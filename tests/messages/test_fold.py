"""The fold (spec/messages.md, section 4), beyond the conformance rows."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb import errors
from chatnb.messages import ABSENT, Fold, FoldChange, ToolPart, UIMessage, decide_call, fold, settle_call

START = {"type": "start", "messageId": "m"}
TEXT = [
    {"type": "text-start", "id": "a"},
    {"type": "text-delta", "id": "a", "delta": "Hi"},
    {"type": "text-end", "id": "a"},
]


def fed(*chunks: Any, message: Any = None, **options: Any) -> Fold:
    made = Fold(message, **options)
    for chunk in chunks:
        made.feed(chunk)
    return made


def parts_of(*chunks: Any, message: Any = None) -> list[Any]:
    return list(fed(*chunks, message=message).message.to_wire()["parts"])


def call(state: str, **keys: Any) -> dict[str, Any]:
    return {"type": "tool-g", "toolCallId": "c", "state": state, **keys}


def assistant(*parts: Any) -> dict[str, Any]:
    return {"id": "m", "role": "assistant", "parts": list(parts)}


class TestChanges:
    """`feed` says what one chunk changed; None when the visible message is as before."""

    @pytest.mark.parametrize(
        "chunk",
        [
            {"type": "finish-step"},
            {"type": "abort"},
            {"type": "data-x", "data": 1, "transient": True},
            {"type": "start"},
            {"type": "start", "messageMetadata": None},
            {"type": "finish", "finishReason": "stop"},
            {"type": "message-metadata", "messageMetadata": None},
            {"type": "reset-step"},
        ],
    )
    def test_none(self, chunk: dict[str, Any]) -> None:
        assert Fold(id="m").feed(chunk) is None

    def test_kinds(self) -> None:
        made = Fold()
        assert made.feed(START) == FoldChange("message")
        assert made.feed({"type": "start-step"}) == FoldChange("part", 0)
        assert made.feed(TEXT[0]) == FoldChange("part", 1)
        assert made.feed(TEXT[1]) == FoldChange("text", 1, "text", "Hi")
        assert made.feed(TEXT[2]) == FoldChange("part", 1)
        assert made.feed({"type": "tool-input-start", "toolCallId": "c", "toolName": "g"}) == FoldChange("part", 2)
        delta = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{"}
        assert made.feed(delta) == FoldChange("text", 2, "rawInput", "{")
        made.feed({"type": "tool-input-available", "toolCallId": "c", "toolName": "g", "input": {}})
        assert made.feed(delta) == FoldChange("part", 2)
        assert made.feed({"type": "reset-step"}) == FoldChange("parts")
        assert made.feed({"type": "finish", "messageMetadata": {"a": 1}}) == FoldChange("message")

    def test_a_call_comes_again_after_a_reset(self) -> None:
        """4.1: what a reset has dropped is found no more: the same id is another call."""
        made = Fold()
        for n in range(2):
            for id in ("c1", "c2"):
                made.feed({"type": "tool-input-available", "toolCallId": id, "toolName": "g", "input": {"n": n}})
            if n == 0:
                made.feed({"type": "reset-step"})
        made.feed({"type": "tool-output-available", "toolCallId": "c2", "output": "new"})
        assert [(p.tool_call_id, p.input, p.state) for p in made.message.parts if isinstance(p, ToolPart)] == [
            ("c1", {"n": 1}, "input-available"),
            ("c2", {"n": 1}, "output-available"),
        ]

    def test_a_trailing_border_is_in_no_snapshot(self) -> None:
        chunks = [START, *TEXT, {"type": "start-step"}, {"type": "finish-step"}]
        assert [part.type for part in fold(chunks).messages[0].parts] == ["text"]
        assert [part.type for part in fed(*chunks).message.parts] == ["text", "step-start"]


class TestStart:
    def test_another_id_begins_a_second_message(self) -> None:
        result = fold([START, *TEXT, {"type": "start-step"}, {"type": "start", "messageId": "n"}, *TEXT])
        assert [(message.id, len(message.parts)) for message in result.messages] == [("m", 1), ("n", 1)]

    def test_another_id_drops_the_metadata_and_what_is_open(self) -> None:
        made = fed({**START, "messageMetadata": {"a": 1}}, TEXT[0], {"type": "start", "messageId": "n"})
        assert made.message.to_wire() == {"id": "n", "role": "assistant", "parts": []}
        assert (made.open_text, made.open_reasoning, made.open_inputs) == ((), (), ())

    def test_an_open_text_of_the_starting_message_is_not_reopened(self) -> None:
        """C8 of messages.md: a delta for a text part that is still streaming there is out of order."""
        made = Fold(assistant({"type": "text", "text": "begin", "state": "streaming"}))
        with pytest.raises(errors.ChunkOrderError):
            made.feed({"type": "text-delta", "id": "a", "delta": "x"})

    def test_an_open_input_of_the_starting_message_is_taken_up(self) -> None:
        """C9 of messages.md: a delta that completes the JSON gives the whole value."""
        old = assistant({"type": "step-start"}, call("input-streaming", rawInput='{"a": 1', input={"a": 1}))
        made = fed({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "2}"}, message=old)
        part = made.message.parts[1]
        assert isinstance(part, ToolPart)
        assert part.input == {"a": 12}
        assert part.raw_input == '{"a": 12}'

    def test_an_open_input_of_an_earlier_step_is_not(self) -> None:
        made = Fold(assistant(call("input-streaming", rawInput="{"), {"type": "step-start"}))
        with pytest.raises(errors.ChunkOrderError):
            made.feed({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "}"})

    def test_the_encoding_is_taken_up(self) -> None:
        old = assistant(call("input-streaming", rawInput="1", input="1", inputEncoding="text"))
        assert parts_of({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "2"}, message=old) == [
            call("input-streaming", rawInput="12", input="12", inputEncoding="text")
        ]


class TestMetadata:
    """C10 of messages.md: objects merge deeply, everything else replaces."""

    @pytest.mark.parametrize(
        ("first", "second", "merged"),
        [
            ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
            ("v", {"a": 1}, {"a": 1}),
            ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
            ({"a": {"b": 1}}, {"a": None}, {"a": None}),
            ({"a": 1}, [1], [1]),
            ({"a": {"b": 1}}, {"a": {"__proto__": 1, "c": 2}}, {"a": {"b": 1, "c": 2}}),
        ],
    )
    def test_pairs(self, first: Any, second: Any, merged: Any) -> None:
        made = fed({**START, "messageMetadata": first}, {"type": "finish", "messageMetadata": second})
        assert made.message.metadata == merged
        assert made.error is None


class TestTools:
    def test_a_late_output_crosses_steps(self) -> None:
        """C11 of messages.md: the earlier part gets the output."""
        found = parts_of(
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "g", "input": {}},
            {"type": "start-step"},
            {"type": "tool-output-available", "toolCallId": "c", "output": None},
        )
        assert found == [call("output-available", input={}, output=None), {"type": "step-start"}]

    def test_an_output_without_a_call(self) -> None:
        """C11 of messages.md: an unknown call is out of order."""
        with pytest.raises(errors.ChunkOrderError) as caught:
            Fold().feed({"type": "tool-output-available", "toolCallId": "z", "output": 1})
        assert (caught.value.chunk_type, caught.value.chunk_id) == ("tool-invocation", "z")

    def test_text_encoding(self) -> None:
        found = parts_of(
            {"type": "tool-input-start", "toolCallId": "c", "toolName": "g", "inputEncoding": "text"},
            {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"a'},
        )
        assert found == [call("input-streaming", rawInput='{"a', input='{"a', inputEncoding="text")]

    def test_an_error_after_a_preliminary_output(self) -> None:
        found = parts_of(
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "g", "input": {}},
            {"type": "tool-output-available", "toolCallId": "c", "output": 1, "preliminary": True},
            {"type": "tool-output-error", "toolCallId": "c", "errorText": "e"},
        )
        assert found == [call("output-error", input={}, errorText="e")]

    def test_open_inputs(self) -> None:
        made = fed(
            {"type": "tool-input-start", "toolCallId": "c", "toolName": "g"},
            {"type": "tool-input-start", "toolCallId": "d", "toolName": "g"},
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "g", "input": {}},
            {"type": "text-start", "id": "t"},
            {"type": "reasoning-start", "id": "r"},
        )
        assert (made.open_inputs, made.open_text, made.open_reasoning) == (("d",), ("t",), ("r",))


class TestErrors:
    def test_an_unknown_type(self) -> None:
        """C12 of messages.md: refused with validation, skipped without; the earlier parts stand."""
        chunks = [START, *TEXT, {"type": "wat"}]
        refused = fold(chunks)
        assert type(refused.error) is errors.MessageValidationError
        assert refused.messages[0].text == "Hi"
        skipped = fold(chunks, validate=False)
        assert skipped.error is None
        assert skipped.messages == refused.messages

    def test_null_and_extra_keys(self) -> None:
        """C13 of messages.md: null for an optional key is refused, an unknown key is not kept."""
        with pytest.raises(errors.MessageValidationError) as caught:
            Fold().feed({"type": "text-start", "id": "a", "providerMetadata": None})
        assert caught.value.path == ("providerMetadata",)
        assert parts_of({"type": "text-start", "id": "a", "zzz": 1}) == [
            {"type": "text", "text": "", "state": "streaming"}
        ]

    def test_a_failed_fold_refuses_more(self) -> None:
        """C14 of messages.md: the same error again, and the message as before."""
        made = fed(START, *TEXT)
        with pytest.raises(errors.ChunkOrderError) as first:
            made.feed({"type": "text-end", "id": "a"})
        before = made.message
        with pytest.raises(errors.ChunkOrderError) as second:
            made.feed({"type": "text-start", "id": "b"})
        assert second.value is first.value
        assert made.message == before

    def test_an_error_changes_nothing(self) -> None:
        made = fed({"type": "tool-input-available", "toolCallId": "c", "toolName": "g", "input": {}})
        before = made.message
        with pytest.raises(errors.MessageValidationError):
            made.feed({"type": "tool-output-available", "toolCallId": "c", "output": object()}, validated=True)
        assert made.message == before

    def test_a_missing_key_without_validation(self) -> None:
        result = fold([START, {"type": "text-start"}], validate=False)
        assert type(result.error) is errors.MessageValidationError
        assert result.error_at == 1

    @pytest.mark.parametrize("chunk", [None, 5, "x", [], {}, {"type": None}, {"type": ["text-start"]}])
    def test_what_is_no_chunk(self, chunk: Any) -> None:
        assert type(fold([chunk]).error) is errors.MessageValidationError
        assert fold([chunk], validate=False).error is None

    def test_a_depth_that_no_walker_survives(self) -> None:
        deep: Any = None
        for _ in range(100_000):
            deep = [deep]
        result = fold([{"type": "data-x", "data": deep}])
        assert type(result.error) is errors.MessageValidationError


class TestFrozen:
    def test_the_arguments_do_not_change(self) -> None:
        """C7 of messages.md: neither the message nor the chunks."""
        old = assistant(call("input-available", input={"a": [1]}))
        output = {"b": [1]}
        made = fed({"type": "tool-output-available", "toolCallId": "c", "output": output}, message=old)
        output["b"].append(2)
        assert made.message.to_wire()["parts"] == [call("output-available", input={"a": [1]}, output={"b": [1]})]
        assert old == assistant(call("input-available", input={"a": [1]}))

    def test_on_data_gets_a_copy(self) -> None:
        made = Fold(on_data=lambda chunk: chunk["data"].append(2))
        made.feed({"type": "data-x", "data": [1]})
        assert made.message.to_wire()["parts"] == [{"type": "data-x", "data": [1]}]

    def test_snapshots_do_not_follow_the_chunks(self) -> None:
        chunks = [{"type": "data-x", "data": [1]}]
        result = fold(chunks)
        chunks[0]["data"].append(2)  # type: ignore[attr-defined]
        assert result.snapshots[0].message == result.messages[0]


class TestEdits:
    """Section 4.4 of messages.md: edits that are no chunks."""

    def waiting(self) -> UIMessage:
        return UIMessage.from_wire(
            assistant(
                {"type": "text", "text": "x"},
                call("approval-requested", input={"a": 1}, approval={"id": "p", "requestReason": "why"}),
            )
        )

    @pytest.mark.parametrize(("approved", "reason"), [(True, None), (False, "no")])
    def test_decide(self, approved: bool, reason: str | None) -> None:
        old = self.waiting()
        new = decide_call(old, "p", approved, reason)
        UIMessage.from_wire(new.to_wire())
        answer = {"approved": approved} if reason is None else {"approved": approved, "reason": reason}
        approval = {"id": "p", "requestReason": "why", **answer}
        assert new.parts[1].to_wire() == call("approval-responded", input={"a": 1}, approval=approval)
        assert new.parts[0] is old.parts[0]

    @pytest.mark.parametrize("value", [None, {"a": 2}])
    def test_decide_with_input(self, value: Any) -> None:
        assert decide_call(self.waiting(), "p", True, input=value).parts[1].to_wire()["input"] == value
        assert decide_call(self.waiting(), "p", True, input=ABSENT).parts[1].to_wire()["input"] == {"a": 1}

    def test_decide_twice_or_nothing(self) -> None:
        done = decide_call(self.waiting(), "p", True)
        for message, id in ((done, "p"), (done, "q")):
            with pytest.raises(errors.MessageValidationError):
                decide_call(message, id, True)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (call("input-streaming", rawInput='{"a'), {"rawInput": '{"a'}),
            (call("input-streaming", rawInput='{"a":1', input={"a": 1}), {"input": {"a": 1}}),
            (call("input-available", input=None), {"input": None}),
            (call("approval-requested", input={}, approval={"id": "p"}), {"input": {}}),
            (
                call("approval-responded", input={}, approval={"id": "p", "approved": True}),
                {"input": {}, "approval": {"id": "p", "approved": True}},
            ),
            (call("approval-responded", input={}, approval={"id": "p", "approved": False}), {"input": {}}),
            (call("output-available", input={}, output=1, preliminary=True), {"input": {}}),
        ],
    )
    def test_settle(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        found = settle_call(assistant(old), "c", "It was cut off.")
        assert found.parts[0].to_wire() == call("output-error", errorText="It was cut off.", **new)
        UIMessage.from_wire(found.to_wire())

    def test_settle_an_unknown_call(self) -> None:
        with pytest.raises(errors.MessageValidationError):
            settle_call(self.waiting(), "z", "x")
