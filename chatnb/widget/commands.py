"""What views ask for: checked, done once, answered (spec/widget.md, 3.2).

`CommandDesk.receive` runs on whichever thread the host delivers to. It only validates and hands over; all
else happens on the chat's runtime. The last 1,000 ids are kept with their answers, so a command that comes twice is
done once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from .._json import JsonValue
from .channel import error_ack
from .protocol import COMMAND, COMMAND_TYPES, BaseCommand, Command
from .redaction import locate

logger = logging.getLogger("chatnb.widget")

IDS_KEPT = 1_000
LARGEST = 8 * 1024 * 1024
"""Bytes of a command's JSON, or of its buffers together, at most."""
READS = frozenset({"hello", "bye", "loadEarlier", "loadPart", "getAsset", "getExtra", "complete", "preview", "export"})
"""Commands that change nothing: a repeated one is answered anew, since what was lost may be more than the ack."""
WHEN_CLOSED = frozenset({"hello", "bye", "takeOver", "loadEarlier", "loadPart", "getAsset", "getExtra"})

Fields = dict[str, JsonValue]
Answer = Callable[[Fields], None]


class Deeds(Protocol):
    """What commands do. On the runtime."""

    epoch: str

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the runtime."""

    def is_closed(self) -> bool:
        """Tell whether the chat takes nothing more."""

    def send_ack(self, view: str, id: str, fields: Fields) -> None:
        """Send an answer."""

    def do(self, command: Any, buffers: Sequence[bytes], answer: Answer) -> None:
        """Do a command; `answer` is called once, now or later, when it is written down."""


class CommandDesk:
    """Takes the commands of one widget.

    Args:
        deeds: What they do.
    """

    def __init__(self, deeds: Deeds) -> None:
        self._deeds = deeds
        self._answers: OrderedDict[str, Fields | None] = OrderedDict()
        self._logged: set[str] = set()
        self._left: OrderedDict[str, None] = OrderedDict()

    def receive(self, content: object, buffers: Sequence[Any] = ()) -> None:
        """Take a message as it came from the page. Never raises, never waits, from any thread."""
        if not isinstance(content, Mapping):
            self._log("", "a message of a view is no object")
            return
        view, id, kind = content.get("view"), content.get("id"), content.get("type")
        if not (isinstance(view, str) and isinstance(id, str) and 0 < len(view) <= 100 and 0 < len(id) <= 100):
            self._log("", "a command of a view has no view or id")
            return
        data = [bytes(buffer) for buffer in buffers or ()]
        if _length(content) > LARGEST or sum(map(len, data)) > LARGEST:
            self._refuse(view, id, error_ack("too_large", "This is too large: 8 MiB at most."))
            return
        if not isinstance(kind, str) or kind not in COMMAND_TYPES:
            self._refuse(view, id, error_ack("unknown_command", "This version of chatnb does not know the command."))
            return
        try:
            command = COMMAND.validate_python(content)
        except ValidationError as error:
            place = ".".join(str(step) for step in error.errors(include_input=False, include_url=False)[0]["loc"][1:])
            self._refuse(view, id, error_ack("invalid", f"The command {kind} is not valid.", place or None))
            return
        self._deeds.post(self._take, command, data)

    def _refuse(self, view: str, id: str, fields: Fields) -> None:
        self._log(id, f"refused a command: {fields['error']['code']}")
        self._deeds.post(self._take_refused, view, id, fields)

    def _log(self, id: str, text: str) -> None:
        if id not in self._logged:
            if len(self._logged) > IDS_KEPT:
                self._logged.clear()
            self._logged.add(id)
            logger.warning("%s", text)

    # --- on the runtime -----------------------------------------------------------------------------------------

    def _take_refused(self, view: str, id: str, fields: Fields) -> None:
        """Answer what is not done; one that has the id of another gets that one's answer."""
        if id not in self._answers:
            self._keep(id, fields)
        former = self._answers[id]
        if former is not None:
            self._deeds.send_ack(view, id, former)

    def _keep(self, id: str, fields: Fields | None) -> None:
        self._answers[id] = fields
        while len(self._answers) > IDS_KEPT:
            self._answers.popitem(last=False)

    def _take(self, command: Command, buffers: Sequence[bytes]) -> None:
        id, kind = command.id, command.type
        if kind != "hello" and command.epoch != self._deeds.epoch:
            text = "This page belongs to an earlier kernel or panel."
            self._take_refused(command.view, id, error_ack("stale_epoch", text))
            return
        if id in self._answers:
            former = self._answers[id]
            is_over = kind == "bye" or command.view in self._left  # what comes doubled neither ends nor revives a view
            if kind not in READS or is_over or former is None:
                if former is not None:
                    self._deeds.send_ack(command.view, id, former)
                return
        if self._deeds.is_closed() and kind not in WHEN_CLOSED:
            self._answer(command, error_ack("closed", "This chat takes no more input here."))
            return
        self._keep(id, None)
        if kind == "hello":
            self._left.pop(command.view, None)
        elif kind == "bye":
            self._left[command.view] = None
            while len(self._left) > IDS_KEPT:
                self._left.popitem(last=False)
        try:
            self._deeds.do(command, buffers, lambda fields: self._answer(command, fields))
        except Exception as error:  # noqa: BLE001 - whatever a command meets is the answer to it, never the kernel's
            self._answer(command, refusal(error))

    def _answer(self, command: BaseCommand, fields: Fields) -> None:
        self._answers[command.id] = fields
        self._deeds.send_ack(command.view, command.id, fields)


