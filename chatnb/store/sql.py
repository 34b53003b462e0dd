"""The SQL store: leases and write transactions over the store's connections."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, select, update

from .. import _clock
from .._killpoint import kill_point
from . import lease, tables
from .books import SqlBooks
from .connections import Connections
from .failures import translated
from .port import OpenedChat
from .records import ChatRow, Owner
from .rows import SELECT_CHAT, make_chat
from .writing import SqlWriteTx

_CHANGES_KEPT = timedelta(hours=1)
_INCIDENTS_KEPT = timedelta(days=7)
_ENDED_INCIDENTS = ("completed", "skipped", "failed", "exhausted")


class SqlStore(Connections):
    """Implements `Store` on SQLAlchemy Core. Thread-safe; opened on first use.

    Args:
        url: A URL or a path, as `Agent(store=...)` takes it.
        wait: Waits some seconds; a test hands in its own.
        migrations: Another folder of migrations, for tests.
    """

    # --- leases -----------------------------------------------------------------------------------------------------

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

        Args:
            chat_id: The chat.
            agent: Its agent's name, for a new chat.
            owner: Who opens it.
            identity: Who makes it.
            take_over: Take it from a living owner; not from one who has won it since `began`.
            began: Monotonic seconds when the caller set out; None: now.

        Raises:
            ChatInUseError: Its owner is alive and `take_over` is False; or somebody else took it first.
            StoreError: The store can't be used; the subclass says why.
        """
        began = time.monotonic() if began is None else began
        opened: OpenedChat | None = None
        while opened is None:
            opened = self._take(chat_id, agent, owner, identity, began if take_over else None)
        self._tokens[opened.token] = chat_id
        kill_point("lease.taken")
        return opened

    def _take(
        self, chat_id: str, agent: str, owner: Owner, identity: str | None, forced_since: float | None
    ) -> OpenedChat | None:
        """Try once; None when the chat came, went or was given back meanwhile."""
        token = lease.new_token()
        holder = self._find_holder(chat_id)
        if holder is None:
            row = self._make_chat(chat_id, agent, owner, identity, token)
            return None if row is None else OpenedChat(chat=row, token=token, created=True)
        owner_was = self._may_take(holder, owner, forced_since)
        with self._writing(durable=True) as connection:
            found = connection.execute(SELECT_CHAT.where(tables.chats.c.id == chat_id)).first()
            if lease.take(connection, holder, token, owner, forced=forced_since is not None) and found is not None:
                return OpenedChat(chat=make_chat(found), token=token, created=False, owner_was=owner_was)
            winner = lease.find_holder(connection, chat_id)
        if winner is not None and winner.token is not None:
            raise lease.in_use(winner)
        return None

    def _may_take(
        self, holder: lease.Holder, owner: Owner, forced_since: float | None
    ) -> Literal["released", "dead", "taken_over"]:
        """Return what became of the former owner, or raise `ChatInUseError`."""
        if holder.token is None:
            return "released"
        if forced_since is not None:
            verdict = lease.judge(holder, host=owner.host, at=_clock.now())
            if verdict == "alive" and lease.was_won_after(holder, forced_since, host=owner.host):
                raise lease.in_use(holder)
            self._wait(lease.TAKE_OVER_PAUSE)
            return "dead" if verdict == "dead" else "taken_over"
        if lease.is_alive(holder, host=owner.host, read=self._find_holder, wait=self._wait):
            raise lease.in_use(holder)
        return "dead"

    def _find_holder(self, chat_id: str) -> lease.Holder | None:
        with self._reading() as connection:
            return lease.find_holder(connection, chat_id)

    def _make_chat(self, chat_id: str, agent: str, owner: Owner, identity: str | None, token: str) -> ChatRow | None:
        row = ChatRow(id=chat_id, agent=agent, identity=identity, created_at=_clock.now())
        values: dict[str, Any] = {
            "id": row.id,
            "agent": row.agent,
            "identity": row.identity,
            "created_at": row.created_at,
            "generation": row.generation,
            "next_number": row.next_number,
            "chat_started": row.chat_started,
            "recovering": row.recovering,
            "progress": row.progress,
            "heartbeat_seq": 1,
        }
        with self._writing(durable=True) as connection:
            if lease.find_holder(connection, chat_id) is not None:
                return None
            connection.execute(insert(tables.chats), values | lease.owner_values(token, owner))
        return row

    def release_chat(self, chat_id: str, token: str) -> None:
        """Give the lease back. Nothing happens when it is not ours any more, or was our parent process's."""
        if token in self._inherited:
            return
        self._tokens.pop(token, None)
        with self._writing(durable=True) as connection:
            lease.release(connection, chat_id, token)

    def heartbeat(self, leases: Mapping[str, str]) -> set[str]:
        """Show a sign of life for all chats (id to token) in one statement; return the ids that are no longer ours.

        Raises:
            StoreMissingError: The store's file was deleted or replaced.
            StoreError: The store does not answer.
        """
        self._open()
        self.check_identity()
        ours = {chat_id: token for chat_id, token in leases.items() if token not in self._inherited}
        if not ours:
            return set()
        with self._writing(durable=False) as connection:
            return lease.beat(connection, ours)

    def forget_owner(self, chat_id: str) -> None:
        """Make the chat's owner look dead, as if its process had been killed. For tests."""
        with self._writing(durable=True) as connection:
            connection.execute(update(tables.chats).where(tables.chats.c.id == chat_id).values(owner_start="killed"))

    # --- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, chat_id: str, token: str, *, durable: bool = True) -> Iterator[SqlWriteTx]:
        """Open a write transaction. `durable=False`: a power loss may take it (chunk batches).

        Raises:
            LeaseLostError: The lease is no longer ours; nothing was written.
            ChatInUseError: It was our parent process's, before a fork.
            StoreError: The write failed; nothing was written.
        """
        self._refuse_inherited(chat_id, token)
        with self._writing(durable=durable) as connection:
            tx = SqlWriteTx(connection, self._database, chat_id)
            try:
                tx.require(token)
                yield tx
            finally:
                tx._end()

    @contextmanager
    def write_free(self) -> Iterator[SqlBooks]:
        """Open a write transaction for rows that belong to no chat."""
        with self._writing(durable=True) as connection:
            books = SqlBooks(connection)
            try:
                yield books
            finally:
                books._end()

    def delete_chat(self, chat_id: str, *, owner: Owner) -> bool:
        """Take the lease and delete the chat with all its rows; False if there is none.

        Raises:
            ChatInUseError: Its owner is alive.
        """
        holder = self._find_holder(chat_id)
        if holder is None:
            return False
        self._may_take(holder, owner, None)
        with self._writing(durable=True) as connection:
            if not lease.take(connection, holder, lease.new_token(), owner, forced=False):
                winner = lease.find_holder(connection, chat_id)
                if winner is None:
                    return False
                raise lease.in_use(winner)
            _delete_rows(connection, chat_id)
        self._tidy()
        return True

    def prune(self, now: datetime) -> None:
        """Drop changes older than 1 hour and incidents that ended more than 7 days ago.

        One that has failed has not ended as long as its turn is offered.
        """
        changes, incidents, turns = tables.changes.c, tables.incidents.c, tables.turns.c
        with self._writing(durable=False) as connection:
            connection.execute(delete(tables.changes).where(changes.at < now - _CHANGES_KEPT))
            ended = (incidents.status.in_(_ENDED_INCIDENTS), incidents.changed_at < now - _INCIDENTS_KEPT)
            offered = select(turns.id).where(turns.id == incidents.turn_id, turns.state == "interrupted").exists()
            connection.execute(delete(tables.incidents).where(*ended, ~offered))
        self._tidy()

    def _tidy(self) -> None:
        with self._lock, translated(self.place, self._database.path):
            if self._writer is not None and self._writing_thread is None:
                self._database.tidy(self._writer)
                self._writer.rollback()


def _delete_rows(connection: Connection, chat_id: str) -> None:
    """Delete a chat; what has a foreign key goes with it."""
    m, contents = tables.messages.c, tables.contents
    content_ids = list(connection.scalars(select(m.content_id).where(m.chat_id == chat_id).distinct()))
    for table in (tables.calls, tables.grants, tables.audit):
        connection.execute(delete(table).where(table.c.chat_id == chat_id))
    connection.execute(delete(tables.chats).where(tables.chats.c.id == chat_id))
    for start in range(0, len(content_ids), 500):
        unused = contents.c.content_id.in_(content_ids[start : start + 500])
        used = select(m.content_id).where(m.content_id == contents.c.content_id).exists()
        connection.execute(delete(contents).where(unused, ~used))
