"""The ASGI application of the A2A site: card, JSON-RPC, the page, and the decisions of a task's owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from a2a.server.context import ServerCallContext
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import __version__
from ..actions import Action
from ..errors import ForbiddenError, InputError
from ..turns.decisions import Decision
from .a2a_handler import IDENTITY_KEY, ORIGIN, ChatTasks
from .a2a_replay import LEASE_SECONDS, shown_agent
from .a2a_tasks import chat_id_of, context_of, read_task
from .http_actions import read_body, read_object
from .http_app import Border, Endpoint, panel_routes
from .http_chat import problem_of_outcome
from .http_errors import CompactJson, HttpProblem
from .http_page import PageRoutes
from .http_site import HttpOptions, HttpSite
from .place import SitePlace

if TYPE_CHECKING:
    from ..agent import Agent
    from ..chat import Chat
    from ..turns import Submission

MAX_DECISION_BYTES = 64 * 1024


class CallContexts(DefaultServerCallContextBuilder):
    """Hands the authenticated identity to the methods."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the context of a call."""
        context = super().build(request)
        context.state[IDENTITY_KEY] = request.scope.get(IDENTITY_KEY)
        return context


def make_app(agent: Agent, options: HttpOptions, *, url: str, description: str | None) -> Starlette:
    """Return the application."""
    shown = shown_agent(agent)
    site = HttpSite(shown, options)
    site.lease_seconds = LEASE_SECONDS
    dispatcher = JsonRpcDispatcher(ChatTasks(site), context_builder=CallContexts(), enable_v0_3_compat=True)
    decisions, page = Decisions(site), PageRoutes(site)

    async def rpc(request: Request) -> Response:
        identity = await site.identify(request)
        request.scope[IDENTITY_KEY] = identity
        # The SDK reads whatever comes; this is read first, counted, and found there.
        request._body = await read_body(request, options.max_body_bytes)
        return await dispatcher.handle_requests(request)

    routes: list[Any] = [
        *create_agent_card_routes(make_card(shown, url, description)),
        Route("/ui-capability", Endpoint(site, GET=site.capability)),
        Route("/actions/-/tasks/{id}/decision", Endpoint(site, POST=decisions.decide)),
        Route("/", Endpoint(site, GET=page.page, POST=rpc)),
        *panel_routes(site, page),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await site.close()

    made = Starlette(routes=routes, lifespan=lifespan)
    made.router.redirect_slashes = False
    made.add_middleware(Border, options=options)
    made.state.site = site
    return made


def make_card(agent: Agent, url: str, description: str | None) -> AgentCard:
    """Return the agent card: name, what it does, its exposed actions as skills."""
    said = description
    if said is None and isinstance(agent.instructions, str) and agent.instructions.strip():
        said = agent.instructions.strip().splitlines()[0]
    return AgentCard(
        name=agent.name,
        description=said or agent.name,
        version=__version__,
        supported_interfaces=[AgentInterface(url=f"{url}/", protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[_skill(action) for action in agent.actions],
    )


def _skill(action: Action) -> AgentSkill:
    tags = ["read"] if action.fixed_read is True else ["write"]
    if action.needs_approval is not False:
        tags.append("approval")
    return AgentSkill(id=action.name, name=action.title or action.name, description=action.description, tags=tags)


class Decisions:
    """Decides what a task asks: for its owner, with proof of a click."""

    def __init__(self, site: HttpSite) -> None:
        self._site = site

    async def decide(self, request: Request) -> Response:
        """`POST /actions/-/tasks/{id}/decision`: `{"approvalId", "approved", "reason"?}`."""
        person = self._site.require_person(await self._site.identify(request), "A decision")
        if not self._site.proof.holds(request, person):
            raise HttpProblem(403, "ui_capability_required", "Only a click in the page decides: GET /ui-capability.")
        task_id = request.path_params["id"]
        given = await read_object(request, MAX_DECISION_BYTES)
        approval_id, approved, reason = given.get("approvalId"), given.get("approved"), given.get("reason")
        if not isinstance(approval_id, str) or type(approved) is not bool:
            raise HttpProblem(400, "invalid_body", "A decision has `approvalId`, a text, and `approved`, a boolean.")
        decision = Decision(
            kind="approve" if approved else "reject",
            id=approval_id,
            reason=reason[:2000] if isinstance(reason, str) else None,
            decided_by=person.id,
        )
        chat = await self._find(task_id, person)
        submission = await self._site.on_runtime(lambda: _decide(chat, task_id, decision))
        if submission.done and (outcome := await submission).status in ("error", "skipped"):
            raise problem_of_outcome(outcome)  # somebody else was first, or has the chat now
        return CompactJson({"status": "applied"})

    async def _find(self, task_id: str, person: Any) -> Chat:
        try:
            place: SitePlace = self._site
            chat = await place.open_chat(chat_id_of(context_of(task_id)), person, create=False)
        except (ForbiddenError, InputError):
            chat = None
        if chat is None:
            raise HttpProblem(404, "not_found", "There is no such task.")
        return chat


def _decide(chat: Chat, task_id: str, decision: Decision) -> Submission:
    if read_task(chat, task_id) is None:
        raise HttpProblem(404, "not_found", "There is no such task.")
    if not any(p.id == decision.id for p in chat._engine.pending()):
        raise HttpProblem(409, "not_pending", "Nothing waits for this decision.")
    return chat._decide(decision, origin=ORIGIN)
