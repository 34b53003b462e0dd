"""What a call in the history says to a model (spec/messages.md, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from chatnb.errors import MessageConversionError
from chatnb.messages.json_value import FrozenDict, JsonObject, JsonValue, freeze, thaw
from chatnb.messages.parts import Approval, ToolPart
from chatnb.messages.refusal import Path, Refused

DENIED_TEXT: Final = "The call was denied."
WITHHELD_TEXT: Final = "The result is withheld: this action is no longer defined."

ToolOutputs: TypeAlias = Mapping[str, Callable[[JsonValue], Any]]
"""By action name, a function of the output that returns what the model gets."""

_SETTLED: Final = frozenset({"approval-responded", "output-error", "output-denied"})
_DECIDED: Final = frozenset({"approval-responded", "output-available", "output-error", "output-denied"})
_OUTPUT_TYPES: Final = frozenset({"text", "json", "content", "error-text", "error-json", "execution-denied"})


class CallItems(NamedTuple):
    """What a call adds to the assistant message and to the tool message after it."""

    assistant: list[JsonObject]
    tool: list[JsonObject]


def is_settled(part: ToolPart) -> bool:
    """Tell whether a call is kept by `ignore_incomplete`."""
    return part.state in _SETTLED or (part.state == "output-available" and not part.preliminary)


def call_items(part: ToolPart, tools: ToolOutputs, path: Path) -> CallItems:
    """Return the items of one call.

    Args:
        part: The call.
        tools: Functions that make a model's view of an output.
        path: Where the part stands, for the error.

    Raises:
        MessageConversionError: A function of `tools` failed.
    """
    items = CallItems([], [])
    if part.state == "input-streaming":
        return items
    items.assistant.append(_call(part))
    approval = part.approval
    if approval is not None:
        items.assistant.append(_request(part, approval))
        if part.state in _DECIDED and approval.approved is not None:
            items.tool.append(_response(part, approval))
    output = _output(part, tools, path)
    if output is not None:
        is_by_provider = bool(part.provider_executed) and part.state in ("output-available", "output-error")
        (items.assistant if is_by_provider else items.tool).append(_result(part, output))
    return items


def _call(part: ToolPart) -> JsonObject:
    item: JsonObject = {"type": "tool-call", "toolCallId": part.tool_call_id, "toolName": part.tool_name}
    if part.input is None and part.state == "output-error" and part.has("rawInput"):
        item["input"] = thaw(part.raw_input)
    elif part.has("input"):
        item["input"] = thaw(part.input)
    if part.provider_executed is not None:
        item["providerExecuted"] = part.provider_executed
    options = part.call_provider_metadata
    if options is None and part.state == "output-error":
        options = part.result_provider_metadata
    return _with_options(item, options)


def _request(part: ToolPart, approval: Approval) -> JsonObject:
    item: JsonObject = {
        "type": "tool-approval-request",
        "approvalId": approval.id,
        "toolCallId": part.tool_call_id,
    }
    if approval.is_automatic is not None:
        item["isAutomatic"] = approval.is_automatic
    if approval.request_reason is not None:
        item["reason"] = approval.request_reason
    if approval.has("inputSchemaInput"):
        item["inputSchemaInput"] = thaw(approval.input_schema_input)
    if approval.signature is not None:
        item["signature"] = approval.signature
    return item


def _response(part: ToolPart, approval: Approval) -> JsonObject:
    item: JsonObject = {
        "type": "tool-approval-response",
        "approvalId": approval.id,
        "approved": approval.approved,
    }
    if approval.reason is not None:
        item["reason"] = approval.reason
    if part.provider_executed is not None:
        item["providerExecuted"] = part.provider_executed
    return item


def _output(part: ToolPart, tools: ToolOutputs, path: Path) -> JsonObject | None:
    """Return what the model sees as the result, or None when there is none yet."""
    approval = part.approval
    reason = approval.reason if approval is not None else None
    if part.state == "approval-responded":
        if approval is None or approval.approved is not False:
            return None
        return {"type": "execution-denied"} if reason is None else {"type": "execution-denied", "reason": reason}
    if part.state == "output-denied":
        return {"type": "error-text", "value": reason or DENIED_TEXT}
    if part.state == "output-error":
        kind = "error-json" if part.provider_executed else "error-text"
        return {"type": kind, "value": part.error_text}
    if part.state != "output-available":
        return None
    if part.dynamic is False:
        return {"type": "text", "value": WITHHELD_TEXT}
    convert = tools.get(part.tool_name)
    return _plain_output(part.output) if convert is None else _converted(convert, part.output, path)


def _plain_output(value: JsonValue) -> JsonObject:
    if isinstance(value, str):
        return {"type": "text", "value": value}
    return {"type": "json", "value": thaw(value)}


def _converted(convert: Callable[[JsonValue], Any], output: JsonValue, path: Path) -> JsonObject:
    try:
        found = thaw(freeze(convert(output)))
    except Refused as refusal:
        raise MessageConversionError(
            f"the model's view of a result is no JSON: expected {refusal.expected}, found {refusal.found}", path=path
        ) from None
    except Exception as error:
        raise MessageConversionError(
            f"the function that makes the model's view of a result failed with {type(error).__name__}", path=path
        ) from error
    if isinstance(found, dict) and isinstance(found.get("type"), str) and found["type"] in _OUTPUT_TYPES:
        return found
    return _plain_output(found)


def _result(part: ToolPart, output: JsonObject) -> JsonObject:
    item: JsonObject = {
        "type": "tool-result",
        "toolCallId": part.tool_call_id,
        "toolName": part.tool_name,
        "output": output,
    }
    options = part.result_provider_metadata
    return _with_options(item, part.call_provider_metadata if options is None else options)


def _with_options(item: JsonObject, options: FrozenDict | None) -> JsonObject:
    if options is not None:
        item["providerOptions"] = thaw(options)
    return item
