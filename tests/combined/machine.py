"""The machine: random inputs, decisions, stops and deaths on one chat, in any order; what must hold after each rest.

What is checked when the chat has come to rest stands in `laws.py`. The seed of a step is Hypothesis's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chatnb import _killpoint
from chatnb.errors import ChatClosedError, InputError, LeaseLostError
from chatnb.messages import UIMessage
from tests.combined.laws import Laws
from tests.combined.world import Config, Died, World

SAYS = ("say", "say", "think", "slow", "fail", "refuse", "empty", "hang")
CALLS = (
    *("pay", "ship", "look", "refund", "refund", "slow_pay", "slow_refund"),
    *("slow_ship", "slow_ship", "broken", "leave", "page", "ask"),
)
POINTS = tuple(p for p in _killpoint.POINTS if p not in ("migrate.middle", "lease.taken"))
HOOKS = ("on_validate_messages", "on_turn_start", "on_before_turn_complete", "on_turn_complete", "on_chat_recovery")

step_plans = st.one_of(
    st.sampled_from(SAYS).map(lambda kind: [kind]),
    st.lists(st.sampled_from(CALLS), min_size=1, max_size=3),
    st.tuples(st.just("slow"), st.sampled_from(CALLS)).map(list),
)
plans = st.lists(step_plans, max_size=2)
places = st.integers(0, 7)
kinds = st.sampled_from(("approve", "approve", "edited", "reject", "output", "error"))
deaths = st.tuples(
    st.one_of(st.sampled_from(POINTS), st.sampled_from(("write.before", "write.after"))), st.integers(1, 12)
)


TOTALS: Counter[str] = Counter()
"""What was done, over all runs."""


class ChatMachine(RuleBasedStateMachine):
    """One chat under random treatment."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world: World
        self.laws: Laws
        self.count = self.bodies = 0
        self.submissions: list[Any] = []
        self.second_death: tuple[str, int] | None = None
        self.rounds: int | None = None

    # --- running ------------------------------------------------------------------------------------------------

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def do(self, act: Callable[[Any], Any]) -> Any:
        """Do something to the chat as a cell does, then let go on what can; open it again if it died of that."""

        async def work() -> Any:
            made = None
            with suppress(Died):
                try:
                    made = act(self.world.chat)
                except (ChatClosedError, LeaseLostError):
                    if not self.world.life.is_dead:
                        raise
            await self.world.rest(self.rounds)
            if self.world.life.is_dead:
                await self._reopen(kill=True)
            return made

        return self.run(work())

    async def _reopen(self, *, kill: bool, after: float = 0.0) -> None:
        point, count = self.second_death or (None, 1)
        self.second_death = None
        self.laws.deaths += 1
        await self.world.reopen(kill=kill, after=after, point=point, count=count)

    def teardown(self) -> None:
        try:
            if hasattr(self, "laws"):
                self.rest()
        finally:
            TOTALS.update(self.laws.totals() if hasattr(self, "laws") else {})
            if hasattr(self, "world"):
                self.run(self.world.end())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    # --- the beginning ------------------------------------------------------------------------------------------

    @initialize(
        concurrency=st.sampled_from(("queue", "queue", "latest", "merge", "drop", "debounce")),
        steering=st.booleans(),
        compaction=st.booleans(),
        auto=st.sampled_from((True, True, False)),
        recovery_hook=st.booleans(),
    )
    def begin(self, concurrency: str, steering: bool, compaction: bool, auto: bool, recovery_hook: bool) -> None:
        self.world = World(Config(concurrency, steering, compaction, auto, recovery_hook))
        self.run(self.world.begin())
        self.laws = Laws(self.world)
        for _ in range(2):  # something to take back and to edit
            message = self._message()
            self.do(lambda chat, message=message: chat.send(message))
        self.rest()

    # --- inputs -------------------------------------------------------------------------------------------------

    def _message(self) -> UIMessage:
        self.count += 1
        id_ = f"u{self.count}"
        self.laws.sent.add(id_)
        return UIMessage.from_wire({"id": id_, "role": "user", "parts": [{"type": "text", "text": f"text {id_}."}]})

    def _input(self, act: Callable[[Any], Any], plan: Any = ()) -> None:
        self.world.plan += [list(step) for step in plan]
        made = self.do(act)
        if made is not None:
            self.submissions.append(made)

    @rule(plan=plans)
    def send(self, plan: Any) -> None:
        message = self._message()
        self._input(lambda chat: chat.send(message), plan)

    @rule(plan=plans)
    def send_twice(self, plan: Any) -> None:
        first, second = self._message(), self._message()
        self._input(lambda chat: (chat.send(first), chat.send(second))[1], plan)

    @rule(plan=plans)
    def save(self, plan: Any) -> None:
        message = self._message()
        self._input(lambda chat: chat.save_messages(lambda former: [*former, message]), plan)

    @rule(plan=plans, place=st.one_of(st.none(), places))
    def regenerate(self, plan: Any, place: int | None) -> None:
        id_ = self._id(place)
        self._input(lambda chat: chat.regenerate(id_), plan)

    @rule(plan=plans, place=st.one_of(st.none(), places))
    def act_regenerate(self, plan: Any, place: int | None) -> None:
        id_ = self._id(place)
        self._input(lambda chat: chat.act({"type": "regenerate", "messageId": id_}, body=self._body()), plan)

    @rule(plan=plans, kind=st.sampled_from(("drop", "again")))
    def own_action(self, plan: Any, kind: str) -> None:
        self._input(lambda chat: chat.act({"type": kind}, body=self._body()), plan)

    @rule(plan=plans)
    def continue_(self, plan: Any) -> None:
        self._input(lambda chat: chat.continue_last_turn(), plan)

    def _body(self) -> dict[str, Any]:
        """Return what tells an input, and the turn of a chat action, from all others."""
        self.bodies += 1
        return {"n": self.bodies}

    def _id(self, place: int | None) -> str | None:
        if place is None:
            return None
        messages = self.world.chat.messages
        return messages[place % len(messages)].id if messages else "unknown"

    @rule(place=places, plan=plans)
    def edit(self, place: int, plan: Any) -> None:
        id_ = self._id(place)
        self.count += 1
        text = f"text e{self.count}."
        self._input(lambda chat: chat.edit(id_, text, body=self._body()), plan)

    @rule(kind=st.sampled_from(("undo", "undo", "redo", "clear")))
    def move(self, kind: str) -> None:
        self._input(lambda chat: getattr(chat, kind)())

    @rule(kind=st.sampled_from(("rollback", "remove")), place=places)
    def cut(self, kind: str, place: int) -> None:
        id_ = self._id(place)
        self._input(lambda chat: getattr(chat, kind)(id_))

    @rule(place=st.integers(0, 40))
    def switch(self, place: int) -> None:
        known = self.laws.known_ids()
        if known:
            self._input(lambda chat: chat.switch(known[place % len(known)]))

    @rule()
    def inject(self) -> None:
        self.do(lambda chat: chat.inject("some context"))

    # --- decisions ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.chat.pending)
    @rule(place=places, kind=kinds)
    def decide(self, place: int, kind: str) -> None:
        pending = self.world.chat.pending
        if not pending:
            return
        one = pending[place % len(pending)]
        if one.kind == "approval":
            self.laws.decide(one, kind)
            if kind == "reject":
                self._input(lambda chat: chat.reject(one.id, reason="no"))
            elif kind == "edited":
                self._input(lambda chat: chat.approve(one.tool_call_id, args={"order": f"e{one.args['order']}"}))
            else:
                self._input(lambda chat: chat.approve(one.id))
        elif kind == "reject":
            self._input(lambda chat: chat.reject(one.id))
        elif kind == "error":
            self._input(lambda chat: chat.add_tool_error(one.id, "the page fails"))
        else:
            self._input(lambda chat: chat.add_tool_output(one.id, {"page": one.id}))

    @rule(place=st.integers(0, 20))
    def decide_again(self, place: int) -> None:
        """A decision on a call that was decided before: it changes nothing."""
        ids = self.laws.decided
        waiting = {p.id for p in self.world.chat.pending}
        if ids and (id_ := list(ids)[place % len(ids)]) not in waiting:
            with suppress(InputError):
                self._input(lambda chat: chat.approve(id_))

    # --- control ------------------------------------------------------------------------------------------------

    @rule()
    def stop(self) -> None:
        self.do(lambda chat: chat.stop())

    @rule(place=places)
    def stop_one(self, place: int) -> None:
        if self.submissions:
            recent = self.submissions[-8:]
            self.do(lambda chat: recent[place % len(recent)].stop())

    @rule(seconds=st.sampled_from((0.5, 1.0, 3.0)))
    def wait(self, seconds: float) -> None:
        async def work() -> None:
            with suppress(Died):
                await self.world.advance(seconds)
            if self.world.life.is_dead:
                await self._reopen(kill=True)

        self.run(work())

    @rule(hook=st.sampled_from(HOOKS))
    def let_hook_fail(self, hook: str) -> None:
        self.world.hook_fails = hook

    @rule(hook=st.sampled_from(HOOKS))
    def let_hook_edit(self, hook: str) -> None:
        """A hook takes the first message off the history."""
        self.world.hook_edits = hook

    @precondition(lambda self: self.world.chat.interruption is not None)
    @rule()
    def discard(self) -> None:
        self.do(lambda chat: chat.discard())

    # --- the process --------------------------------------------------------------------------------------------

    @rule(death=deaths)
    def arm(self, death: tuple[str, int]) -> None:
        self.world.life.arm(*death)

    @rule(death=deaths)
    def arm_second(self, death: tuple[str, int]) -> None:
        self.second_death = death

    @rule(after=st.sampled_from((0.0, 0.0, 700.0)))
    def die(self, after: float) -> None:
        self.run(self._reopen(kill=True, after=after))

    @rule()
    def close(self) -> None:
        self.run(self._reopen(kill=False))

    @rule()
    def take_over(self) -> None:
        self.laws.deaths += 1
        self.run(self.world.take_over())

    # --- rest ---------------------------------------------------------------------------------------------------

    @rule()
    def rest(self) -> None:
        """Wait until the chat is at rest, then hold it against the reference."""

        async def work() -> None:
            for _ in range(120):
                if self.world.engine.queue.is_idle and not self.world.engine.steering:
                    break
                with suppress(Died):
                    await self.world.advance(4.0)
                if self.world.life.is_dead:
                    await self._reopen(kill=True)
            self.laws.check()

        self.run(work())

    @rule()
    def rest_and_reopen(self) -> None:
        """What a reopened chat shows is what the live one showed."""
        self.rest()
        before = self.laws.picture()
        self.run(self._reopen(kill=False))
        self.laws.same(before)
        self.rest()

    @rule(rounds=st.one_of(st.none(), st.integers(0, 40)))
    def hurry(self, rounds: int | None) -> None:
        """From now on the chat goes on only so many rounds of the loop after each thing that is done to it."""
        self.rounds = rounds

    @rule(
        calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=3),
        place=places,
        kinds=st.lists(kinds, min_size=1, max_size=3),
    )
    def ask_and_decide(self, calls: list[str], place: int, kinds: list[str]) -> None:
        message = self._message()
        self._input(lambda chat: chat.send(message), [[*calls, "refund"]])
        self.wait(0.5)
        for kind in kinds:
            self.decide(place, kind)

    @invariant()
    def always(self) -> None:
        if hasattr(self, "laws"):
            self.laws.always()
