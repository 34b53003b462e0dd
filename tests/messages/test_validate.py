"""Validation of messages and chunks (spec/messages.md, sections 2, 3 and 7.1), beyond the conformance rows."""

from __future__ import annotations

import copy
import math
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field

from chatnb.errors import MessageValidationError
from chatnb.messages import (
    UIMessage,
    check_emittable,
    safe_validate_messages,
    validate_chunk,
    validate_messages,
    validate_part,
)


def assistant(*parts: Any, **keys: Any) -> dict[str, Any]:
    return {"id": "m", "role": "assistant", "parts": list(parts), **keys}


def call(state: str, name: str = "tool-g", **keys: Any) -> dict[str, Any]:
    return {"type": name, "toolCallId": "c", "state": state, **keys}


def refusal(value: Any, **types: Any) -> MessageValidationError:
    with pytest.raises(MessageValidationError) as caught:
        validate_messages(value, **types)
    return caught.value


class TestErrors:
    def test_no_value_is_quoted(self) -> None:
        """C15 of messages.md: the error names the path and does not hold the text."""
        error = refusal([assistant({"type": "text", "text": "hunter2", "state": "hunter2"})])
        assert error.path == (0, "parts", 0, "state")
        assert str(error).startswith("messages[0].parts[0].state: expected ")
        assert "hunter2" not in str(error)

    def test_the_text_is_short(self) -> None:
        error = refusal([assistant({"type": "text", "text": "x", "providerMetadata": {"k" * 5000: 1}})])
        assert len(str(error)) <= 300
        assert error.path[-1] == "k" * 5000

    def test_the_first_bad_element(self) -> None:
        assert refusal([assistant({"type": "text"}, {"type": "wat"}), {}]).path == (0, "parts", 0, "text")

    def test_nan_in_metadata(self) -> None:
        """C18 of messages.md: refused with the path of the number."""
        for number in (math.nan, math.inf):
            error = refusal([assistant(metadata={"a": [1, {"b": number}]})])
            assert error.path == (0, "metadata", "a", 1, "b")

    def test_what_is_no_json(self) -> None:
        error = refusal([assistant(call("input-available", input={"when": object()}))])
        assert error.path == (0, "parts", 0, "input", "when")

    def test_safe(self) -> None:
        assert safe_validate_messages(None).ok is False
        assert isinstance(safe_validate_messages(None).error, MessageValidationError)


class TestStripping:
    def test_unknown_keys(self) -> None:
        """C16 of messages.md: gone from the result and still in the input."""
        value = [
            assistant(
                {"type": "text", "text": "x", "zzz": 1},
                {"type": "data-w", "data": {"zzz": 1}, "transient": True},
                zzz=1,
            )
        ]
        before = copy.deepcopy(value)
        (message,) = validate_messages(value)
        assert message.to_wire() == assistant({"type": "text", "text": "x"}, {"type": "data-w", "data": {"zzz": 1}})
        assert value == before

    def test_objects_are_taken_too(self) -> None:
        message = UIMessage.from_wire(assistant({"type": "text", "text": "x"}))
        assert validate_messages((message,)) == [message]
        assert validate_part(message.parts[0]) == message.parts[0]
        assert UIMessage(id="m", role="assistant", parts=message.parts) == message


class Input(BaseModel):
    n: int = Field(alias="N")


