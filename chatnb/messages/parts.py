"""The parts of a message: one frozen class for each family of wire types.

A part wraps its wire form. Attributes are the wire keys in snake_case; a key that was not set reads `None`. Parts are
equal when their wire forms are.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self, TypeAlias, TypeGuard, TypeVar, overload

from chatnb.messages.json_value import FrozenDict, FrozenList, JsonObject, JsonValue, freeze, hash_json, same_json, thaw

T_co = TypeVar("T_co", covariant=True)

BlockState: TypeAlias = Literal["streaming", "done"]
ToolState: TypeAlias = Literal[
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
]


class Key(Generic[T_co]):
    """Reads one key of the wire form; an unset key reads None."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: WireObject, owner: type) -> T_co: ...
    def __get__(self, instance: WireObject | None, owner: type) -> Self | T_co:
        if instance is None:
            return self
        value: T_co = instance.wire.get(self.name)  # type: ignore[assignment]
        return value

    def __set__(self, instance: WireObject, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to {self.name!r}: messages and parts are frozen")


class WireObject:
    """A frozen view of one JSON object.

    Attributes:
        wire: The read-only wire form.
    """

    __slots__ = ("_hash", "wire")
    wire: FrozenDict
    _hash: int | None

    def __init__(self, wire: JsonObject) -> None:
        object.__setattr__(self, "wire", freeze(wire))
        object.__setattr__(self, "_hash", None)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to {name!r}: messages and parts are frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete {name!r}: messages and parts are frozen")

    if not TYPE_CHECKING:  # a checker knows each class's own keys

        def __getattr__(self, name: str) -> None:
            """Read a key that only parts of other types have: it was not set, so it reads None."""
            if name in _ATTRIBUTES:
                return
            raise AttributeError(f"a part has no attribute {name!r}")

    def to_wire(self) -> JsonObject:
        """Return the wire form as a fresh plain dict."""
        return dict(thaw(self.wire))

    def has(self, key: str) -> bool:
        """Tell whether the wire key is set, null included."""
        return key in self.wire

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WireObject):
            return NotImplemented
        return same_json(self.wire, other.wire)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash_json(self.wire))
        return self._hash or 0

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.to_wire(),)

    def __repr__(self) -> str:
        keys = ", ".join(f"{key}={value!r}" for key, value in self.wire.items())
        return f"{type(self).__name__}({keys})"


class TextPart(WireObject):
    """Text."""

    __slots__ = ()
    type = Key[Literal["text"]]("type")
    text = Key[str]("text")
    state = Key[BlockState | None]("state")
    citations = Key[FrozenList | None]("citations")
    provider_metadata = Key[FrozenDict | None]("providerMetadata")


class ReasoningPart(WireObject):
    """What the model thought."""

    __slots__ = ()
    type = Key[Literal["reasoning"]]("type")
    text = Key[str]("text")
    id = Key[str | None]("id")
    state = Key[BlockState | None]("state")
    provider_metadata = Key[FrozenDict | None]("providerMetadata")


class FilePart(WireObject):
    """A file, by URL or by a provider's reference."""

    __slots__ = ()
    type = Key[Literal["file"]]("type")
    media_type = Key[str]("mediaType")
    url = Key[str]("url")
    filename = Key[str | None]("filename")
    provider_reference = Key[FrozenDict | None]("providerReference")
    provider_metadata = Key[FrozenDict | None]("providerMetadata")


class ReasoningFilePart(WireObject):
    """A file that belongs to the model's thinking."""

    __slots__ = ()
    type = Key[Literal["reasoning-file"]]("type")
    media_type = Key[str]("mediaType")
    url = Key[str]("url")
    provider_metadata = Key[FrozenDict | None]("providerMetadata")


class SourceUrlPart(WireObject):
    """A web source."""

    __slots__ = ()
    type = Key[Literal["source-url"]]("type")
    source_id = Key[str]("sourceId")
    url = Key[str]("url")
    title = Key[str | None]("title")
    provider_metadata = Key[FrozenDict | None]("providerMetadata")


class SourceDocumentPart(WireObject):
    """A document as source."""

    __slots__ = ()
    type = Key[Literal["source-document"]]("type")
    source_id = Key[str]("sourceId")
    media_type = Key[str]("mediaType")
    title = Key[str]("title")
    filename = Key[str | None]("filename")
    provider_metadata = Key[FrozenDict | None]("providerMetadata")


class CustomPart(WireObject):
    """A provider's own kind of content."""

    __slots__ = ()
    type = Key[Literal["custom"]]("type")
    kind = Key[str]("kind")
    provider_metadata = Key[FrozenDict | None]("providerMetadata")


