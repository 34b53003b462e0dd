"""Injected context: what `chat.inject` takes, in the form that is stored (spec/turns.md, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._json import JsonValue
from ..errors import InputError
from ..messages import UIMessage, to_model_messages

ROLES = ("system", "user")
MODEL_ROLES = ("user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Placed:
    """Injected context in a turn: its number, its messages, and before which part of the response it stands."""

    n: int
    messages: JsonValue
    place: int


def normalize_injected(messages: Any) -> list[JsonValue]:
    """Return injected messages as a list of `{role, content}`, the content text or the items of a model message.

    Args:
        messages: Text, a `(role, content)` pair or a message, or a list of these.

    Raises:
        InputError: It is none of these.
    """
    if isinstance(messages, str | UIMessage | Mapping) or _is_pair(messages):
        messages = [messages]
    try:
        items = list(messages)
    except TypeError:
        raise InputError(_expected(messages)) from None
    return [message for item in items for message in _one(item)]


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, str) for one in value)


def _one(item: Any) -> list[JsonValue]:
    """Return one item as model messages; text stays text."""
    if isinstance(item, str):
        return [{"role": "user", "content": item}]
    if isinstance(item, list):
        item = tuple(item)  # a pair that was JSON
    if _is_pair(item) and item[0] in ROLES:
        return [{"role": item[0], "content": item[1]}]
    if isinstance(item, Mapping) and "parts" in item:
        item = UIMessage.from_wire(dict(item) if "id" in item else {**item, "id": "injected"})
    if isinstance(item, UIMessage):
        if all(part.type == "text" for part in item.parts) and item.role in ROLES:
            return [{"role": item.role, "content": item.text}]
        return [*to_model_messages([item])]
    if isinstance(item, Mapping):
        role, content = item.get("role"), item.get("content")
        if role in ROLES and isinstance(content, str):
            return [{"role": role, "content": content}]
        if role in MODEL_ROLES and isinstance(content, list) and all(isinstance(one, Mapping) for one in content):
            return [dict(item)]
    raise InputError(_expected(item))


def _expected(value: Any) -> str:
    kind = type(value).__name__
    return f"inject() takes text, (role, content) pairs with role system or user, or messages, not {kind}"
