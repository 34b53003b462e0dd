"""A chat for the machine: a model that says what it is told, actions that leave marks, and a process that may die.

Everything runs on one loop, on a store in memory and with a clock that stands still. A process dies at a kill point, or
just before or after any transaction: from then on it writes nothing, and what it was doing is cancelled.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from chatnb import ActionContext, Agent, ClientTool, Compaction, Recovery, Steering, _killpoint, action
from chatnb.errors import LeaseLostError
from chatnb.models import Reply, ScriptedModel, Usage
from chatnb.store import Owner, memory_store
from chatnb.testing import StrictModel
from chatnb.testing.clock import settle
from chatnb.testing.mock import MockChat, ids_for

PAGE = ClientTool("page", "Ask the page.", {"type": "object", "properties": {}})
WRITES = ("pay", "ship", "refund", "slow_pay", "slow_refund", "slow_ship", "broken")


class Died(asyncio.CancelledError):
    """The process has died here."""


class MortalStore:
    """The store as one process sees it: once that is dead, nothing of it is written any more."""

    def __init__(self, store: Any, life: Life) -> None:
        self._store = store
        self._life = life

    def __getattr__(self, name: str) -> Any:
        if name in ("release_chat", "heartbeat", "prune") and self._life.is_dead:
            return lambda *args, **kwargs: set()
        return getattr(self._store, name)

    @contextmanager
    def write(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Open a transaction, and perhaps die before it or after it."""
        self._life.pass_by("write.before")
        with self._store.write(*args, **options) as tx:
            yield tx
        self._life.pass_by("write.after")

    @contextmanager
    def write_free(self) -> Iterator[Any]:
        """Open a transaction of no chat."""
        self._life.pass_by("write.before")
        with self._store.write_free() as tx:
            yield tx
        self._life.pass_by("write.after")


@dataclass
class Life:
    """One process: when it dies."""

    engines: list[Any] = field(default_factory=list)
    is_dead: bool = False
    point: str | None = None
    left: int = 0

    def arm(self, point: str, count: int) -> None:
        """Die at a passage of a point."""
        self.point, self.left = point, count
        in_code = point in _killpoint.POINTS
        _killpoint._armed, _killpoint._left = (point, count) if in_code else (None, 0)

    def pass_by(self, point: str) -> None:
        """Pass a point of the store."""
        if self.is_dead:
            raise LeaseLostError("the process is gone")
        if self.point == point:
            self.left -= 1
            if self.left == 0:
                self.die()
                raise Died

    def kill(self, pid: int, signal: int) -> None:
        """What a kill point calls."""
        self.die()
        raise Died

    def getpid(self) -> int:
        """What a kill point asks for."""
        return 0

    def die(self) -> None:
        """Write nothing more, and cancel all work."""
        self.is_dead = True
        self.disarm()
        for engine in self.engines:
            engine.die()

    def disarm(self) -> None:
        """Die nowhere."""
        self.point = None
        _killpoint._armed = None


@dataclass
class Config:
    """What an agent is made with."""

    concurrency: str = "queue"
    steering: bool = False
    compaction: bool = False
    auto: bool = True
    recovery_hook: bool = False


class Drop(BaseModel):
    """Take the last exchange off the history."""

    type: Literal["drop"] = "drop"


class Again(BaseModel):
    """Take the last message off, and answer what is there then."""

    type: Literal["again"] = "again"


