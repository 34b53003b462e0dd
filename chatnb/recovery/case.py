"""One interrupted turn under treatment: its row, what its log says, what is known of its calls and inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .._json import JsonValue
from ..actions.ports import CallRow
from ..history import TreeEdit, is_settled
from ..history.repair import Records, repair
from ..messages import UIMessage, is_tool_part
from ..store.port import WriteTx
from ..store.records import IncidentRow, InputRow, TurnRow
from ..turns import ChatEngine, Input, Submission
from ..turns.definition import Definition
from ..turns.limits import fit_message
from ..turns.live import BASE_SEQ, base_note
from ..turns.mending import records_for
from .events import InFlightInput, Kind
from .rebuild import Rebuilt, close_parts
from .records import Cause, Interruption, Recovery

Class = Literal["ended", "parked", "retry", "continue"]


@dataclass(eq=False, kw_only=True)
class Case:
    """One interrupted turn.

    Attributes:
        node_id: The node that holds the answer's message, or None.
        own_input: The input that it answers, or None.
        before: Sends whose messages enter the history before that one's, unanswered; none once the chain is written.
        absorbed: Ids of the inputs that were merged into it.
        steered: Ids of inputs that were taken into it.
        kernel_id: The kernel that made the partial.
        in_flight: The inputs that were waiting when it was interrupted, in order.
        is_old: Its last sign of life is too old for going on by itself, or the agent wants to be asked.
    """

    engine: ChatEngine
    row: TurnRow
    rebuilt: Rebuilt
    cause: Cause
    interrupted_at: datetime
    node_id: str | None
    calls: list[CallRow]
    own_input: InputRow | None = None
    before: list[Input] = field(default_factory=list)
    absorbed: tuple[str, ...] = ()
    steered: tuple[str, ...] = ()
    kernel_id: str | None = None
    is_old: bool = False
    is_in_process: bool = False
    incident: IncidentRow | None = None
    in_flight: list[Input] = field(default_factory=list)
    records: Records = field(init=False)

    def __post_init__(self) -> None:
        names = [tool["name"] for tool in self.row.client_tools or ()]
        self.records = records_for(self.engine, self.rebuilt.message, self.calls, names)

    # --- what it is ---------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Recovery:
        """The agent's policy."""
        policy = self.engine.definition.recovery
        return policy if isinstance(policy, Recovery) else Recovery()

    @property
    def kind(self) -> Kind:
        """Whether something was produced."""
        return "continue" if self.rebuilt.has_part else "retry"

    @property
    def classified(self) -> Class:
        """The class of the turn: the first that fits."""
        if self.row.stop_requested or self.rebuilt.end is not None:
            return "ended"
        if self.has_waiting_calls:
            return "parked"
        return self.kind

    @property
    def has_waiting_calls(self) -> bool:
        """A call waits for a person."""
        names = frozenset(self.records.client_tools)
        return bool(self.engine.waiting_in(self.rebuilt.message, names))

    @property
    def partial(self) -> UIMessage | None:
        """The partial answer, as it is; None when nothing was produced."""
        message = self.rebuilt.message
        if not self.rebuilt.has_part or not any(part.type != "step-start" for part in message.parts):
            return None
        return message

    @property
    def known(self) -> UIMessage | None:
        """The partial answer, and of a continuation that has said nothing yet the message that it goes on with.

        A call that the message holds may have been entered by then: the hook has to hear of it.
        """
        return self.partial or (self.rebuilt.message if self.rebuilt.base_parts else None)

    @property
    def has_settled_work(self) -> bool:
        """A call of the partial has its result."""
        return any(is_tool_part(part) and is_settled(part) for part in self.rebuilt.message.parts)

    @property
    def is_before_w3(self) -> bool:
        """The chain that it answers was not written."""
        return self.row.leaf_id is None

    @property
    def has_moved(self) -> bool:
        """The conversation has gone on without it."""
        head = self.engine.tree.head
        if self.is_before_w3:
            return False
        return head != self.row.leaf_id and (self.node_id is None or head != self.node_id)

    def message_id(self) -> str | None:
        """Return the message that the interruption is about: the partial, else the one that is retried."""
        if self.partial is not None:
            return self.partial.id
        leaf = self.row.leaf_id
        if leaf is not None and leaf in self.engine.tree:
            return self.engine.tree.node(leaf).message_id
        return None

    def interruption(self, *, offered: bool, reason: str | None = None, inputs: int = 0) -> Interruption:
        """Return the record that `chat.interruption` shows."""
        return Interruption(
            turn_id=self.row.id,
            message_id=self.message_id(),
            kind=self.kind,
            cause=self.cause,
            incident_id=self.incident.id if self.incident is not None else None,
            created_at=self.row.started_at,
            interrupted_at=self.interrupted_at,
            offered=offered,
            reason=reason,
            inputs=inputs,
        )

    def finished_inputs(self) -> tuple[str, ...]:
        """Return the inputs that are done when the turn ends."""
        own = (self.row.input_id,) if self.row.input_id is not None else ()
        before = (id_ for i in self.before for id_ in (*i.absorbed, i.row.id))
        return (*own, *self.absorbed, *before, *self.steered, *self.rebuilt.laid)

    # --- its partial --------------------------------------------------------------------------------------------

    def settled_partial(self) -> UIMessage | None:
        """Return the partial as it is stored when nothing goes on: closed, with a result for each call."""
        if self.partial is None:
            return None
        return fit_message(repair([close_parts(self.partial)], self.records)[0])

    def plan_store(self, message: UIMessage) -> TreeEdit:
        """Plan to store the partial: in place, or as a new node at the end of the chain."""
        tree = self.engine.tree
        if self.node_id is not None:
            edit = TreeEdit(tree.head, tree.head)
            if tree.message(self.node_id) != message:
                edit.messages[self.node_id] = message
            return edit
        made_by = {"turn_id": self.row.id, "kernel_id": self.kernel_id}
        moved = self.has_moved
        leaf = self.row.leaf_id if self.row.leaf_id in tree else None
        edit = tree.plan_branch(leaf if moved else tree.head, message, lambda: self.engine.new_id("node"), **made_by)
        self.node_id = edit.nodes[0][0].node_id
        if moved:
            return edit
        if tree.head is not None:
            edit.shown[tree.head] = self.node_id
        edit.head = self.node_id
        return edit

    def incoming(self) -> tuple[UIMessage, ...]:
        """Return the messages that its send had brought, those before it first, for a chain that was not written."""
        own = self.own_input
        if not self.is_before_w3 or own is None or own.kind != "send":
            return ()
        return (*(i.message for i in self.before), UIMessage.from_wire(own.payload["message"]))

    def plan_message(self) -> TreeEdit | None:
        """Plan to put the message that it was to answer at the end of the chain, if the process died before it was."""
        own, tree = self.own_input, self.engine.tree
        if not self.is_before_w3 or own is None or own.kind != "send" or own.generation < self.engine.generation:
            return None
        messages = [m for m in self.incoming() if tree.on_chain(m.id) is None]
        if not messages:
            return None
        return tree.plan_list([*tree.messages, *messages], lambda: self.engine.new_id("node"))

    def put_log(self, tx: WriteTx) -> None:
        """Write the log anew: without a torn end, and with the note of where the message began."""
        tx.drop_chunks([self.row.id])
        tx.add_chunks(self.row.id, BASE_SEQ, [base_note(self.rebuilt.base_parts)])
        tx.add_chunks(self.row.id, 0, self.rebuilt.chunks)

    def finish_inputs(self, tx: WriteTx) -> None:
        """Mark the turn's inputs as done."""
        for input_id in self.finished_inputs():
            tx.move_input(input_id, {"waiting", "taken", "held"}, "done")


