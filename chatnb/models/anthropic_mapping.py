"""Model messages as messages of Anthropic's API (spec/messages.md, section 9). Pure, and always acceptable."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from chatnb.models.anthropic_blocks import (
    Block,
    anthropic_options,
    clean_id,
    content_items,
    file_note,
    missing_result,
    reasoning_block,
    result_block,
    text_block,
    unused_name,
    user_block,
)
from chatnb.models.port import is_ephemeral

MAX_MARKS = 4
_UNMARKABLE = ("thinking", "redacted_thinking")
_OPENING = "The conversation begins here."


def anthropic_messages(
    model_messages: Iterable[Mapping[str, Any]], *, cache: bool = True, model: str | None = None
) -> tuple[list[Block], list[Block]]:
    """Map model messages to the `system` and `messages` of a request.

    Args:
        model_messages: As `chatnb.messages.to_model_messages` makes them.
        cache: Whether to set cache marks of its own.
        model: The model that is asked; thinking that another one signed is left out. None keeps all.

    Returns:
        Blocks for `system`, and messages. Roles alternate and the first is the user's; every call is answered at the
        head of the message after it. An empty history gets one short user text.
    """
    builder = _Builder(model)
    for message in model_messages:
        builder.add(message)
    messages = builder.finish()
    marks = _Marks(builder.system, messages, builder.unmarked)
    if cache:
        marks.set_own()
    marks.limit()
    system = builder.system
    return (system, messages) if _is_sendable([system, messages]) else (_scrub(system), _scrub(messages))


class _Builder:
    """Collects blocks in alternating groups, and the results by the call that they answer."""

    def __init__(self, model: str | None) -> None:
        self.model = model
        self.system: list[Block] = []
        self.unmarked: list[Block] = []
        self._groups: list[Block] = []
        self._used_ids: set[str] = set()
        # Per raw call id: the ids that were sent for it in the last assistant group that has it, in order.
        self._sent_ids: dict[str, tuple[int, list[str]]] = {}
        self._results: dict[str, Block] = {}

    def add(self, message: Mapping[str, Any]) -> None:
        role = message.get("role")
        items = content_items(message)
        if role == "system":
            self._add_system(message, items)
        elif role == "assistant":
            self._add_assistant(items)
        elif role == "tool":
            for item in items:
                if item.get("type") == "tool-result":
                    self._add_result(item)
        else:
            self._append("user", [_marked(user_block(item), item, self.unmarked) for item in items])

    def finish(self) -> list[Block]:
        """Place the results, then make both ends acceptable."""
        messages: list[Block] = []
        for group in self._groups:
            if group["role"] == "user" and messages:
                group["content"][:0] = self._answers(messages[-1])
            messages.append(group)
        if messages and messages[-1]["role"] == "assistant":
            answers = self._answers(messages[-1])
            if answers:
                messages.append({"role": "user", "content": answers})
            else:
                _cut_trailing_space(messages)
        if not messages or messages[0]["role"] == "assistant":
            messages.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
        return messages

    def _append(self, role: str, blocks: Iterable[Block | None]) -> None:
        found = [block for block in blocks if block is not None]
        if not found:
            return
        if not self._groups or self._groups[-1]["role"] != role:
            self._groups.append({"role": role, "content": []})
        self._groups[-1]["content"].extend(found)

    def _add_system(self, message: Mapping[str, Any], items: list[Mapping[str, Any]]) -> None:
        for item in items:
            block = text_block(item.get("text"))
            if block is not None:
                source = message if isinstance(message.get("content"), str) else item
                self.system.append(_marked(block, source, self.unmarked) or block)

    def _add_assistant(self, items: list[Mapping[str, Any]]) -> None:
        served = {
            str(item.get("toolCallId")): item
            for item in items
            if item.get("type") == "tool-result" and isinstance(anthropic_options(item).get("blockType"), str)
        }
        for item in items:
            kind = item.get("type")
            if kind == "text":
                self._append("assistant", [_marked(text_block(item.get("text")), item, self.unmarked)])
            elif kind == "reasoning":
                self._append("assistant", [reasoning_block(item, self.model)])
            elif kind == "file":
                self._append("assistant", [file_note(item)])
            elif kind == "tool-call" and not item.get("providerExecuted"):
                self._add_call(item)
            elif kind == "tool-call":
                self._add_served_call(item, served)

    def _add_call(self, item: Mapping[str, Any]) -> None:
        raw = str(item.get("toolCallId"))
        call_id = unused_name(clean_id(raw, "call"), self._used_ids)
        block: Block = {
            "type": "tool_use",
            "id": call_id,
            "name": clean_id(item.get("toolName"), "unnamed"),
            "input": _object(item.get("input")),
        }
        self._append("assistant", [_marked(block, item, self.unmarked)])
        group = len(self._groups)
        known = self._sent_ids.get(raw)
        ids = known[1] if known and known[0] == group else []
        self._sent_ids[raw] = (group, [*ids, call_id])

    def _add_served_call(self, item: Mapping[str, Any], served: dict[str, Mapping[str, Any]]) -> None:
        """A call that the provider ran, with its result right after it; neither if the result can't be given back."""
        result = served.pop(str(item.get("toolCallId")), None)
        if result is None:
            return
        call_id = unused_name(clean_id(item.get("toolCallId"), "call"), self._used_ids)
        output = result.get("output")
        value = output.get("value") if isinstance(output, Mapping) else output
        call: Block = {
            "type": "server_tool_use",
            "id": call_id,
            "name": clean_id(item.get("toolName"), "unnamed"),
            "input": _object(item.get("input")),
        }
        block: Block = {"type": anthropic_options(result)["blockType"], "tool_use_id": call_id, "content": value}
        self._append("assistant", [call, block])

    def _add_result(self, item: Mapping[str, Any]) -> None:
        group, ids = self._sent_ids.get(str(item.get("toolCallId")), (0, []))
        if not ids:
            return
        open_ids = [call_id for call_id in ids if call_id not in self._results]
        call_id = open_ids[0] if open_ids else ids[-1]
        block = result_block(item, call_id)
        self._results[call_id] = _marked(block, item, self.unmarked) or block
        # The user's turn begins here, so that what the assistant says next is a message of its own.
        if group == len(self._groups):
            self._groups.append({"role": "user", "content": []})

    def _answers(self, message: Block) -> list[Block]:
        ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        return [self._results.get(call_id) or missing_result(call_id) for call_id in ids]


