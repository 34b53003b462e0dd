"""What the HTTP site knows while it runs: who calls, which chats are open here, and who reads which turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ..actions import Identity
from .crossing import Crossing
from .http_errors import HttpProblem
from .http_proof import Proof
from .place import SitePlace

if TYPE_CHECKING:
    from ..agent import Agent
    from ..turns import ClientTool, Submission
    from .http_stream import Left

IDLE_SECONDS = 600.0
"""How long a chat that nobody uses stays open here."""

Authenticate = Callable[[Request], Identity | str | Awaitable[Identity | str | None] | None]


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """The options of `app()`, checked."""

    authenticate: Authenticate | None = None
    client_tools: Sequence[ClientTool] = ()
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    page: bool = True
    secret: bytes | None = None
    resume_within: float = 1.5
    keep_alive: float = 15.0
    max_body_bytes: int = 32 * 1024 * 1024
    identity: Identity | None = None


class HttpSite(SitePlace):
    """The HTTP site of one agent.

    Args:
        agent: The agent.
        options: The options of `app()`.
    """

    def __init__(self, agent: Agent, options: HttpOptions) -> None:
        super().__init__(agent)
        self.options = options
        self.proof = Proof(options.secret)
        self.closing = asyncio.Event()
        self.watched: dict[object, str] = {}
        self._readers: dict[Submission, int] = {}
        self._leaving: dict[Submission, asyncio.TimerHandle] = {}
        self._crossing: Crossing | None = None

    @property
    def crossing(self) -> Crossing:
        """The way to the server's loop, which runs now."""
        if self._crossing is None:
            self._crossing = Crossing()
        return self._crossing

    # --- who calls ----------------------------------------------------------------------------------------------

    async def identify(self, request: Request) -> Identity | None:
        """Return who calls: as the site's authentication says, else who works here.

        Raises:
            HttpProblem: There is authentication, and it knows nobody: 401.
        """
        local = self.options.identity or self.local_identity()
        return await identify(request, self.options.authenticate, local)

    def require_person(self, identity: Identity | None, deed: str) -> Identity:
        """Return the identity if it is a person's.

        Raises:
            HttpProblem: Nobody is known (401), or a service asks (403).
        """
        if identity is None:
            raise HttpProblem(401, "unauthenticated", f"{deed} needs a person who is signed in.")
        if identity.kind != "user":
            raise HttpProblem(403, "forbidden", f"{deed} is for a person; a service may not.")
        return identity

    async def capability(self, request: Request) -> Response:
        """`GET /ui-capability`: give a person's page the proof that its clicks are theirs."""
        person = self.require_person(await self.identify(request), "The proof of a click")
        response = Response(status_code=204, headers={"cache-control": "no-store"})
        self.proof.mint(response, person, secure=request.scope["scheme"] == "https")
        return response

    # --- who reads ----------------------------------------------------------------------------------------------

    def reading(self, submission: Submission, *, stops: bool) -> Callable[[Left], None]:
        """Note a reader of a turn; the returned function is told how it left.

        A turn whose last reader goes away is stopped, unless somebody takes it up again shortly: an AI SDK client that
        stops closes its connection, and so does a page that is loaded anew.
        """
        self._readers[submission] = self._readers.get(submission, 0) + 1
        timer = self._leaving.pop(submission, None)
        if timer is not None:
            timer.cancel()

        def left(how: Left) -> None:
            count = self._readers[submission] = self._readers[submission] - 1
            if count > 0:
                return
            del self._readers[submission]
            if how == "gone" and stops and not submission.done:
                loop = asyncio.get_running_loop()
                self._leaving[submission] = loop.call_later(self.options.resume_within, self._abandon, submission)

        return left

    def _abandon(self, submission: Submission) -> None:
        self._leaving.pop(submission, None)
        if submission not in self._readers and not self.closing.is_set():
            submission.stop()

    def abandon_left(self, chat_id: str) -> None:
        """Stop what nobody reads any more in a chat that goes on now with something else."""
        for submission, timer in list(self._leaving.items()):
            if submission._chat_id == chat_id:
                timer.cancel()
                self._abandon(submission)

    async def release_forgotten(self) -> None:
        """Give back, now and then, the chats that nobody uses; runs until the server ends."""
        while not self.closing.is_set():
            try:
                async with asyncio.timeout(IDLE_SECONDS / 10):
                    await self.closing.wait()
            except TimeoutError:
                await self.release_idle(IDLE_SECONDS, self._is_watched)

    def _is_watched(self, chat_id: str) -> bool:
        return any(submission._chat_id == chat_id for submission in self._readers) or chat_id in self.watched.values()

    # --- the end ------------------------------------------------------------------------------------------------

    def begin_closing(self) -> None:
        """End all streams; turns go on until the chats are closed."""
        self.closing.set()

    async def close(self) -> None:
        """Release the chats: running turns are interrupted, to be taken up again at the next opening."""
        self.begin_closing()
        for timer in self._leaving.values():
            timer.cancel()
        mine = [c for c in self.composition.chats.values() if c.id in self._owners and not c.is_closed]
        await asyncio.gather(*(asyncio.to_thread(chat.close) for chat in mine))


async def identify(request: Request, authenticate: Authenticate | None, local: Identity | None) -> Identity | None:
    """Return who calls: as the authentication says, else who works here.

    Raises:
        HttpProblem: There is authentication, and it knows nobody: 401.
    """
    if authenticate is None:
        return local
    found = authenticate(request)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, str) and found:
        return Identity(found)
    if isinstance(found, Identity):
        return found
    raise HttpProblem(401, "unauthenticated", "Sign in first.", headers={"www-authenticate": "Bearer"})
