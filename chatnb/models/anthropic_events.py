"""Anthropic's stream as chunks of one step (spec/messages.md, section 9).

The SDK's own folding is not used: it hides pings, closes half JSON, and takes a stream without its end for an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chatnb.errors import ModelStreamError
from chatnb.models.anthropic_errors import broken_stream, event_error
from chatnb.models.anthropic_tools import AnthropicTools
from chatnb.models.port import Chunk, StepEnd, StepItem
from chatnb.models.scripted import input_end
from chatnb.models.usage import Usage

BAD_EVENT = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading an event raises that is no JSON, or not of the API's form."""

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}


@dataclass
class _OpenBlock:
    kind: str
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)


class EventReader:
    """Turns the events of one response into chunks, strictly.

    Args:
        tools: The tools that were sent, for the way back to the actions' own names.
        request_id: The response's id, for errors.

    Attributes:
        is_done: Whether `message_stop` came.
    """

    def __init__(self, tools: AnthropicTools | None = None, request_id: str | None = None) -> None:
        self.is_done = False
        self._tools = tools or AnthropicTools()
        self._request_id = request_id
        self._blocks: dict[int, _OpenBlock] = {}
        self._stop_reason: str | None = None
        self._usage: dict[str, Any] = {}
        self._handlers: dict[str, Callable[[Any], list[StepItem]]] = {
            "message_start": self._message_start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._message_delta,
        }

    def feed(self, event: str | None, text: str) -> list[StepItem]:
        """Read one event.

        Args:
            event: The event's name.
            text: Its data.

        Returns:
            The chunks that it gives; `[None]`, a sign of life, where it gives none.

        Raises:
            ModelStreamError: The event is not JSON, or names a block that is not there.
            ModelError: It is an `error` event.
        """
        try:
            data = json.loads(text) if text else {}
            kind = event or data.get("type")
            if kind == "error":
                raise event_error(data, self._request_id)
            if kind == "message_stop":
                self.is_done = True
            handler = self._handlers.get(str(kind))
            chunks = handler(data) if handler is not None else []
        except BAD_EVENT as error:
            raise broken_stream(error, self._request_id) from error
        return chunks or [None]

    def end(self) -> tuple[StepEnd, bool]:
        """The step's end, once the stream has ended, and whether its cache writes were all of the short kind.

        Raises:
            ModelStreamError: The stream ended without `message_stop`, without a stop reason, or within a block.
        """
        if not self.is_done or self._stop_reason is None or self._blocks:
            raise ModelStreamError(
                "The model's stream ended before its answer was whole.", kind="incomplete", request_id=self._request_id
            )
        return StepEnd(_FINISH.get(self._stop_reason, "other"), self._read_usage()), self._is_plain_cache()

    def _read_usage(self) -> Usage | None:
        if not self._usage:
            return None
        details = self._usage.get("output_tokens_details")
        details = details if isinstance(details, Mapping) else {}
        return Usage(
            input_tokens=_count(self._usage.get("input_tokens")),
            output_tokens=_count(self._usage.get("output_tokens")),
            cache_read_tokens=_count(self._usage.get("cache_read_input_tokens")),
            cache_write_tokens=_count(self._usage.get("cache_creation_input_tokens")),
            reasoning_tokens=_count(details.get("thinking_tokens")),
        )

    def _is_plain_cache(self) -> bool:
        written = self._usage.get("cache_creation")
        return not (isinstance(written, Mapping) and written.get("ephemeral_1h_input_tokens"))

    def _message_start(self, data: Any) -> list[StepItem]:
        self._take_usage(data["message"].get("usage"))
        return []

    def _message_delta(self, data: Any) -> list[StepItem]:
        reason = data["delta"].get("stop_reason")
        if reason is not None:
            self._stop_reason = str(reason)
        self._take_usage(data.get("usage"))
        return []

    def _take_usage(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _block_start(self, data: Any) -> list[StepItem]:
        index, block = data["index"], data["content_block"]
        if index in self._blocks:
            raise IndexError("a block began twice")
        kind = block["type"]
        if kind.endswith("_tool_result") and "tool_use_id" in block:
            self._blocks[index] = _OpenBlock("skipped")
            return [_served_result(block)]
        if kind == "text":
            opened = _OpenBlock(kind, f"text-{index}")
            self._blocks[index] = opened
            return [{"type": "text-start", "id": opened.id}, *self._delta(opened, block.get("text"))]
        if kind == "thinking":
            opened = _OpenBlock(kind, f"reasoning-{index}", signature=[block.get("signature") or ""])
            self._blocks[index] = opened
            return [{"type": "reasoning-start", "id": opened.id}, *self._delta(opened, block.get("thinking"))]
        if kind == "redacted_thinking":
            opened = _OpenBlock(kind, f"reasoning-{index}", more={"anthropic": {"redactedData": block["data"]}})
            self._blocks[index] = opened
            return [{"type": "reasoning-start", "id": opened.id, "providerMetadata": opened.more}]
        if kind in ("tool_use", "server_tool_use"):
            return self._call_start(index, block)
        self._blocks[index] = _OpenBlock("skipped")
        return []

    def _call_start(self, index: int, block: Any) -> list[StepItem]:
        is_served = block["type"] == "server_tool_use"
        name = block["name"] if is_served else self._tools.names.get(block["name"], block["name"])
        opened = _OpenBlock("call", block["id"], name, more={"providerExecuted": True} if is_served else {})
        opened.arguments = {} if is_served else self._tools.arguments.get(block["name"], {})
        self._blocks[index] = opened
        start = {"type": "tool-input-start", "toolCallId": opened.id, "toolName": name, **opened.more}
        given = block.get("input")
        return [start, *self._delta(opened, json.dumps(given, ensure_ascii=False) if given else "")]

    def _block_delta(self, data: Any) -> list[StepItem]:
        block, delta = self._blocks[data["index"]], data["delta"]
        kind = delta["type"]
        if block.kind == "thinking" and kind == "signature_delta":
            block.signature.append(delta["signature"])
            return []
        key = {"text": "text", "thinking": "thinking", "call": "partial_json"}.get(block.kind)
        expected = {"text": "text_delta", "thinking": "thinking_delta", "call": "input_json_delta"}.get(block.kind)
        return self._delta(block, delta[key]) if key and kind == expected else []

    def _delta(self, block: _OpenBlock, text: Any) -> list[StepItem]:
        if not text:
            return []
        if not isinstance(text, str):
            raise TypeError("a delta that is no text")
        if block.kind == "call":
            block.text.append(text)
            return [{"type": "tool-input-delta", "toolCallId": block.id, "inputTextDelta": text}]
        kind = "text-delta" if block.kind == "text" else "reasoning-delta"
        return [{"type": kind, "id": block.id, "delta": text}]

    def _block_stop(self, data: Any) -> list[StepItem]:
        block = self._blocks.pop(data["index"])
        if block.kind == "call":
            end = input_end(block.id, block.name, "".join(block.text), **block.more)
            if block.arguments and end["type"] == "tool-input-available":
                end["input"] = {block.arguments.get(key, key): value for key, value in end["input"].items()}
            return [end]
        if block.kind == "text":
            return [{"type": "text-end", "id": block.id}]
        if block.kind == "redacted_thinking":
            return [{"type": "reasoning-end", "id": block.id, "providerMetadata": block.more}]
        if block.kind == "thinking":
            signature = "".join(block.signature)
            done: Chunk = {"type": "reasoning-end", "id": block.id}
            return [{**done, "providerMetadata": {"anthropic": {"signature": signature}}} if signature else done]
        return []


def _served_result(block: Any) -> Chunk:
    return {
        "type": "tool-output-available",
        "toolCallId": block["tool_use_id"],
        "output": block.get("content"),
        "providerExecuted": True,
        "providerMetadata": {"anthropic": {"blockType": block["type"]}},
    }


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
