"""What a chat's engine keeps in memory, publishes and writes: the ground that the slot and its inputs stand on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._clock import Clock
from .._ids import NewId
from .._json import JsonValue
from .._ports import Tracer
from ..actions.ports import GrantRow, GrantState
from ..errors import LeaseLostError
from ..history import History, Node, Tree, TreeEdit
from ..history.repair import normalise_message
from ..messages import FoldChange, UIMessage, as_message, is_tool_part
from ..models import Usage
from ..store.port import OpenedChat, Store, WriteTx
from ..store.records import InjectedRow, NodeRow
from .admission import Queue
from .books import TurnTx
from .decisions import HeldDecision, list_pending
from .definition import Definition
from .history_backend import EngineHistory
from .limits import fit_message
from .records import CallView, ChatState, ChatStatus, Pending, TurnError, Update, Waiting
from .usage import usage_from_json, usage_to_json
from .wire import WireChunk

if TYPE_CHECKING:
    from .inputs import Input
    from .turn_run import TurnRun

log = logging.getLogger("chatnb")


class EngineBase:
    """State, publishing and writing of one chat. Everything but reading happens on the runtime's loop."""

    def __init__(
        self,
        *,
        chat_id: str,
        definition: Definition,
        store: Store,
        opened: OpenedChat,
        runtime: Any,
        clock: Clock,
        new_id: NewId,
        tracer: Tracer,
        kernel_id: str | None = None,
    ) -> None:
        self.chat_id = chat_id
        self.chat: Any = None
        self.definition = definition
        self.store = store
        self.token = opened.token
        self.runtime = runtime
        self.clock = clock
        self.new_id = new_id
        self.tracer = tracer
        self.kernel_id = kernel_id
        row = opened.chat
        self.is_new = opened.created
        self.booted = False
        self.generation = row.generation
        self.next_number = row.next_number
        self.chat_started = row.chat_started
        self.redo: list[str | None] = list(row.redo)
        self.total_usage: Usage = usage_from_json(row.usage)
        self.previous_usage: Usage | None = None
        self.last_body: JsonValue = row.body
        self.last_client_tools: JsonValue = row.client_tools
        self.last_client_data: Any = None
        self.last_client_data_row: JsonValue = None
        self.progress = row.progress
        self.tree = Tree(
            [node_of(n) for n in store.load_nodes(chat_id)] if not opened.created else (), row.head, self._load
        )
        self.stored_head = row.head
        self.unstored: dict[str, tuple[Node, UIMessage]] = {}
        self.history = History(EngineHistory(self))  # type: ignore[arg-type]
        self.injected: list[InjectedRow] = store.load_injected(chat_id) if not opened.created else []
        # Above all numbers that former turns have used, which are not loaded.
        self.injected_count = max((row.n for row in self.injected), default=self.next_number * 1_000_000)
        self.grants: dict[str, GrantRow] = {}
        self.queue = Queue(clock.monotonic)
        self.turn: TurnRun | None = None
        self.arrival = store.next_arrival(chat_id) if not opened.created else 1
        self.status: ChatStatus = "ready"
        self.is_tool_continuation = False
        self.is_recovering = False
        self.error: TurnError | None = None
        self.interruption: Any = None
        self.closed: str | None = None
        self.dead = False
        self.calls: dict[str, CallView] = {}
        self.message_usage: dict[str, Usage] | None = None
        self.cell_inserters: list[Callable[..., bool]] = []
        self.restorable: Callable[[], tuple[Any, ...]] = tuple
        self.tool_phase: frozenset[str] = frozenset()
        self.steering: list[Input] = []
        self.held_decisions: dict[str, HeldDecision] = {}
        self.applied_decisions: list[str] = []
        self.unsaved: UIMessage | None = None
        self.partial: UIMessage | None = None
        """What an interrupted turn has made, until it is stored or goes on."""
        self.hook_listeners: list[Callable[[str, Any], None]] = []
        self._listeners: list[Callable[[Update], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._branches: tuple[int, Mapping[str, tuple[int, int]]] = (-1, {})
        if self.next_number:
            self._read_last_turn()
        self._reload_grants()

    def _read_last_turn(self) -> None:
        """Take over what a continuation and the next turn inherit of the last one."""
        last = self.store.load_turns(self.chat_id)[-1:]
        if last:
            self.previous_usage = usage_from_json(last[0].usage)
            self.last_client_data = self.last_client_data_row = last[0].client_data

    def _load(self, node_ids: list[str]) -> dict[str, UIMessage]:
        stored = self.store.load_messages(self.chat_id, node_ids)
        found: dict[str, UIMessage] = {}
        for node_id in node_ids:
            node = self.tree.node(node_id)
            wire = stored.get(node_id)
            if wire is None:
                log.warning("chat %s: a message can't be read; a placeholder stands in its place", self.chat_id)
                found[node_id] = placeholder(node)
            else:
                found[node_id] = normalise_message(as_message(wire))
        return found

    # --- reading, from any thread -------------------------------------------------------------------------------

    def read_chain(self) -> tuple[UIMessage, ...]:
        """Return the chain; while a turn finishes, with its response."""
        turn = self.turn
        if turn is not None and turn.final is not None:
            return tuple(turn.final)
        return self.tree.messages

    def shown_messages(self) -> tuple[UIMessage, ...]:
        """Return the chain with the message that is being written."""
        turn = self.turn
        chain = self.tree.messages
        if turn is not None and turn.live.has_shown:
            message: UIMessage | None = turn.live.message
        else:
            message = self.partial or self.unsaved
        if message is None:
            return chain
        if chain and chain[-1].id == message.id:
            return (*chain[:-1], message)
        return (*chain, message)

    def read_messages(self) -> tuple[UIMessage, ...]:
        """Return the shown messages, from any thread."""
        if self.tree.is_loaded:
            return self.shown_messages()
        return self.runtime.call(self.shown_messages)  # type: ignore[no-any-return]

    def waiting_lines(self) -> tuple[Waiting, ...]:
        """Return what waits for the slot."""
        return tuple(sorted((*self.queue.lines(), *(i.to_waiting() for i in self.steering)), key=lambda w: w.arrival))

    def pending(self) -> tuple[Pending, ...]:
        """Return the calls that wait for a person."""
        message = self._newest_answer()
        if message is None:
            return ()
        found = list_pending(message, self.grants.get, self.client_tool_names, self.title_of)
        return tuple(p for p in found if p.tool_call_id not in self.held_decisions)

    def _newest_answer(self) -> UIMessage | None:
        return next((m for m in reversed(self.shown_messages()) if m.role == "assistant"), None)

    @property
    def client_tool_names(self) -> frozenset[str]:
        """The client-side tools of the running turn, else of the last one."""
        if self.turn is not None:
            return self.turn.client_tool_names
        return frozenset(t["name"] for t in self.last_client_tools or ())

    def waiting_in(self, message: UIMessage, client_tools: frozenset[str]) -> list[Any]:
        """Return the calls of a message that wait for a person."""
        return [
            p
            for p in message.parts
            if is_tool_part(p)
            and (p.state == "approval-requested" or (p.state == "input-available" and p.tool_name in client_tools))
        ]

    def title_of(self, action: str) -> str:
        """Return an action's title, else its name."""
        found = self.definition.catalog.find(action)
        return (found.title or action) if found is not None else action

    def state(self) -> ChatState:
        """Return everything a view shows, as of now; on the runtime, between two chunks."""
        turn = self.turn
        return ChatState(
            messages=self.shown_messages(),
            status=self.status,
            is_tool_continuation=self.is_tool_continuation,
            is_recovering=self.is_recovering,
            error=self.error,
            pending=self.pending(),
            queue=self.waiting_lines(),
            usage={"total": usage_to_json(self.total_usage), "messages": self._usage_by_message()},
            interruption=self.interruption,
            restorable=self.restorable(),
            can_undo=any(m.role == "user" for m in self.tree.messages),
            can_redo=bool(self.redo),
            streaming_id=turn.live.message_id if turn is not None and turn.live.has_shown else None,
            own=turn.input.origin if turn is not None else None,
            branches=self._branch_counts(),
            calls=dict(self.calls),
            tool_phase=self.tool_phase,
            closed=self.closed,
            unsaved=self.unsaved is not None,
        )

    def _usage_by_message(self) -> dict[str, JsonValue]:
        """Return what each answer has used, all turns that wrote it together."""
        if self.message_usage is None:
            self.message_usage = {}
            for row in self.store.load_turns(self.chat_id):
                if row.assistant_id is not None and row.usage is not None:
                    self.note_message_usage(row.assistant_id, usage_from_json(row.usage))
        return {id_: usage_to_json(usage) for id_, usage in self.message_usage.items()}

    def note_message_usage(self, message_id: str, usage: Usage) -> None:
        """Add what a turn has used to the message that it wrote."""
        if self.message_usage is not None:
            self.message_usage[message_id] = self.message_usage.get(message_id, Usage()) + usage

    def _branch_counts(self) -> Mapping[str, tuple[int, int]]:
        if self._branches[0] != self.tree.revision:
            self._branches = (self.tree.revision, self.tree.branch_counts())
        return self._branches[1]

    # --- publishing ---------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[Update], None]) -> Callable[[], None]:
        """Tell a listener about every change, on the runtime; return what ends it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

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
            self._reload_grants()

    def lease_lost(self, lost: LeaseLostError) -> None:
        """Another kernel owns the chat now. The engine overrides this."""
        raise NotImplementedError

    def _reload_grants(self) -> None:
        rows = self.store.load_grants(self.chat_id, ("pending", "approved", "rejected"))
        self.grants = {row.id: row for row in rows}

    def store_knows_grant(self, id: str) -> bool:
        """Tell whether this chat ever asked with this approval id or for this call."""
        states: tuple[GrantState, ...] = ("pending", "approved", "rejected", "superseded", "expired", "consumed")
        return any(id in (row.id, row.tool_call_id) for row in self.store.load_grants(self.chat_id, states))

    def put_edit(self, tx: WriteTx, edit: TreeEdit, *, redo: Sequence[str | None] | None = None) -> None:
        """Write a tree edit in an open transaction; `redo` keeps that stack, any other move of the head empties it.

        Raises:
            LeaseLostError: The head is not where it was left.
        """
        fresh = dict(self.unstored)
        rows: list[tuple[NodeRow, JsonValue]] = [
            (row_of(node), fit_message(message).to_wire()) for node, message in fresh.values()
        ]
        for node, message in edit.nodes:
            wire = fit_message(message).to_wire() if message is not None and node.content_id == node.node_id else None
            rows.append((row_of(node), wire))
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
        if self.status == "submitted" and kind not in ("start", "start-step") and chunk.get("transient") is not True:
            self.set_state(status="streaming")
        turn.note_sent(chunk)
        self.publish(Update(kind="chunk", message_id=message_id, change=change, chunk=chunk))
        if kind == "tool-approval-request":
            self.pending_changed()

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        return self.clock.monotonic()

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


def node_of(row: NodeRow) -> Node:
    """Return a stored node for the tree."""
    return Node(
        node_id=row.node_id,
        message_id=row.message_id,
        parent=row.parent,
        ordinal=row.ordinal,
        content_id=row.content_id,
        role=row.role,
        shown_child=row.shown_child,
        turn_id=row.turn_id,
        kernel_id=row.kernel_id,
    )


def row_of(node: Node) -> NodeRow:
    """Return a node as it is stored."""
    return NodeRow(
        node_id=node.node_id,
        message_id=node.message_id,
        parent=node.parent,
        ordinal=node.ordinal,
        content_id=node.content_id,
        role=node.role,
        shown_child=node.shown_child,
        turn_id=node.turn_id,
        kernel_id=node.kernel_id,
    )


def placeholder(node: Node) -> UIMessage:
    """Return what stands in the place of a message that can't be read. It is not sent to models."""
    return UIMessage.from_wire(
        {
            "id": node.message_id,
            "role": node.role,
            "parts": [{"type": "data-unreadable", "data": None}],
        }
    )
