"""The embedded model: no network, no key, no pretence. It carries the tour and a reader's own actions."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from chatnb.models.anthropic_blocks import compact_json, content_items
from chatnb.models.offline_plan import Plan, make_plan
from chatnb.models.options import check_flag
from chatnb.models.port import Continuation, ModelMessage, ModelRequest, StepEnd, StepItem
from chatnb.models.usage import Usage

RHYTHM_VARIABLE = "CHATNB_OFFLINE_RHYTHM"
_SHORTEST, _LONGEST = 0.010, 0.060
_TO_GO_ON = 1.0


class OfflineModel:
    """Chooses among the actions by words, and says honestly that it knows nothing else.

    Equal requests give equal chunks: there is no clock and no chance in what it says.

    Args:
        rhythm: Whether words come 10 to 60 ms apart, as from a person. The environment variable
            `CHATNB_OFFLINE_RHYTHM=0` turns it off for a process.
        seed: What the pauses are drawn from.
    """

    name = "offline"
    continuation: Continuation = "prefill"
    accepts_images = False

    def __init__(self, rhythm: bool = True, seed: int = 0) -> None:
        check_flag("OfflineModel(rhythm=...)", rhythm)
        self.rhythm = rhythm
        self.seed = seed

    def __repr__(self) -> str:
        return f"OfflineModel(rhythm={self.rhythm}, seed={self.seed})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Answer one step; a last message of the assistant is gone on from, mid-word if it ends there."""
        messages, partial = _split_partial(request.messages)
        plan = make_plan(request, messages)
        text = _remainder(plan.text, partial)
        pauses = random.Random(f"{self.seed}:{text}")
        has_rhythm = self.rhythm and os.environ.get(RHYTHM_VARIABLE, "1") != "0"
        if text:
            if has_rhythm and partial:
                # Who goes on with a broken sentence reads it first; a person sees that it is being recovered.
                await request.sleep(_TO_GO_ON)
            yield {"type": "text-start", "id": "text-1"}
            for delta in _words(text):
                if has_rhythm:
                    await request.sleep(pauses.uniform(_SHORTEST, _LONGEST))
                yield {"type": "text-delta", "id": "text-1", "delta": delta}
            yield {"type": "text-end", "id": "text-1"}
        for chunk in _call_chunks(plan, request, messages):
            yield chunk
        written = text + (json.dumps(plan.call[1], ensure_ascii=False) if plan.call else "")
        usage = Usage(_input_tokens(request), _tokens(len(written)), 0, 0, 0, 0.0)
        yield StepEnd("tool-calls" if plan.call else "stop", usage)

    async def count_tokens(self, request: ModelRequest) -> int:
        """The tokens of a request: its characters divided by 4, rounded up."""
        return _input_tokens(request)


def _split_partial(messages: Sequence[ModelMessage]) -> tuple[Sequence[ModelMessage], str | None]:
    """The history before this step, and what this step has said already if the request goes on from there."""
    if not messages or messages[-1].get("role") != "assistant":
        return messages, None
    items = content_items(messages[-1])
    return messages[:-1], "".join(str(item.get("text", "")) for item in items if item.get("type") == "text")


def _remainder(text: str, partial: str | None) -> str:
    if partial is None:
        return text
    if text.startswith(partial):
        return text[len(partial) :]
    # Something else was being said; the whole text follows it as a paragraph of its own.
    return f"\n\n{text}" if partial.strip() else text


def _words(text: str) -> list[str]:
    """Deltas that begin, and never end, with white space: where a stream breaks off, nothing is trimmed away."""
    return re.findall(r"\s*\S+|\s+\Z", text)


def _call_chunks(plan: Plan, request: ModelRequest, messages: Sequence[ModelMessage]) -> Iterator[dict[str, Any]]:
    if plan.call is None:
        return
    name, arguments = plan.call
    # The same step of the same turn gives the same id after a crash; another turn with equal words does not.
    place = [request.chat_id, request.turn_number, request.step, name, list(messages)]
    call_id = "call_" + hashlib.sha256(compact_json(place).encode("utf-8", "replace")).hexdigest()[:16]
    head = {"toolCallId": call_id, "toolName": name}
    yield {"type": "tool-input-start", **head}
    yield {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": compact_json(arguments)}
    yield {"type": "tool-input-available", **head, "input": arguments}


def _tokens(characters: int) -> int:
    return -(-characters // 4)


def _input_tokens(request: ModelRequest) -> int:
    characters = len(request.instructions or "")
    for message in request.messages:
        for item in content_items(message):
            text = item.get("text")
            characters += len(text) if isinstance(text, str) else len(compact_json(item))
    return _tokens(characters)
