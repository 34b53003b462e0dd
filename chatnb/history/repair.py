"""Transcript repair: every call of a history gets a result, so that the next request is valid (spec/recovery.md, 8).

Pure functions of messages and ledger rows. Nothing is ever deleted, and a second pass changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .._json import JsonValue
from ..errors import MessageError
from ..messages import (
    FrozenDict,
    Part,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
    freeze,
    is_tool_part,
    replace_parts,
    validate_part,
)
from .calls import is_settled

Known = Literal["none", "unknown"]
"""What the ledger knows of a call without a result: no row, or a start without an end."""

NOT_STARTED = "The call was interrupted before it started; nothing was done."
UNKNOWN = "The call was started but no result was recorded; whether it took effect is unknown. It was not run again."
IDEMPOTENT = " It is safe to call it again."
READ = "The call was interrupted. It changes nothing; it is safe to call it again."


class LedgerRow(Protocol):
    """What repair reads of a row of the calls ledger."""

    @property
    def message_id(self) -> str | None:
        """The message that the call is in."""

    @property
    def step(self) -> int | None:
        """The step of the message, from 1."""

    @property
    def tool_call_id(self) -> str | None:
        """The call's id."""

    @property
    def state(self) -> str:
        """`entered`, `done`, `failed` or `unknown`."""

    @property
    def output(self) -> JsonValue:
        """The recorded output."""

    @property
    def error(self) -> JsonValue:
        """The recorded failure: an object with `text`."""


@dataclass(frozen=True, slots=True)
class ActionFacts:
    """What repair has to know of an action: whether a call only reads, and whether it may be run twice."""

    is_read: bool = False
    is_idempotent: bool = False


