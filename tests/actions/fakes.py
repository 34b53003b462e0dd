"""Small doubles for what actions reach through ports: the books in memory, calls that run where they are made."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from chatnb._clock import SystemClock
from chatnb._ports import FunctionCall, FunctionResult
from chatnb.actions import Action, Catalog, Identity
from chatnb.actions.change import Change
from chatnb.actions.dispatch import Dispatcher
from chatnb.actions.environment import CallEnvironment
from chatnb.actions.ports import AuditRow, CallRow, GrantRow
from chatnb.messages import Fold, ToolPart, UIMessage, is_tool_part
from chatnb.turns.agent_site import AgentSite
from chatnb.turns.io import Announced, CallsEnd, TurnIdentity

ANN = Identity("ann", name="Ann")
ROBOT = Identity("robot", kind="service")


class CountingIds:
    """Ids that count."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"


@dataclass
class MemoryBooks:
    """The books of a site, in memory; it opens itself as its transaction."""

    calls: dict[str, CallRow] = field(default_factory=dict)
    grants: dict[str, GrantRow] = field(default_factory=dict)
    audits: list[AuditRow] = field(default_factory=list)
    changes: list[Any] = field(default_factory=list)
    fail_with: Exception | None = None

    @contextmanager
    def write(self) -> Iterator[MemoryBooks]:
        yield self

    def add_call(self, row: CallRow) -> bool:
        if self.fail_with is not None:
            raise self.fail_with
        self.calls[row.id] = row
        return True

    def settle_call(self, call_id: str, expect: Collection[str], row: CallRow) -> bool:
        if self.calls[call_id].state not in expect:
            return False
        self.calls[call_id] = row
        return True

    def reuse_call(self, call_id: str, by: str) -> bool:
        if self.calls[call_id].reused_by is not None:
            return False
        self.calls[call_id] = replace(self.calls[call_id], reused_by=by)
        return True

    def find_calls(self, *, chat_id: str, turn_ids: Collection[str], hash: str | None = None) -> list[CallRow]:
        return [row for row in self.calls.values() if row.turn_id in turn_ids and hash in (None, row.hash)]

    def add_grant(self, row: GrantRow) -> None:
        self.grants[row.id] = row

    def move_grant(self, grant_id: str, expect: Collection[str], to: Any, **fields: Any) -> bool:
        if self.grants[grant_id].state not in expect:
            return False
        self.grants[grant_id] = replace(self.grants[grant_id], state=to, **fields)
        return True

    def find_grant(self, grant_id: str) -> GrantRow | None:
        return self.grants.get(grant_id)

    def add_audit(self, row: AuditRow) -> None:
        self.audits.append(row)

    def add_change(self, payload: Any) -> None:
        self.changes.append(payload)


class InlineCalls:
    """Runs each call at once, on this loop."""

    async def run(self, call: FunctionCall) -> FunctionResult:
        try:
            if call.enter is not None:
                call.enter()
        except Exception as error:  # noqa: BLE001 - as the real one does
            return FunctionResult(error=error, reason="raised", entered=False)
        if call.on_phase is not None:
            call.on_phase("running")
        try:
            with call.scope() if call.scope is not None else nullcontext():
                value = call.function(**call.kwargs)
                if inspect.isawaitable(value):
                    value = await value
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - as the real one does
            return FunctionResult(error=error, reason="raised")
        return FunctionResult(value=value)


@dataclass
class Bench:
    """A dispatcher with its books and the changes that it published."""

    dispatcher: Dispatcher
    books: MemoryBooks
    changes: list[Change]


def bench(*actions: Action, identity: Identity | None = ANN, **fields: Any) -> Bench:
    """Make a dispatcher over these actions."""
    books, changes = MemoryBooks(), list[Change]()
    environment = CallEnvironment(identity=identity, books=books, publish_change=changes.append, **fields)
    dispatcher = Dispatcher(
        Catalog(actions), environment, calls=InlineCalls(), clock=SystemClock(), new_id=CountingIds()
    )
    return Bench(dispatcher, books, changes)


class FakeTurn:
    """A `TurnIO` over memory: the message is folded, the books are kept, nothing is logged."""

    def __init__(self, actions: Sequence[Action], **fields: Any) -> None:
        self.actions = list(actions)
        self.fields = fields
        self.books = MemoryBooks()
        self.changes: list[Change] = []
        self.chunks: list[Any] = []
        self.phases: list[tuple[str, str]] = []
        self.identity = TurnIdentity(chat_id="chat", turn_id="turn", number=0, attempt=1, message_id="msg")
        self.clock = SystemClock()
        self.new_id = CountingIds()
        self.calls: Any = InlineCalls()
        self.stop = asyncio.Event()
        self.context = contextvars.copy_context()
        self.client_data = None
        self.step_number = 0
        self._fold = Fold(id="msg")
        self.site = self._make_site()

    def _make_site(self) -> AgentSite:
        environment = CallEnvironment(identity=ANN, books=self.books, publish_change=self.changes.append, **self.fields)
        return AgentSite(Catalog(self.actions), environment)

    def next_attempt(self, actions: Sequence[Action] | None = None) -> FakeTurn:
        """The same turn after its process died: another attempt over the same books and message."""
        made = FakeTurn(self.actions if actions is None else actions, **self.fields)
        made.books, made.new_id = self.books, self.new_id
        made._fold, made.step_number = Fold(self.message), self.step_number
        made.identity = replace(self.identity, attempt=self.identity.attempt + 1)
        made.site = made._make_site()
        return made

    def next_turn(self) -> FakeTurn:
        """A turn from a new input."""
        made = self.next_attempt()
        made.identity = replace(self.identity, turn_id="turn-2", attempt=1)
        return made

    async def step(self, *called: tuple[str, Any]) -> CallsEnd:
        """Let the model make these calls in one step."""
        self.step_number += 1
        self.emit({"type": "start-step"})
        announced = []
        for number, (name, raw) in enumerate(called):
            call_id = f"call-{self.identity.turn_id}-{self.identity.attempt}-{self.step_number}-{number}"
            self.emit({"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": raw})
            announced.append(Announced(tool_call_id=call_id, name=name, input=raw))
        ended = await self.site.run_calls(self, announced)  # type: ignore[arg-type]
        self.emit({"type": "finish-step"})
        return ended

    def parts(self) -> list[ToolPart]:
        """All calls of the message."""
        return [part for part in self.message.parts if is_tool_part(part)]

    @property
    def message(self) -> UIMessage:
        return self._fold.message

    def emit(self, chunk: Any) -> None:
        self.chunks.append(chunk)
        self._fold.feed(chunk)

    @contextmanager
    def write(self) -> Iterator[Any]:
        yield self.books

    def edit(self, change: Any) -> None:
        self._fold = Fold(change(self.message))

    def show_call(self, tool_call_id: str, phase: str, **fields: Any) -> None:
        self.phases.append((tool_call_id, phase))
