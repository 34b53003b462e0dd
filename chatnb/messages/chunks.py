"""The chunks of a stream, as types of plain dicts in wire form (spec/messages.md, section 4.5).

They are checked by `validate_chunk`; these types are for editors and mypy. A `data-NAME` chunk is a `DataChunk`, whose
type can't be written as a literal.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict

from chatnb.messages.json_value import JsonObject, JsonValue

FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "error", "interrupted", "other"]
InputEncoding: TypeAlias = Literal["json", "text"]
ProviderMetadata: TypeAlias = dict[str, JsonObject]


class StartChunk(TypedDict):
    """A message begins or is continued."""

    type: Literal["start"]
    messageId: NotRequired[str]
    messageMetadata: NotRequired[JsonValue]


class FinishChunk(TypedDict):
    """The message is complete."""

    type: Literal["finish"]
    finishReason: NotRequired[FinishReason]
    messageMetadata: NotRequired[JsonValue]


class MessageMetadataChunk(TypedDict):
    """Metadata in mid-stream."""

    type: Literal["message-metadata"]
    messageMetadata: JsonValue


class AbortChunk(TypedDict):
    """The turn was stopped."""

    type: Literal["abort"]
    reason: NotRequired[str]


class ErrorChunk(TypedDict):
    """The turn failed."""

    type: Literal["error"]
    errorText: str


class StepChunk(TypedDict):
    """A step begins, ends or is taken back."""

    type: Literal["start-step", "finish-step", "reset-step"]


class BlockStartChunk(TypedDict):
    """A text or reasoning block opens."""

    type: Literal["text-start", "reasoning-start"]
    id: str
    providerMetadata: NotRequired[ProviderMetadata]


class DeltaChunk(TypedDict):
    """More text of an open block."""

    type: Literal["text-delta", "reasoning-delta"]
    id: str
    delta: str
    providerMetadata: NotRequired[ProviderMetadata]


class BlockEndChunk(TypedDict):
    """A block closes. Only `text-end` may hold citations."""

    type: Literal["text-end", "reasoning-end"]
    id: str
    providerMetadata: NotRequired[ProviderMetadata]
    citations: NotRequired[list[JsonObject]]


class FileChunk(TypedDict):
    """A file."""

    type: Literal["file", "reasoning-file"]
    url: str
    mediaType: str
    providerMetadata: NotRequired[ProviderMetadata]


class SourceUrlChunk(TypedDict):
    """A web source."""

    type: Literal["source-url"]
    sourceId: str
    url: str
    title: NotRequired[str]
    providerMetadata: NotRequired[ProviderMetadata]


class SourceDocumentChunk(TypedDict):
    """A document as source."""

    type: Literal["source-document"]
    sourceId: str
    mediaType: str
    title: str
    filename: NotRequired[str]
    providerMetadata: NotRequired[ProviderMetadata]


class CustomChunk(TypedDict):
    """A provider's own content. chatnb never emits one."""

    type: Literal["custom"]
    kind: str
    providerMetadata: NotRequired[ProviderMetadata]


class SteeringMessageChunk(TypedDict):
    """What a person said between two steps. chatnb never emits one."""

    type: Literal["steering-message"]
    id: str
    parts: list[JsonObject]


class DataChunk(TypedDict):
    """An app's own data; the type is `data-NAME`."""

    type: str
    data: JsonValue
    id: NotRequired[str]
    transient: NotRequired[bool]


class _CallKeys(TypedDict):
    toolCallId: str
    providerExecuted: NotRequired[bool]
    providerMetadata: NotRequired[ProviderMetadata]
    toolMetadata: NotRequired[JsonObject]
    dynamic: NotRequired[bool]


class _InputKeys(_CallKeys):
    toolName: str
    title: NotRequired[str]


class ToolInputStartChunk(_InputKeys):
    """The model begins a call."""

    type: Literal["tool-input-start"]
    inputEncoding: NotRequired[InputEncoding]


class ToolInputDeltaChunk(TypedDict):
    """More text of a call's input."""

    type: Literal["tool-input-delta"]
    toolCallId: str
    inputTextDelta: str


class ToolInputAvailableChunk(_InputKeys):
    """The call's input is complete."""

    type: Literal["tool-input-available"]
    input: JsonValue


class ToolInputErrorChunk(_InputKeys):
    """The call's input can't be used."""

    type: Literal["tool-input-error"]
    input: JsonValue
    errorText: str


class ToolApprovalRequestChunk(TypedDict):
    """A person must decide."""

    type: Literal["tool-approval-request"]
    toolCallId: str
    approvalId: str
    approvalDescriptor: NotRequired[JsonValue]
    inputSchemaInput: NotRequired[JsonValue]
    reason: NotRequired[str]
    isAutomatic: NotRequired[bool]
    signature: NotRequired[str]


class ToolApprovalResponseChunk(TypedDict):
    """A decision. chatnb never emits one."""

    type: Literal["tool-approval-response"]
    approvalId: str
    approved: bool
    reason: NotRequired[str]
    providerExecuted: NotRequired[bool]
    providerMetadata: NotRequired[ProviderMetadata]


class ToolOutputAvailableChunk(_CallKeys):
    """The call's result, or a preliminary one."""

    type: Literal["tool-output-available"]
    output: JsonValue
    preliminary: NotRequired[bool]


class ToolOutputErrorChunk(_CallKeys):
    """The call failed."""

    type: Literal["tool-output-error"]
    errorText: str
    preliminary: NotRequired[bool]


class ToolOutputDeniedChunk(TypedDict):
    """The call was denied."""

    type: Literal["tool-output-denied"]
    toolCallId: str


Chunk: TypeAlias = (
    StartChunk
    | FinishChunk
    | MessageMetadataChunk
    | AbortChunk
    | ErrorChunk
    | StepChunk
    | BlockStartChunk
    | DeltaChunk
    | BlockEndChunk
    | FileChunk
    | SourceUrlChunk
    | SourceDocumentChunk
    | CustomChunk
    | SteeringMessageChunk
    | DataChunk
    | ToolInputStartChunk
    | ToolInputDeltaChunk
    | ToolInputAvailableChunk
    | ToolInputErrorChunk
    | ToolApprovalRequestChunk
    | ToolApprovalResponseChunk
    | ToolOutputAvailableChunk
    | ToolOutputErrorChunk
    | ToolOutputDeniedChunk
)
