"""Message and part objects (spec/messages.md, section 1)."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from chatnb.errors import MessageValidationError
from chatnb.messages import TextPart, ToolPart, UIMessage, is_tool_part, replace_parts, with_metadata, with_part

WIRE: dict[str, Any] = {
    "id": "m",
    "role": "assistant",
    "metadata": {"a": [1]},
    "parts": [
        {"type": "text", "text": "one"},
        {
            "type": "tool-my-tool",
            "toolCallId": "c",
            "state": "approval-requested",
            "input": {"amount": 5, "tags": ["x"]},
            "approval": {"id": "p"},
        },
        {"type": "text", "text": "two"},
    ],
}


class TestParts:
    def test_attributes(self) -> None:
        text, call, _ = UIMessage.from_wire(WIRE).parts
        assert isinstance(text, TextPart)
        assert (text.type, text.text, text.state, text.provider_metadata) == ("text", "one", None, None)
        assert is_tool_part(call)
        assert not is_tool_part(text)
        assert (call.tool_name, call.tool_call_id, call.output, call.error_text) == ("my-tool", "c", None, None)
        assert call.approval is not None
        assert (call.approval.id, call.approval.approved) == ("p", None)

    def test_what_another_type_has_reads_none(self) -> None:
        """Section 1: an attribute that was not set reads None, whatever the part's type; a misspelt one raises."""
        text, call, _ = UIMessage.from_wire(WIRE).parts
        wanted = ("tool_call_id", "error_text", "output", "approval", "data", "url", "tool_name", "source_id")
        assert [getattr(text, name) for name in wanted] == [None] * len(wanted)
        assert [getattr(call, name) for name in ("text", "media_type", "citations")] == [None] * 3
        for name in ("toolCallId", "texts", "__len__"):
            assert not hasattr(text, name)

    def test_json_inside_reads_like_json_and_can_not_change(self) -> None:
        call = UIMessage.from_wire(WIRE).parts[1]
        assert isinstance(call, ToolPart)
        assert call.input["amount"] == 5
        assert call.input == {"amount": 5, "tags": ["x"]}
        assert json.loads(json.dumps(call.input)) == call.input
        for change in (
            lambda: call.input.update(a=1),
            lambda: call.input.__setitem__("a", 1),
            lambda: call.input["tags"].append(1),
            lambda: call.input["tags"].sort(),
        ):
            with pytest.raises(TypeError, match="read-only"):
                change()
        plain = copy.deepcopy(call.input)
        plain["tags"].append("y")
        assert call.input["tags"] == ["x"]

    def test_attributes_can_not_be_set(self) -> None:
        message = UIMessage.from_wire(WIRE)
        for target, name in ((message, "id"), (message, "other"), (message.parts[0], "text"), (message.parts[0], "x")):
            with pytest.raises(FrozenInstanceError):
                setattr(target, name, "y")


class TestEquality:
    def test_wire_forms(self) -> None:
        assert UIMessage.from_wire(WIRE) == UIMessage.from_wire(copy.deepcopy(WIRE))
        assert hash(UIMessage.from_wire(WIRE)) == hash(UIMessage.from_wire(copy.deepcopy(WIRE)))

    @pytest.mark.parametrize(("left", "right"), [(1, True), (0, False), (None, False), ([], {})])
    def test_values_that_python_mixes_up(self, left: Any, right: Any) -> None:
        one, two = (
            UIMessage(id="m", role="user", parts=[{"type": "data-x", "data": value}]) for value in (left, right)
        )
        assert one != two
        assert UIMessage(id="m", role="user", metadata=left) != UIMessage(id="m", role="user", metadata=right)

    def test_absent_is_not_null(self) -> None:
        absent, null = UIMessage(id="m", role="user"), UIMessage(id="m", role="user", metadata=None)
        assert absent != null
        assert absent.metadata is null.metadata is None
        assert "metadata" not in absent.to_wire()
        assert null.to_wire()["metadata"] is None

    def test_copies(self) -> None:
        message = UIMessage.from_wire(WIRE)
        assert copy.deepcopy(message) is message
        assert pickle.loads(pickle.dumps(message)) == message


class TestMessage:
    def test_text(self) -> None:
        assert UIMessage.from_wire(WIRE).text == "one\n\ntwo"

    def test_of_a_message(self) -> None:
        """Section 1: wherever a message is accepted, the object or its wire dict is; part objects inside it too."""
        message = UIMessage.from_wire(WIRE)
        assert UIMessage.from_wire(message) == message
        assert UIMessage.from_wire({**WIRE, "parts": message.parts}) == message

    def test_the_wire_form_is_fresh(self) -> None:
        message = UIMessage.from_wire(WIRE)
        message.to_wire()["parts"][1]["input"]["tags"].append("y")
        assert message.to_wire() == WIRE

    def test_edits_share_the_rest(self) -> None:
        message = UIMessage.from_wire(WIRE)
        new = with_part(message, 0, {"type": "text", "text": "new"})
        assert new.text == "new\n\ntwo"
        assert all(old is part for old, part in zip(message.parts[1:], new.parts[1:], strict=True))
        assert replace_parts(message, message.parts[:1]).metadata == {"a": [1]}
        assert with_metadata(message, None).to_wire()["metadata"] is None

    def test_bad_parts(self) -> None:
        with pytest.raises(MessageValidationError) as caught:
            UIMessage(id="m", role="user", parts=[{"type": "text"}])
        assert caught.value.path == ("parts", 0, "text")
