"""The one road that every dispatched call takes (spec/actions.md, section 2).

Look up and exposure -> prepare -> plan mode -> replay -> approval -> authorize -> run -> validate output -> audit. A
site decides nothing: it brings a name, an input and what it knows of the caller, and maps what comes back. Plan mode
and replay are the agent site's, which walks the same road step by step (`turns/agent_site.py`); all others go through
`Dispatcher`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from .._clock import Clock
from .._ids import NewId
from .._json import JsonValue
from .._ports import Calls
from ..errors import ActionError, InvalidArgumentsError
from .approval import is_gated, make_grant
from .audit import CallPlace, audit_call
from .call_run import CallRun, OpenBooks, Record
from .catalog import Catalog
from .definition import Action
from .effects import inside
from .environment import CallEnvironment
from .exposure import is_exposed
from .failures import CallFailure, failure, failure_of
from .identity import Identity
from .ports import AuditRow, Books, GrantRow, Site
from .prepare import PreparedCall, prepare_call
from .progress import Show
from .run import Runner, context_of, scope_of
from .settled import Settled

Confirm = Callable[[PreparedCall], Awaitable[bool]]


class Road:
    """The steps of the road, for one site in one place.

    Args:
        environment: What the place gives.
        calls: Runs handlers.
        clock: The time.
        new_id: Makes ids.
        open_books: Opens a transaction; None: nothing is written down.
    """

    def __init__(
        self,
        environment: CallEnvironment,
        *,
        calls: Calls,
        clock: Clock,
        new_id: NewId,
        open_books: OpenBooks | None,
    ) -> None:
        self.environment = environment
        self._clock = clock
        self._new_id = new_id
        self._open_books = open_books
        self._runner = Runner(environment, calls=calls, clock=clock, new_id=new_id, open_books=open_books)

    def find(self, catalog: Catalog, name: str, site: Site) -> Action:
        """Return the action of a name.

        Raises:
            ActionError: Code `unknown_action`: there is none, or the site does not show it.
        """
        action = catalog.find(name)
        if action is None or not is_exposed(action, site):
            raise ActionError("There is no such action here.", code="unknown_action", status_code=404)
        return action

    async def prepare(self, action: Action, raw: JsonValue) -> PreparedCall:
        """Validate, freeze, classify and hash a call; exactly this preparation runs.

        Raises:
            InvalidArgumentsError: The input does not fit.
        """
        return await prepare_call(action, raw, self._clock)

    async def is_gated(self, prepared: PreparedCall, place: CallPlace, client_data: JsonValue = None) -> bool:
        """Tell whether a person has to be asked about a call."""
        if isinstance(prepared.action.needs_approval, bool):
            return prepared.action.needs_approval
        context = context_of(prepared, place, client_data=client_data)
        with inside(scope_of(prepared.action, place, self.environment)):
            return await is_gated(prepared, context, self._clock)

    async def run(self, run: CallRun) -> Settled:
        """Authorize a prepared call, run it, check its result, write it down."""
        return await self._runner.run(run)

    def refuse(
        self,
        action: Action,
        place: CallPlace,
        problem: CallFailure,
        *,
        prepared: PreparedCall | None = None,
        raw: JsonValue = None,
        is_denied: bool = False,
        record: Record | None = None,
    ) -> Settled:
        """Settle a call that does not run, and audit it."""
        settled = Settled(
            status="denied" if is_denied else "error", action=action.name, prepared=prepared, failure=problem
        )
        row = audit_call(
            action,
            place,
            new_id=self._new_id,
            now=self._clock.now(),
            status=settled.status,
            prepared=prepared,
            is_write=action.fixed_read is not True,
            error_code=problem.code,
            raw=raw,
        )
        self._runner.record(settled, _add(row), record, needed=row is not None)
        return settled

    def ask(self, prepared: PreparedCall, place: CallPlace) -> tuple[GrantRow, AuditRow | None]:
        """Make the rows of an ask; the site writes them, in one transaction, before it shows the ask."""
        grant = make_grant(
            prepared,
            place,
            new_id=self._new_id,
            now=self._clock.now(),
            ttl=self.environment.approval_ttl,
        )
        row = audit_call(
            prepared.action,
            place,
            new_id=self._new_id,
            now=self._clock.now(),
            status="denied",
            prepared=prepared,
            error_code="approval_required",
        )
        return grant, row


class Dispatcher:
    """Dispatches calls of every site but the agent's (spec/actions.md, section 11).

    Args:
        catalog: The agent's actions.
        environment: What the place gives.
        calls, clock, new_id: As the runtime has them.
    """

    def __init__(
        self, catalog: Catalog, environment: CallEnvironment, *, calls: Calls, clock: Clock, new_id: NewId
    ) -> None:
        self._catalog = catalog
        self._environment = environment
        books = environment.books
        self._clock = clock
        self.road = Road(
            environment,
            calls=calls,
            clock=clock,
            new_id=new_id,
            open_books=None if books is None else books.write,
        )

    async def dispatch(
        self,
        name: str,
        raw: JsonValue,
        *,
        site: Site,
        identity: Identity | None = None,
        proof: bool = False,
        approved_hash: str | None = None,
        confirm: Confirm | None = None,
        chat_id: str | None = None,
        client_data: JsonValue = None,
        headers: Mapping[str, str] | None = None,
        attachments: tuple[Any, ...] = (),
        stop: asyncio.Event | None = None,
        show: Show | None = None,
        show_outputs: Callable[[list[JsonValue]], None] | None = None,
    ) -> Settled:
        """Dispatch one call. Never raises for what the call does; the outcome says it.

        Args:
            name: The action's name.
            raw: The input.
            site: From where it comes.
            identity: Who calls, as the site authenticated them; None at a widget or a terminal: the place's own.
            proof: The site has proof that a person has just clicked (nonce, capability).
            approved_hash: The hash that a person has said yes to (`--approved`), "" for a bare one.
            confirm: Asks a person who is there (a terminal); only its `True` runs a gated call.
            chat_id: The chat it belongs to, or None.
            client_data: For the `ActionContext`.
            headers: For the `ActionContext`.
            attachments: For the `ActionContext`.
            stop: When set, the call is stopped.
            show: Takes progress and lines while it runs.
            show_outputs: Takes all outputs so far, on the loop, while it runs.
        """
        try:
            action = self.road.find(self._catalog, name, site)
        except ActionError as error:
            return Settled(status="error", action=name, failure=failure_of(error))
        if identity is None and site in ("widget", "cli", "python"):
            identity = self._environment.identity  # the other sites have authentication of their own
        place = CallPlace(site=site, identity=identity, chat_id=chat_id)
        try:
            prepared = await self.road.prepare(action, raw)
        except InvalidArgumentsError as error:
            return self.road.refuse(action, place, failure_of(error), raw=raw)
        grant: GrantRow | None = None
        if action.ui_only or await self.road.is_gated(prepared, place, client_data):
            problem = await self._check_gate(prepared, place, proof, approved_hash, confirm)
            if problem is not None:
                return self.road.refuse(action, place, problem, prepared=prepared, is_denied=True)
            grant = self._decided(prepared, place)
        run = CallRun(
            prepared=prepared,
            place=place,
            decision=grant,
            client_data=client_data,
            headers=headers,
            attachments=attachments,
            stop=stop,
            show=show,
            show_outputs=show_outputs,
        )
        return await self.road.run(run)

    async def _check_gate(
        self,
        prepared: PreparedCall,
        place: CallPlace,
        proof: bool,
        approved_hash: str | None,
        confirm: Confirm | None,
    ) -> CallFailure | None:
        is_person = place.identity is None or place.identity.kind != "service"
        if proof and is_person:
            return None
        if prepared.action.ui_only:
            return failure("ui_only_action", "Only a person's click may run this action.")
        details = {"callHash": prepared.hash}
        if approved_hash is not None:
            if approved_hash == prepared.hash:
                if is_person:
                    return None
                return failure("approval_required", "A service may call, never approve.", details=details)
            return failure(
                "approval_mismatch",
                f"The approval is not for these arguments; their hash is {prepared.hash}.",
                details=details,
            )
        if confirm is not None and is_person and await confirm(prepared) is True:
            return None
        return failure("approval_required", "A person has to approve this call.", details=details)

    def _decided(self, prepared: PreparedCall, place: CallPlace) -> GrantRow:
        """Return the decision that a proven click, or a yes on a terminal, is."""
        grant, _ = self.road.ask(prepared, place)
        by = place.identity.id if place.identity is not None else None
        return replace(grant, state="consumed", decided_at=self._clock.now(), decided_by=by)


def _add(row: AuditRow | None) -> Callable[[Books], None]:
    def write(books: Books) -> None:
        if row is not None:
            books.add_audit(row)

    return write
