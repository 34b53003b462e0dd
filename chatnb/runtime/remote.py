"""What runs on the other side of an executor: loads the function, calls it, packs what came out.

A worker imports this and little else of chatnb, so it uses the standard library and cloudpickle alone.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from chatnb.runtime.begun import Ticket, begin
from chatnb.runtime.reports import Reports, current_reports
from chatnb.runtime.streams import StreamName, current_texts, hook_streams

# What goes over, and what could not.
Item = Literal["function", "argument", "result", "exception"]
Kind = Literal["value", "error", "again"] | Item

OUTPUT_LIMIT = 100_000  # characters of each stream


@dataclass(frozen=True, slots=True)
class ByName:
    """A function of an importable module.

    Attributes:
        module: The module's name.
        qualname: Where it stands in it.
        unwrap: How many decorators to see through: how often to follow `__wrapped__`.
    """

    module: str
    qualname: str
    unwrap: int

    def load(self) -> Callable[..., Any]:
        """Import the module and find the function."""
        found: Any = importlib.import_module(self.module)
        for name in self.qualname.split("."):
            found = getattr(found, name)
        for _ in range(self.unwrap):
            found = found.__wrapped__
        function: Callable[..., Any] = found
        return function


@dataclass(frozen=True, slots=True)
class Packed:
    """What came out of a call.

    Attributes:
        kind: `"value"`, `"error"`, `"again"` for a call that must not be entered (any more), or what could not be
            packed or loaded.
        data: The pickled value or exception.
        type_name: The type of what could not be packed.
        reason: Why it could not.
        stdout: What was printed.
        stderr: The same for stderr.
        is_unheard: The function reported progress or lines that could not be shown.
    """

    kind: Kind
    data: bytes = b""
    type_name: str = ""
    reason: str = ""
    stdout: str = ""
    stderr: str = ""
    is_unheard: bool = False


def work(function: ByName | bytes, arguments: bytes, ticket: Ticket) -> Packed:
    """Call a function in the worker.

    Args:
        function: Where it is, or itself, pickled by value.
        arguments: The pickled keyword arguments.
        ticket: Of this handing-over.

    Returns:
        What came out. Raises nothing that the function raises.
    """
    reports = Reports(ticket.way)
    token = current_reports.set(reports)
    try:
        with _printing() as (stdout, stderr):
            kind, data, type_name, reason = _call(function, arguments, ticket, reports)
    finally:
        current_reports.reset(token)
        reports.close()
    printed = _cut(stdout.getvalue()), _cut(stderr.getvalue())
    return Packed(kind, data, type_name, reason, *printed, is_unheard=reports.are_dropped)


class _Printed:
    """What one call prints, where a worker's threads run several at once."""

    def __init__(self, stdout: io.StringIO, stderr: io.StringIO) -> None:
        self._streams: dict[StreamName, io.StringIO] = {"stdout": stdout, "stderr": stderr}

    def write(self, stream: StreamName, text: str) -> None:
        """Append text to a stream."""
        self._streams[stream].write(text)


@contextlib.contextmanager
def _printing() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    stdout, stderr = io.StringIO(), io.StringIO()
    if threading.current_thread() is threading.main_thread():
        # A process of a pool, an engine: one call at a time, and its own threads' output is its own.
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            yield stdout, stderr
        return
    # A thread of a Dask worker, maybe in the kernel's own process: the streams are not this call's alone.
    hook_streams()
    token = current_texts.set(_Printed(stdout, stderr))
    try:
        yield stdout, stderr
    finally:
        current_texts.reset(token)


def _call(function: ByName | bytes, arguments: bytes, ticket: Ticket, reports: Reports) -> tuple[Kind, bytes, str, str]:
    import cloudpickle

    try:
        loaded = function.load() if isinstance(function, ByName) else pickle.loads(function)
    except Exception as error:  # noqa: BLE001 - told to the caller
        return "function", b"", "function", describe(error)
    try:
        kwargs = pickle.loads(arguments)
    except Exception as error:  # noqa: BLE001 - told to the caller
        return "argument", b"", "dict", describe(error)
    if not begin(ticket, reports):
        return "again", b"", "", ""
    try:
        value = loaded(**kwargs)
    except BaseException as error:  # noqa: BLE001 - it is the call's error, SystemExit included
        try:
            data = cloudpickle.dumps(error)
            pickle.loads(data)  # many exceptions can be packed and not be made again
        except Exception as why:  # noqa: BLE001 - told to the caller
            return "exception", b"", type_name_of(error), describe(why)
        return "error", data, "", ""
    try:
        return "value", cloudpickle.dumps(value), "", ""
    except Exception as why:  # noqa: BLE001 - told to the caller
        return "result", b"", type_name_of(value), describe(why)


def type_name_of(value: object) -> str:
    """Name a value's type, with its module unless that is builtins."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def describe(error: BaseException) -> str:
    """Say why pickling failed, in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def _cut(text: str) -> str:
    if len(text) <= OUTPUT_LIMIT:
        return text
    half = OUTPUT_LIMIT // 2
    return f"{text[:half]}\n… {len(text) - OUTPUT_LIMIT} characters left out …\n{text[-half:]}"
