"""Messages, parts and chunks: what they are, how a stream of chunks folds to a message, and what reaches a model.

Owns the wire format (the AI SDK UI protocol, version 7), its validation, the one fold, the tolerant parse of tool
inputs, SSE framing, and the conversion to model messages. No clock, no randomness, no I/O. The law is
spec/messages.md, sections 1 to 8.
"""

from __future__ import annotations

from chatnb.messages.autosend import (
    current_step,
    is_complete_with_approval_responses,
    is_complete_with_tool_calls,
)
from chatnb.messages.chunk_schema import check_emittable, is_plain_delta, validate_chunk
from chatnb.messages.chunks import Chunk
from chatnb.messages.edits import decide_call, settle_call
from chatnb.messages.fold_message import Fold
from chatnb.messages.fold_state import FoldChange
from chatnb.messages.folding import FoldResult, Snapshot, fold
from chatnb.messages.json_value import ABSENT, Absent, FrozenDict, FrozenList, JsonObject, JsonValue, freeze, thaw
from chatnb.messages.message import (
    Role,
    UIMessage,
    as_message,
    replace_parts,
    validate_part,
    with_metadata,
    with_part,
)
from chatnb.messages.model_messages import to_model_messages
from chatnb.messages.partial_json import parse_partial_json
from chatnb.messages.parts import (
    Approval,
    CustomPart,
    DataPart,
    FilePart,
    Part,
    ReasoningFilePart,
    ReasoningPart,
    SourceDocumentPart,
    SourceUrlPart,
    SteeringMessagePart,
    StepStartPart,
    TextPart,
    ToolPart,
    ToolState,
    UnknownPart,
    is_tool_part,
)
from chatnb.messages.sse import SSE_DONE, SSE_HEADERS, SseDecoder, encode_sse
from chatnb.messages.validate import SafeValidation, safe_validate_messages, validate_messages

__all__ = [
    "ABSENT",
    "Absent",
    "Approval",
    "Chunk",
    "CustomPart",
    "DataPart",
    "FilePart",
    "Fold",
    "FoldChange",
    "FoldResult",
    "FrozenDict",
    "FrozenList",
    "JsonObject",
    "JsonValue",
    "Part",
    "ReasoningFilePart",
    "ReasoningPart",
    "Role",
    "SSE_DONE",
    "SSE_HEADERS",
    "SafeValidation",
    "Snapshot",
    "SourceDocumentPart",
    "SourceUrlPart",
    "SseDecoder",
    "SteeringMessagePart",
    "StepStartPart",
    "TextPart",
    "ToolPart",
    "ToolState",
    "UIMessage",
    "UnknownPart",
    "as_message",
    "check_emittable",
    "current_step",
    "decide_call",
    "encode_sse",
    "fold",
    "freeze",
    "is_complete_with_approval_responses",
    "is_complete_with_tool_calls",
    "is_plain_delta",
    "is_tool_part",
    "parse_partial_json",
    "replace_parts",
    "safe_validate_messages",
    "settle_call",
    "thaw",
    "to_model_messages",
    "validate_chunk",
    "validate_messages",
    "validate_part",
    "with_metadata",
    "with_part",
]
