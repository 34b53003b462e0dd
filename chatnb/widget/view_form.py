"""The form in which messages go to a view: wire parts without what no view draws, with references for large values.

The head of `operations.py` says how it differs from the wire form. Forms are kept by identity of the part objects,
which do not change, so that a message of a long history is formed once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .._json import JsonValue, whole
from ..messages import UIMessage
from .assets import AssetShelf, Outsourcer
from .redaction import Credentials

CUT = 100_000
"""Bytes of a text above which a `reset` cuts it ("Show all" loads the rest)."""
_CUT_ESCAPED = 200_000
_HIDDEN = frozenset({"providerMetadata", "callProviderMetadata", "resultProviderMetadata", "inputEncoding"})

Form = dict[str, JsonValue]


class ViewForm:
    """Makes and keeps the forms of one widget.

    Args:
        shelf: Where large values go; None for a saved snapshot.
        credentials: What no text may hold (spec/widget.md, section 7).
    """

    def __init__(self, shelf: AssetShelf | None, credentials: Credentials | None = None) -> None:
        self._outsourcer = Outsourcer(shelf)
        self.credentials = credentials
        self._parts: dict[int, tuple[Any, Form]] = {}

    def message(self, message: UIMessage) -> Form:
        """Return a message in the view's form."""
        form = self.outline(message)
        form["parts"] = [self.part(part, message) for part in message.parts]
        return form

    def outline(self, message: UIMessage) -> Form:
        """Return a message in the view's form, without parts."""
        form: Form = {"id": message.id, "role": message.role, "parts": []}
        metadata = message.metadata
        if isinstance(metadata, Mapping) and "chatnb" in metadata:
            form["metadata"] = {"chatnb": self.value(metadata["chatnb"])}
        return form

    def part(self, part: Any, message: UIMessage) -> Form:
        """Return a part in the view's form. The dict is shared: copy it before changing it."""
        known = self._parts.get(id(part))
        if known is not None:
            return known[1]
        form = self._form(part.wire, message)
        if form["type"] not in ("text", "reasoning") and part.wire.get("state") != "input-streaming":
            self._parts[id(part)] = (part, form)
        return form

    def value(self, value: JsonValue, *, inline: int = 32 * 1024) -> JsonValue:
        """Return any JSON value with large ones replaced and credentials taken out."""
        return self._outsourcer.replace(self.clean(value), inline=inline)

    def script(self, source: str) -> JsonValue:
        """Return a reference to a script, which goes beside the frames."""
        return self._outsourcer.script(self.text(source))

    def text(self, text: str) -> str:
        """Return a text with credentials taken out, and in a form that can be sent."""
        return whole(text if self.credentials is None else self.credentials.redact(text))

    def prune(self, messages: tuple[UIMessage, ...], keep: int = 20_000) -> None:
        """Forget the forms of parts that no message has any more, once there are many."""
        if len(self._parts) > keep:
            living = {id(part) for message in messages for part in message.parts}
            self._parts = {key: entry for key, entry in self._parts.items() if key in living}

    def _form(self, wire: Mapping[str, JsonValue], message: UIMessage) -> Form:
        kind = str(wire.get("type"))
        if kind in ("text", "reasoning"):
            form: Form = {"type": kind, "text": self.text(str(wire["text"]))}
            if wire.get("citations"):
                form["citations"] = self.value(wire["citations"])
            return form
        form = {}
        streaming = wire.get("state") == "input-streaming"
        name = object_name(wire, message)
        for key, value in wire.items():
            if key in _HIDDEN or (streaming and key == "input"):
                continue
            if key == "approval" and isinstance(value, Mapping):
                value = {inner: item for inner, item in value.items() if inner != "signature"}
            if key == "rawInput" and isinstance(value, str):
                form[key] = self.text(value)
            else:
                form[key] = self._outsourcer.replace(self.clean(value), object_name=name)
        return form

    def clean(self, value: JsonValue) -> JsonValue:
        """Return any JSON value with credentials taken out."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(item) for item in value]
        return value


def object_name(wire: Mapping[str, JsonValue], message: UIMessage) -> str | None:
    """Return the entry of `chat.objects` that holds the content of a part, where the message tells."""
    data = wire.get("data")
    call_id = wire.get("toolCallId") or (data.get("toolCallId") if isinstance(data, Mapping) else None)
    last = None
    for part in message.parts:
        output = part.wire.get("output")
        if isinstance(output, Mapping) and isinstance(output.get("object"), str):
            last = str(output["object"])
            if part.wire.get("toolCallId") == call_id:
                return last
    return last if wire.get("type") == "file" else None


def text_field(form: Mapping[str, JsonValue]) -> str | None:
    """Return which field of a part grows by `text` ops, or None."""
    if form.get("type") in ("text", "reasoning"):
        return "text"
    return "rawInput" if isinstance(form.get("rawInput"), str) else None


def cut_part(form: Form, *, growing: bool) -> Form:
    """Return a part whose text is short enough for a `reset`; `cut` tells what it lacks.

    A text that is being written keeps its end, so that what is appended stands where it belongs.
    """
    field = text_field(form)
    if field is None or len(form[field]) * 12 <= CUT:
        return form
    text: str = form[field]
    kept = _fitting(text, growing)
    if kept >= len(text):
        return form
    if growing:
        return {**form, field: text[len(text) - kept :], "cut": {"before": len(text) - kept}}
    return {**form, field: text[:kept], "cut": {"after": len(text) - kept}}


def _fitting(text: str, from_end: bool) -> int:
    kept = min(len(text), CUT)
    while True:
        piece = text[len(text) - kept :] if from_end else text[:kept]
        plain, escaped = len(piece.encode("utf-8", "surrogatepass")), len(json.dumps(piece))
        if plain <= CUT and escaped <= _CUT_ESCAPED:
            return kept
        kept = int(kept * min(CUT / plain, _CUT_ESCAPED / escaped))
