"""What `on_chat_recovery` may answer, and what becomes of an answer that is none (spec/recovery.md, section 5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from chatnb import Agent, Recovery, RecoveryDecision
from chatnb.errors import ConfigError, InputError
from chatnb.models import Reply, ScriptedModel
from chatnb.recovery import take_up
from chatnb.store import memory_store
from chatnb.testing import mock_chat
from tests.recovery.moments import flushed
from tests.recovery.processes import Scene

Hook = Callable[[Any], Any]


@asynccontextmanager
async def interrupted(
    hook: Hook, *steps: Any, waiting: tuple[str, ...] = (), started: Hook | None = None
) -> AsyncIterator[Any]:
    """A chat whose kernel died in mid-answer, with inputs waiting behind it, opened again."""
    agent = Agent(ScriptedModel([Reply("begun never", delay=1.0), *steps]))
    agent.on_chat_recovery(hook)
    if started is not None:
        agent.on_turn_start(started)
    async with mock_chat(agent) as mock:
        mock.chat.send("first", body={"from": "first"})
        for text in waiting:
            mock.chat.send(text)
        await mock.clock.advance(1.0)
        await flushed(mock)
        await mock.restart(kill=True)
        yield mock


def said(mock: Any) -> list[str]:
    return [message.text for message in mock.chat.messages]


class TestArguments:
    """What can't be meant is refused where it is written."""

    @pytest.mark.parametrize(
        "options",
        [
            {"max_attempts": 0},
            {"max_attempts": 1.5},
            {"no_progress_timeout": 0},
            {"max_work": -1},
            {"auto_within": 0},
            {"stall_timeout": -1},
            {"stall_timeout": float("nan")},
            {"auto": "x"},
            {"auto": 1},
            {"should_keep_recovering": True},
            {"on_exhausted": "stop"},
            {"terminal_message": ""},
            {"terminal_message": None},
        ],
    )
    def test_of_the_policy(self, options: dict[str, Any]) -> None:
        """Limits must be positive, `max_attempts` at least 1, else `ConfigError`; it names the argument."""
        with pytest.raises(ConfigError, match=next(iter(options))):
            Recovery(**options)

    @pytest.mark.parametrize(
        "options",
        [
            {"persist": 5},
            {"continue_": "no"},
            {"continue_": None},
            {"chain": "hello"},
            {"chain": {"id": "m"}},
            {"recovered_inputs": "first"},
            {"recovered_inputs": 5},
        ],
    )
    def test_of_a_decision(self, options: dict[str, Any]) -> None:
        """`RecoveryDecision` names the argument that it can't take."""
        with pytest.raises(InputError, match=next(iter(options))):
            RecoveryDecision(**options)


BAD: list[Hook] = [
    lambda event: True,
    lambda event: {"persist": True},
    lambda event: RecoveryDecision(persist=5),  # type: ignore[arg-type]
    lambda event: RecoveryDecision(chain=[5]),
    lambda event: RecoveryDecision(chain=[{"role": "user"}]),
    lambda event: RecoveryDecision(recovered_inputs=[5]),
    lambda event: RecoveryDecision(recovered_inputs=[[5]]),
    lambda event: RecoveryDecision(recovered_inputs=[{"parts": [{"type": "nonsense"}]}]),
    lambda event: RecoveryDecision(recovered_inputs=["second", ""]),
    lambda event: asyncio.sleep(0, {"continue_": True}),
    lambda event: 1 / 0,
]


class TestNothingSaid:
    """A block that was begun and in which nothing was said is no partial."""

    async def test_a_block_alone(self) -> None:
        """The turn is a retry; discarded, it leaves no empty message."""
        seen: list[Any] = []
        agent = Agent(ScriptedModel([Reply("never", delay=100.0), "end"]), recovery=Recovery(auto=False))
        agent.on_chat_recovery(lambda event: seen.append((event.kind, event.partial_parts)))
        async with mock_chat(agent) as mock:
            mock.chat.send("first")
            await flushed(mock)
            assert "text-start" in [chunk["type"] for chunk in mock.chunks]
            await mock.restart(kill=True)
            await mock.chat.stable()
            assert (seen, mock.chat.interruption.kind, said(mock)) == ([("retry", ())], "retry", ["first"])
            mock.chat.discard()
            await mock.done()
            assert said(mock) == ["first"]

    @pytest.mark.parametrize("first", [Reply("begun never", delay=1.0), Reply("never", delay=100.0)])
    async def test_continue_disabled(self, first: Reply) -> None:
        """`continue_=False` without a partial: the user message stays, and `continue_last_turn()` answers it, once."""
        agent = Agent(ScriptedModel([first, "end"]))
        agent.on_chat_recovery(lambda event: RecoveryDecision(persist=False, continue_=False))
        async with mock_chat(agent) as mock:
            mock.chat.send("first", body={"a": 1})
            await mock.clock.advance(1.0)
            await flushed(mock)
            await mock.restart(kill=True)
            await mock.done()
            assert (said(mock), mock.chat.interruption.reason) == (["first"], "continue_disabled")
            outcome = await mock.chat.continue_last_turn()
            assert (outcome.status, said(mock), mock.chat.interruption) == ("completed", ["first", "end"], None)
            assert [turn.body for turn in mock.store.load_turns(mock.chat.id)] == [{"a": 1}, {"a": 1}]
            await mock.chat.undo()
            assert (await mock.chat.continue_last_turn()).status == "skipped"