class World:
    """One chat, its agent, and what has happened outside it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.entered: Counter[str] = Counter()
        self.returned: Counter[str] = Counter()
        self.refused: set[str] = set()
        self.plan: list[list[str]] = []
        self.hook_fails: str | None = None
        self.hook_edits: str | None = None
        self.is_edited = False
        self.hook_calls: list[tuple[str, Any]] = []
        self.made = 0
        self.chunks = 0
        self.inner = memory_store()
        self.inner._wait = lambda seconds: None  # nobody races for a lease here
        self.life = Life()
        self.agent = self._make_agent()
        self.old_lives: list[Life] = []
        self.flushes: set[asyncio.Task[None]] = set()
        self.mock: MockChat

    # --- the agent ----------------------------------------------------------------------------------------------

    def _make_agent(self) -> Agent:
        world = self

        def enter(ctx: ActionContext) -> str:
            world.entered[str(ctx.tool_call_id)] += 1
            return str(ctx.tool_call_id)

        @action
        async def pay(order: str, ctx: ActionContext) -> str:
            """Pay."""
            world.returned[enter(ctx)] += 1
            return f"paid {order}"

        @action(parallel_safe=True)
        async def ship(order: str, ctx: ActionContext) -> str:
            """Ship."""
            world.returned[enter(ctx)] += 1
            return f"shipped {order}"

        @action(parallel_safe=True)
        async def slow_ship(order: str, ctx: ActionContext) -> str:
            """Ship slowly."""
            call = enter(ctx)
            await world.mock.clock.sleep(1.5)
            world.returned[call] += 1
            return f"shipped {order}"

        @action(read_only=True)
        async def look(order: str) -> str:
            """Look."""
            return f"saw {order} {world.made}"

        @action(needs_approval=True)
        async def refund(order: str, ctx: ActionContext) -> str:
            """Refund."""
            world.returned[enter(ctx)] += 1
            return f"refunded {order}"

        @action
        async def slow_pay(order: str, ctx: ActionContext) -> str:
            """Pay slowly."""
            call = enter(ctx)
            await world.mock.clock.sleep(1.5)
            world.returned[call] += 1
            return f"paid {order}"

        @action(needs_approval=True)
        async def slow_refund(order: str, ctx: ActionContext) -> str:
            """Refund slowly."""
            call = enter(ctx)
            await world.mock.clock.sleep(1.5)
            world.returned[call] += 1
            return f"refunded {order}"

        @action
        async def broken(order: str, ctx: ActionContext) -> str:
            """Fail."""
            enter(ctx)
            raise RuntimeError(f"{order} is broken")

        @action(ends_turn=True)
        async def leave(order: str, ctx: ActionContext) -> str:
            """End the turn."""
            return f"left {order}"

        sub = Agent(StrictModel([world._child_step], loop=True), name="child", actions=[pay])

        @action
        async def ask(order: str, ctx: ActionContext) -> Any:
            """Ask another agent."""
            return ctx.child(sub).send(f"child {order}")

        config = self.config
        agent = Agent(
            StrictModel([world._step], loop=True),
            actions=[pay, ship, slow_ship, look, refund, slow_pay, slow_refund, broken, leave, ask],
            concurrency=config.concurrency,  # type: ignore[arg-type]
            steering=Steering(should_inject=lambda batch: world.made % 3 != 0) if config.steering else None,
            compaction=Compaction(lambda event: world.made % 5 == 0, summarize=lambda event: "a summary")
            if config.compaction
            else None,
            chat_actions=Drop | Again,
            recovery=Recovery(auto=config.auto, max_attempts=100, max_work=10**6),
        )
        agent.on_action(self._act)
        if config.recovery_hook:
            agent.on_chat_recovery(lambda event: world._hook("on_chat_recovery", event))
        for name in ("on_validate_messages", "on_turn_start", "on_before_turn_complete", "on_turn_complete"):
            getattr(agent, name)(lambda event, name=name: world._hook(name, event))
        return agent

    def _act(self, event: Any) -> Any:
        event.chat.history.slice(0, -2 if event.action.type == "drop" else -1)
        return event.turn() if event.action.type == "again" else None

    def _hook(self, name: str, event: Any) -> None:
        self.hook_calls.append((name, event))
        if self.hook_fails == name:
            self.hook_fails = None
            raise RuntimeError(f"{name} fails")
        if self.hook_edits == name:
            self.hook_edits = None
            self.is_edited = True
            event.chat.history.slice(1)

    def _child_step(self, request: Any) -> Any:
        if request.messages[-1]["role"] == "tool":
            return "the child has paid"
        return Reply("child", calls=[self._call("pay")])

    def _call(self, name: str) -> tuple[str, Any, str]:
        self.made += 1
        return (name, {} if name == "page" else {"order": str(self.made)}, f"call-{self.made}")

    def _step(self, request: Any) -> Any:
        self.made += 1
        what = self.plan.pop(0) if self.plan else ["say"]
        text = f"answer {self.made}"
        usage = Usage(input_tokens=self.made, output_tokens=1)
        known = {spec.name for spec in request.actions}
        calls = [self._call(name) for name in what if name in known]
        if "fail" in what:
            return Reply(text, fail=RuntimeError("the model fails"), fail_after=3)
        if "refuse" in what:
            return Reply(text, fail=RuntimeError("the model fails"), fail_after=0)
        delay = 1.0 if "slow" in what else 0.0
        if "empty" in what and not calls:
            return Reply("", usage=usage)
        return Reply(
            f"{text} of several words" if delay else text,
            calls=calls,
            reasoning="hm" if "think" in what else "",
            delay=delay,
            hang="hang" in what,
            usage=usage,
        )

    # --- the process --------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Open the chat in a first process."""
        _killpoint.os = self.life
        store = MortalStore(self.inner, self.life)
        from chatnb.testing.clock import Clock

        self.mock = MockChat(self.agent, "chat", store, Clock(), ids_for(self.inner), (PAGE,))
        self.mock._open()
        self._adopt()
        await settle()

    def _adopt(self) -> None:
        self.life.engines = [chat._engine for chat in self.mock.chat._composition.chats.values()]
        for engine in self.life.engines:
            engine.schedule = self._schedule

    def _schedule(self, seconds: float, function: Any) -> Any:
        """Let the chunk log follow the clock that stands still, so that the same steps do the same."""

        async def wait() -> None:
            await self.mock.clock.sleep(seconds)
            function()

        task = asyncio.get_running_loop().create_task(wait())
        self.flushes.add(task)
        task.add_done_callback(self.flushes.discard)
        return task.cancel

    @property
    def chat(self) -> Any:
        """The chat."""
        return self.mock.chat

    @property
    def engine(self) -> Any:
        """The chat's engine."""
        return self.mock.chat._engine

    async def rest(self, rounds: int | None = None) -> None:
        """Let go on what can, for some rounds of the loop, or as long as anything can."""
        if rounds is None:
            await settle()
        for _ in range(rounds or 0):
            await asyncio.sleep(0)
        self._adopt()
        if self.life.is_dead:
            for chat in self.mock.chat._composition.chats.values():
                chat._engine.die()
            await settle()

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.mock.clock.advance(seconds)
        await self.rest()

    async def reopen(self, *, kill: bool, after: float = 0.0, point: str | None = None, count: int = 1) -> None:
        """Open the chat in another process; it may die while it opens, and is opened again then."""
        old = self.life
        if kill:
            old.die()
            for chat in self.mock.chat._composition.chats.values():
                chat._engine.die()
                self.inner.forget_owner(chat.id)
        else:
            old.disarm()
            composition = self.mock.chat._composition
            await composition.close(composition.forget(self.mock.chat))
        await settle()
        old.is_dead = True
        self.mock._last_sign = self.mock.clock.now()
        await self.mock.clock.advance(after)
        self.plan = [what for what in self.plan if "hang" not in what]
        while True:
            self.mock.restarts += 1
            self.life = Life()
            _killpoint.os = self.life
            if point is not None:
                self.life.arm(point, count)
            self.mock.store = MortalStore(self.inner, self.life)
            with suppress(Died):
                self.mock._open()
                self._adopt()
                await settle()
                if not self.life.is_dead:
                    return
            point = None
            with suppress(AttributeError):
                self.mock.chat._engine.die()
            self.life.is_dead = True
            await settle()
            for row in self.inner.list_chats():
                self.inner.forget_owner(row.id)

    async def take_over(self) -> Any:
        """Open the chat elsewhere while this process lives; return the chat that lost it."""
        old = self.mock.chat
        self.mock._last_sign = self.mock.clock.now()
        self.mock.restarts += 1
        self.life.disarm()
        self.old_lives.append(self.life)
        self.life = Life()
        _killpoint.os = self.life
        from chatnb._composition import Composition
        from chatnb.runtime import InlineRuntime

        runtime = InlineRuntime(asyncio.get_running_loop(), clock=self.mock.clock)
        composition = Composition(runtime, runtime.host, self.mock.clock, self.mock.ids, self.mock.tracer, beat=False)
        composition.last_sign = self.mock._last_sign
        number = self.mock.restarts
        owner = Owner(host="mock", pid=1000 + number, start=str(number), kernel_id=f"kernel-{number}")
        self.mock.store = MortalStore(self.inner, self.life)
        self.mock.runtime = runtime
        for row in self.inner.list_chats():
            if row.id != "chat":
                self.inner.forget_owner(row.id)
        self.mock.chat = composition.open(self.agent, self.mock.store, "chat", owner, take_over=True)
        self.mock.chat._bind(self.agent, None)
        self.mock.chat._default_client_tools = (PAGE,)
        self._adopt()
        await settle()
        return old

    async def end(self) -> None:
        """Leave nothing behind."""
        self.life.disarm()
        import os

        _killpoint.os = os
        for chat in self.mock.chat._composition.chats.values():
            chat._engine.die()
        for task in self.flushes:
            task.cancel()
        await settle()
        self.inner.close()


__all__ = ["PAGE", "WRITES", "Config", "Died", "Life", "MortalStore", "ScriptedModel", "World"]
