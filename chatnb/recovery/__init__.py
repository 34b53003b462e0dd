"""Recovery: find what a dead process left behind, say what it is, put it back in line (spec/recovery.md).

It never runs work itself: it moves rows by conditional updates and says whether it won.
"""

from .events import ExhaustedEvent, InFlightInput, KeepRecoveringEvent, PendingToolCall, RecoveryEvent
from .records import Cause, Interruption, Recovery, RecoveryDecision
from .scan import kernel_of, scan, take_up_interrupted

__all__ = [
    "Cause",
    "ExhaustedEvent",
    "InFlightInput",
    "Interruption",
    "KeepRecoveringEvent",
    "PendingToolCall",
    "Recovery",
    "RecoveryDecision",
    "RecoveryEvent",
    "kernel_of",
    "scan",
    "take_up_interrupted",
]
