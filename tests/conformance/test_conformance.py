"""Every row of every conformance file, read from the shared design when it is beside the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatnb import errors
from chatnb.messages import (
    Fold,
    FoldResult,
    SseDecoder,
    fold,
    is_complete_with_approval_responses,
    is_complete_with_tool_calls,
    safe_validate_messages,
    to_model_messages,
)

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "conformance"
SOURCE = SHARED if SHARED.is_dir() else HERE
FILES = ("README.md", "autosend.jsonl", "fold.jsonl", "model.jsonl", "server_streams.jsonl", "validate.jsonl")
ERRORS = {
    "AI_TypeValidationError": errors.MessageValidationError,
    "AI_InvalidArgumentError": errors.MessageValidationError,
    "AI_UIMessageStreamError": errors.ChunkOrderError,
    "AI_JSONParseError": errors.ChunkParseError,
    "Error": errors.RemoteStreamError,
    "AI_MessageConversionError": errors.MessageConversionError,
}


def rows(name: str) -> list[Any]:
    """The rows of a file, as parameters with the row's name as id."""
    lines = (SOURCE / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [pytest.param(row, id=row["name"]) for row in map(json.loads, lines)]


def fold_row(row: dict[str, Any], **options: Any) -> FoldResult:
    return fold(row["chunks"], row.get("initial"), validate=row.get("validate", True), **options)


def wires(messages: Any) -> list[Any]:
    return [message.to_wire() for message in messages]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared design is not beside this repository")
class TestCopies:
    """A copy never says something else than its original."""

    @pytest.mark.parametrize("name", FILES)
    def test_equals_the_original(self, name: str) -> None:
        assert (HERE / name).read_bytes() == (SHARED / name).read_bytes()


@pytest.mark.parametrize("row", rows("fold"))
class TestFold:
    """C1 of messages.md: messages, error kind, place, finish reason and data match."""

    def test_messages(self, row: dict[str, Any]) -> None:
        expected = row.get("chatnb_messages", row.get("messages", row.get("partial")))
        assert wires(fold_row(row).messages) == expected

    def test_error(self, row: dict[str, Any]) -> None:
        result = fold_row(row)
        if "error" not in row or "chatnb" in row:
            assert result.error is None
            assert result.error_at is None
            return
        assert type(result.error) is ERRORS[row["error_name"]]
        assert result.error_at == row["error_at"]
        if "error_chunk_type" in row:
            assert isinstance(result.error, errors.ChunkOrderError)
            assert (result.error.chunk_type, result.error.chunk_id) == (row["error_chunk_type"], row["error_chunk_id"])

    def test_data_and_finish_reason(self, row: dict[str, Any]) -> None:
        result = fold_row(row)
        assert result.data == row.get("on_data", [])
        if "error" not in row:
            assert result.finish_reason == row.get("finish_reason")

    def test_snapshots(self, row: dict[str, Any]) -> None:
        if "snapshots" in row:
            found = [{"at": at, "message": message.to_wire()} for at, message in fold_row(row).snapshots]
            assert found == row["snapshots"]

    def test_lenient(self, row: dict[str, Any]) -> None:
        if "messages_lenient" in row:
            result = fold_row(row, strict=False)
            assert wires(result.messages) == row["messages_lenient"]
            assert type(result.error) is errors.RemoteStreamError
            assert result.error_at == row["error_at"]

    def test_validity(self, row: dict[str, Any]) -> None:
        if "valid" in row and "chatnb" not in row:
            assert safe_validate_messages(fold_row(row).messages).ok == row["valid"]

    def test_chat_messages(self, row: dict[str, Any]) -> None:
        """The state, and so a trailing step-start too, is in `Fold.message`."""
        starts = {chunk["messageId"] for chunk in row["chunks"] if isinstance(chunk, dict) and "messageId" in chunk}
        if "chat_messages" not in row or "initial" in row or "late-start" in row["name"] or len(starts) > 1:
            return
        machine = Fold()
        for chunk in row["chunks"]:
            machine.feed(chunk)
        assert machine.message.to_wire() == row["chat_messages"][-1]


@pytest.mark.parametrize("row", rows("validate"))
class TestValidate:
    """C2 of messages.md: validation and its path match."""

    def test_row(self, row: dict[str, Any]) -> None:
        result = safe_validate_messages(row["messages"])
        assert result.ok == row["ok"]
        if result.ok:
            assert result.messages is not None
            assert wires(result.messages) == row.get("output", row["messages"])
        else:
            assert type(result.error) is ERRORS[row["error_name"]]
            assert list(result.error.path) == row.get("error_path", [])
            assert len(str(result.error)) <= 300


@pytest.mark.parametrize("row", rows("model"))
class TestModel:
    """C2 of messages.md: the conversion to model messages matches."""

    def test_row(self, row: dict[str, Any]) -> None:
        options: dict[str, Any] = {"ignore_incomplete": row.get("ignore_incomplete", False)}
        if "convert_data_part" in row:
            options["convert_data"] = lambda part: {"type": "text", "text": f"D{json.dumps(part.data)}"}
        if "error" in row:
            with pytest.raises(errors.MessageConversionError) as caught:
                to_model_messages(row["messages"], **options)
            if row["name"] == "badUrl":
                assert caught.value.path == (0, "parts", 0)
            return
        assert to_model_messages(row["messages"], **options) == row["model"]


@pytest.mark.parametrize("row", rows("autosend"))
class TestAutosend:
    """C2 of messages.md: the two tests for sending without being asked match."""

    def test_row(self, row: dict[str, Any]) -> None:
        assert is_complete_with_tool_calls(row["messages"]) is row["tool_calls"]
        assert is_complete_with_approval_responses(row["messages"]) is row["approval_responses"]


@pytest.mark.parametrize("row", rows("server_streams"))
class TestServerStreams:
    """C3 of messages.md: folded onto the last assistant message, a valid message without open parts."""

    def test_row(self, row: dict[str, Any]) -> None:
        last = row["request_messages"][-1]
        result = fold(SseDecoder().feed(row["sse"].encode()), last if last["role"] == "assistant" else None)
        if row["name"] == "model-error":
            assert type(result.error) is errors.RemoteStreamError
        else:
            assert result.error is None
        found = safe_validate_messages(result.messages)
        assert found.ok
        assert found.messages is not None
        states = [getattr(part, "state", None) for part in found.messages[-1].parts]
        assert "streaming" not in states
        assert "input-streaming" not in states
