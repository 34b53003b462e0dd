"""Testing: doubles and a harness for the agents of chatnb's users; product code, like all else.

`mock_chat` runs an agent on a store in memory, without network, thread or wall clock; `ScriptedModel` and `Reply` come
from `chatnb.models`. `FakeAnthropic` is a strict local server that speaks the Messages API.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# At once, not on use: the file has the name of its function, and would hide it once it is loaded.
from .process_death import enable_kill_points, kill_points, shift_clock

if TYPE_CHECKING:
    from .annotations import check_annotations
    from .clock import Clock
    from .fake_anthropic import FakeAnthropic, FakeReply, StrictModel
    from .mock import MockChat, mock_chat
    from .nbval import nbval_sanitizer

_HOMES = {
    "Clock": "clock",
    "FakeAnthropic": "fake_anthropic",
    "FakeReply": "fake_anthropic",
    "MockChat": "mock",
    "StrictModel": "fake_anthropic",
    "check_annotations": "annotations",
    "mock_chat": "mock",
    "nbval_sanitizer": "nbval",
}

__all__ = [
    "Clock",
    "FakeAnthropic",
    "FakeReply",
    "MockChat",
    "StrictModel",
    "check_annotations",
    "enable_kill_points",
    "kill_points",
    "mock_chat",
    "nbval_sanitizer",
    "shift_clock",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
