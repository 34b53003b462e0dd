"""How large an object is in memory: an estimate that costs at most 10 ms (spec/notebook.md, section 4)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

_BUDGET = 0.010  # seconds
_SAMPLE = 100
_DEPTH = 4


def estimate_bytes(value: object) -> int:
    """Return about how many bytes an object holds; 0 for types that chatnb does not know.

    Frames, arrays, tensors and pictures say it themselves; of long containers a sample is measured.
    """
    try:
        return _estimate(value, time.perf_counter() + _BUDGET, 0)
    except Exception:  # noqa: BLE001 - a foreign object may fail in any way; then it counts nothing
        return 0


def _estimate(value: Any, until: float, depth: int) -> int:
    kind = type(value)
    if kind in (int, float, complex, bool, type(None)):
        return sys.getsizeof(value)
    if kind in (str, bytes, bytearray):
        return sys.getsizeof(value)
    if kind in (list, tuple, set, frozenset):
        return sys.getsizeof(value) + _sampled(value, len(value), until, depth)
    if kind is dict:
        return sys.getsizeof(value) + _sampled(value, len(value), until, depth) + _sampled_values(value, until, depth)
    known = _KNOWN.get(_root(kind))
    return 0 if known is None else max(0, int(known(value)))


def _sampled_values(value: dict[Any, Any], until: float, depth: int) -> int:
    return _sampled(value.values(), len(value), until, depth)


def _sampled(items: Iterable[Any], length: int, until: float, depth: int) -> int:
    """The size of the first items, scaled to all of them. Every 16th look at the clock is enough."""
    if not length or depth >= _DEPTH:
        return 0
    total = seen = 0
    for item in islice(items, _SAMPLE):
        total += _estimate(item, until, depth + 1)
        seen += 1
        if seen % 16 == 0 and time.perf_counter() > until:
            break
    return total * length // seen


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _of_pandas(value: Any) -> int:
    used = value.memory_usage(deep=False) if hasattr(value, "memory_usage") else 0
    return int(used.sum()) if hasattr(used, "sum") else int(used)


def _of_polars(value: Any) -> int:
    return int(value.estimated_size()) if hasattr(value, "estimated_size") else 0


def _of_numpy(value: Any) -> int:
    return int(getattr(value, "nbytes", 0))


def _of_torch(value: Any) -> int:
    return int(value.element_size() * value.nelement()) if hasattr(value, "element_size") else 0


def _of_picture(value: Any) -> int:
    if not hasattr(value, "size") or not hasattr(value, "getbands"):
        return 0
    width, height = value.size
    return int(width * height * len(value.getbands()))


_KNOWN: dict[str, Callable[[Any], int]] = {
    "PIL": _of_picture,
    "cupy": _of_numpy,
    "jaxlib": _of_numpy,
    "numpy": _of_numpy,
    "pandas": _of_pandas,
    "geopandas": _of_pandas,
    "polars": _of_polars,
    "pyarrow": _of_numpy,
    "scipy": lambda value: _of_numpy(getattr(value, "data", value)),
    "torch": _of_torch,
    "xarray": _of_numpy,
}
