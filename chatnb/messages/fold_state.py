"""The state of a fold: the message under construction, in slots that are made into parts only when asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from chatnb.errors import ChunkOrderError
from chatnb.messages.json_value import ABSENT, Absent, FrozenDict, JsonObject, JsonValue, freeze
from chatnb.messages.message import UIMessage
from chatnb.messages.partial_json import parse_partial_json
from chatnb.messages.parts import Part, ToolPart, wrap_part

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@dataclass(frozen=True, slots=True)
class FoldChange:
    """What one chunk changed in the message.

    Attributes:
        kind: `"text"`: `delta` was appended to `field` of part `index`. `"part"`: part `index` was set or appended as
            a whole. `"parts"`: several parts changed. `"message"`: the id or the metadata changed, or another message
            began.
        index: The part's index, or None.
        field: `"text"` or `"rawInput"`, with kind `"text"`.
        delta: What was appended, with kind `"text"`.
    """

    kind: Literal["text", "part", "parts", "message"]
    index: int | None = None
    field: Literal["text", "rawInput"] | None = None
    delta: str | None = None


MESSAGE_CHANGED: Final = FoldChange("message")
PARTS_CHANGED: Final = FoldChange("parts")


class Slot:
    """The place of one part: its wire form while it changes, and the part object while it does not.

    Attributes:
        index: The part's index.
        pieces: The text of an open block, or the buffer of a call's input, as it came; None when there is none.
        encoding: How the buffer of a call's input is read.
    """

    __slots__ = ("_part", "_stale", "_wire", "encoding", "index", "pieces")

    def __init__(self, index: int, wire: JsonObject | None = None, part: Part | None = None) -> None:
        self.index = index
        self.pieces: list[str] | None = None
        self.encoding: str | None = None
        self._wire: JsonObject = {} if wire is None else wire
        self._part = part
        self._stale = False

    @property
    def wire(self) -> JsonObject:
        """The wire form to read; a text or input that is being said may be behind."""
        return self._part.wire if self._part is not None else self._wire

    def edit(self) -> JsonObject:
        """Return the wire form to change, with the text so far in it."""
        self._settle()
        if self._part is not None:
            self._wire = dict(self._part.wire)
            self._part = None
        return self._wire

    def append(self, delta: str) -> None:
        """Append to the text or the buffer, at a cost that depends on the delta alone."""
        assert self.pieces is not None
        if self._part is not None:
            self._wire = dict(self._part.wire)
            self._part = None
        self.pieces.append(delta)
        self._stale = True

    def changed(self) -> FoldChange:
        """Return the change that says so of the whole part."""
        return FoldChange("part", self.index)

    def build(self) -> Part:
        """Return the part; the same object until something changes."""
        self._settle()
        if self._part is None:
            self._part = wrap_part(FrozenDict(self._wire))
        return self._part

    def _settle(self) -> None:
        """Bring the wire form up to date with the pieces."""
        if not self._stale or self.pieces is None:
            return
        self._stale = False
        text = _join(self.pieces)
        self.pieces = [text]
        if "toolCallId" not in self._wire:
            self._wire["text"] = text
            return
        self._wire["rawInput"] = text
        value = text if self.encoding == "text" else parse_partial_json(text)
        if value is ABSENT:
            self._wire.pop("input", None)
        else:
            self._wire["input"] = freeze(value)


def _join(pieces: list[str]) -> str:
    """Join texts. Halves of a surrogate pair that came in two deltas become the one character they are."""
    text = "".join(pieces)
    if text.isascii() or not _PAIR.search(text):
        return text
    return _PAIR.sub(lambda pair: pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)


class FoldState:
    """What the handlers of chunks read and change.

    Attributes:
        id: The message's id.
        metadata: Its metadata, or `ABSENT`.
        slots: One for each part.
        open_text: The open text blocks by id, in the order in which they were opened.
        open_reasoning: The open reasoning blocks by id.
        open_inputs: The calls whose input takes deltas, by call id.
        finish_reason: The last one that was said, or None.
        step_at: The index of the first part of the current step.
    """

    def __init__(self, message: UIMessage | None, id: str) -> None:
        self.id = id if message is None else message.id
        self.metadata: JsonValue | Absent = ABSENT
        self.slots: list[Slot] = []
        self.open_text: dict[str, Slot] = {}
        self.open_reasoning: dict[str, Slot] = {}
        self.open_inputs: dict[str, Slot] = {}
        self.finish_reason: str | None = None
        self.step_at = 0
        self._calls: tuple[int, int, dict[JsonValue, list[Slot]]] = (0, 0, {})
        if message is not None and message.role == "assistant":
            if message.has_metadata:
                self.metadata = message.metadata
            self.slots = [Slot(index, part=part) for index, part in enumerate(message.parts)]
            self.find_step()
            self._take_up_inputs()

    def _take_up_inputs(self) -> None:
        for slot in self.slots[self.step_at :]:
            part = slot.build()
            if isinstance(part, ToolPart) and part.state == "input-streaming":
                slot.pieces = [part.raw_input if isinstance(part.raw_input, str) else ""]
                slot.encoding = part.input_encoding
                self.open_inputs[part.tool_call_id] = slot

    def find_step(self) -> None:
        """Find where the current step begins: after the last step-start, or at the first part."""
        index = len(self.slots)
        while index and self.slots[index - 1].wire.get("type") != "step-start":
            index -= 1
        self.step_at = index

    def begin(self, id: str) -> None:
        """Begin another, empty message; what is open is forgotten."""
        self.id = id
        self.metadata = ABSENT
        self.slots = []
        self.step_at = 0
        self._calls = (0, 0, {})
        self.forget_open()

    def drop_step(self) -> None:
        """Take the parts of the current step away."""
        del self.slots[self.step_at :]
        self._calls = (0, 0, {})

    def forget_open(self) -> None:
        """Forget all open blocks and inputs; their parts stay as they are."""
        self.open_text.clear()
        self.open_reasoning.clear()
        self.open_inputs.clear()

    def add(self, wire: JsonObject) -> Slot:
        """Append a part."""
        slot = Slot(len(self.slots), wire)
        self.slots.append(slot)
        return slot

    def in_step(self, call_id: str, dynamic: bool | None = None) -> Slot | None:
        """Return the first call with this id in the current step, of one kind or (None) of either."""
        for slot in self._calls_of_step().get(call_id, ()):
            if dynamic in (None, slot.wire["type"] == "dynamic-tool"):
                return slot
        return None

    def _calls_of_step(self) -> dict[JsonValue, list[Slot]]:
        """Return the calls of the current step by id; what is known of them is kept, as a step may have thousands."""
        step_at, seen, calls = self._calls
        if step_at != self.step_at or seen > len(self.slots):
            step_at, seen, calls = self.step_at, self.step_at, {}
        for slot in self.slots[seen:]:
            if is_tool_type(slot.wire["type"]):
                calls.setdefault(slot.wire.get("toolCallId"), []).append(slot)
        self._calls = (step_at, len(self.slots), calls)
        return calls

    def lookup(self, call_id: str) -> Slot:
        """Return the call with this id: the first in the current step, else the last one before.

        Raises:
            ChunkOrderError: There is none.
        """
        found = self.in_step(call_id)
        if found is not None:
            return found
        for slot in reversed(self.slots[: self.step_at]):
            if slot.wire.get("toolCallId") == call_id and is_tool_type(slot.wire["type"]):
                return slot
        raise ChunkOrderError(
            "a chunk is for a tool call that the message does not have; send its tool-input-start or "
            "tool-input-available first",
            chunk_type="tool-invocation",
            chunk_id=call_id,
        )


def is_tool_type(kind: JsonValue) -> bool:
    """Tell whether a part type is a call's."""
    return isinstance(kind, str) and (kind == "dynamic-tool" or kind.startswith("tool-"))