@dataclass(frozen=True, kw_only=True)
class Records:
    """What is known about calls beyond the messages themselves.

    Attributes:
        rows: Ledger rows of the history's turns.
        used: Ids of approvals that were consumed: their call was entered.
        client_tools: Names of the tools that a page runs or a person answers.
        held: Ids of calls that stand behind an approval; they go on when it is decided.
        facts: Says what is known of a call by action name and input.
    """

    rows: Iterable[LedgerRow] = ()
    used: Collection[str] = ()
    client_tools: Collection[str] = ()
    held: Collection[str] = ()
    facts: Callable[[str, JsonValue], ActionFacts] = lambda name, input: ActionFacts()
    by_place: Mapping[tuple[str, int, str], LedgerRow] = field(init=False)

    def __post_init__(self) -> None:
        found = {(r.message_id or "", r.step or 1, r.tool_call_id or ""): r for r in self.rows}
        object.__setattr__(self, "by_place", found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A call without a result that nobody will give any more.

    Attributes:
        index: The part's place in the message.
        part: The part, with its input normalised.
        ledger: What the ledger knows.
        result: The terminal part that is put in its place by default.
        is_recorded: The result is the recorded one: it is no orphan after all.
    """

    index: int
    part: ToolPart
    ledger: Known
    result: ToolPart
    is_recorded: bool = False


def has_unfinished(messages: Iterable[UIMessage]) -> bool:
    """Tell whether any call is not in a terminal state, or has an input that is no object."""
    return any(
        not is_settled(part) or normalise_input(part) is not part
        for message in messages
        if message.role == "assistant"
        for part in message.parts
        if is_tool_part(part)
    )


def find_orphans(message: UIMessage, records: Records) -> list[Orphan]:
    """Return the calls of an assistant message that have to be settled, in order."""
    found: list[Orphan] = []
    step = 0
    for index, part in enumerate(message.parts):
        if isinstance(part, StepStartPart):
            step += 1
        elif is_tool_part(part) and part.tool_call_id and not is_settled(part):
            orphan = _orphan(message.id, index, max(step, 1), part, records)
            if orphan is not None:
                found.append(orphan)
    return found


def _orphan(message_id: str, index: int, step: int, part: ToolPart, records: Records) -> Orphan | None:
    row = records.by_place.get((message_id, step, part.tool_call_id))
    if row is None and _waits(part, records):
        return None
    whole = part.state != "input-streaming"
    normal = normalise_input(part)
    if row is not None and row.state in ("done", "failed"):
        result = with_result(normal, row)
        return Orphan(index=index, part=normal, ledger="none", result=result, is_recorded=True)
    facts = records.facts(part.tool_name, normal.input)
    known: Known = "none" if row is None else "unknown"
    if row is not None:
        text = UNKNOWN + (IDEMPOTENT if facts.is_idempotent else "")
    else:
        text = READ if facts.is_read and whole else NOT_STARTED
    return Orphan(index=index, part=normal, ledger=known, result=with_error(normal, text))


def _waits(part: ToolPart, records: Records) -> bool:
    """Tell whether a call waits for a person, or is decided and not yet run, or is held."""
    if part.state == "approval-requested":
        return True
    if part.state == "approval-responded":
        return part.approval is None or part.approval.id not in records.used
    if part.state == "input-available":
        return part.tool_name in records.client_tools or part.tool_call_id in records.held
    return False


def settle_orphan(message: UIMessage, orphan: Orphan, replacement: Part | None = None) -> UIMessage:
    """Return the message with one orphan settled, by default with its result."""
    parts = list(message.parts)
    parts[orphan.index] = orphan.result if replacement is None else replacement
    return replace_parts(message, tuple(parts))


def checked_replacement(orphan: Orphan, value: Any) -> Part | None:
    """Return what `on_tool_repair` gave as a part, or None when it can't be used.

    It may be a tool part with the same call id in a terminal state, or a text part.
    """
    if value is None:
        return None
    try:
        part = validate_part(value.to_wire() if hasattr(value, "to_wire") else value)
    except MessageError:
        return None
    if isinstance(part, TextPart):
        return part
    if is_tool_part(part) and part.tool_call_id == orphan.part.tool_call_id and is_settled(part):
        return normalise_input(part)
    return None


def repair(messages: Sequence[UIMessage], records: Records) -> list[UIMessage]:
    """Return a history in which every call has a valid input, and a result or somebody who will give one.

    Messages that need nothing are the same objects.
    """
    repaired: list[UIMessage] = []
    for given in messages:
        message = given
        if message.role == "assistant":
            for orphan in find_orphans(message, records):
                message = settle_orphan(message, orphan)
            message = normalise_message(message)
        repaired.append(message)
    return repaired


def normalise_message(message: UIMessage) -> UIMessage:
    """Return a message in which the input of every call is an object; the same one if it was so."""
    if message.role != "assistant":
        return message
    parts: list[Part] = []
    changed = False
    for part in message.parts:
        normal: Part = part
        if is_tool_part(part) and part.state != "input-streaming":
            normal = normalise_input(part)
        changed = changed or normal is not part
        parts.append(normal)
    return replace_parts(message, tuple(parts)) if changed else message


def normalise_input(part: ToolPart) -> ToolPart:
    """Return a call whose input is an object: as it is, parsed from a string, else empty."""
    given = part.input if part.has("input") else part.raw_input
    if isinstance(part.input, dict):
        return part
    value: JsonValue = {}
    if isinstance(given, str):
        try:
            value = json.loads(given)
        except ValueError:
            value = {}
    wire = {key: item for key, item in part.wire.items() if key != "rawInput"}
    return ToolPart(FrozenDict({**wire, "input": freeze(value if isinstance(value, dict) else {})}))


def with_error(part: ToolPart, text: str) -> ToolPart:
    """Return a call ended as an error; the input stays, and an approval that was given."""
    wire = _bare(part)
    return ToolPart(FrozenDict({**wire, "state": "output-error", "errorText": text}))


def with_result(part: ToolPart, row: LedgerRow) -> ToolPart:
    """Return a call with the result that the ledger has recorded."""
    if row.error is not None:
        text = row.error.get("text") if isinstance(row.error, dict) else None
        return with_error(part, str(text or "The call failed."))
    wire = _bare(part)
    return ToolPart(FrozenDict({**wire, "state": "output-available", "output": freeze(row.output)}))


def _bare(part: ToolPart) -> dict[str, JsonValue]:
    dropped = {"output", "errorText", "preliminary", "inputEncoding", "rawInput"}
    wire = {key: value for key, value in part.wire.items() if key not in dropped}
    if part.approval is not None and part.approval.approved is not True:
        wire.pop("approval", None)
    return wire
