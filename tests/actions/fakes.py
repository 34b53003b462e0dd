"""Small doubles for what actions reach through ports: the books in memory, calls that run where they are made."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection, Iterator
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

    def find_grants(self, *, chat_id: str, states: Collection[str]) -> list[GrantRow]:
        return [row for row in self.grants.values() if row.state in states]

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
