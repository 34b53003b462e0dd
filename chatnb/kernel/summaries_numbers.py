"""Numbers of arrays: min, mean, max and NaN in pieces, so that no copy of the whole is made."""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

MAX_ELEMENTS = 10_000_000
_CHUNK = 1 << 15


def quiet_numbers() -> AbstractContextManager[Any]:
    """Let numpy say nothing about overflows and infinities, on this thread."""
    numpy = sys.modules.get("numpy")
    return nullcontext() if numpy is None else numpy.errstate(all="ignore")


def count_nan(values: Any) -> int:
    """Return how many NaN a numpy array of floats with one dimension has."""
    total = 0
    with quiet_numbers():
        for start in range(0, len(values), _CHUNK):
            part = values[start : start + _CHUNK]
            # A NaN makes the sum NaN, and a sum is the quickest look at a piece. No BLAS: it would wake its threads.
            added = part.sum()
            if added != added:
                total += int((part != part).sum())
    return total


def number_text(value: Any) -> str:
    """Return a number in at most 6 digits, whole numbers whole."""
    if value is None:
        return "none"
    if isinstance(value, int) or (hasattr(value, "dtype") and getattr(value.dtype, "kind", "") in "iub"):
        return str(int(value))
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return str(value)


def describe_numbers(values: Any, *, with_nan: bool = False) -> str:
    """Return min, mean and max of a numpy array of numbers, and its NaN; empty where there is nothing to say.

    Args:
        values: The array.
        with_nan: Say how many NaN there are, too.
    """
    kind = values.dtype.kind
    if kind not in "biuf" or not 0 < values.size <= MAX_ELEMENTS:
        return ""
    low: Any = None
    high: Any = None
    total, count = 0.0, 0
    with quiet_numbers():
        for part in _pieces(values):
            whole = part[part == part] if kind == "f" else part
            if whole.size:
                least, most = whole.min(), whole.max()
                low = least if low is None or least < low else low
                high = most if high is None or most > high else high
                total += float(whole.sum(dtype="float64"))
                count += int(whole.size)
    nan = values.size - count
    said = f"{nan} NaN" if with_nan and kind == "f" else ""
    if count == 0:
        return said or "no numbers"
    mean = total / count
    text = f"min {number_text(low)}, mean {mean:.6g}, max {number_text(high)}"
    if not math.isfinite(mean) and math.isfinite(float(low)) and math.isfinite(float(high)):
        text = f"min {number_text(low)}, max {number_text(high)}"
    return f"{text}, {said}" if said else text


def _pieces(values: Any) -> Any:
    flat = values.reshape(-1) if values.flags.c_contiguous else values.flat
    for start in range(0, values.size, _CHUNK):
        yield flat[start : start + _CHUNK]
