"""Loop breakers: a turn that does the same thing over and over is ended (spec/actions.md, 8.4)."""

from __future__ import annotations

SAME_RESULT = 8
SAME_ERROR = 3
SAME_ERROR_ACROSS = 6
FORBIDDEN = 2

Tripped = tuple[str, str]


class Breakers:
    """Counts the settled calls of one turn."""

    def __init__(self) -> None:
        self._by_hash: dict[str, tuple[str, int]] = {}
        self._by_action: dict[str, tuple[str, int]] = {}
        self._forbidden: dict[str, int] = {}

    def note_result(self, action: str, digest: str, result: str) -> Tripped | None:
        """Note a success; return code and text when it is one too many.

        Args:
            action: The action's name.
            digest: The hash of the call.
            result: The result as the model gets it: another result is no loop.
        """
        self._by_action.pop(action, None)
        if self._count(self._by_hash, digest, f"result:{result}") >= SAME_RESULT:
            return (
                "repeated_tool_call",
                f"{action} was called {SAME_RESULT} times with the same arguments and gave the same result.",
            )
        return None

    def note_error(self, action: str, digest: str, code: str, text: str) -> Tripped | None:
        """Note a failure; return code and text when it is one too many."""
        if code == "forbidden":
            self._forbidden[action] = self._forbidden.get(action, 0) + 1
            if self._forbidden[action] >= FORBIDDEN:
                return "permanent_precondition", f"{action} was denied {FORBIDDEN} times."
        across = self._count(self._by_action, action, text)
        if self._count(self._by_hash, digest, f"error:{text}") >= SAME_ERROR:
            return (
                "repeated_identical_tool_error",
                f"{action} failed {SAME_ERROR} times with the same arguments and the same error.",
            )
        if across >= SAME_ERROR_ACROSS:
            return (
                "repeated_tool_error_across_arguments",
                f"{action} failed {SAME_ERROR_ACROSS} times with the same error.",
            )
        return None

    @staticmethod
    def _count(counts: dict[str, tuple[str, int]], key: str, value: str) -> int:
        former, number = counts.get(key, ("", 0))
        number = number + 1 if former == value else 1
        counts[key] = (value, number)
        return number