class _Marks:
    """Where the cache marks go: set our own, and never more than the API takes."""

    def __init__(self, system: list[Block], messages: list[Block], unmarked: list[Block]) -> None:
        self.system = system
        self.messages = messages
        self.unmarked = unmarked

    def set_own(self) -> None:
        _mark_last(self.system, self.unmarked)
        for message in [message for message in self.messages if message["role"] == "user"][-2:]:
            _mark_last(message["content"], self.unmarked)

    def limit(self) -> None:
        in_messages = [b for message in self.messages for b in message["content"] if "cache_control" in b]
        in_system = [block for block in self.system if "cache_control" in block]
        excess = max(0, len(in_messages) + len(in_system) - MAX_MARKS)
        for block in [*in_messages, *in_system][:excess]:
            del block["cache_control"]
        self._lengthen([block for block in [*in_system, *in_messages] if "cache_control" in block])

    @staticmethod
    def _lengthen(marked: list[Block]) -> None:
        """Make what stands before an hour's mark last an hour too: the API refuses a short one before a long one."""
        last = max((n for n, block in enumerate(marked) if block["cache_control"].get("ttl") == "1h"), default=-1)
        for block in marked[:last]:
            block["cache_control"] = {**block["cache_control"], "ttl": "1h"}


def _mark_last(blocks: list[Block], unmarked: list[Block]) -> None:
    for block in reversed(blocks):
        if block["type"] not in _UNMARKABLE and not any(block is other for other in unmarked):
            block.setdefault("cache_control", {"type": "ephemeral"})
            return


def _marked(block: Block | None, item: Mapping[str, Any], unmarked: list[Block]) -> Block | None:
    """The block with the item's own cache mark; an item of this request alone is noted as never to be marked."""
    if block is None:
        return None
    control = anthropic_options(item).get("cacheControl")
    if is_ephemeral(item):
        unmarked.append(block)
    elif isinstance(control, Mapping) and control.get("type") == "ephemeral":
        block["cache_control"] = {k: v for k, v in control.items() if k == "type" or (k == "ttl" and v in ("5m", "1h"))}
    return block


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {"input": value}


def _cut_trailing_space(messages: list[Block]) -> None:
    """Make a last message of the assistant one that can be gone on from: it may not end in white space."""
    last = messages[-1]["content"][-1]
    if last["type"] == "text":
        last["text"] = last["text"].rstrip()


def _is_sendable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, TypeError):
        return False
    return True


def _scrub(value: Any) -> Any:
    """The same JSON without what no JSON body can hold: lone surrogates, non-finite numbers, read-only containers."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {str(_scrub(key)): _scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
