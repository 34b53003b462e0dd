"""`@variable` mentions: finding them, completing them, and the text that is sent (spec/notebook.md, section 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chatnb._json import JsonValue
from chatnb.kernel.summaries import summarize
from chatnb.kernel.summaries_text import type_name
from chatnb.kernel.variables import ChatVariables
from chatnb.policies import Variables

MAX_COMPLETIONS = 20
MENTION_TYPE = "data-variable"

# At the start, or after white space or an opening bracket: an escaped one and addresses are none.
_MENTION = re.compile(r"(?:^|(?<=[\s(\[{<]))@([^\W\d]\w*)(?!@)")


def mentioned_names(text: str) -> list[str]:
    """Return the names that a text mentions, each once, in order. Whether they mean anything is asked elsewhere."""
    return list(dict.fromkeys(match[1] for match in _MENTION.finditer(text)))


def unavailable_part(name: str) -> dict[str, JsonValue]:
    """Return the data part for a variable whose summary could not be made in time."""
    return _made(name, "unknown", "The kernel was busy, so this variable could not be read in time.")


def mention_text(data: Mapping[str, Any]) -> str:
    """Return what the model gets of a `data-variable` part's data: exactly what the preview shows."""
    name, kind, summary = (str(data.get(key) or "") for key in ("name", "type", "summary"))
    head = f"[Notebook variable {name}: {kind}]"
    return f"{head}\n{summary}" if summary else head


def convert_mention(part: Any) -> dict[str, JsonValue] | None:
    """Make a text part of a `data-variable` part; None of any other. For `to_model_messages(convert_data=...)`."""
    if getattr(part, "type", None) != MENTION_TYPE or not isinstance(part.data, Mapping):
        return None
    return {"type": "text", "text": mention_text(part.data)}


class Mentions:
    """The mentions of one chat.

    Args:
        variables: The notebook's variables as the chat may see them.
    """

    def __init__(self, variables: ChatVariables) -> None:
        self._variables = variables
        self._known: list[tuple[str, str]] = []
        self.remember_names()
        variables.watch.call_after_cell(self.remember_names)

    def remember_names(self) -> None:
        """Note the names that there are, for completions while a cell runs."""
        self._known = [(name, type_name(value)) for name, value in self._variables.items().items()]

    def known(self, text: str) -> list[str]:
        """Return the names in a text that mean something. Any thread."""
        if self._variables.policy.share == "off" or "@" not in text:
            return []
        return [name for name in mentioned_names(text) if self._variables.has(name)]

    def part(self, name: str) -> dict[str, JsonValue] | None:
        """Return the data part for a name, or None if it means nothing. On the main thread."""
        if self._variables.policy.share == "off" or not self._variables.has(name):
            return None
        return _part(name, self._variables.find(name), self._variables.policy)

    def parts(self, text: str) -> list[dict[str, JsonValue]]:
        """Return the data parts of a text's mentions, in order. On the main thread."""
        found = (self.part(name) for name in self.known(text))
        return [part for part in found if part is not None]

    def preview(self, name: str) -> dict[str, JsonValue] | None:
        """Return `{text, tokens}`: exactly the text that is sent, with its estimate. On the main thread."""
        part = self.part(name)
        if part is None:
            return None
        text = mention_text(part["data"])
        return {"text": text, "tokens": -(-len(text) // 4)}

    def complete(self, prefix: str) -> dict[str, JsonValue]:
        """Return `{items: [{name, type}], stale}`: at most 20, by prefix first, then by substring. Any thread.

        While a cell runs, these are the names known after the last one.
        """
        variables = self._variables
        if variables.policy.share == "off":
            return {"items": [], "stale": False}
        stale = variables.watch.is_busy
        if not stale:
            self.remember_names()
        low = prefix.removeprefix("@").lower()
        found = [(name, kind) for name, kind in self._known if low in name.lower()]
        found.sort(key=lambda item: (not item[0].lower().startswith(low), item[0].lower(), item[0]))
        return {"items": [{"name": name, "type": kind} for name, kind in found[:MAX_COMPLETIONS]], "stale": stale}


def _part(name: str, value: object, policy: Variables) -> dict[str, JsonValue]:
    return _made(name, type_name(value), "" if policy.share == "names" else summarize(value))


def _made(name: str, kind: str, summary: str) -> dict[str, JsonValue]:
    return {"type": MENTION_TYPE, "data": {"name": name, "type": kind, "summary": summary}}
