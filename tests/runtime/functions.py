"""Functions that executors import by name."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chatnb import ActionContext


class Decorated:
    """Stands for an action: callable, with the function behind it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the decorator was not seen through")


@Decorated
def where(word: str) -> tuple[str, int]:
    """Say a word and who says it."""
    print("in the worker")
    print("to stderr", file=sys.stderr)
    return word, os.getpid()


def holds_a_lock() -> dict[str, object]:
    """Return what cannot be pickled."""
    return {"lock": threading.Lock()}


class StrangeError(Exception):
    """Can be pickled and not be made again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def raises(kind: str) -> None:
    """Raise."""
    if kind == "strange":
        raise StrangeError("a", "b")
    raise LookupError(kind)


def dies() -> None:
    """End the worker."""
    os._exit(3)


def sleeps(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


def touches(path: str) -> str:
    """Leave a trace."""
    Path(path).touch()
    return "touched"


def counts(ctx: ActionContext, until: int, seconds: float) -> int:
    """Report each number, evenly over some seconds."""
    ctx.log("begins")
    began = time.monotonic()
    for number in range(1, until + 1):
        ctx.progress(number, until, "counted")
        while time.monotonic() < began + seconds * number / until:
            time.sleep(0.0005)
    ctx.log("ends")
    return until
