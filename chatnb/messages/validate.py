"""Validation of messages (spec/messages.md, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chatnb.errors import MessageValidationError
from chatnb.messages.json_value import FrozenDict
from chatnb.messages.message import UIMessage
from chatnb.messages.part_schema import clean_message
from chatnb.messages.refusal import NOTHING, Refused


@dataclass(frozen=True, slots=True)
class SafeValidation:
    """What `safe_validate_messages` found.

    Attributes:
        ok: Whether the value is valid.
        messages: The messages, or None.
        error: The error, or None.
    """

    ok: bool
    messages: list[UIMessage] | None = None
    error: MessageValidationError | None = None


def validate_messages(
    value: object,
    *,
    metadata: Any = None,
    data: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
) -> list[UIMessage]:
    """Return the messages of a list of wire dicts or message objects; unknown keys are stripped.

    Args:
        value: The list.
        metadata: A type that pydantic knows. Every message's metadata is checked against it, an absent one as None.
        data: Types by the name of data parts (what follows `data-`). Every data part's name must be listed.
        tools: By action name, its input type or a pair `(input type, output type)`; None leaves one unchecked.

    Raises:
        MessageValidationError: For the first bad element, with its `path`.
    """
    try:
        clean = _clean_list(value)
        if metadata is not None or data is not None or tools is not None:
            # pydantic loads only when types are given.
            from chatnb.messages.typed import TypedRules

            rules = TypedRules(metadata, data, tools)
            clean = [rules.apply(message, (index,)) for index, message in enumerate(clean)]
    except Refused as refusal:
        raise refusal.to_error("messages") from None
    return [UIMessage.from_clean(message) for message in clean]


def safe_validate_messages(
    value: object,
    *,
    metadata: Any = None,
    data: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
) -> SafeValidation:
    """Do what `validate_messages` does, and return the outcome instead of raising for bad data."""
    try:
        return SafeValidation(True, validate_messages(value, metadata=metadata, data=data, tools=tools))
    except MessageValidationError as error:
        return SafeValidation(False, error=error)


def _clean_list(value: object) -> list[FrozenDict]:
    if not isinstance(value, (list, tuple)):
        raise Refused((), "a list of messages", value)
    if not value:
        raise Refused((), "at least one message", NOTHING)
    return [clean_message(_wire_of(message), (index,)) for index, message in enumerate(value)]


def _wire_of(message: object) -> object:
    """Return what is to be cleaned. Part objects inside a wire dict are taken by their wire form."""
    if isinstance(message, UIMessage):
        return message.to_wire()
    return message