class StepStartPart(WireObject):
    """The border before a step."""

    __slots__ = ()
    type = Key[Literal["step-start"]]("type")


class SteeringMessagePart(WireObject):
    """What a person said between two steps, as other toolkits record it."""

    __slots__ = ()
    type = Key[Literal["steering-message"]]("type")
    id = Key[str]("id")

    @property
    def parts(self) -> tuple[Part, ...]:
        """The text and file parts of it."""
        return tuple(wrap_part(part) for part in self.wire.get("parts") or ())


class DataPart(WireObject):
    """An app's own data, type `data-NAME`."""

    __slots__ = ()
    type = Key[str]("type")
    data = Key[JsonValue]("data")
    id = Key[str | None]("id")

    @property
    def name(self) -> str:
        """What follows `data-` in the type."""
        return self.type[len("data-") :]


class Approval(WireObject):
    """A person's decision on a call, or the question."""

    __slots__ = ()
    id = Key[str]("id")
    approved = Key[bool | None]("approved")
    reason = Key[str | None]("reason")
    request_reason = Key[str | None]("requestReason")
    descriptor = Key[JsonValue]("descriptor")
    is_automatic = Key[bool | None]("isAutomatic")
    signature = Key[str | None]("signature")
    input_schema_input = Key[JsonValue]("inputSchemaInput")


class ToolPart(WireObject):
    """A call of an action, static (`tool-NAME`) or dynamic (`dynamic-tool`)."""

    __slots__ = ()
    type = Key[str]("type")
    tool_call_id = Key[str]("toolCallId")
    state = Key[ToolState]("state")
    input = Key[JsonValue]("input")
    output = Key[JsonValue]("output")
    error_text = Key[str | None]("errorText")
    raw_input = Key[JsonValue]("rawInput")
    input_encoding = Key[Literal["json", "text"] | None]("inputEncoding")
    title = Key[str | None]("title")
    tool_metadata = Key[FrozenDict | None]("toolMetadata")
    provider_executed = Key[bool | None]("providerExecuted")
    preliminary = Key[bool | None]("preliminary")
    dynamic = Key[bool | None]("dynamic")
    call_provider_metadata = Key[FrozenDict | None]("callProviderMetadata")
    result_provider_metadata = Key[FrozenDict | None]("resultProviderMetadata")

    @property
    def is_dynamic(self) -> bool:
        """Whether the part is a `dynamic-tool`."""
        return self.type == "dynamic-tool"

    @property
    def tool_name(self) -> str:
        """The action's name; of a static part, all that follows the first `tool-`."""
        return str(self.wire.get("toolName", "")) if self.is_dynamic else self.type[len("tool-") :]

    @property
    def approval(self) -> Approval | None:
        """The approval, or None."""
        approval = self.wire.get("approval")
        return Approval(approval) if isinstance(approval, dict) else None


class UnknownPart(WireObject):
    """A part of a type that this version does not know. Validation refuses it; only unchecked values hold one."""

    __slots__ = ()
    type = Key[str]("type")


Part: TypeAlias = (
    TextPart
    | ReasoningPart
    | FilePart
    | ReasoningFilePart
    | SourceUrlPart
    | SourceDocumentPart
    | CustomPart
    | StepStartPart
    | SteeringMessagePart
    | DataPart
    | ToolPart
    | UnknownPart
)

_CLASSES: dict[str, type[Part]] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "file": FilePart,
    "reasoning-file": ReasoningFilePart,
    "source-url": SourceUrlPart,
    "source-document": SourceDocumentPart,
    "custom": CustomPart,
    "step-start": StepStartPart,
    "steering-message": SteeringMessagePart,
    "dynamic-tool": ToolPart,
}

_ATTRIBUTES = frozenset(
    name for kind in _CLASSES.values() for name in vars(kind) if not name.startswith("_") and name != "is_dynamic"
) | {"data"}
"""What any part may be asked for. A loop over all parts of a message need not ask for the type first."""


def wrap_part(wire: JsonObject) -> Part:
    """Return the part object of a wire form that needs no validation."""
    kind = wire.get("type")
    if not isinstance(kind, str):
        return UnknownPart(wire)
    found = _CLASSES.get(kind)
    if found is not None:
        return found(wire)
    if kind.startswith("data-"):
        return DataPart(wire)
    return ToolPart(wire) if kind.startswith("tool-") else UnknownPart(wire)


def is_tool_part(part: Part) -> TypeGuard[ToolPart]:
    """Tell whether a part is a call, static or dynamic."""
    return isinstance(part, ToolPart)