class TestBeforeItsMessage:
    """The process died between the turn's row and its message in the history: an admitted input is not lost."""

    SEND = 'await make_agent("never").chat("c").send("hi")'
    OPEN = """
    chat = make_agent("A", "B", {options}).chat("c")
    await chat.stable()
    {then}
    result = [shown(chat)["messages"], shown(chat)["offered"]]
    """
    HI, ANSWERED = ["user", "hi"], [["user", "hi"], ["assistant", "A"]]

    @pytest.mark.parametrize(
        ("options", "then", "messages"),
        [
            ("hook=lambda e: RecoveryDecision(continue_=False)", "", [HI]),
            ("hook=lambda e: RecoveryDecision(continue_=False)", "await chat.continue_last_turn()", ANSWERED),
            ("hook=lambda e: e.chat.stop()", "", [HI]),
            ("hook=lambda e: 1 / 0", "", [HI]),
            ("recovery=Recovery(auto=False)", "", [HI]),
            ("recovery=Recovery(auto=False)", "await chat.continue_last_turn()", ANSWERED),
            ("recovery=Recovery(auto=False)", "chat.discard()", [HI]),
            ("recovery=Recovery(auto=False)", 'await chat.send("new")', [HI, ["user", "new"], ["assistant", "A"]]),
            ("recovery=Recovery(auto=False)", "await chat.clear()", []),
            ("hook=lambda e: RecoveryDecision(chain=[])", "", []),
        ],
    )
    def test_it_stays(self, scene: Scene, options: str, then: str, messages: list[list[str]]) -> None:
        """For a retry the user message stays, whatever becomes of the turn; it comes once, also at later openings."""
        scene.crash(self.SEND, at="turn.started")
        found, _ = scene.run(self.OPEN.format(options=options, then=then))
        assert found == messages
        assert scene.run(self.OPEN.format(options="recovery=Recovery(auto=False)", then=""))[0] == messages

    def test_given_up(self, scene: Scene) -> None:
        """A turn that is given up there leaves its message, with the banner behind it."""
        policy = "recovery=Recovery(max_attempts=1)"
        scene.crash(self.SEND, at="turn.started")
        scene.crash(self.OPEN.format(options=policy, then=""), at="turn.started")
        found = scene.run(self.OPEN.format(options=policy, then="") + 'result.append(shown(chat)["error"])')
        assert found == [[self.HI], None, "max_attempts_exceeded"]


