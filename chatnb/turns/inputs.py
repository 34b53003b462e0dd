"""Inputs: what a person, a cell or a hook asks of a chat, as the queue holds it."""

from __future__ import annotations

import base64
import contextvars
import mimetypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .. import _json
from .._ids import NewId
from .._json import JsonValue
from ..actions.images import draw_image
from ..errors import InputError, MessageTooLargeError
from ..messages import TextPart, UIMessage
from ..store.records import InputRow
from .limits import NOT_FINITE
from .records import Outcome, Waiting
from .submission import Submission

if TYPE_CHECKING:
    from .resumed import TakeUp

MAX_MESSAGE_BYTES = 16_000_000
SHORT = 80


@dataclass(eq=False)
class Input:
    """One input in the queue, with what lives only in this process.

    Attributes:
        row: What is stored.
        submissions: Whom to tell; several for merged sends.
        origin: The id of the widget that made it, or `"chat"`.
        context: The caller's context; its calls run in copies of it.
        client_data: As given, before parsing.
        live: What can't be stored: a `save_messages` function, the model object of a chat action.
        not_before: Monotonic time before which it must not start (debounce).
        superseded: Sends whose messages enter the history just before this one's.
        absorbed: Ids of the rows that were merged into this one.
        merged: The sends that it was merged from, itself as it was sent last; empty when it is one send.
        is_unanswered: Its message and those it superseded enter the history in its place, and no turn follows.
        take_up: Decides about the interrupted turn that this input stands for.
        arrived_at: When it was taken in, in this process.
        clears: It is the built-in `clear`: a later send does not overlap with it.
    """

    row: InputRow
    submissions: list[Submission]
    origin: str = "chat"
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    client_data: Any = None
    live: Any = None
    not_before: float | None = None
    superseded: list[Input] = field(default_factory=list)
    absorbed: tuple[str, ...] = ()
    merged: tuple[Input, ...] = ()
    is_unanswered: bool = False
    clears: bool = False
    stored: bool = True
    take_up: TakeUp | None = None
    arrived_at: datetime | None = None

    @property
    def kind(self) -> str:
        """The kind of its row."""
        return self.row.kind

    @property
    def message(self) -> UIMessage:
        """The user message of a send."""
        return UIMessage.from_wire(self.row.payload["message"])

    @property
    def other_rows(self) -> list[str]:
        """The ids of the rows whose messages go the way of this one's: superseded and merged sends."""
        return [*self.absorbed, *(id_ for i in self.superseded for id_ in (*i.absorbed, i.row.id))]

    def settle(self, outcome: Outcome) -> None:
        """Tell everybody who waits."""
        for submission in self.submissions:
            submission._settle(outcome)

    def to_waiting(self) -> Waiting:
        """Return the line of `chat.queue`."""
        return Waiting(id=self.row.id, kind=self.kind, text=_short(self), arrival=self.row.arrival)

    def merged_with(self, later: Input) -> Input:
        """Return one send for two: texts joined by a blank line, then other parts; id and metadata of the later."""
        first, second = self.message, later.message
        texts = [p.text for m in (first, second) for p in m.parts if isinstance(p, TextPart)]
        others = [p.to_wire() for m in (first, second) for p in m.parts if p.type != "text"]
        parts: list[JsonValue] = [{"type": "text", "text": "\n\n".join(texts)}] if texts else []
        message = second.to_wire() | {"parts": parts + others}
        return replace(
            later,
            row=replace(later.row, payload=later.row.payload | {"message": message}),
            submissions=self.submissions + later.submissions,
            absorbed=(*self.absorbed, self.row.id, *later.absorbed),
            superseded=self.superseded + later.superseded,
            merged=(*(self.merged or (self,)), later),
        )

    def in_line(self) -> list[Input]:
        """Return the sends that wait here, each a line of `chat.queue`: not those that were superseded."""
        shared = self._shared
        before = [one for one in self.superseded if any(s in shared for s in one.submissions)]
        return before if self.is_unanswered else [*before, self]

    @property
    def _shared(self) -> list[Submission]:
        """Who shares this input's outcome for a message that enters the history before its own."""
        return [s for one in self.superseded for s in one.submissions if s in self.submissions]

    def _alone(self) -> Input:
        """Return this send without those that enter the history before it."""
        shared = self._shared
        return replace(self, superseded=[], submissions=[s for s in self.submissions if s not in shared])

    def without(self, submission: Submission | None) -> tuple[list[Input], Input | None]:
        """Take one submission's send out of a waiting input; None takes out all that stands in its line.

        Returns:
            The sends that go, and the input that waits in its place, or None. A message that was superseded by what
            goes still enters the history, unanswered.
        """
        shared = self._shared
        for one in self.superseded:
            if submission is not None and submission in one.submissions and submission in shared:
                rest = [other for other in self.superseded if other is not one]
                others = [s for s in self.submissions if s not in one.submissions]
                return [one], replace(self, superseded=rest, submissions=others)
        kept = [one for one in self.merged if submission is not None and submission not in one._alone().submissions]
        if kept:
            left = reduce(Input.merged_with, (one._alone() for one in kept))
            gone = [one._alone() for one in self.merged if one not in kept]
            return gone, replace(left, superseded=self.superseded, submissions=[*shared, *left.submissions])
        if not self.superseded:
            return [self], None
        *before, last = self.superseded
        left = replace(last, superseded=before, submissions=shared or last.submissions, is_unanswered=not shared)
        return [self._alone()], left


