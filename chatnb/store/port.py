"""The store port: what `turns/` and `recovery/` ask of a store, whatever database is below.

Methods are synchronous and thread-safe, and each transaction is short; the engine calls them on the runtime's thread.
Conditional updates return False when the row was not in the expected state; the caller then rereads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from .._json import JsonValue
from ..actions.ports import AuditRow, Books, CallRow, GrantRow, GrantState
from .records import (
    ChatRow,
    IncidentRow,
    InjectedRow,
    InputRow,
    InputState,
    NodeRow,
    OverlayRow,
    Owner,
    TurnRow,
    TurnState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedChat:
    """A chat whose lease is ours.

    Attributes:
        chat: The row as it was found, or as it was made.
        token: Our owner token; every write names it.
        created: The chat is new.
        owner_was: What became of the former owner: "none" (a new chat), "released" (in order: closed, or its kernel was
            shut down or restarted), "dead", or "taken_over" (it lived). Who it was: `chat.last_owner`.
    """

    chat: ChatRow
    token: str
    created: bool
    owner_was: Literal["none", "released", "dead", "taken_over"] = "none"


class WriteTx(Books, Protocol):
    """One open write transaction on one chat. It has checked that the lease is ours."""

    def set_chat(self, **fields: Any) -> None:
        """Set columns of the chat's row (names of `ChatRow`)."""

    def move_head(self, expect: str | None, head: str | None) -> bool:
        """Move the head from the expected node to another."""

    def add_nodes(self, nodes: Sequence[tuple[NodeRow, JsonValue | None]]) -> None:
        """Add nodes with their messages in wire form; None where the content id is stored already."""

    def set_message(self, node_id: str, message: JsonValue) -> str:
        """Replace a node's message. Other nodes that shared the content keep theirs.

        Returns:
            The content id that the node has now: a new one when it shared its content.
        """

    def set_shown(self, shown: Mapping[str, str | None]) -> None:
        """Set the shown child of nodes."""

    def add_input(self, row: InputRow) -> None:
        """Add an input."""

    def move_input(self, input_id: str, expect: Collection[InputState], to: InputState) -> bool:
        """Move an input between states."""

    def add_turn(self, row: TurnRow) -> None:
        """Add a turn."""

    def move_turn(self, turn_id: str, expect: Collection[TurnState], to: TurnState, **fields: Any) -> bool:
        """Move a turn between states, and set further columns."""

    def set_turn(self, turn_id: str, **fields: Any) -> None:
        """Set columns of a turn's row."""

    def add_chunks(self, turn_id: str, first_seq: int, chunks: Sequence[JsonValue]) -> None:
        """Append one batch to a turn's chunk log; numbers go up by one from `first_seq`."""

    def drop_chunks(self, turn_ids: Collection[str]) -> None:
        """Forget the chunk logs of these turns."""

    def drop_ended_chunks(self) -> None:
        """Forget the chunk logs of the chat's turns that have ended."""

    def add_injected(self, row: InjectedRow) -> None:
        """Keep injected context."""

    def use_injected(self, numbers: Collection[int], turn_id: str) -> None:
        """Mark injected context as used by a turn."""

    def drop_injected(self) -> None:
        """Drop the injected context that no turn has used."""

    def add_overlay(self, row: OverlayRow) -> None:
        """Store a compaction."""

    def put_incident(self, row: IncidentRow, expect: Collection[str] | None) -> bool:
        """Add an incident (`expect` None: there must be none of its turn), or replace one in these statuses."""