@dataclass(eq=False)
class HookRun:
    """What the hooks of recovery run under: the turn, as far as events show it."""

    engine: ChatEngine
    input: Input
    definition: Definition
    number: int
    trigger: str
    body: Mapping[str, JsonValue] | None
    client_data: Any = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, engine: ChatEngine, row: TurnRow, input_: Input) -> HookRun:
        """Make it for a turn."""
        definition = engine.definition
        try:
            data = definition.parse_client_data(row.client_data)
        except Exception:  # noqa: BLE001 - the schema may have changed since; the turn itself reports it
            data = row.client_data
        return cls(engine, input_, definition, row.number, row.trigger, row.body, data)


def new_input(engine: ChatEngine, row: InputRow, **options: Any) -> Input:
    """Make an input of a stored row, with a submission of its own."""
    submission = Submission(engine.runtime, engine.chat_id, engine.stop_submission)
    input_ = Input(row, [submission], origin="recovery", client_data=row.client_data, **options)
    submission._admit(input_)
    return input_


def describe_input(row: InputRow) -> InFlightInput:
    """Return an input as the hook sees it."""
    payload = row.payload or {}
    message = UIMessage.from_wire(payload["message"]) if row.kind == "send" else None
    action = payload.get("action") if row.kind == "action" else None
    return InFlightInput(
        id=row.id,
        kind=row.kind,
        arrival=row.arrival,
        text=message.text if message is not None else str((action or {}).get("type", "")),
        message=message,
        action=action,
        body=row.body,
    )