def _short(input_: Input) -> str:
    payload = input_.row.payload or {}
    if input_.kind == "send":
        text = input_.message.text
    elif input_.kind == "action":
        text = str(payload.get("action", {}).get("type", ""))
    else:
        text = ""
    text = " ".join(text.split())
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def user_message(
    value: str | UIMessage | Mapping[str, Any] | Iterable[Any],
    *,
    files: Iterable[Any] = (),
    metadata: JsonValue = None,
    new_id: NewId,
) -> UIMessage:
    """Make the user message of a `send`.

    Args:
        value: Text, a message, its wire dict (the id may be left out), or a list of parts.
        files: What `file_part` takes.
        metadata: The message's metadata; replaces that of a given message.
        new_id: Makes the id where none is given.

    Raises:
        InputError: No text and no part, another role, or something that is no message.
        MessageTooLargeError: More than 16,000,000 bytes.
        MessageValidationError: A part that is not valid.
    """
    if isinstance(value, UIMessage):
        wire = value.to_wire()
    elif isinstance(value, str):
        wire = {"parts": [{"type": "text", "text": value}] if value.strip() else []}
    elif isinstance(value, Mapping):
        if "parts" not in value and "type" in value:
            raise InputError("send() takes text, a message or a list of parts; put a single part into a list")
        wire = dict(value)
    elif isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | Submission):
        wire = {"parts": [_as_wire(part) for part in value]}
    else:
        raise InputError(f"send() takes text, a message or a list of parts, not {type(value).__name__}")
    role = wire.get("role", "user")
    if role != "user":
        raise InputError(f"send() takes a message of the user, not of role {role!r}; use set_messages() for others")
    wire["role"] = "user"
    parts = wire.get("parts", ())
    if not isinstance(parts, Iterable) or isinstance(parts, str | bytes | Mapping):
        raise InputError(f"the parts of a message are a list, not {type(parts).__name__}")
    wire["parts"] = [_as_wire(p) for p in parts] + [file_part(f) for f in _listed(files)]
    if metadata is not None:
        wire["metadata"] = metadata
    if not wire["parts"]:
        raise InputError("nothing to send: the message has no text and no part")
    if all(p.get("type") == "text" and not str(p.get("text", "")).strip() for p in wire["parts"]):
        raise InputError("nothing to send: the text is empty")
    if not wire.get("id"):
        wire["id"] = new_id("msg")
    message = UIMessage.from_wire(wire)
    try:
        size = _json.size(message.to_wire())
    except ValueError as error:
        raise InputError(NOT_FINITE) from error
    if size > MAX_MESSAGE_BYTES:
        raise MessageTooLargeError(
            f"the message has {size:,} bytes, the limit is {MAX_MESSAGE_BYTES:,}; send a smaller file or a link"
        )
    return message


def _listed(files: Any) -> Iterable[Any]:
    if files is None:
        return ()
    if not isinstance(files, Iterable) or isinstance(files, str | bytes | Mapping):
        raise InputError("files is a list of paths, (name, bytes) pairs or file parts; put a single one into a list")
    return files


def _as_wire(part: Any) -> dict[str, Any]:
    if isinstance(part, Mapping):
        return dict(part)
    if hasattr(part, "to_wire"):
        wire: dict[str, Any] = part.to_wire()
        return wire
    raise InputError(
        f"a part is a wire dict or a part object, not {type(part).__name__}; text goes into send(text), and files and "
        "pictures into files=[...]"
    )


def file_part(file: Any) -> dict[str, Any]:
    """Return the file part of a file to send.

    Args:
        file: A path; an http(s) link, which is sent as a link; a `(name, bytes)` pair; a matplotlib figure or PIL
            image, which is sent as PNG; or a file part.

    Raises:
        InputError: It can't be read, or is none of these.
    """
    if isinstance(file, Mapping) or hasattr(file, "to_wire"):
        return _as_wire(file)
    if isinstance(file, str) and file.startswith(("https://", "http://")):
        return _linked(file)
    if isinstance(file, tuple) and len(file) == 2 and isinstance(file[1], bytes):
        name, data = str(file[0]), file[1]
    elif isinstance(file, str | Path):
        name = Path(file).name
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise InputError(f"the file {name!r} can't be read: {error.strerror or type(error).__name__}") from error
    else:
        name, data = "image.png", _drawn(file)
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    url = f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
    return {"type": "file", "mediaType": media_type, "filename": name, "url": url}


def _drawn(file: Any) -> bytes:
    try:
        data = draw_image(file)
    except ValueError as error:
        raise InputError(f"the {type(file).__name__} can't be sent: {error}") from error
    if data is None:
        raise InputError(
            "a file is a path, a link, a (name, bytes) pair, a figure, an image or a file part, "
            f"not {type(file).__name__}"
        )
    return data


def _linked(url: str) -> dict[str, Any]:
    name = Path(urlsplit(url).path).name
    media_type = mimetypes.guess_type(name)[0]
    if media_type is None:
        raise InputError(
            "a link in files ends in a file's name, such as .png or .pdf; else give a part: "
            '{"type": "file", "mediaType": "image/png", "url": ...}'
        )
    return {"type": "file", "mediaType": media_type, "filename": name, "url": url}
