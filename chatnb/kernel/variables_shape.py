"""What is said of a variable in a list: type, shape or length, column names; no values (spec/notebook.md, section 5).

Read on the runtime's thread while the kernel may be at work, so only library types whose answers are quick are asked,
past any override in a user's subclass; of all else the type is told.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterable, Mapping
from typing import Any

from chatnb.kernel.summaries_text import is_a, type_name
from chatnb.models.variables import MAX_COLUMNS

SECONDS = 0.050
_CONTAINERS = (list, tuple, dict, set, frozenset, str, bytes, bytearray, collections.deque)


def describe_briefly(name: str, value: object, *, names_only: bool = False) -> dict[str, Any]:
    """Return `{name, type}` and, unless only names are shared, `shape`, `length`, `columns`, `columnCount`."""
    made: dict[str, Any] = {"name": name, "type": type_name(value)}
    if names_only:
        return made
    try:
        made.update(shape_of(value))
    except Exception:  # noqa: BLE001 - half-built in the middle of a cell, or a foreign object: its type is told
        return {"name": name, "type": type_name(value)}
    return made


def describe_all(items: Iterable[tuple[str, object]], *, names_only: bool = False) -> list[dict[str, Any]]:
    """Describe variables within 50 ms; those that come later are told by type alone."""
    until = time.monotonic() + SECONDS
    return [describe_briefly(name, value, names_only=names_only or time.monotonic() > until) for name, value in items]


def shape_of(value: Any) -> Mapping[str, Any]:
    """Return what is known of an object's extent, without running code of the user's."""
    own = library_class(value)
    if own is None:
        return {}
    if own in _CONTAINERS:
        return {"length": own.__len__(value)}
    shape = _read(own, value, "shape")
    if shape is None:
        return {}
    made: dict[str, Any] = {"shape": [int(n) for n in shape]}
    if own.__name__ == "DataFrame":
        columns = _read(own, value, "columns")
        made["columns"] = [str(column) for column in columns[:MAX_COLUMNS]]
        made["columnCount"] = len(columns)
    return made


def library_class(value: object) -> type[Any] | None:
    """Return the class of a known library that an object is of, or None."""
    for kind in type(value).__mro__:
        if kind in _CONTAINERS:
            return kind
        root = kind.__module__.partition(".")[0]
        if kind.__name__ in _SHAPED.get(root, ()):
            return kind
    return None


_SHAPED: Mapping[str, tuple[str, ...]] = {
    "cupy": ("ndarray",),
    "jaxlib": ("ArrayImpl",),
    "numpy": ("ndarray",),
    "pandas": ("DataFrame", "Series", "Index"),
    "polars": ("DataFrame", "Series"),
    "torch": ("Tensor",),
}


def _read(own: type[Any], value: object, name: str) -> Any:
    """Read an attribute as the library's class has it, whatever a subclass makes of it."""
    attribute = getattr(own, name, None)
    getter = getattr(attribute, "__get__", None)
    return getter(value, own) if getter is not None else getattr(value, name)


def extent_of(value: object) -> Any:
    """Return a mark of an object's length, shape and columns, to tell whether it was changed in place."""
    own = library_class(value)
    if own is None:
        return None
    try:
        if own in _CONTAINERS:
            return own.__len__(value)
        shape = tuple(_read(own, value, "shape"))
        if own.__name__ != "DataFrame":
            return shape
        columns = _read(own, value, "columns")
        return shape, _Columns(columns)
    except Exception:  # noqa: BLE001 - then it can't be told
        return None


class _Columns:
    """The columns of a frame. pandas never changes an Index in place, so the very object is the quick answer."""

    def __init__(self, columns: Any) -> None:
        self._columns = columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Columns):
            return NotImplemented
        if self._columns is other._columns:
            return True
        if is_a(self._columns, "pandas", "Index"):
            return bool(self._columns.equals(other._columns))
        return list(self._columns) == list(other._columns)

    __hash__ = None  # type: ignore[assignment]
