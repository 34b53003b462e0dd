"""Texts of any object: cut, without addresses, never raising (spec/notebook.md, section 4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from chatnb.kernel.summaries_time import within

LIMIT = 2000
"""Characters of a summary."""

REPR_SECONDS = 1.0

_ADDRESS = re.compile(r"\s+at 0x[0-9A-Fa-f]+")


def type_name(value: object) -> str:
    """Return the name of an object's type."""
    return type(value).__name__


def module_root(value: object) -> str:
    """Return the package that an object's type comes from."""
    return type(value).__module__.partition(".")[0]


def is_a(value: object, package: str, *names: str) -> bool:
    """Tell whether a type of that package with one of these names is among an object's classes.

    Nothing is imported: who has such an object has loaded its library.
    """
    return any(kind.__name__ in names and kind.__module__.partition(".")[0] == package for kind in type(value).__mro__)


def cut(text: str, limit: int = LIMIT) -> str:
    """Return a text of at most `limit` characters; what is left out is counted."""
    if len(text) <= limit:
        return text
    note = f"… ({len(text)} characters)"
    return text[: max(0, limit - len(note))] + note if limit > 2 * len(note) else text[: limit - 1] + "…"


def without_addresses(text: str) -> str:
    """Return a text without memory addresses: equal data has equal texts."""
    return _ADDRESS.sub("", text)


def guarded(function: Callable[[], Any]) -> Any:
    """Return what the user's code returns, or None if it raises or takes over 1 s."""
    try:
        return within(REPR_SECONDS, function)
    except KeyboardInterrupt:
        raise  # the user's, or the end of the call: it is not the object's failure
    except BaseException:  # noqa: BLE001 - also SystemExit: an object's text never ends a call
        return None


def real_method(value: object, name: str) -> Callable[..., Any] | None:
    """Return an object's display method, unless it is a class or answers to every name."""
    if isinstance(value, type):
        return None
    try:
        if getattr(value, "_chatnb_canary_method_that_should_not_exist_", None) is not None:
            return None
        method = getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a foreign `__getattr__`
        return None
    return method if callable(method) else None


def repr_text(value: object, limit: int = LIMIT) -> str | None:
    """Return an object's `repr`, cut and without addresses; None if it can't be had."""
    if isinstance(value, bytes | bytearray) and len(value) > limit:
        return cut(f"{bytes(value[:limit])!r}… ({len(value)} bytes)", limit)
    text = guarded(lambda: repr(value))
    return cut(without_addresses(text), limit) if isinstance(text, str) else None