class TestTypes:
    def test_an_unknown_action(self) -> None:
        """C17 of messages.md: a finished call becomes dynamic, an unfinished one is refused."""
        done = assistant(call("output-available", input={}, output=1))
        (message,) = validate_messages([done], tools={})
        assert message.parts[0].to_wire() == call(
            "output-available", "dynamic-tool", toolName="g", dynamic=False, input={}, output=1
        )
        assert refusal([assistant(call("input-available", input={}))], tools={}).path[:3] == (0, "parts", 0)

    def test_inputs(self) -> None:
        tools = {"g": (Input, None)}
        (message,) = validate_messages([assistant(call("input-available", input={"N": "5"}))], tools=tools)
        assert message.parts[0].to_wire()["input"] == {"N": 5}
        bad = call("input-available", input={"N": "x"})
        assert refusal([assistant(bad)], tools=tools).path == (0, "parts", 0, "input", "N")
        assert refusal([assistant(call("input-available", input={}))], tools=tools).path == (
            0,
            "parts",
            0,
            "input",
            "N",
        )

    @pytest.mark.parametrize(
        ("part", "type_"),
        [
            (call("input-streaming", input={"N": "x"}), "tool-g"),
            (call("output-error", errorText="e"), "tool-g"),
            (call("output-error", input={"N": "x"}, errorText="e"), "dynamic-tool"),
            (call("output-available", input={}, output=1), "dynamic-tool"),
            (call("output-available", "dynamic-tool", toolName="g", input={"N": "x"}, output=1), "dynamic-tool"),
        ],
    )
    def test_inputs_that_do_not_fail(self, part: dict[str, Any], type_: str) -> None:
        (message,) = validate_messages([assistant(part)], tools={"g": (Input, None)})
        assert message.parts[0].type == type_

    def test_an_output_available_with_a_bad_input(self) -> None:
        part = call("output-available", input={"N": "x"}, output=1)
        assert refusal([assistant(part)], tools={"g": Input}).path == (0, "parts", 0, "input", "N")

    def test_outputs(self) -> None:
        part = call("output-available", input={"N": 1}, output=["x"])
        error = refusal([assistant(part)], tools={"g": {"input": Input, "output": list[int]}})
        assert error.path == (0, "parts", 0, "output", 0)
        assert validate_messages([assistant(part)], tools={"g": (Input, list[str])})

    def test_data(self) -> None:
        part = {"type": "data-w", "data": "5"}
        (message,) = validate_messages([assistant(part)], data={"w": int})
        assert message.parts[0].to_wire() == {"type": "data-w", "data": 5}
        assert refusal([assistant(part)], data={}).path == (0, "parts", 0, "data")

    def test_metadata(self) -> None:
        assert refusal([assistant()], metadata=Input).path == (0, "metadata")
        (message,) = validate_messages([assistant(metadata={"N": "5", "zzz": 1})], metadata=Input)
        assert message.metadata == {"N": 5}
        (message,) = validate_messages([assistant()], metadata=Input | None)
        assert not message.has_metadata

    def test_a_type_that_fails(self) -> None:
        """A type's validator that raises refuses the value: safe validation never raises for data, nor quotes it."""

        def fail(value: Any) -> Any:
            raise RuntimeError(f"no {value}")

        kind = Annotated[str, AfterValidator(fail)]
        wire = {"id": "u", "role": "user", "metadata": "hunter2", "parts": [{"type": "text", "text": "x"}]}
        result = safe_validate_messages([wire], metadata=kind)
        assert result.error is not None
        assert result.error.path == (0, "metadata")
        assert "hunter2" not in str(result.error)


class TestChunks:
    def test_the_same_object_comes_back(self) -> None:
        chunk = {"type": "text-delta", "id": "a", "delta": "x", "zzz": 1}
        assert validate_chunk(chunk) is chunk
        assert check_emittable(chunk) is chunk

    @pytest.mark.parametrize(
        "chunk",
        [
            {"type": "text-delta", "id": "a"},
            {"type": "text-delta", "id": "a", "delta": None},
            {"type": "text-delta", "id": "a", "delta": "x", "providerMetadata": {"a": 1}},
            {"type": "finish", "finishReason": "weird"},
            {"type": "finish", "finishReason": None},
            {"type": "message-metadata"},
            {"type": "data-x"},
            {"type": "data-x", "data": 1, "extra": object()},
            {"type": "data-x", "data": 1, 5: 1},
            {"type": "tool-output-available", "toolCallId": "c"},
            {"type": "tool-input-start", "toolCallId": "c", "toolName": "g", "title": None},
        ],
    )
    def test_refused(self, chunk: dict[str, Any]) -> None:
        with pytest.raises(MessageValidationError):
            validate_chunk(chunk)

    @pytest.mark.parametrize(
        "chunk",
        [
            {"type": "tool-approval-response", "approvalId": "a", "approved": True},
            {"type": "custom", "kind": "a.b"},
            {"type": "reasoning-file", "url": "u", "mediaType": "a/b"},
            {"type": "steering-message", "id": "s", "parts": []},
            {"type": "reset-step"},
            {"type": "finish", "finishReason": "interrupted"},
            {"type": "tool-input-start", "toolCallId": "c", "toolName": "g", "dynamic": False},
            {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "a", "isAutomatic": False},
            {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "a", "inputSchemaInput": None},
            {"type": "text-end", "id": "a", "citations": []},
            {"type": "start", "messageMetadata": None},
            {"type": "finish", "messageMetadata": "x"},
            {"type": "wat"},
        ],
    )
    def test_never_emitted(self, chunk: dict[str, Any]) -> None:
        """C24 of messages.md: the guard refuses it and names the type."""
        with pytest.raises(MessageValidationError, match=chunk["type"]):
            check_emittable(chunk)

    @pytest.mark.parametrize(
        "chunk",
        [
            {"type": "tool-output-available", "toolCallId": "c", "output": None},
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "g", "input": None},
            {"type": "data-x", "data": None},
            {"type": "data-x", "data": {"dynamic": None}},
            {"type": "start", "messageId": "m", "messageMetadata": {"a": None}},
        ],
    )
    def test_emitted(self, chunk: dict[str, Any]) -> None:
        """C26 of messages.md: `data`, `input` and `output` may be null."""
        assert check_emittable(chunk) is chunk
