"""What of a call is shown: its state as a word, its result's richest form. Shared by transcript and exports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .._json import JsonValue
from ..messages import DataPart, ToolPart, UIMessage

Redact = Callable[[str], str]
RICHEST = (
    "image/png",
    "image/jpeg",
    "image/svg+xml",
    "text/html",
    "text/markdown",
    "text/latex",
    "application/json",
    "text/plain",
)
"""Media types that are drawn, the richest first."""
WITHOUT_MARKUP = (
    "image/png",
    "image/jpeg",
    "text/markdown",
    "text/latex",
    "text/plain",
    "application/json",
    "image/svg+xml",
    "text/html",
)
"""The same for a place that has no html."""
_WORDS = {
    "input-streaming": "Preparing",
    "input-available": "Unknown",
    "approval-requested": "Needs approval",
    "output-available": "Done",
    "output-error": "Failed",
    "output-denied": "Denied",
}
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_STOPPED = re.compile(r"\b(stopped|cancelled|interrupted)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shown:
    """One piece of output in the form that is drawn."""

    media_type: str
    content: JsonValue


def state_word(part: ToolPart) -> str:
    """Return a call's state as the panel names it."""
    if part.state == "approval-responded":
        approval = part.approval
        return "Approved" if approval is not None and approval.approved else "Denied"
    if part.state == "output-error" and part.error_text and _STOPPED.match(part.error_text):
        return "Stopped"
    return _WORDS.get(part.state, "Unknown")


def call_title(part: ToolPart) -> str:
    """Return what a call is named."""
    return part.title or part.tool_name


def denied_reason(part: ToolPart) -> str | None:
    """Return why a call was denied, if somebody said."""
    approval = part.approval
    return approval.reason if approval is not None else None


def original_input(part: ToolPart) -> JsonValue:
    """Return the arguments before a person edited them, or None."""
    metadata: Mapping[str, JsonValue] = part.tool_metadata or {}
    own = metadata.get("chatnb")
    return own.get("originalInput") if isinstance(own, Mapping) else None


def outputs_by_call(message: UIMessage) -> dict[str, Sequence[JsonValue]]:
    """Return what each call of a message displayed, by call id."""
    found: dict[str, Sequence[JsonValue]] = {}
    for part in message.parts:
        if isinstance(part, DataPart) and part.type == "data-output" and isinstance(part.data, Mapping):
            outputs = part.data.get("outputs")
            if isinstance(outputs, list | tuple):
                found[str(part.data.get("toolCallId"))] = outputs
    return found


def shown_outputs(outputs: Sequence[JsonValue], kinds: Sequence[str] = RICHEST) -> Iterator[Shown]:
    """Yield each output in the first of some media types that it has; without an argument the richest."""
    for item in outputs:
        if not isinstance(item, Mapping):
            continue
        if "stream" in item:
            yield Shown("text/plain", plain(str(item.get("text", ""))))
            continue
        inner = item.get("data")
        bundle: Mapping[str, JsonValue] = inner if isinstance(inner, Mapping) else item
        for media_type in kinds:
            if media_type in bundle:
                content = bundle[media_type]
                yield Shown(media_type, "".join(content) if isinstance(content, list | tuple) else content)
                break


def plain(text: str) -> str:
    """Return a text without terminal colours and without addresses in memory, which differ from run to run."""
    return _ADDRESS.sub("0x…", ANSI.sub("", text))


def show_json(value: JsonValue) -> str:
    """Return a value for reading: a text as it is, else indented JSON."""
    if isinstance(value, str):
        return plain(value)
    return plain(json.dumps(value, ensure_ascii=False, indent=2))
