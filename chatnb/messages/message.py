"""A message: id, role, parts and metadata, frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError
from typing import Any, Final, Literal, NoReturn, Self, TypeAlias, cast

from chatnb.messages.json_value import (
    ABSENT,
    Absent,
    JsonObject,
    JsonValue,
    freeze,
    hash_json,
    same_json,
    thaw,
)
from chatnb.messages.part_schema import ROLES, clean_message, clean_part
from chatnb.messages.parts import Part, TextPart, WireObject, wrap_part
from chatnb.messages.refusal import Path, Refused, refuse

Role: TypeAlias = Literal["system", "user", "assistant"]


class UIMessage:
    """A message of a conversation in the AI SDK UI protocol (spec/messages.md, section 2).

    Two messages are equal when their wire forms are. A message never changes; `with_part`, `replace_parts` and
    `with_metadata` make new ones that share the untouched parts.

    Attributes:
        id: The message's id.
        role: `"system"`, `"user"` or `"assistant"`.
        parts: The parts, in order.
        metadata: Any JSON value; None also when there is none (`has_metadata` tells).
    """

    __slots__ = ("_hash", "_metadata", "id", "parts", "role")
    id: Final[str]  # type: ignore[misc]
    role: Final[Role]  # type: ignore[misc]
    parts: Final[tuple[Part, ...]]  # type: ignore[misc]
    _metadata: JsonValue | Absent
    _hash: int | None

    def __init__(
        self,
        *,
        id: str,
        role: Role,
        parts: Iterable[Part | Mapping[str, Any]] = (),
        metadata: JsonValue | Absent = ABSENT,
    ) -> None:
        """Make a message.

        Args:
            id: The id.
            role: The role.
            parts: Part objects, taken as they are, or wire dicts, which are validated.
            metadata: Any JSON value; left out, the message has none.

        Raises:
            MessageValidationError: The id, role, metadata or a part's wire dict is not valid.
        """
        if not isinstance(id, str):
            refuse("message", ("id",), "a string", id)
        if role not in ROLES:
            refuse("message", ("role",), f"one of {', '.join(ROLES)}", role)
        try:
            known = tuple(_to_part(part, ("parts", index)) for index, part in enumerate(parts))
            kept = ABSENT if metadata is ABSENT else freeze(metadata, ("metadata",), finite=True)
        except Refused as refusal:
            raise refusal.to_error("message") from None
        self._fill(id, role, known, kept)

    def _fill(self, id: str, role: str, parts: tuple[Part, ...], metadata: JsonValue | Absent) -> None:
        put = object.__setattr__
        put(self, "id", id)
        put(self, "role", role)
        put(self, "parts", parts)
        put(self, "_metadata", metadata)
        put(self, "_hash", None)

    @classmethod
    def make(cls, id: str, role: str, parts: tuple[Part, ...], metadata: JsonValue | Absent) -> Self:
        """Return a message of values that are known to be good; nothing is checked."""
        message = cls.__new__(cls)
        message._fill(id, role, parts, metadata)
        return message

    @classmethod
    def from_wire(cls, value: Mapping[str, Any] | UIMessage) -> Self:
        """Return the message of a wire dict (or of a message, checked again); unknown keys are stripped.

        Raises:
            MessageValidationError: The value breaks section 2 or 3 of spec/messages.md.
        """
        try:
            return cls.from_clean(clean_message(value.to_wire() if isinstance(value, UIMessage) else value, ()))
        except Refused as refusal:
            raise refusal.to_error("message") from None

    @classmethod
    def from_clean(cls, wire: JsonObject) -> Self:
        """Return the message of a wire form that has been cleaned."""
        parts = tuple(wrap_part(part) for part in wire["parts"])
        return cls.make(wire["id"], wire["role"], parts, wire.get("metadata", ABSENT))

    @property
    def metadata(self) -> JsonValue:
        """The metadata; None when there is none."""
        return None if self._metadata is ABSENT else self._metadata

    @property
    def has_metadata(self) -> bool:
        """Whether metadata is set, null included."""
        return self._metadata is not ABSENT

    @property
    def text(self) -> str:
        """The texts of the text parts, joined by a blank line."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    def to_wire(self) -> JsonObject:
        """Return the wire form as a fresh plain dict."""
        wire: JsonObject = {"id": self.id, "role": self.role}
        if self._metadata is not ABSENT:
            wire["metadata"] = thaw(self._metadata)
        wire["parts"] = [part.to_wire() for part in self.parts]
        return wire

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UIMessage):
            return NotImplemented
        return (
            self.id == other.id
            and self.role == other.role
            and self.has_metadata == other.has_metadata
            and same_json(self.metadata, other.metadata)
            and self.parts == other.parts
        )

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.id, self.role, self.parts, hash_json(self.metadata))))
        return self._hash or 0

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to {name!r}: messages and parts are frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete {name!r}: messages and parts are frozen")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.id, self.role, self.parts, self._metadata)

    def __repr__(self) -> str:
        metadata = f", metadata={self._metadata!r}" if self.has_metadata else ""
        return f"UIMessage(id={self.id!r}, role={self.role!r}{metadata}, parts={self.parts!r})"


