"""The open transaction of a turn: the store's, which also remembers what it did to grants for the chat's memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..actions.ports import GrantRow, GrantState
from ..store.port import WriteTx


class TurnTx:
    """A `WriteTx` that tells the chat about grants once it has been committed. All else goes straight through."""

    def __init__(self, tx: WriteTx) -> None:
        self._tx = tx
        self.touched_grants = False

    def add_grant(self, row: GrantRow) -> None:
        """Add a pending grant."""
        self.touched_grants = True
        self._tx.add_grant(row)

    def move_grant(self, grant_id: str, expect: Collection[GrantState], to: GrantState, **fields: Any) -> bool:
        """Move a grant by a conditional update."""
        self.touched_grants = True
        return self._tx.move_grant(grant_id, expect, to, **fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)