class Store(Protocol):
    """A database of chats."""

    url: str
    in_memory: bool

    def open_chat(
        self,
        chat_id: str,
        *,
        agent: str,
        owner: Owner,
        identity: str | None = None,
        take_over: bool = False,
        began: float | None = None,
    ) -> OpenedChat:
        """Make or find the chat and take its lease (spec/recovery.md, section 3).

        Raises:
            ChatInUseError: Its owner is alive and `take_over` is False; or somebody else took it first.
            StoreError: The store can't be used; the subclass says why.
        """

    def release_chat(self, chat_id: str, token: str) -> None:
        """Give the lease back."""

    def heartbeat(self, leases: Mapping[str, str]) -> set[str]:
        """Show a sign of life for all chats (id to token) in one statement; return the ids that are no longer ours."""

    def write(self, chat_id: str, token: str, *, durable: bool = True) -> AbstractContextManager[WriteTx]:
        """Open a write transaction. `durable=False`: a power loss may take it (chunk batches).

        Raises:
            LeaseLostError: The lease is no longer ours; nothing was written.
            StoreError: The write failed; nothing was written.
        """

    def write_free(self) -> AbstractContextManager[Books]:
        """Open a write transaction for rows that belong to no chat."""

    def find_chat(self, chat_id: str) -> ChatRow | None:
        """Return a chat's row, or None. Needs no lease, like all that follows."""

    def list_chats(self) -> list[ChatRow]:
        """Return all chats, newest first."""

    def delete_chat(self, chat_id: str, *, owner: Owner) -> bool:
        """Take the lease and delete the chat with all its rows; False if there is none."""

    def load_nodes(self, chat_id: str) -> list[NodeRow]:
        """Return all nodes of the tree, by ordinal, without messages."""

    def load_messages(self, chat_id: str, node_ids: Iterable[str]) -> dict[str, JsonValue]:
        """Return messages in wire form by node id. An unreadable row is left out."""

    def load_inputs(self, chat_id: str, states: Collection[InputState]) -> list[InputRow]:
        """Return inputs in these states, by arrival."""

    def next_arrival(self, chat_id: str) -> int:
        """Return the arrival number after the last one."""

    def load_turns(self, chat_id: str, states: Collection[TurnState] | None = None) -> list[TurnRow]:
        """Return turns by number; all of them for None."""

    def load_last_turn(self, chat_id: str, before: int | None = None) -> TurnRow | None:
        """Return the turn with the highest number, below `before` if it is given; None when there is none."""

    def load_unhooked_turns(self, chat_id: str) -> list[TurnRow]:
        """Return ended turns whose `on_turn_complete` did not return."""

    def load_chunks(self, turn_id: str) -> list[JsonValue]:
        """Return a turn's logged chunks in order, up to the first unreadable batch."""

    def load_grants(self, chat_id: str, states: Collection[GrantState]) -> list[GrantRow]:
        """Return grants in these states, oldest first."""

    def load_calls(self, chat_id: str, turn_ids: Collection[str] | None = None) -> list[CallRow]:
        """Return ledger rows of these turns (all: None), oldest first."""

    def last_injected(self, chat_id: str) -> int:
        """Return the highest number of injected context, used or not; 0 when there is none."""

    def load_injected(self, chat_id: str) -> list[InjectedRow]:
        """Return injected context that no ended turn has used."""

    def load_overlays(self, chat_id: str) -> list[OverlayRow]:
        """Return the compactions, oldest first."""

    def load_incidents(self, chat_id: str) -> list[IncidentRow]:
        """Return the incidents of a chat."""

    def load_changes(self, after: int) -> list[tuple[int, JsonValue]]:
        """Return changes with numbers above `after`."""

    def load_audit(self, chat_id: str | None = None) -> list[AuditRow]:
        """Return the audit log, oldest first; of one chat if it is named."""

    def last_change(self) -> int:
        """Return the number of the newest change; 0 when there is none."""

    def prune(self, now: datetime) -> None:
        """Drop changes older than 1 hour and incidents that ended more than 7 days ago."""

    def exists(self) -> bool:
        """Whether there is a store, as far as can be told without making one."""

    def check_identity(self) -> None:
        """Check that the store's file is still the one that was opened; `heartbeat` does it too.

        Raises:
            StoreMissingError: It was deleted or replaced.
        """

    def close(self) -> None:
        """Close the connections. Idempotent. Leases stay as they are."""
