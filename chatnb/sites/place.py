"""A site without chats of its own: what HTTP, MCP and A2A share.

It dispatches an agent's calls that belong to no chat, opens chats for an identity, and crosses to the runtime.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from .._ids import check_chat_id
from ..actions import Identity, find_identity
from ..actions.dispatch import Dispatcher
from ..errors import ChatInUseError, ForbiddenError
from ..export.redaction import credentials_of, make_redact
from ..store import open_store

if TYPE_CHECKING:
    from ..actions.settled import Settled
    from ..agent import Agent
    from ..chat import Chat
    from ..runtime import Runtime

T = TypeVar("T")
Redact = Callable[[str], str]
log = logging.getLogger("chatnb")


class SitePlace:
    """A site without chats of its own: dispatches calls of an agent, and opens its chats. HTTP, MCP and A2A share it.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.composition = agent.composition()
        self.runtime: Runtime = self.composition.runtime
        self.runtime.send_calls_to_thread()
        self.store = open_store(agent._store)
        self.redact = self.redactor()
        self.lease_seconds: float | None = None
        """After so long without a sign of life the owner of a chat has lost it, and it is taken over."""
        self._owners: dict[str, str | None] = {}
        self._used: dict[str, float] = {}
        self.dispatcher = Dispatcher(
            agent.catalog,
            replace(agent.environment, identity=None, tracer=self.composition.tracer),
            calls=self.runtime.calls,
            clock=self.composition.clock,
            new_id=self.composition.new_id,
        )

    def local_identity(self) -> Identity | None:
        """Return who works here where the site has no authentication of its own (spec/actions.md, 2.7)."""
        kind = self.composition.host.kind
        if kind == "script" and sys.stdin is not None and _is_terminal():
            kind = "terminal"
        return find_identity(self.agent.identity, host=kind)

    def redactor(self) -> Redact | None:
        """Return what takes credentials out of a text."""
        return make_redact(credentials_of(self.agent.model))

    def say_failure(self, settled: Settled) -> str:
        """Return what callers of HTTP, MCP and A2A are told of a failure; the log gets the rest."""
        problem = settled.failure
        if problem is None:
            raise AssertionError("only a failure has a text")
        if problem.text != problem.public_text:
            log.error("the action %s failed", settled.action, exc_info=problem.exception)
        return problem.public_text if self.redact is None else self.redact(problem.public_text)

    # --- the runtime --------------------------------------------------------------------------------------------

    async def on_runtime(self, function: Callable[[], T]) -> T:
        """Call a function on the runtime's loop and return what it returns."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                value = function()
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                future.set_exception(error)
            else:
                future.set_result(value)

        self.runtime.post(run)
        return await asyncio.shield(asyncio.wrap_future(future))

    async def work(self, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """Run a task on the runtime to its end. A caller that goes away does not end it."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        async def run() -> None:
            try:
                value = await make()
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                future.set_exception(error)
            else:
                future.set_result(value)

        await self.on_runtime(lambda: self.runtime.spawn(run(), name=name))
        return await asyncio.shield(asyncio.wrap_future(future))

    # --- chats --------------------------------------------------------------------------------------------------

    async def open_chat(self, chat_id: Any, identity: Identity | None, *, create: bool = True) -> Chat | None:
        """Open a chat of this identity, or make it; None when there is none and none is to be made.

        Raises:
            InputError: Not a chat id.
            ForbiddenError: It belongs to somebody else.
            ChatInUseError: It is open in another process.
        """
        check_chat_id(chat_id)
        live = self.composition.find(self.store, chat_id)
        if live is None or chat_id not in self._owners:
            live = await asyncio.to_thread(self._open, chat_id, identity, create)
            if live is None:
                return None
        self.check_owner(self._owners[chat_id], identity)
        if live.agent is not self.agent:
            live = await asyncio.to_thread(self.agent._open, chat_id)
        if identity is not None:
            live._identity = identity
        self._used[chat_id] = time.monotonic()
        return live

    async def release_idle(self, seconds: float, is_watched: Callable[[str], bool]) -> None:
        """Close the chats that nobody has asked for, watches or waits for: a notebook may have them now.

        Args:
            seconds: How long they were not asked for.
            is_watched: Tells whether somebody reads a chat.
        """
        now = time.monotonic()
        for chat_id, used in list(self._used.items()):
            chat = self.composition.find(self.store, chat_id)
            if chat is None:
                self._forget(chat_id)
            elif now - used > seconds and not is_watched(chat_id) and await self.on_runtime(_is_idle(chat)):
                self._forget(chat_id)
                await asyncio.to_thread(chat.close)

    def _forget(self, chat_id: str) -> None:
        self._used.pop(chat_id, None)
        self._owners.pop(chat_id, None)

    def _open(self, chat_id: str, identity: Identity | None, create: bool) -> Chat | None:
        row = self.store.find_chat(chat_id) if self.store.exists() else None
        if row is None and not create:
            return None
        if row is not None:
            self.check_owner(row.identity, identity)
        try:
            chat = self.agent._open(chat_id, identity=identity)
        except ChatInUseError as error:
            if not self._is_lapsed(error):
                raise
            chat = self.agent._open(chat_id, identity=identity, take_over=True)
        made = row or self.store.find_chat(chat_id)
        self._owners[chat_id] = made.identity if made is not None else None
        return chat

    def _is_lapsed(self, error: ChatInUseError) -> bool:
        if self.lease_seconds is None or error.heartbeat_at is None:
            return False
        return (self.composition.clock.now() - error.heartbeat_at).total_seconds() > self.lease_seconds

    def check_owner(self, owner: str | None, identity: Identity | None) -> None:
        """Check that a chat belongs to who asks for it.

        Raises:
            ForbiddenError: It belongs to somebody else.
        """
        if owner != (identity.id if identity is not None else None):
            raise ForbiddenError("This chat belongs to somebody else.")


def _is_idle(chat: Chat) -> Callable[[], bool]:
    return lambda: bool(chat._engine.is_stable() or chat._engine.is_parked())


def _is_terminal() -> bool:
    try:
        return sys.stdin.isatty()
    except (ValueError, OSError):
        return False
