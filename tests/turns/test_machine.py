"""Random inputs, edits, stops, hook failures and restarts; what always holds of a chat (issue 4, spec/turns.md)."""

from __future__ import annotations

import asyncio
import collections
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chatnb import Agent, Compaction, Steering, action
from chatnb.errors import ChatnbError
from chatnb.models import Reply, Usage
from chatnb.testing import StrictModel, mock_chat

FAILING = (
    "on_validate_messages",
    "on_turn_start",
    "prepare_messages",
    "run",
    "on_before_turn_complete",
    "on_turn_complete",
)


@action(read_only=True)
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@action(needs_approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


class ChatMachine(RuleBasedStateMachine):
    """One chat, driven at random."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.replies: collections.deque[str] = collections.deque()
        self.failing: set[str] = set()
        self.submissions: list[Any] = []
        self.count = 0
        self.refused: list[Any] = []

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    def reply(self, request: Any) -> Any:
        """Say what the next step is."""
        kind = self.replies.popleft() if self.replies else "text"
        self.count += 1
        n = self.count
        made: dict[str, Any] = {
            "text": Reply(f"answer {n}", usage=Usage(10, 2)),
            "slow": Reply(f"slowly said {n}", reasoning="let me think", delay=1.0),
            "look": Reply(
                f"looking {n}", calls=[("look", {"key": "a"}, f"c{n}a"), ("look", {"key": "b"}, f"c{n}b")], delay=0.5
            ),
            "pay": Reply("asking", calls=[("pay", {"to": "ann"}, f"c{n}a"), ("pay", {"to": "bob"}, f"c{n}b")]),
            "fail": Reply(f"half a {n}", delay=0.5, fail=RuntimeError("down")),
        }
        return made[kind]

    def hook(self, name: str) -> Any:
        def call(event: Any) -> Any:
            if name in self.failing:
                self.failing.discard(name)
                raise ValueError(f"{name} fails")
            return event.stream_text() if name == "run" else None

        return call

    @initialize(
        concurrency=st.sampled_from(["queue", "latest", "merge", "drop", "debounce"]),
        steers=st.booleans(),
        compacts=st.booleans(),
    )
    def open(self, concurrency: Any, steers: bool, compacts: bool) -> None:
        """A chat with its policies."""
        agent = Agent(
            StrictModel([self.reply], loop=True),
            actions=[look, pay],
            concurrency=concurrency,
            steering=Steering(lambda batch: self.count % 2 == 0) if steers else None,
            compaction=Compaction(lambda event: self.count % 3 == 0, lambda event: "summary") if compacts else None,
        )
        for name in FAILING:
            getattr(agent, name)(self.hook(name))
        self.context = mock_chat(agent)
        self.mock = self.run(self.context.__aenter__())

    def keep(self, submission: Any) -> None:
        self.submissions.append(submission)
        self.run(self.mock.clock.advance(0))

    @property
    def chat(self) -> Any:
        return self.mock.chat

    # --- what happens -------------------------------------------------------------------------------------------

    @rule(kinds=st.lists(st.sampled_from(["text", "slow", "look", "pay", "fail"]), max_size=2))
    def send(self, kinds: list[str]) -> None:
        """A message of the user."""
        self.replies.extend(kinds)
        self.keep(self.chat.send(f"message {len(self.submissions)}"))

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.run(self.mock.clock.advance(seconds))

    @rule()
    def stop(self) -> None:
        """The running turn is stopped."""
        self.chat.stop()
        self.run(self.mock.clock.advance(0))

    @precondition(lambda self: self.submissions)
    @rule(data=st.data())
    def stop_one(self, data: Any) -> None:
        """One input is stopped, whether it waits, runs or is done."""
        data.draw(st.sampled_from(self.submissions)).stop()
        self.run(self.mock.clock.advance(0))

    @rule()
    def inject(self) -> None:
        """Context is given for the next turn."""
        self.chat.inject("context")

    @rule(kind=st.sampled_from(["undo", "redo", "clear", "regenerate", "wat"]))
    def act(self, kind: str) -> None:
        """A chat action without arguments."""
        self.keep(self.chat.act({"type": kind}))

    @precondition(lambda self: self.chat.messages)
    @rule(data=st.data(), kind=st.sampled_from(["rollback", "edit", "remove", "switch", "regenerate"]))
    def act_on(self, data: Any, kind: str) -> None:
        """A chat action on some message."""
        id_ = data.draw(st.sampled_from([m.id for m in self.chat.messages]))
        self.keep(self.chat.act({"type": kind, "messageId": id_, "text": "edited"}))

    @rule(data=st.data(), approved=st.booleans(), goes_on=st.booleans())
    def decide(self, data: Any, approved: bool, goes_on: bool) -> None:
        """A person decides about a pending call."""
        pending = self.chat.pending
        if pending:
            chosen = data.draw(st.sampled_from([p.id for p in pending]))
            self.keep(self.chat.add_tool_approval_response(chosen, approved, continue_=goes_on))

    @rule()
    def go_on(self) -> None:
        """The last turn is continued."""
        self.keep(self.chat.continue_last_turn())

    @rule(name=st.sampled_from(FAILING))
    def break_hook(self, name: str) -> None:
        """A hook fails when it is called next."""
        self.failing.add(name)

    @rule()
    def edit_from_cell(self) -> None:
        """A cell drops the last message, if the chat is idle."""
        try:
            self.chat.history.slice(0, -1)
        except ChatnbError:
            assert self.chat.status != "ready" or self.chat.queue or not self.is_idle

    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        """The kernel is restarted, in order or not."""
        self.run(self.mock.restart(kill=kill))
        self.submissions = [s for s in self.submissions if s.done]

    # --- what holds ---------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return bool(self.chat._engine.queue.is_idle)

    @invariant()
    def chain_is_a_path(self) -> None:
        """The chain is a path of the stored tree, and order comes from the tree alone."""
        if not hasattr(self, "mock"):
            return
        nodes = {n.node_id: n for n in self.mock.store.load_nodes("chat-1")}
        row = self.mock.store.find_chat("chat-1")
        path = []
        at = row.head
        while at is not None:
            path.append(nodes[at])
            at = nodes[at].parent
        path.reverse()
        assert [n.ordinal for n in path] == sorted(n.ordinal for n in path)
        assert len({n.ordinal for n in nodes.values()}) == len(nodes)
        if self.is_idle:
            assert [n.message_id for n in path] == [m.id for m in self.chat.history.all()]
            assert all(self.chat.status in ("ready", "error") for _ in "1")
            assert all(s.done for s in self.submissions)

    @invariant()
    def one_completion(self) -> None:
        """Each turn completes once."""
        if not hasattr(self, "mock"):
            return
        done = collections.Counter(
            e.turn_number for name, e in self.mock.hooks if name == "on_turn_complete" and not e.replayed
        )
        assert all(count == 1 for count in done.values()), done

    @invariant()
    def requests_are_accepted(self) -> None:
        """No request was one that the API refuses."""
        for submission in self.submissions:
            if submission.done and submission.result().error is not None:
                error = submission.result().error
                assert "ModelRequestError" not in error.message, error.message
                assert error.stage in {"action", "closed", "input", "model", *FAILING}, error

    def teardown(self) -> None:
        """At the end everything is settled, and the next message is answered."""
        if hasattr(self, "mock"):
            try:
                self.settle()
            finally:
                self.run(self.context.__aexit__(None, None, None))
        self.loop.close()

    def settle(self) -> None:
        for _ in range(600):
            self.run(self.mock.clock.advance(10.0))
            if self.is_idle:
                break
        assert self.is_idle
        assert all(s.done for s in self.submissions)
        self.failing.clear()
        self.replies.clear()
        if self.chat.interruption is not None:
            self.chat.discard()
        last = self.chat.send("the last one")
        for _ in range(20):
            self.run(self.mock.clock.advance(10.0))
        outcome = last.result()
        assert outcome.status == "completed", outcome
        waiting = self.mock.store.load_inputs("chat-1", ("waiting", "taken", "held"))
        assert waiting == [], waiting
        ended = {t.state for t in self.mock.store.load_turns("chat-1")}
        assert ended <= {"completed", "awaiting", "stopped", "error"}, ended


ChatMachine.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestChatMachine = ChatMachine.TestCase
