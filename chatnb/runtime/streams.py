"""Streams that look at the context: what a call prints goes to its card, all else where it went before.

`sys.stdout` and `sys.stderr` stay the objects that they are. IPython assigns `write` on them in every sync cell and
puts the old one back afterwards, so neither a patch of the instance nor a proxy survives; a subclass with a descriptor
for `write` does (PLATFORM.md, addition C).
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable
from inspect import getattr_static
from typing import Any, Literal, Protocol

StreamName = Literal["stdout", "stderr"]


class Texts(Protocol):
    """What takes the texts that a call prints."""

    def write(self, stream: StreamName, text: str) -> None:
        """Append text to a stream; any thread."""


# Whose output the running code's is. Threads and tasks that carry the call's context carry it too.
current_texts: contextvars.ContextVar[Texts | None] = contextvars.ContextVar("chatnb_texts", default=None)

Write = Callable[[str], Any]


class ContextWrite:
    """A `write` that goes to the call's outputs, or to the inner `write` outside a call."""

    __slots__ = ("inner", "name")

    def __init__(self, inner: Write, name: StreamName) -> None:
        self.inner = inner
        self.name = name

    def __call__(self, text: str) -> Any:
        """Write `text`."""
        texts = current_texts.get()
        if texts is None or not isinstance(text, str):
            return self.inner(text)
        texts.write(self.name, text)
        return len(text)


class _WriteAttribute:
    """The descriptor: `stream.write` is always a ContextWrite around whatever was assigned last."""

    def __init__(self, name: StreamName, base: type[Any]) -> None:
        self._name = name
        self._base = base

    def __get__(self, stream: Any, owner: type | None = None) -> Any:
        if stream is None:
            return self
        inner = vars(stream).get("write")
        if inner is None:
            inner = self._base.write.__get__(stream)
        return ContextWrite(inner, self._name)

    def __set__(self, stream: Any, value: Any) -> None:
        # Unwrapped, else the chain would grow by one with each cell that puts back what it found.
        vars(stream)["write"] = value.inner if isinstance(value, ContextWrite) else value

    def __delete__(self, stream: Any) -> None:
        vars(stream).pop("write", None)


class _Proxy:
    """Stands before a stream whose class cannot be changed: a plain file, outside notebooks."""

    def __init__(self, stream: Any, name: StreamName) -> None:
        self._chatnb_stream = stream
        self._chatnb_name = name

    def write(self, text: str) -> Any:
        """Write `text`."""
        return ContextWrite(self._chatnb_stream.write, self._chatnb_name)(text)

    def writelines(self, lines: Any) -> None:
        """Write all `lines`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chatnb_stream, name)

    def __iter__(self) -> Any:
        return iter(self._chatnb_stream)


def hook_streams() -> None:
    """Make the present `sys.stdout` and `sys.stderr` look at the context; harmless if they do already."""
    sys.stdout = _hooked(sys.stdout, "stdout")
    sys.stderr = _hooked(sys.stderr, "stderr")


def _hooked(stream: Any, name: StreamName) -> Any:
    cls = type(stream)
    if stream is None or isinstance(stream, _Proxy) or isinstance(getattr_static(cls, "write", None), _WriteAttribute):
        return stream
    namespace = {"write": _WriteAttribute(name, cls), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    try:
        stream.__class__ = type(cls.__name__, (cls,), namespace)
    except TypeError:  # a class written in C
        return _Proxy(stream, name)
    return stream