def _length(value: object) -> int:
    """Return about how long the JSON of a value is, and stop counting once it is too long."""
    total = 0
    stack = [value]
    while stack and total <= LARGEST:
        item = stack.pop()
        if isinstance(item, str):
            total += len(item.encode("utf-8", "replace")) + 2
        elif isinstance(item, Mapping):
            stack.extend(item.keys())
            stack.extend(item.values())
            total += 2
        elif isinstance(item, list | tuple):
            stack.extend(item)
            total += 2
        else:
            total += 8
    return total


_CODES = (
    ("LeaseLostError", "closed", "Another kernel has taken this chat over."),
    ("ChatInUseError", "closed", "Another kernel uses this chat."),
    ("ChatClosedError", "closed", "This chat is closed."),
    ("StoreError", "store", "The chat could not be saved, so nothing was done."),
    ("ApprovalExpiredError", "expired", "This request has expired."),
    ("InvalidArgumentsError", "invalid", None),
    ("MessageTooLargeError", "too_large", None),
    ("UnknownMessageError", "not_found", "The chat has no such message any more."),
    ("PendingError", "not_found", "Nothing waits for this decision any more."),
    ("ChatBusyError", "busy", "The chat is at work; try again when it is done."),
    ("InputError", "invalid", None),
    ("MessageError", "invalid", None),
)


def refusal(error: BaseException) -> Fields:
    """Return the answer that tells of an error, with a code of the closed list.

    The texts of chatnb's own errors hold no values; others are named by their type alone.
    """
    names = [cls.__name__ for cls in type(error).__mro__]
    for name, code, text in _CODES:
        if name in names:
            return error_ack(code, text or str(error) or name, field_of(getattr(error, "details", None)))
    if "ChatnbError" in names:
        return error_ack("failed", str(error) or names[0])
    logger.warning("a command failed: %s", locate(error))
    return error_ack("failed", f"This failed ({names[0]}).")


def field_of(details: JsonValue) -> str | None:
    """Return the argument that is not valid, where an error's details tell."""
    missing = details.get("missing") if isinstance(details, Mapping) else None
    if isinstance(missing, list) and missing:
        return str(missing[0])
    issues = details.get("issues") if isinstance(details, Mapping) else details
    if isinstance(issues, list) and issues and isinstance(issues[0], Mapping):
        place = issues[0].get("path", issues[0].get("loc"))
        if isinstance(place, list | tuple):
            return ".".join(str(step) for step in place) or None
        return str(place) if place else None
    return None
