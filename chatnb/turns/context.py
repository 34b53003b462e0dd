"""Injected context: what `chat.inject` takes, in the form that is stored (spec/turns.md, section 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._json import JsonValue
from ..errors import InputError
from ..messages import UIMessage

ROLES = ("system", "user")


@dataclass(frozen=True, slots=True)
class Placed:
    """Injected context in a turn: its number, its messages, and before which part of the response it stands."""

    n: int
    messages: JsonValue
    place: int


def normalize_injected(messages: Any) -> list[JsonValue]:
    """Return injected messages as a list of `{role, content}`.

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
    return [_one(item) for item in items]


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and value[0] in ROLES and isinstance(value[1], str)


def _one(item: Any) -> JsonValue:
    if isinstance(item, str):
        return {"role": "user", "content": item}
    if _is_pair(item):
        return {"role": item[0], "content": item[1]}
    if isinstance(item, Mapping) and "parts" in item:
        item = UIMessage.from_wire(dict(item) if "id" in item else {**item, "id": "injected"})
    if isinstance(item, UIMessage) and item.role in ROLES:
        return {"role": item.role, "content": item.text}
    if isinstance(item, Mapping) and item.get("role") in ROLES and isinstance(item.get("content"), str):
        return {"role": item["role"], "content": item["content"]}
    raise InputError(_expected(item))


def _expected(value: Any) -> str:
    kind = type(value).__name__
    return f"inject() takes text, (role, content) pairs with role system or user, or messages, not {kind}"
