"""When a client sends without being asked (spec/messages.md, section 7.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chatnb.messages.message import UIMessage, as_message
from chatnb.messages.parts import Part, TextPart, ToolPart

_ANSWERED: Final = frozenset({"approval-responded", "output-error", "output-denied"})


def is_complete_with_tool_calls(messages: Sequence[UIMessage | Mapping[str, Any]]) -> bool:
    """Tell whether the last message waits only to be sent, because a client has run its calls.

    Its current step has a call that the provider did not execute, all of these have a final output or an error, and no
    unfinished text follows the last of them.
    """
    step = _last_step(messages)
    calls = [index for index, part in enumerate(step) if isinstance(part, ToolPart) and not part.provider_executed]
    return (
        bool(calls)
        and all(_has_result(step[index]) for index in calls)
        and all(part.state == "done" for part in step[calls[-1] :] if isinstance(part, TextPart))
    )


def is_complete_with_approval_responses(messages: Sequence[UIMessage | Mapping[str, Any]]) -> bool:
    """Tell whether the last message waits only to be sent, because a person has decided.

    Its current step has an answered approval, and every call is answered or finished.
    """
    calls = [part for part in _last_step(messages) if isinstance(part, ToolPart)]
    return any(part.state == "approval-responded" for part in calls) and all(
        part.state in _ANSWERED or _has_result(part) for part in calls
    )


def _has_result(part: Part) -> bool:
    if not isinstance(part, ToolPart):
        return False
    return part.state == "output-error" or (part.state == "output-available" and not part.preliminary)


def _last_step(messages: Sequence[UIMessage | Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the current step of the last message, or nothing when it is not an assistant's."""
    if not messages:
        return ()
    message = as_message(messages[-1])
    return current_step(message) if message.role == "assistant" else ()


def current_step(message: UIMessage) -> tuple[Part, ...]:
    """Return what follows the last step-start, or all parts when there is none."""
    index = len(message.parts)
    while index and message.parts[index - 1].type != "step-start":
        index -= 1
    return message.parts[index:]
