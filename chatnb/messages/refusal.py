"""How a bad value is reported: the place, what was expected, the kind of what was found, and never the value itself."""

from __future__ import annotations

import re
from typing import NoReturn

from chatnb.errors import MessageValidationError

Path = tuple[str | int, ...]
"""Keys and indexes that lead to an element."""

MAX_TEXT = 300
"""The longest text of an error, in characters."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}\Z")
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    ((int, float), "a number"),
    (str, "a string"),
    ((list, tuple), "a list"),
    (dict, "an object"),
)


class Nothing:
    """Stands for a missing key in a refusal."""


NOTHING = Nothing()


class Refused(Exception):  # noqa: N818 - it is caught in this folder and says what happened to a value
    """A value breaks a schema. It stays inside this folder; callers get a `MessageValidationError`.

    Attributes:
        path: Keys and indexes that lead to the bad element.
        expected: What should stand there.
        found: The kind of what stands there.
    """

    def __init__(self, path: Path, expected: str, value: object) -> None:
        super().__init__(expected)
        self.path = path
        self.expected = expected
        self.found = kind_of(value)

    def to_error(self, root: str) -> MessageValidationError:
        """Return the public error; `root` is the name of the whole value, like `messages`."""
        text = f": expected {self.expected}, found {self.found}"
        return MessageValidationError(_place(root, self.path, MAX_TEXT - len(text)) + text, path=self.path)


def refuse(root: str, path: Path, expected: str, value: object) -> NoReturn:
    """Raise the public error for a value that is refused outside a schema."""
    raise Refused(path, expected, value).to_error(root)


def kind_of(value: object) -> str:
    """Name the kind of a value without quoting it."""
    if value is NOTHING:
        return "nothing"
    if value is None:
        return "null"
    for kinds, name in _KINDS:
        if isinstance(value, kinds):
            return name
    return f"a Python {type(value).__name__[:40]}"


def _place(root: str, path: Path, limit: int) -> str:
    steps = [root]
    for step in path:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        else:
            steps.append(f".{step}" if _PLAIN_KEY.match(step) else f"[{step[:40]!r}]")
    text = "".join(steps)
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