def _unpickle(id: str, role: str, parts: tuple[Part, ...], metadata: JsonValue | Absent) -> UIMessage:
    return UIMessage.make(id, role, parts, metadata)


def _to_part(value: Part | Mapping[str, Any], path: Path) -> Part:
    if isinstance(value, WireObject):
        return value
    return wrap_part(clean_part(value, path))


def as_message(value: UIMessage | Mapping[str, Any]) -> UIMessage:
    """Return a message object as it is, or the message of a wire dict without the rules of section 3.

    A fold can end in messages that validation refuses; what works on its result must take them, as object and as dict.

    Raises:
        MessageValidationError: The value has not even the outline of a message.
    """
    if isinstance(value, UIMessage):
        return value
    if not isinstance(value, dict):
        refuse("message", (), "a message", value)
    wire = cast("JsonObject", value)
    for key in ("id", "role"):
        if not isinstance(wire.get(key), str):
            refuse("message", (key,), "a string", wire.get(key))
    parts = wire.get("parts")
    if not isinstance(parts, (list, tuple)):
        refuse("message", ("parts",), "a list", parts)
    try:
        return UIMessage.make(
            wire["id"],
            wire["role"],
            tuple(_outline_part(part, ("parts", index)) for index, part in enumerate(parts)),
            freeze(wire["metadata"], ("metadata",)) if "metadata" in wire else ABSENT,
        )
    except Refused as refusal:
        raise refusal.to_error("message") from None


def _outline_part(value: object, path: Path) -> Part:
    if isinstance(value, WireObject):
        return cast("Part", value)
    if not isinstance(value, dict):
        raise Refused(path, "an object", value)
    return wrap_part({str(key): freeze(item, (*path, str(key))) for key, item in value.items()})


def with_part(message: UIMessage, index: int, part: Part | Mapping[str, Any]) -> UIMessage:
    """Return the message with one part replaced; the others are the same objects.

    Raises:
        IndexError: The message has no part with this index.
        MessageValidationError: The part's wire dict is not valid.
    """
    parts = list(message.parts)
    parts[index] = validate_part(part, ("parts", index)) if isinstance(part, dict) else cast("Part", part)
    return replace_parts(message, parts)


def replace_parts(message: UIMessage, parts: Iterable[Part | Mapping[str, Any]]) -> UIMessage:
    """Return the message with other parts.

    Raises:
        MessageValidationError: A part's wire dict is not valid.
    """
    known = tuple(
        validate_part(part, ("parts", index)) if isinstance(part, dict) else cast("Part", part)
        for index, part in enumerate(parts)
    )
    return UIMessage.make(message.id, message.role, known, message._metadata)


def with_metadata(message: UIMessage, metadata: JsonValue | Absent) -> UIMessage:
    """Return the message with other metadata, or with none for `ABSENT`; the parts are the same objects."""
    return UIMessage(id=message.id, role=message.role, parts=message.parts, metadata=metadata)


def validate_part(value: Part | Mapping[str, Any], path: Path = ()) -> Part:
    """Return the part of a wire dict (or of a part object, checked again); unknown keys are stripped.

    Args:
        value: The part.
        path: Where it stands, for the error.

    Raises:
        MessageValidationError: The part breaks section 2 of spec/messages.md.
    """
    wire = value.wire if isinstance(value, WireObject) else value
    try:
        return wrap_part(clean_part(wire, path))
    except Refused as refusal:
        raise refusal.to_error("part" if not path else "message") from None
