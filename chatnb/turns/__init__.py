"""Turns: how an input becomes an answer (spec/turns.md).

Owns admission and the queue, the turn's states and moves, steps, hooks, chat actions, decisions, steering, compaction,
the chunk log, and the agent site. One engine works for one chat; everything in it happens on the runtime's loop.
"""

from .definition import CONCURRENCY, Definition
from .engine import ChatEngine
from .events import HookName
from .inputs import Input, file_part, user_message
from .records import (
    CallView,
    ChatState,
    ClientTool,
    Compaction,
    Debounce,
    Outcome,
    Pending,
    Steering,
    TurnError,
    Update,
    Waiting,
)
from .submission import Submission
from .turn import Turn

__all__ = [
    "CONCURRENCY",
    "CallView",
    "ChatEngine",
    "ChatState",
    "ClientTool",
    "Compaction",
    "Debounce",
    "Definition",
    "HookName",
    "Input",
    "Outcome",
    "Pending",
    "Steering",
    "Submission",
    "Turn",
    "TurnError",
    "Update",
    "Waiting",
    "file_part",
    "user_message",
]
