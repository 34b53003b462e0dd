"""Approval of an MCP call: the client asks its person (spec/actions.md, 11.4).

Two generations of the protocol ask in two ways: a request from server to client while the call waits, or an answer
"input required" after which the client calls again. In both the ask is a row, bound to the caller and the call's hash,
valid for 10 minutes, and consumed before the answer is read: a deny burns it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .._json import dumps
from ..actions import Identity
from ..actions.audit import CallPlace
from ..actions.ports import GrantRow
from ..actions.prepare import PreparedCall
from ..actions.redaction import mask_secrets
from .place import SitePlace

LIFE = timedelta(minutes=10)
KEY = "approval"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["approve", "deny"]},
    },
    "required": ["decision"],
}


class Elicitation:
    """Asks about one call.

    Args:
        place: The way to the runtime and the store.
        context: The request.
        params: What is called; on a second round with the answer.
        identity: Who calls.
        stop: Set on the runtime when the client has cancelled the call; nobody is waited for then.

    Attributes:
        required: What the client is answered when it has to ask and call again.
    """

    def __init__(
        self,
        place: SitePlace,
        context: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        identity: Identity | None,
        stop: asyncio.Event,
    ) -> None:
        self._place = place
        self._stop = stop
        self._context = context
        self._params = params
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self.required: types.InputRequiredResult | None = None

    @property
    def is_possible(self) -> bool:
        """The client can ask its person with a form."""
        capabilities = self._context.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities is not None else None
        if elicitation is None:
            return False
        return elicitation.form is not None or elicitation.url is None

    async def confirm(self, prepared: PreparedCall) -> bool:
        """Ask about a prepared call; on the runtime. True: a person has said yes to just this call."""
        if self._context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            grant = self._write(prepared)
            answer = await self._answer(prepared)
            return self._consume(grant.id, prepared) and _is_yes(answer)
        responses, state = self._params.input_responses, self._params.request_state
        if not responses or not state:
            grant = self._write(prepared)
            self.required = types.InputRequiredResult(input_requests={KEY: _request(prepared)}, request_state=grant.id)
            return False
        return self._consume(state, prepared) and _is_yes(responses.get(KEY))

    async def _answer(self, prepared: PreparedCall) -> types.ElicitResult | None:
        """Wait for the client's answer, or until it cancels the call."""
        asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask(prepared), self._loop))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            waits: set[asyncio.Future[Any]] = {asked, stopped}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() and not self._stop.is_set() else None
        finally:
            asked.cancel()
            stopped.cancel()

    async def _ask(self, prepared: PreparedCall) -> types.ElicitResult | None:
        request = _request(prepared)
        form = request.params
        if not isinstance(form, types.ElicitRequestFormParams):
            raise AssertionError("chatnb asks with a form")
        try:
            return await self._context.session.elicit_form(
                form.message, form.requested_schema, self._context.request_id
            )
        except MCPError:
            return None

    # --- the row ------------------------------------------------------------------------------------------------

    def _write(self, prepared: PreparedCall) -> GrantRow:
        place = CallPlace(site="mcp", identity=self._identity)
        grant, audit = self._place.dispatcher.road.ask(prepared, place)
        grant = replace(grant, expires_at=grant.asked_at + LIFE)
        with self._place.store.write_free() as books:
            books.add_grant(grant)
            if audit is not None:
                books.add_audit(audit)
        return grant

    def _consume(self, grant_id: str, prepared: PreparedCall) -> bool:
        """Use the row up, whatever the answer is; False when it is not for this caller and call, used, or too old."""
        caller = self._identity.id if self._identity is not None else None
        now = self._place.composition.clock.now()
        with self._place.store.write_free() as books:
            row = books.find_grant(grant_id)
            if row is None or row.site != "mcp" or row.identity != caller:
                return False
            used = books.move_grant(grant_id, {"pending"}, "consumed", decided_at=now, decided_by=caller)
        return used and row.hash == prepared.hash and row.expires_at is not None and now < row.expires_at


def _request(prepared: PreparedCall) -> types.ElicitRequest:
    name = prepared.action.title or prepared.action.name
    arguments = dumps(mask_secrets(prepared.shown))
    message = f"{name} needs approval.\n\n{prepared.action.description}\n\nArguments: {arguments}"
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=SCHEMA))


def _is_yes(answer: Any) -> bool:
    if isinstance(answer, Mapping):
        action, content = answer.get("action"), answer.get("content")
    else:
        action, content = getattr(answer, "action", None), getattr(answer, "content", None)
    return action == "accept" and isinstance(content, Mapping) and content.get("decision") == "approve"
