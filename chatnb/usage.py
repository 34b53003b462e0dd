"""`chat.usage`: tokens and cost of a chat, turn by turn."""

from __future__ import annotations

from typing import Any

from .errors import MissingExtraError
from .models import Usage
from .store import Store, TurnRow
from .turns.usage import usage_from_json

__all__ = ["ChatUsage"]


class ChatUsage:
    """What a chat has used over its life.

    Attributes:
        total: All turns together.

    Example:
        chat.usage.total.output_tokens
        chat.usage.turns[-1].cost
    """

    def __init__(self, store: Store, chat_id: str, total: Usage, model: str) -> None:
        self._store = store
        self._chat_id = chat_id
        self._model = model
        self.total = total

    @property
    def turns(self) -> list[Usage]:
        """One `Usage` for each turn, in order."""
        return [usage_from_json(row.usage) for row in self._rows()]

    @property
    def complete(self) -> bool:
        """Every step has said what it used."""
        return self.total.complete

    def _rows(self) -> list[TurnRow]:
        return [row for row in self._store.load_turns(self._chat_id) if row.usage is not None]

    def to_frame(self) -> Any:
        """Return one row per turn as a pandas DataFrame; unknown numbers are missing values.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError('usage.to_frame() needs pandas: pip install "chatnb[pandas]"') from error
        rows = [self._row(row) for row in self._rows()]
        return pandas.DataFrame(rows, columns=list(_COLUMNS))

    def _row(self, row: TurnRow) -> dict[str, Any]:
        usage = usage_from_json(row.usage)
        seconds = None
        if row.started_at is not None and row.ended_at is not None:
            seconds = max(0.0, (row.ended_at - row.started_at).total_seconds())
        return {
            "turn": row.number,
            "trigger": row.trigger,
            "model": (row.usage or {}).get("model", self._model),
            "steps": (row.usage or {}).get("steps"),
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "cost": usage.cost,
            "complete": usage.complete,
            "status": row.state,
            "started_at": row.started_at,
            "seconds": seconds,
        }

    def __eq__(self, other: object) -> bool:
        """Two of one chat are equal while no turn has added to it, so that no observer hears of an equal one."""
        return isinstance(other, ChatUsage) and (self._chat_id, self.total) == (other._chat_id, other.total)

    def __hash__(self) -> int:
        return hash((self._chat_id, self.total))

    def __repr__(self) -> str:
        cost = "" if self.total.cost is None else f", ${self.total.cost:.4f}"
        return f"ChatUsage({self.total.input_tokens or 0} in, {self.total.output_tokens or 0} out{cost})"


_COLUMNS = (
    "turn",
    "trigger",
    "model",
    "steps",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost",
    "complete",
    "status",
    "started_at",
    "seconds",
)
