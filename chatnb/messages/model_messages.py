"""What of a history reaches a model (spec/messages.md, section 8). Every model adapter works on this result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from chatnb.errors import MessageConversionError, MessageValidationError
from chatnb.messages.json_value import FrozenDict, JsonObject, thaw
from chatnb.messages.message import UIMessage, as_message, validate_part
from chatnb.messages.model_tools import ToolOutputs, call_items, is_settled
from chatnb.messages.part_schema import ROLES
from chatnb.messages.parts import (
    CustomPart,
    DataPart,
    FilePart,
    Part,
    ReasoningFilePart,
    ReasoningPart,
    SteeringMessagePart,
    StepStartPart,
    TextPart,
    ToolPart,
)
from chatnb.messages.refusal import Path

ConvertData: TypeAlias = Callable[[DataPart], "Part | Mapping[str, Any] | None"]
"""Makes a text or file part of a data part, or None to leave it out."""

STEERING_TYPE: Final = "data-steering-message"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NEEDS_HOST: Final = frozenset({"http", "https", "ws", "wss", "ftp"})


@dataclass(frozen=True, slots=True)
class _Conversion:
    """The arguments of one conversion, and where it is."""

    tools: ToolOutputs
    ignore_incomplete: bool
    convert_data: ConvertData | None
    last_user: int
    out: list[JsonObject] = field(default_factory=list)

    def emit(self, role: str, content: Sequence[JsonObject]) -> None:
        """Add a message; an empty one is dropped."""
        if content:
            self.out.append({"role": role, "content": list(content)})


def to_model_messages(
    messages: Iterable[UIMessage | Mapping[str, Any]],
    *,
    tools: ToolOutputs | None = None,
    ignore_incomplete: bool = False,
    convert_data: ConvertData | None = None,
) -> list[JsonObject]:
    """Return the model messages of a history, as plain dicts.

    Args:
        messages: The history, as objects or wire dicts.
        tools: By action name, a function of the output that returns what the model gets.
        ignore_incomplete: Leave out calls that wait, run or have only a preliminary output.
        convert_data: Makes a text or file part of a data part; without it data parts are left out.

    Raises:
        MessageConversionError: For an unknown role, a file whose url is not absolute, or a function that failed. Its
            `path` leads to the message and the part.
        MessageValidationError: A wire dict has not the outline of a message.
    """
    known = [as_message(message) for message in messages]
    last_user = max((index for index, message in enumerate(known) if message.role == "user"), default=-1)
    conversion = _Conversion(tools or {}, ignore_incomplete, convert_data, last_user)
    for index, message in enumerate(known):
        if message.role not in ROLES:
            raise MessageConversionError(
                f"messages[{index}].role: expected one of {', '.join(ROLES)}", path=(index, "role")
            )
        if message.role == "system":
            _system(conversion, message)
        elif message.role == "user":
            _user(conversion, message, index)
        else:
            _assistant(conversion, message, index)
    return conversion.out


def _system(conversion: _Conversion, message: UIMessage) -> None:
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    content = "".join(part.text for part in texts)
    options: JsonObject = {}
    for part in texts:
        options.update(thaw(part.provider_metadata or {}))
    if content:
        conversion.out.append(
            {"role": "system", "content": content, **({"providerOptions": options} if options else {})}
        )


def _user(conversion: _Conversion, message: UIMessage, index: int) -> None:
    content: list[JsonObject] = []
    for number, given in enumerate(message.parts):
        path: Path = (index, "parts", number)
        part = _data_converted(conversion, given, path)
        if isinstance(part, (TextPart, FilePart)):
            content.append(_content_item(part, path))
    conversion.emit("user", content)


def _assistant(conversion: _Conversion, message: UIMessage, index: int) -> None:
    said: list[JsonObject] = []
    results: list[JsonObject] = []

    def end_block() -> None:
        conversion.emit("assistant", said)
        conversion.emit("tool", results)
        said.clear()
        results.clear()

    for number, given in enumerate(message.parts):
        path: Path = (index, "parts", number)
        if isinstance(given, StepStartPart):
            end_block()
        elif isinstance(given, SteeringMessagePart) or given.type == STEERING_TYPE:
            end_block()
            conversion.emit("user", _steering(given, path))
        elif isinstance(given, ToolPart):
            if _is_kept(conversion, given, index):
                items = call_items(given, conversion.tools, path)
                said.extend(items.assistant)
                results.extend(items.tool)
        else:
            part = _data_converted(conversion, given, path)
            if isinstance(part, (TextPart, ReasoningPart, CustomPart, FilePart, ReasoningFilePart)):
                said.append(_content_item(part, path))
    end_block()


def _is_kept(conversion: _Conversion, part: ToolPart, index: int) -> bool:
    """Tell whether a call is said at all. A question that the user passed over by writing on is not."""
    if part.state == "approval-requested" and index < conversion.last_user:
        return False
    return is_settled(part) if conversion.ignore_incomplete else True


def _steering(part: Part, path: Path) -> list[JsonObject]:
    """Return what a person said between two steps."""
    if isinstance(part, SteeringMessagePart):
        return [_content_item(item, path) for item in part.parts if isinstance(item, (TextPart, FilePart))]
    data = part.data if isinstance(part, DataPart) else None
    text = data.get("text") if isinstance(data, dict) else None
    return [{"type": "text", "text": text}] if isinstance(text, str) and text else []


def _data_converted(conversion: _Conversion, part: Part, path: Path) -> Part | None:
    """Return a data part as the text or file part that the app makes of it; other parts as they are."""
    if not isinstance(part, DataPart):
        return part
    if conversion.convert_data is None or part.type == STEERING_TYPE:
        return None
    try:
        found = conversion.convert_data(part)
        made = None if found is None else validate_part(found)
    except MessageValidationError as error:
        raise MessageConversionError(f"convert_data returned no valid part: {error}"[:300], path=path) from None
    except Exception as error:
        raise MessageConversionError(f"convert_data failed with {type(error).__name__}", path=path) from error
    if made is not None and not isinstance(made, (TextPart, FilePart)):
        raise MessageConversionError("convert_data must return a text part, a file part or None", path=path)
    return made


def _content_item(part: TextPart | ReasoningPart | CustomPart | FilePart | ReasoningFilePart, path: Path) -> JsonObject:
    item: JsonObject = {"type": part.type}
    if isinstance(part, (TextPart, ReasoningPart)):
        item["text"] = part.text
    elif isinstance(part, CustomPart):
        item["kind"] = part.kind
    else:
        item["mediaType"] = part.media_type
        if isinstance(part, FilePart) and part.filename is not None:
            item["filename"] = part.filename
        item["data"] = _file_data(part, path)
    metadata: FrozenDict | None = part.provider_metadata
    if metadata is not None:
        item["providerOptions"] = thaw(metadata)
    return item


def _file_data(part: FilePart | ReasoningFilePart, path: Path) -> JsonObject:
    if isinstance(part, FilePart) and part.provider_reference is not None:
        return {"type": "reference", "reference": thaw(part.provider_reference)}
    if not _is_absolute(part.url):
        place = f"messages[{path[0]}].parts[{path[2]}].url"
        raise MessageConversionError(f"{place}: expected an absolute URL (https, http, data, ...)", path=path)
    return {"type": "url", "url": part.url}


def _is_absolute(url: str | None) -> bool:
    if url is None or not _SCHEME.match(url.strip()):
        return False
    scheme = url.strip().partition(":")[0].lower()
    if scheme not in _NEEDS_HOST:
        return True
    try:
        return bool(urlsplit(url.strip()).hostname)
    except ValueError:
        return False
