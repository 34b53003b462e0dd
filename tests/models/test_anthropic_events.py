"""Events of Anthropic's stream as chunks (spec/messages.md, section 9)."""

from __future__ import annotations

import pytest

from chatnb.errors import ModelStreamError
from chatnb.models.anthropic_events import EventReader


class TestEvents:
    @pytest.mark.parametrize(
        ("event", "text"),
        [
            ("content_block_delta", "{"),
            ("content_block_delta", '{"index": 4, "delta": {"type": "text_delta", "text": "x"}}'),
            ("content_block_stop", '{"index": 0}'),
        ],
    )
    def test_bad_events(self, event: str, text: str) -> None:
        """Bad JSON or index in an event: ModelStreamError, the raw error as cause."""
        with pytest.raises(ModelStreamError) as caught:
            EventReader().feed(event, text)
        assert caught.value.kind == "connection_lost"
        assert caught.value.__cause__ is not None

    @pytest.mark.parametrize(
        ("reason", "finish"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("tool_use", "tool-calls"),
            ("refusal", "content-filter"),
            ("pause_turn", "other"),
            ("brand_new", "other"),
        ],
    )
    def test_stop_reasons(self, reason: str, finish: str) -> None:
        """messages.md, section 9: stop reasons."""
        reader = EventReader()
        reader.feed("message_delta", f'{{"delta": {{"stop_reason": "{reason}"}}, "usage": {{"output_tokens": 1}}}}')
        reader.feed("message_stop", '{"type": "message_stop"}')
        assert reader.end()[0].finish_reason == finish

    def test_no_stop_reason(self) -> None:
        """A stream with `message_stop` and no stop reason is never a finished answer."""
        reader = EventReader()
        reader.feed("message_stop", "{}")
        with pytest.raises(ModelStreamError) as caught:
            reader.end()
        assert caught.value.kind == "incomplete"

    def test_served_and_unknown_blocks(self) -> None:
        """server_tool_use is providerExecuted, its result an output with blockType; unknown blocks are skipped."""
        reader = EventReader()
        start = (
            '{"index": 0, "content_block": {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}}'
        )
        assert reader.feed("content_block_start", start)[0]["providerExecuted"] is True  # type: ignore[index]
        done = reader.feed("content_block_stop", '{"index": 0}')[0]
        assert done["type"] == "tool-input-available"  # type: ignore[index]
        result = '{"index": 1, "content_block": {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}}'
        assert reader.feed("content_block_start", result) == [
            {
                "type": "tool-output-available",
                "toolCallId": "s1",
                "output": [],
                "providerExecuted": True,
                "providerMetadata": {"anthropic": {"blockType": "web_search_tool_result"}},
            }
        ]
        assert reader.feed("content_block_start", '{"index": 2, "content_block": {"type": "new"}}') == [None]
        assert reader.feed("content_block_delta", '{"index": 2, "delta": {"type": "new_delta"}}') == [None]

    def test_redacted_thinking(self) -> None:
        """redacted_thinking: reasoning-start and -end with the data."""
        reader = EventReader()
        start = '{"index": 0, "content_block": {"type": "redacted_thinking", "data": "d"}}'
        chunks = [*reader.feed("content_block_start", start), *reader.feed("content_block_stop", '{"index": 0}')]
        assert [chunk["providerMetadata"] for chunk in chunks] == [{"anthropic": {"redactedData": "d"}}] * 2  # type: ignore[index]
