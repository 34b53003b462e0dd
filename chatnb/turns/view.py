"""The model's view of a chat: pure functions of model messages (spec/recovery.md, section 6; actions.md, 9.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._json import JsonValue
from ..actions.children import child_text
from .kernel_notes import note_item, note_message

GO_ON = (
    "Your reply was interrupted. Go on exactly where it stopped. Repeat nothing and do not mention the interruption."
)


UNFINISHED: dict[str, JsonValue] = {"chatnb": {"unfinished": True}}
"""The provider metadata of reasoning that was cut off: it is shown, and no request holds it."""


def without_unfinished(view: Sequence[dict[str, JsonValue]]) -> list[dict[str, JsonValue]]:
    """Leave out reasoning that was cut off."""
    made: list[dict[str, JsonValue]] = []
    for message in view:
        content = message["content"]
        if message["role"] != "assistant" or not any(_is_unfinished(item) for item in content):
            made.append(message)
            continue
        kept = [item for item in content if not _is_unfinished(item)]
        if kept:
            made.append({**message, "content": kept})
    return made


def _is_unfinished(item: Mapping[str, JsonValue]) -> bool:
    options = item.get("providerOptions")
    own = options.get("chatnb") if isinstance(options, dict) else None
    return item.get("type") == "reasoning" and bool(own == UNFINISHED["chatnb"])


def complete_view(
    view: list[dict[str, JsonValue]], continuation: str, *, has_note: bool = False
) -> list[dict[str, JsonValue]]:
    """Make a request that would end on the assistant acceptable to the model.

    Args:
        view: Model messages.
        continuation: `"prefill"`: the partial answer stays last, trailing white space cut. Else an ephemeral user
            message asks to go on; it is in no history.
        has_note: The kernel was restarted since, and nothing else says so.
    """
    if not view or view[-1]["role"] != "assistant":
        return [*view, note_message()] if has_note else view
    if continuation != "prefill":
        notes = [note_item()] if has_note else []
        return [*view, {"role": "user", "content": [*notes, {"type": "text", "text": GO_ON}]}]
    if has_note:
        view = [*view[:-1], note_message(), view[-1]]
    last = dict(view[-1])
    content = [dict(item) for item in last["content"]]
    while content and content[-1].get("type") == "text":
        text = content[-1]["text"].rstrip()
        if text:
            content[-1]["text"] = text
            break
        content.pop()
    if not content:
        return view[:-1]
    last["content"] = content
    return [*view[:-1], last]


def with_images(
    view: Sequence[dict[str, JsonValue]], images: Mapping[str, Sequence[JsonValue]]
) -> list[dict[str, JsonValue]]:
    """Put images behind the text of the results they belong to, for this turn's requests alone."""
    if not images:
        return list(view)
    return [_message_with_images(message, images) for message in view]


def _message_with_images(
    message: dict[str, JsonValue], images: Mapping[str, Sequence[JsonValue]]
) -> dict[str, JsonValue]:
    if message["role"] != "tool":
        return message
    content: list[Any] = []
    for item in message["content"]:
        found = images.get(item.get("toolCallId", "")) if item.get("type") == "tool-result" else None
        if not found or item["output"].get("type") not in ("text", "json"):
            content.append(item)
            continue
        content.append({**item, "output": {"type": "content", "value": [_text_of(item["output"]), *found]}})
    return {**message, "content": content}


def with_child_texts(view: Sequence[dict[str, JsonValue]]) -> list[dict[str, JsonValue]]:
    """Show a model the text of a child chat's message that stands as a call's output (spec/turns.md, section 8)."""
    return [_message_with_texts(message) if message["role"] == "tool" else message for message in view]


def _message_with_texts(message: dict[str, JsonValue]) -> dict[str, JsonValue]:
    content: list[Any] = []
    for item in message["content"]:
        output = item.get("output") if item.get("type") == "tool-result" else None
        text = child_text(output["value"]) if output is not None and output.get("type") == "json" else None
        content.append(item if text is None else {**item, "output": {"type": "text", "value": text}})
    return {**message, "content": content}


def _text_of(output: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    from .. import _json

    value = output["value"]
    return {"type": "text", "text": value if isinstance(value, str) else _json.dumps(value)}


def injected_messages(rows: Sequence[JsonValue]) -> list[dict[str, JsonValue]]:
    """Return injected context as model messages, in order."""
    view: list[dict[str, JsonValue]] = []
    for messages in rows:
        for message in messages:
            role, content = message["role"], message["content"]
            if role == "system" or not isinstance(content, str):
                view.append(dict(message))
            else:
                view.append({"role": role, "content": [{"type": "text", "text": content}]})
    return view