class TestBadAnswers:
    """The hook may have been the guard against paying twice: without a good answer nothing is paid."""

    @pytest.mark.parametrize("hook", BAD)
    async def test_offered(self, hook: Hook) -> None:
        """The partial is stored, the turn offered, inputs held, the reason told, no model asked; Continue goes on."""
        async with interrupted(hook, "gone on", "answered", waiting=("second",)) as mock:
            assert await mock.chat.stable() is False
            shown = mock.chat.interruption
            assert (shown.offered, shown.inputs, bool(shown.reason)) == (True, 1, True)
            assert (len(mock.requests), mock.chat.is_recovering) == (1, False)
            assert said(mock) == ["first", "begun "]
            assert [row.status for row in mock.store.load_incidents(mock.chat.id)] == ["failed"]
            assert (await mock.chat.continue_last_turn()).text == "begun gone on"
            await mock.done()
            assert said(mock) == ["first", "begun gone on", "second", "answered"]

    async def test_a_hook_that_does_not_end(self) -> None:
        """At most 30 s, also for one that does not let itself be cancelled."""

        async def hook(event: Any) -> None:
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    if left.is_set():
                        raise

        left = threading.Event()
        async with interrupted(hook, "gone on") as mock:
            await mock.clock.advance(29)
            assert mock.chat.interruption is None
            await mock.clock.advance(2)
            assert await mock.chat.stable() is False
            assert "30 s" in mock.chat.interruption.reason
            assert (await mock.chat.continue_last_turn()).text == "begun gone on"
            left.set()

    def test_a_sync_hook_that_does_not_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A thread can't be ended: the chat's other hooks get another one."""
        monkeypatch.setattr(take_up, "HOOK_SECONDS", 0.2)
        store, release, done = memory_store(), threading.Event(), []
        first = Agent(ScriptedModel([Reply("begun ", hang=True)]), store=store).chat("c")
        first.send("first")
        with_text = threading.Event()
        stop = first._engine.subscribe(lambda update: with_text.set() if "begun" in first.messages[-1].text else None)
        assert with_text.wait(10)
        stop()
        first.close()
        agent = Agent(ScriptedModel(["gone on"]), store=store, name="other")
        agent.on_chat_recovery(lambda event: release.wait(30) and None)
        agent.on_turn_complete(lambda event: done.append(event.status))
        chat = agent.chat("c")
        try:
            assert asyncio.run(chat.stable(10)) is False
            assert chat.interruption.offered
            assert chat.continue_last_turn().result(10).text == "begun \n\ngone on"
            assert done == ["completed"]
        finally:
            release.set()
            chat.close()


class TestInputs:
    """`recovered_inputs`: exactly those, in that order."""

    async def test_in_any_form(self) -> None:
        """By the input, its id, its message, and invented ones as text, dict and parts; the turn's body for those."""

        def hook(event: Any) -> RecoveryDecision:
            two, three, four = event.in_flight_inputs
            return RecoveryDecision(
                recovered_inputs=[
                    three.id,
                    "invented",
                    two,
                    two,
                    {"role": "user", "parts": [{"type": "text", "text": "by dict"}]},
                    [{"type": "text", "text": "by parts"}],
                    four.message,
                    event.messages[0],
                ]
            )

        bodies: list[Any] = []
        async with interrupted(
            hook, *["ok"] * 7, waiting=("second", "third", "fourth"), started=lambda event: bodies.append(event.body)
        ) as mock:
            await mock.done()
            users = [m.text for m in mock.chat.messages if m.role == "user"]
            assert users == ["first", "third", "invented", "second", "by dict", "by parts", "fourth"]
            assert len(mock.requests) == 8
            own = {"from": "first"}
            assert bodies == [own, own, None, own, None, own, own, None]

    async def test_left_out(self) -> None:
        """Left-out ones end `skipped`, and no later opening runs them."""
        async with interrupted(
            lambda event: RecoveryDecision(recovered_inputs=[]), "gone on", waiting=("second",)
        ) as mock:
            await mock.done()
            await mock.restart()
            await mock.done()
            assert said(mock) == ["first", "begun gone on"]
            assert mock.store.load_inputs(mock.chat.id, ("waiting", "held", "taken")) == []


class TestCombinations:
    """Each decision with each other."""

    @pytest.mark.parametrize("persist", [True, False])
    @pytest.mark.parametrize("continue_", [True, False])
    @pytest.mark.parametrize("chain", ["none", "whole", "user", "empty"])
    async def test_chain(self, persist: bool, continue_: bool, chain: str) -> None:
        """The chain is the history before anything runs; leaf assistant: continued, user: answered, empty: nothing."""

        def hook(event: Any) -> RecoveryDecision:
            partial = [{"id": "p", "role": "assistant", "parts": [{"type": "text", "text": "mine "}]}]
            lists = {"none": None, "whole": [*event.messages, *partial], "user": list(event.messages), "empty": []}
            return RecoveryDecision(persist=persist, continue_=continue_, chain=lists[chain])

        async with interrupted(hook, "end") as mock:
            await mock.done()
            runs = continue_ and chain != "empty"
            kept = {
                "none": ["first", *(["begun "] if persist else [])],
                "whole": ["first", "mine "],
                "user": ["first"],
                "empty": [],
            }[chain]
            if runs:
                kept = [*kept[:-1], kept[-1] + "end"] if len(kept) > 1 else [*kept, "end"]
            assert [text.replace("\n\n", "") for text in said(mock)] == kept
            assert len(mock.requests) == 1 + runs
            assert (mock.chat.is_recovering, mock.chat.status) == (False, "ready")
            everything = [m.text for m in mock.chat._engine.tree.all_messages("assistant")]
            assert not persist or any(text.startswith("begun ") for text in everything)
            before = said(mock)
            await mock.restart()
            await mock.done()
            assert said(mock) == before
