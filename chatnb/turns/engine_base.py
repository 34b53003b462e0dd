"""What a chat's engine publishes and writes: the ground that the slot and its inputs stand on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from .._json import JsonValue
from ..actions.ports import GrantState
from ..errors import InputError, LeaseLostError
from ..history import TreeEdit
from ..messages import FoldChange, UIMessage
from ..store.port import WriteTx
from ..store.records import NodeRow
from .books import TurnTx
from .engine_state import EngineState
from .limits import NOT_FINITE, fit_message
from .records import Update
from .wire import WireChunk

log = logging.getLogger("chatnb")


class EngineBase(EngineState):
    """Publishing and writing of one chat, on the runtime's loop."""

    # --- publishing ---------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[Update], None]) -> Callable[[], None]:
        """Tell a listener about every change, on the runtime; return what ends it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    @property
    def has_listeners(self) -> bool:
        """Somebody is told of changes: a view, a stream."""
        return bool(self._listeners)

    def publish(self, update: Update) -> None:
        """Tell all listeners. One that fails is logged and harms nobody."""
        for listener in tuple(self._listeners):
            try:
                listener(update)
            except Exception:
                log.exception("a listener of chat %s failed", self.chat_id)

    def history_changed(self) -> None:
        """The chain changed otherwise than by a chunk."""
        self.publish(Update(kind="history"))

    def pending_changed(self) -> None:
        """What waits for a person changed."""
        self.publish(Update(kind="pending"))
        self.wake()

    def queue_changed(self) -> None:
        """What waits for the slot changed."""
        self.publish(Update(kind="queue"))
        self.wake()

    def set_state(self, **fields: Any) -> None:
        """Change status, flags and error in one step, and publish it if anything changed."""
        changed = False
        for name, value in fields.items():
            if getattr(self, name) != value:
                setattr(self, name, value)
                changed = True
        if changed:
            self.publish(Update(kind="state"))

    def state_changed(self) -> None:
        """Something that views show of the chat changed outside it."""
        self.publish(Update(kind="state"))

    def wake(self) -> None:
        """Let everybody look again who waits for the chat to be stable."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def changed(self) -> asyncio.Future[None]:
        """Return what is done the next time that something changes; it listens from now on."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    async def until(self, is_so: Callable[[], bool], limit: Coroutine[Any, Any, None] | None = None) -> bool:
        """Wait until something is so, which is looked at whenever something changes.

        Args:
            is_so: Tells whether it is.
            limit: Its end ends the wait.

        Returns:
            Whether it is so.
        """
        end = asyncio.ensure_future(limit) if limit is not None else None
        try:
            while not is_so():
                if end is not None and end.done():
                    return False
                changed = self.changed()
                await asyncio.wait({changed, *([end] if end is not None else ())}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
            return True
        finally:
            if end is not None:
                end.cancel()

    # --- writing ------------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[WriteTx]:
        """Open a transaction of this chat.

        Raises:
            LeaseLostError: Another kernel has taken the chat over.
            StoreError: It can't be written; nothing was.
        """
        if self.dead:
            raise LeaseLostError("the process is gone")
        before = (self.redo, self.stored_head, dict(self.unstored))
        try:
            with self.store.write(self.chat_id, self.token, durable=durable) as tx:
                wrapped = TurnTx(tx)
                yield wrapped
        except BaseException as error:
            self.redo, self.stored_head, self.unstored = before
            if isinstance(error, LeaseLostError):
                self.lease_lost(error)
            raise
        if wrapped.touched_grants:
            self.reload_grants()

    def lease_lost(self, lost: LeaseLostError) -> None:
        """Another kernel owns the chat now. The engine overrides this."""
        raise NotImplementedError

    def store_knows_grant(self, id: str) -> bool:
        """Tell whether this chat ever asked with this approval id or for this call."""
        states: tuple[GrantState, ...] = ("pending", "approved", "rejected", "superseded", "expired", "consumed")
        return any(id in (row.id, row.tool_call_id) for row in self.store.load_grants(self.chat_id, states))

    def put_edit(self, tx: WriteTx, edit: TreeEdit, *, redo: Sequence[str | None] | None = None) -> None:
        """Write a tree edit in an open transaction; `redo` keeps that stack, any other move of the head empties it.

        Raises:
            InputError: A message is no JSON.
            LeaseLostError: The head is not where it was left.
        """
        try:
            self._put_edit(tx, edit, redo)
        except ValueError as error:
            raise InputError(NOT_FINITE) from error

    def _put_edit(self, tx: WriteTx, edit: TreeEdit, redo: Sequence[str | None] | None) -> None:
        fresh = dict(self.unstored)
        rows: list[tuple[NodeRow, JsonValue]] = [
            (node, fit_message(message).to_wire()) for node, message in fresh.values()
        ]
        for node, message in edit.nodes:
            wire = fit_message(message).to_wire() if message is not None and node.content_id == node.node_id else None
            rows.append((node, wire))
        if rows:
            tx.add_nodes(rows)
        for node_id, message in edit.messages.items():
            edit.contents[node_id] = tx.set_message(node_id, fit_message(message).to_wire())
        if edit.shown:
            tx.set_shown(edit.shown)
        if edit.head != self.stored_head and not tx.move_head(self.stored_head, edit.head):
            raise LeaseLostError(f"the head of chat {self.chat_id!r} was moved by somebody else")
        turn = self.turn
        if turn is not None and turn.is_written and turn.final is None and edit.head != self.tree.head:
            # The leaf that this turn answers has moved by an edit of its own: recovery looks for it there.
            tx.set_turn(turn.turn_id, leaf_id=edit.head)
        if edit.head != self.tree.head or redo is not None:
            self.redo = list(redo or ())
            tx.set_chat(redo=tuple(self.redo))
        self.stored_head = edit.head
        self.unstored.clear()

    def apply_edit(
        self,
        edit: TreeEdit,
        *,
        redo: Sequence[str | None] | None = None,
        stored: bool = True,
        also: Callable[[WriteTx], None] | None = None,
    ) -> None:
        """Store a tree edit, commit it and tell the views. An edit that changes nothing writes nothing.

        Args:
            edit: The edit.
            redo: The redo stack afterwards; None empties it if the head moves.
            stored: False: it lives in memory until the next stored edit.
            also: Writes more in the same transaction.
        """
        changes = not edit.is_empty or redo is not None
        if also is not None or (stored and changes):
            with self.write() as tx:
                if stored and changes:
                    self.put_edit(tx, edit, redo=redo)
                if also is not None:
                    also(tx)
        if not changes:
            return
        if not stored:
            for node, message in edit.nodes:
                if message is not None:
                    self.unstored[node.node_id] = (replace(node, content_id=node.node_id), message)
            self.redo = list(redo or ())
        self.tree.commit(edit)
        self.history_changed()

    def apply_list(self, messages: Sequence[UIMessage], *, stored: bool = True) -> None:
        """Make a list the chain, at once."""
        self.apply_edit(self.tree.plan_list(list(messages), lambda: self.new_id("node")), stored=stored)

    def replace_message(self, node_id: str, message: UIMessage, content_id: str) -> None:
        """Take over a message that has been stored in place, under a content id, and tell the views."""
        head = self.tree.head
        self.tree.commit(TreeEdit(head, head, messages={node_id: message}, contents={node_id: content_id}))
        self.history_changed()
        self.pending_changed()

    # --- what the live message needs ----------------------------------------------------------------------------

    def schedule(self, seconds: float, function: Callable[[], None]) -> Callable[[], None]:
        """Call a function on the loop later; return what cancels it."""
        return asyncio.get_running_loop().call_later(seconds, function).cancel

    def show(self, change: FoldChange | None, chunk: WireChunk, message_id: str) -> None:
        """Publish one chunk to views and submissions."""
        turn = self.turn
        if turn is None:
            return
        kind = chunk["type"]
        if self.status == "submitted" and chunk.get("transient") is not True:
            # What ends a block or a step that a dead process left open is no word of this attempt yet.
            mends = self.is_recovering and kind in ("text-end", "reasoning-end", "finish-step")
            if kind not in ("start", "start-step") and not mends:
                self.set_state(status="streaming")
        turn.note_sent(chunk)
        if self._listeners:
            self.publish(Update(kind="chunk", message_id=message_id, change=change, chunk=chunk))
        if kind == "tool-approval-request":
            self.pending_changed()

    def add_progress(self, gained: int) -> None:
        """Take note of progress that has been stored."""
        self.progress += gained

    def broken(self, error: Exception) -> None:
        """The chunk log can't be written: the turn ends."""
        if self.turn is not None and self.turn.broken is None:
            self.turn.broken = error
            self.turn.stop.set()

    def log_failure(self, text: str, error: BaseException) -> None:
        """Log what belongs to no turn."""
        log.error("chat %s: %s", self.chat_id, text, exc_info=error)
