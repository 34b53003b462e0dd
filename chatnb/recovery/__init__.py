"""Recovery: find what a dead process left behind, say what it is, put it back in line (spec/recovery.md).

It never runs work itself: it moves rows by conditional updates and says whether it won.
"""

from .records import Cause, Interruption, Recovery, RecoveryDecision
from .scan import scan

__all__ = ["Cause", "Interruption", "Recovery", "RecoveryDecision", "scan"]
