"""What of a history reaches a model (spec/messages.md, section 8), beyond the conformance rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatnb.errors import MessageConversionError
from chatnb.messages import UIMessage, to_model_messages

TEXT = {"type": "text", "text": "x"}


def call(state: str, **keys: Any) -> dict[str, Any]:
    return {"type": "tool-g", "toolCallId": "c", "state": state, **keys}


def user(*parts: Any) -> dict[str, Any]:
    return {"id": "u", "role": "user", "parts": list(parts)}


def assistant(*parts: Any) -> dict[str, Any]:
    return {"id": "m", "role": "assistant", "parts": list(parts)}


def model(*messages: Any, **options: Any) -> list[dict[str, Any]]:
    found = to_model_messages(messages, **options)
    objects = [UIMessage.from_wire(message) for message in messages if message["parts"]]
    assert to_model_messages(objects, **options) == found
    json.dumps(found)
    return found


class TestFiles:
    @pytest.mark.parametrize("url", ["rel/path", "", "//host/x", "x.png", "http:", "https:///x", "1:x"])
    def test_a_relative_url(self, url: str) -> None:
        """C36 of messages.md: the error has the message's and the part's index."""
        bad = {"type": "file", "mediaType": "a/b", "url": url}
        with pytest.raises(MessageConversionError) as caught:
            to_model_messages([user(TEXT), user(TEXT, bad)])
        assert caught.value.path == (1, "parts", 1)

    @pytest.mark.parametrize("url", ["https://e.x/a", "http://localhost:80", "data:a/b;base64,eA==", "gs://b/o"])
    def test_an_absolute_url(self, url: str) -> None:
        part = {"type": "file", "mediaType": "a/b", "url": url, "filename": "f", "providerMetadata": {"p": {"k": 1}}}
        (message,) = model(user(part))
        assert message["content"] == [
            {
                "type": "file",
                "mediaType": "a/b",
                "filename": "f",
                "data": {"type": "url", "url": url},
                "providerOptions": {"p": {"k": 1}},
            }
        ]

    def test_a_reference(self) -> None:
        part = {"type": "file", "mediaType": "a/b", "url": "", "providerReference": {"anthropic": "file_1"}}
        (message,) = model(user(part))
        assert message["content"][0]["data"] == {"type": "reference", "reference": {"anthropic": "file_1"}}


class TestBlocks:
    def test_steps(self) -> None:
        found = model(
            assistant(
                {"type": "step-start"},
                TEXT,
                call("output-available", input={}, output=1),
                {"type": "step-start"},
                {"type": "text", "text": "y"},
            )
        )
        assert [message["role"] for message in found] == ["assistant", "tool", "assistant"]

    def test_steering_between_steps(self) -> None:
        """C31 of messages.md: the next request has it as a user message in between."""
        steering = {"type": "data-steering-message", "id": "s", "data": {"id": "s", "text": "wait"}}
        asked: list[Any] = []
        found = model(assistant(TEXT, steering, {"type": "step-start"}, TEXT), convert_data=asked.append)
        assert [message["role"] for message in found] == ["assistant", "user", "assistant"]
        assert found[1]["content"] == [{"type": "text", "text": "wait"}]
        assert asked == []

    def test_empty_messages_are_dropped(self) -> None:
        source = {"type": "source-url", "sourceId": "1", "url": "u"}
        assert model(assistant(), assistant(source), user({"type": "data-x", "data": 1})) == []

    def test_system(self) -> None:
        parts = [{**TEXT, "providerMetadata": {"p": {"a": 1}}}, {**TEXT, "providerMetadata": {"p": {"b": 2}}}]
        assert model({"id": "s", "role": "system", "parts": parts}) == [
            {"role": "system", "content": "xx", "providerOptions": {"p": {"b": 2}}}
        ]


class TestCalls:
    def test_a_rejection(self) -> None:
        """C32 of messages.md: the model receives the reason as an error result of that call."""
        part = call("output-denied", input={}, approval={"id": "p", "approved": False, "reason": "too much"})
        result = model(assistant(part))[1]["content"][1]
        assert result["output"] == {"type": "error-text", "value": "too much"}
        assert result["toolCallId"] == "c"

    def test_an_error_of_the_provider(self) -> None:
        part = call(
            "output-error",
            input={},
            errorText="e",
            providerExecuted=True,
            callProviderMetadata={"p": {"c": 1}},
            approval={"id": "p", "approved": True},
        )
        said, tool = model(assistant(part))
        assert said["content"][2]["output"] == {"type": "error-json", "value": "e"}
        assert said["content"][2]["providerOptions"] == {"p": {"c": 1}}
        assert [item["type"] for item in tool["content"]] == ["tool-approval-response"]

    def test_options_of_a_failed_call(self) -> None:
        part = call("output-error", input={}, errorText="e", resultProviderMetadata={"p": {"r": 1}})
        assert model(assistant(part))[0]["content"][0]["providerOptions"] == {"p": {"r": 1}}

    @pytest.mark.parametrize(
        ("found", "output"),
        [
            ("short", {"type": "text", "value": "short"}),
            ([1], {"type": "json", "value": [1]}),
            (
                {"type": "content", "value": [{"type": "text", "text": "x"}]},
                {"type": "content", "value": [{"type": "text", "text": "x"}]},
            ),
        ],
    )
    def test_a_view_for_the_model(self, found: Any, output: Any) -> None:
        part = call("output-available", input={}, output={"a": 1})
        said = to_model_messages([assistant(part)], tools={"g": lambda value: found if value == {"a": 1} else None})
        assert said[1]["content"][0]["output"] == output

    def test_a_view_that_fails(self) -> None:
        part = call("output-available", input={}, output={})
        with pytest.raises(MessageConversionError) as caught:
            to_model_messages([assistant(TEXT, part)], tools={"g": lambda value: value["missing"]})
        assert caught.value.path == (0, "parts", 1)

    def test_a_question_passed_over(self) -> None:
        waiting = call("approval-requested", input={}, approval={"id": "p"})
        assert [item["type"] for item in model(user(TEXT), assistant(TEXT, waiting))[1]["content"]] == [
            "text",
            "tool-call",
            "tool-approval-request",
        ]
        assert len(model(assistant(waiting), user(TEXT))) == 1


class TestData:
    def test_converted_for_both_roles(self) -> None:
        part = {"type": "data-x", "data": {"n": 1}}
        found = model(user(part), assistant(part), convert_data=lambda data: {"type": "text", "text": str(data.data)})
        assert [message["content"][0]["text"] for message in found] == ["{'n': 1}"] * 2

    @pytest.mark.parametrize("bad", [{"type": "text"}, {"type": "reasoning", "text": "x"}, "x"])
    def test_what_is_no_text_or_file(self, bad: Any) -> None:
        with pytest.raises(MessageConversionError) as caught:
            to_model_messages([user({"type": "data-x", "data": 1})], convert_data=lambda data: bad)
        assert caught.value.path == (0, "parts", 0)
