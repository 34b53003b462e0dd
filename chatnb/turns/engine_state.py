"""What a chat's engine keeps in memory, and what others read of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .._clock import Clock
from .._ids import NewId
from .._json import JsonValue
from .._ports import Tracer
from ..actions.ports import GrantRow
from ..errors import ChatClosedError, ChatnbError, LeaseLostError
from ..history import History, Node, Tree
from ..history.nodes import placeholder
from ..history.repair import normalise_message
from ..messages import UIMessage, as_message, is_tool_part
from ..models import ModelRequest, Usage
from ..store.port import OpenedChat, Store
from ..store.records import InjectedRow
from .admission import Queue
from .decisions import HeldDecision
from .definition import Definition
from .history_backend import EngineHistory
from .pending import list_pending
from .records import CallView, ChatState, ChatStatus, Pending, TurnError, Update, Waiting
from .usage import usage_from_json, usage_to_json

if TYPE_CHECKING:
    from ..runtime import Runtime
    from .inputs import Input
    from .turn_run import TurnRun

log = logging.getLogger("chatnb")


class EngineState:
    """What the engine of one chat knows. Reading it is safe from any thread."""

    def __init__(
        self,
        *,
        chat_id: str,
        definition: Definition,
        store: Store,
        opened: OpenedChat,
        runtime: Runtime,
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
        self.tree = Tree(store.load_nodes(chat_id) if not opened.created else (), row.head, self._load)
        self.stored_head = row.head
        self.unstored: dict[str, tuple[Node, UIMessage]] = {}
        self.history = History(EngineHistory(self))  # type: ignore[arg-type]  # all of an engine is a `ChatEngine`
        self.injected: list[InjectedRow] = store.load_injected(chat_id) if not opened.created else []
        self.injected_count = store.last_injected(chat_id) if not opened.created else 0
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
        self._usage_forms: dict[str, JsonValue] | None = None
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
        self.request_listeners: list[Callable[[Any, ModelRequest], None]] = []
        self._listeners: list[Callable[[Update], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._branches: tuple[int, Mapping[str, tuple[int, int]]] = (-1, {})
        if self.next_number:
            self._read_last_turn()
        self.reload_grants()

    def _read_last_turn(self) -> None:
        """Take over what a continuation and the next turn inherit of the last one."""
        row = self.store.load_last_turn(self.chat_id)
        if row is not None:
            self.previous_usage = usage_from_json(row.usage)
        while row is not None and (row.error or {}).get("stage") == "on_validate_messages":
            row = self.store.load_last_turn(self.chat_id, before=row.number)
        if row is not None:
            self.last_client_data = self.last_client_data_row = row.client_data

    def closed_error(self) -> ChatnbError | None:
        """Return what an input or edit raises once the chat is closed or belongs to another kernel, else None."""
        if self.closed is None:
            return None
        if self.closed.startswith("taken over"):
            return LeaseLostError(f"chat {self.chat_id!r} was {self.closed}")
        return ChatClosedError(f"chat {self.chat_id!r} is closed; open it again with agent.chat({self.chat_id!r})")

    def reload_grants(self) -> None:
        """Read the grants that may still be decided or used."""
        rows = self.store.load_grants(self.chat_id, ("pending", "approved", "rejected"))
        self.grants = {row.id: row for row in rows}

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
        return self._with_written(self.tree.messages)

    def with_edits(self, edited: tuple[UIMessage, ...]) -> tuple[UIMessage, ...]:
        """Return the messages as a hook has edited them: once a turn finishes, its response is one of them."""
        is_whole = self.turn is None or self.turn.final is not None
        return edited if is_whole else self._with_written(edited)

    def _with_written(self, chain: tuple[UIMessage, ...]) -> tuple[UIMessage, ...]:
        turn = self.turn
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
        return self.runtime.call(self.shown_messages)

    def waiting_lines(self) -> tuple[Waiting, ...]:
        """Return what waits for the slot."""
        return tuple(sorted((*self.queue.lines(), *(i.to_waiting() for i in self.steering)), key=lambda w: w.arrival))

    def pending(self) -> tuple[Pending, ...]:
        """Return the calls that wait for a person."""
        message = self.newest_answer()
        if message is None:
            return ()
        found: list[Pending] = []
        for former in self._asked_before(message):
            found += list_pending(former, self.grants.get, frozenset(), self.title_of)
        found += list_pending(message, self.grants.get, self.client_tool_names, self.title_of)
        return tuple(p for p in found if p.tool_call_id not in self.held_decisions)

    def _asked_before(self, newest: UIMessage) -> list[UIMessage]:
        """Return the messages before the newest answer that hold an open ask: a list that was saved may leave one."""
        asked = {g.message_id for g in self.grants.values() if g.state == "pending"} - {newest.id}
        places = [node_id for id_ in asked if id_ and (node_id := self.tree.on_chain(id_)) is not None]
        return [self.tree.message(node_id) for node_id in self.tree.chain if node_id in places] if places else []

    def newest_answer(self) -> UIMessage | None:
        """Return the newest answer; of a long history nothing else is read."""
        turn = self.turn
        shown = turn.live.message if turn is not None and turn.live.has_shown else self.partial or self.unsaved
        if shown is not None:
            return shown
        tree = self.tree
        found = next((node_id for node_id in reversed(tree.chain) if tree.node(node_id).role == "assistant"), None)
        return tree.message(found) if found is not None else None

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
            can_undo=any(self.tree.node(node_id).role == "user" for node_id in self.tree.chain),
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
        if self._usage_forms is None:
            # Made anew only when a turn has used something: a long chat has many answers.
            self._usage_forms = {id_: usage_to_json(usage) for id_, usage in self.message_usage.items()}
        return self._usage_forms

    def note_message_usage(self, message_id: str, usage: Usage) -> None:
        """Add what a turn has used to the message that it wrote."""
        if self.message_usage is not None:
            known = self.message_usage[message_id] = self.message_usage.get(message_id, Usage()) + usage
            if self._usage_forms is not None:
                self._usage_forms = {**self._usage_forms, message_id: usage_to_json(known)}

    def _branch_counts(self) -> Mapping[str, tuple[int, int]]:
        if self._branches[0] != self.tree.revision:
            self._branches = (self.tree.revision, self.tree.branch_counts())
        return self._branches[1]
