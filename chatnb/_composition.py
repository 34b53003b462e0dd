"""Composition: what binds the ports of rows 1 to 5 for the chats of one runtime, and holds the live chats."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from ._changes import ChangeWatch
from ._children import ChatChildren
from ._clock import Clock
from ._ids import NewId, this_process
from ._notebook import convert_mention
from ._ports import Host, Span, Tracer
from .actions import Identity, find_identity
from .actions.environment import CallEnvironment
from .actions.hidden import guard_log
from .actions.ports import Books
from .errors import LeaseLostError, StoreError, StoreMissingError
from .recovery import kernel_of, scan, take_up_interrupted
from .store import Owner, Store, WriteTx, open_store
from .turns import ChatEngine

if TYPE_CHECKING:
    from .agent import Agent
    from .chat import Chat
    from .kernel.objects import ChatObjects
    from .runtime import Runtime

log = logging.getLogger("chatnb")

HEARTBEAT_SECONDS = 5.0


@dataclass(eq=False)
class Composition:
    """One runtime's chats, and the seams that their engines are given.

    Attributes:
        chats: The live chats, by store and id. A chat stays here until it is closed.
    """

    runtime: Runtime
    host: Host
    clock: Clock
    new_id: NewId
    tracer: Tracer
    chats: dict[tuple[str, str], Chat] = field(default_factory=dict)
    heartbeats: dict[str, Any] = field(default_factory=dict)
    watches: dict[str, ChangeWatch] = field(default_factory=dict)
    beat: bool = True
    last_sign: datetime | None = None
    """The last sign of life of a chat's former owner, where no heart beats (tests)."""

    @property
    def owner(self) -> Owner:
        """Who opens chats here: this process, in its kernel and notebook."""
        me, host = this_process(), self.host
        return Owner(host=me.host, pid=me.pid, start=me.start, kernel_id=host.kernel_id, label=host.label)

    @classmethod
    def of(cls, runtime: Runtime, host: Host, *, clock: Clock, new_id: NewId) -> Composition:
        """Return the composition of a runtime; it survives a reload of modules with it."""
        found = cast("Composition | None", runtime.shared.get("composition"))
        if found is None:
            guard_log()
            found = cls(runtime, host, clock, new_id, OtelTracer())
            runtime.shared["composition"] = found
            runtime.at_exit(found.close_all)
        return found

    def find(self, store: Store, chat_id: str) -> Chat | None:
        """Return the live chat with this id, or None."""
        found = self.chats.get((_place(store), chat_id))
        return found if found is not None and not found.is_closed else None

    def open(
        self,
        agent: Agent,
        store: Store,
        chat_id: str,
        owner: Owner,
        *,
        take_over: bool = False,
        identity: Identity | None = None,
        kept: ChatObjects | None = None,
        began: float | None = None,
    ) -> Chat:
        """Take the lease, make the engine, look for what a dead process left behind."""
        from .chat import Chat

        identity = identity or find_identity(agent.identity, host=self.host.kind)
        opened = store.open_chat(
            chat_id,
            agent=agent.name,
            owner=owner,
            identity=identity.id if identity is not None else None,
            take_over=take_over,
            began=began,
        )
        chat = Chat._make(agent, chat_id, self.runtime)
        chat._kept_objects = kept
        last_sign = self.last_sign or opened.chat.heartbeat_at
        chat._asleep = None if opened.created or last_sign is None else (last_sign, self.clock.now())

        def make() -> ChatEngine:
            engine = ChatEngine(
                chat_id=chat_id,
                definition=agent.definition(self, chat),
                store=store,
                opened=opened,
                runtime=self.runtime,
                clock=self.clock,
                new_id=self.new_id,
                tracer=self.tracer,
                kernel_id=kernel_of(owner),
            )
            engine.on_interrupted = lambda chat_id, turn_id, cause: take_up_interrupted(engine, turn_id, cause)
            chat._attach(engine, self, owner)
            scan(engine, opened, last_sign=self.last_sign)
            return engine

        try:
            self.runtime.call(make)
        except BaseException:
            store.release_chat(chat_id, opened.token)
            raise
        self.chats[_place(store), chat_id] = chat
        if self.beat:
            self._keep_beating(store)
        self.watch_changes(store)
        return chat

    def watch_changes(self, store: Store, agent: Agent | None = None) -> None:
        """Look for the changes of other processes in a store; for an agent that is observed also without a chat."""
        if store.in_memory or not self.beat:
            return
        place = _place(store)
        watch = self.watches.setdefault(place, ChangeWatch(self, place, store))
        if agent is not None:
            watch.agents.add(agent)
        self.runtime.call(watch.start)

    def forget(self, chat: Chat) -> list[Chat]:
        """Let go of a chat that closes and of the child chats of its calls; return them."""
        mine = [known for known in self.chats.values() if known is chat or known.id.startswith(f"{chat.id}/")]
        self.chats = {key: known for key, known in self.chats.items() if known not in mine}
        return mine

    async def close(self, chats: list[Chat]) -> None:
        """Release chats, at the same time."""
        await asyncio.gather(*(chat._engine.close() for chat in chats))

    def _keep_beating(self, store: Store) -> None:
        place = _place(store)
        task = self.heartbeats.get(place)
        if task is None or task.done():
            self.heartbeats[place] = self.runtime.spawn(self._beat(store), name="chatnb heartbeat")

    async def _beat(self, store: Store) -> None:
        is_silent = False
        while True:
            await self.clock.sleep(HEARTBEAT_SECONDS)
            engines = {
                id_: chat._engine
                for (place, id_), chat in self.chats.items()
                if place == _place(store) and not chat.is_closed
            }
            if not engines:
                return
            try:
                lost = store.heartbeat({id_: engine.token for id_, engine in engines.items()})
                for id_ in lost:
                    engines[id_].lease_lost(_who_took(store, id_, engines[id_].token))
            except StoreMissingError as failure:
                for engine in engines.values():
                    engine.store_lost(failure)
            except Exception as failure:  # noqa: BLE001 - the heart goes on beating
                # Once an outage: what is logged stands in the output of whatever cell the person is at.
                level = logging.DEBUG if is_silent else logging.ERROR
                log.log(level, "no sign of life can be written: %s", failure)
                is_silent = True
            else:
                is_silent = False

    async def close_all(self) -> None:
        """Release all chats: an orderly exit."""
        await asyncio.gather(*(chat._engine.close() for chat in list(self.chats.values())))

    # --- seams --------------------------------------------------------------------------------------------------

    def seams(self, agent: Agent, chat: Chat) -> dict[str, Any]:
        """Return what a definition needs of the composition."""

        def make_site(run: Any) -> Any:
            from .turns.agent_site import AgentSite

            environment = self.environment(agent, chat)
            return AgentSite(
                agent.catalog,
                environment,
                continues=run.cut_off_turns(),
                check_age=run.trigger == "continuation" and not run.by_decision,
                asked_at=run.input.arrived_at,
                asleep=chat._asleep,
                asks_held=run.input.origin == "http",
            )

        return {
            "make_site": make_site,
            "offer": lambda actions: chat._notebook.offered(actions),
            "variables": lambda run: chat._notebook.listing(run.definition.catalog),
            "expand": lambda message: chat._notebook.expand(message, chat.id),
            "convert_data": convert_mention,
        }

    def environment(self, agent: Agent, chat: Chat) -> CallEnvironment:
        """Return what the calls of a chat get of it."""
        return CallEnvironment(
            identity=chat._identity or find_identity(agent.identity, host=self.host.kind),
            books=ChatBooks(chat._engine),
            plan_mode=agent._plan_mode,
            approval_ttl=agent._approval_ttl,
            publish_change=chat._publish_change,
            accepts_images=bool(getattr(agent.model, "accepts_images", False)),
            tracer=self.tracer,
            children=ChatChildren(self, chat),
            **chat._notebook.seams(),
        )


