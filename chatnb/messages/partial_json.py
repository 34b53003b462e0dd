"""The tolerant parse of a tool input that is still being said (spec/messages.md, section 5)."""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn

from chatnb.messages.json_value import ABSENT, MAX_DEPTH, Absent, JsonValue

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*)')
_HALF_ESCAPE = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
_HIGH_SURROGATE = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}|[\ud800-\udbff])\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}


def parse_partial_json(text: str) -> JsonValue | Absent:
    """Return the value of the longest prefix that can be closed, or `ABSENT`.

    Never recurses and never raises for bad text. Takes time in proportion to the text.
    """
    try:
        value = load_json(text)
    except ValueError:
        closed = _close(text)
        if closed is None:
            return ABSENT
        try:
            value = load_json(closed)
        except ValueError:
            return ABSENT
    return ABSENT if has_forbidden_key(value) or is_too_deep(value) else value


def load_json(text: str) -> JsonValue:
    """Return the value of a whole JSON text.

    Raises:
        ValueError: It is no JSON, holds a number that is not finite, or is nested too deep.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError("not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("not a finite number")
    return number


def has_forbidden_key(value: JsonValue) -> bool:
    """Tell whether an object in the value has `__proto__`, or `constructor` holding an object with `prototype`.

    Pages in a browser would let such keys change every object. It walks without recursing.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "__proto__" in item:
                return True
            constructor = item.get("constructor")
            if isinstance(constructor, dict) and "prototype" in constructor:
                return True
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return False


def is_too_deep(value: JsonValue) -> bool:
    """Tell whether a value is nested deeper than a message may hold. It walks without recursing."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [item for item in level if isinstance(item, (dict, list))]
        if not level:
            return False
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return True


def _close(text: str) -> str | None:
    """Return the longest prefix that can be closed, with its end, or None when nothing can be kept."""
    scan = _Scan(text)
    scan.run()
    if scan.forbidden or not scan.kept:
        return None
    return text[: scan.kept] + scan.tail + "".join(reversed(scan.closers))


class _Scan:
    """One pass over a JSON text that breaks off.

    Attributes:
        kept: The length of the prefix that is kept so far.
        tail: What completes the last value of the prefix.
        closers: The brackets that are open.
        forbidden: Whether a forbidden key was seen.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.kept = 0
        self.tail = ""
        self.closers: list[str] = []
        self.forbidden = False
        self._keys: list[str | None] = [None]

    def run(self) -> None:
        """Scan until the text ends or goes wrong."""
        text, wants, at = self.text, "value", 0
        while True:
            space = _SPACE.match(text, at)
            at = space.end() if space else at
            if len(self.closers) > MAX_DEPTH:
                self.kept = 0
                return
            if at >= len(text):
                return
            char = text[at]
            if wants == "comma":
                if char == ",":
                    wants, at = ("key" if self.closers[-1] == "}" else "value"), at + 1
                    continue
                moved = self._closed(char, at)
            elif wants == "colon":
                if char != ":":
                    return
                wants, at = "value", at + 1
                continue
            elif char in "}]" and wants == ("first key" if char == "}" else "first item"):
                moved = self._closed(char, at)
            elif wants in ("key", "first key"):
                end = self._key(at)
                if end is None:
                    return
                wants, at = "colon", end
                continue
            elif char in "{[":
                at = self._opened(char, at)
                wants = "first key" if char == "{" else "first item"
                continue
            else:
                moved = self._scalar(char, at)
            if moved is None:
                return
            at = moved
            if not self.closers:
                return
            wants = "comma"

    def _opened(self, char: str, at: int) -> int:
        self.closers.append("}" if char == "{" else "]")
        self._keys.append(None)
        self.kept = at + 1
        return at + 1

    def _closed(self, char: str, at: int) -> int | None:
        if self.closers[-1] != char:
            return None
        self.closers.pop()
        self._keys.pop()
        self.kept = at + 1
        return at + 1

    def _key(self, at: int) -> int | None:
        """Read a whole key. It is kept only together with its value."""
        found = _STRING.match(self.text, at)
        if found is None or self.text[found.end() : found.end() + 1] != '"':
            return None
        key = json.loads(found.group() + '"') if "\\" in found.group() else found.group(1)
        # The parent's key is the one before, unless a list stands between.
        parent = self._keys[-2] if len(self._keys) > 1 else None
        if key == "__proto__" or (key == "prototype" and parent == "constructor"):
            self.forbidden = True
            return None
        self._keys[-1] = key
        return found.end() + 1

    def _scalar(self, char: str, at: int) -> int | None:
        """Read a string, number or literal; return where it ends, or None when it, or the text, breaks off there."""
        if char == '"':
            return self._string(at)
        if char in _LITERALS:
            return self._literal(_LITERALS[char], at)
        number = _NUMBER.match(self.text, at)
        if number is None:
            return None
        self.kept = number.end()
        return number.end()

    def _string(self, at: int) -> int | None:
        found = _STRING.match(self.text, at)
        if found is None:
            return None
        end = found.end()
        if self.text[end : end + 1] == '"':
            self.kept = end + 1
            return end + 1
        if _HALF_ESCAPE.match(self.text, end) is None:
            return None
        self.kept = self._before_surrogate(at, end)
        self.tail = '"'
        return None

    def _before_surrogate(self, at: int, end: int) -> int:
        """Return the end of an open string without a high surrogate that waits for its partner."""
        found = _HIGH_SURROGATE.search(self.text, max(at, end - 6), end)
        if found is None:
            return end
        slashes = found.start()
        while self.text[slashes - 1] == "\\":
            slashes -= 1
        return end if (found.start() - slashes) % 2 else found.start()

    def _literal(self, literal: str, at: int) -> int | None:
        rest = self.text[at : at + len(literal)]
        if rest == literal:
            self.kept = at + len(literal)
            return self.kept
        if literal.startswith(rest):
            self.kept = len(self.text)
            self.tail = literal[len(rest) :]
        return None
