"""What waits for a person, as a table; and how values become JSON at the border of a chat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from . import _json
from ._json import JsonValue
from .errors import InputError
from .turns import Pending

__all__ = ["PendingCalls", "as_json", "json_or_none"]


class PendingCalls(tuple[Pending, ...]):
    """The pending calls; a table in a notebook."""

    __slots__ = ()

    def __new__(cls, items: Iterable[Pending] = ()) -> Self:
        return super().__new__(cls, tuple(items))

    def __repr__(self) -> str:
        if not self:
            return "Nothing is pending."
        return "\n".join(f"{p.title} {_json.dumps(json_or_none(p.args))} ({p.kind}, {p.id})" for p in self)

    def _repr_html_(self) -> str:
        from html import escape

        if not self:
            return "<p>Nothing is pending.</p>"
        rows = "".join(
            f"<tr><td>{escape(p.kind)}</td><td>{escape(p.title)}</td>"
            f"<td><code>{escape(_json.dumps(json_or_none(p.args)))}</code></td><td><code>{escape(p.id)}</code></td></tr>"
            for p in self
        )
        return f"<table><tr><th>kind</th><th>action</th><th>arguments</th><th>id</th></tr>{rows}</table>"


def as_json(value: Any, what: str) -> JsonValue:
    """Return a value as JSON.

    Raises:
        InputError: It can't be; the text says what it is.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        made = to_jsonable_python(value)
        _json.dumps(made)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise InputError(f"{what} has to be JSON") from error
    return made


def json_or_none(value: Any) -> JsonValue:
    """Return a value as JSON, or None where it can't be."""
    if value is None:
        return None
    try:
        return as_json(value, "the value")
    except InputError:
        return None