class ChatBooks:
    """The bookkeeper of a chat outside a turn's stream."""

    def __init__(self, engine: ChatEngine) -> None:
        self._engine = engine

    def write(self) -> AbstractContextManager[WriteTx]:
        """Open a durable transaction."""
        return self._engine.write()


class FreeBooks:
    """The bookkeeper of calls that belong to no chat; opens the store at the first line that is written."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def write(self) -> AbstractContextManager[Books]:
        """Open a durable transaction."""
        return open_store(self._store).write_free()


class OtelTracer:
    """Spans of the OpenTelemetry API; they go nowhere without an SDK."""

    @contextmanager
    def span(self, name: str, /, **attributes: str | float | bool) -> Iterator[Span]:
        """Open a span around a block."""
        from opentelemetry import trace

        with trace.get_tracer("chatnb").start_as_current_span(name, attributes=attributes) as span:
            yield OtelSpan(span)


class OtelSpan:
    """One span."""

    def __init__(self, span: Any) -> None:
        self._span = span
        self._failed = False

    def set(self, name: str, value: str | float | bool) -> None:
        """Add an attribute."""
        self._span.set_attribute(name, value)

    def fail(self, message: str) -> None:
        """Mark it failed, once."""
        from opentelemetry.trace import Status, StatusCode

        if not self._failed:
            self._failed = True
            self._span.set_status(Status(StatusCode.ERROR, message))


def _who_took(store: Store, chat_id: str, token: str) -> LeaseLostError:
    """Return the error of a lease that is gone, which names who has it now."""
    try:
        with store.write(chat_id, token):
            pass
    except LeaseLostError as failure:
        return failure
    except StoreError:
        log.debug("who took the chat over could not be read", exc_info=True)
    return LeaseLostError(f"Chat {chat_id!r} was taken over by another process.")


def _place(store: Store) -> str:
    return f"{store.url}#{id(store)}" if store.in_memory else store.url
