"""Decisions at their edges: odd edits, who decides, redefined agents, asks that expire (spec/actions.md, section 4)."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb import Agent
from chatnb.actions import Action, ActionContext, Identity, action
from chatnb.errors import ApprovalExpiredError, ForbiddenError, InvalidArgumentsError
from chatnb.models import ScriptedModel
from chatnb.testing import MockChat

from .agents import audits, calls, chat_of, ledger, part, parts

ASK = calls(("pay", {"order": "7"}))
PAID = [("7", 10.0)]


class Ran(list[Any]):
    """What handlers were called with."""

    def pay(self, **options: Any) -> Action:
        options.setdefault("needs_approval", True)

        @action(**options)
        def pay(order: str, amount: float = 10.0) -> dict[str, Any]:
            """Pay an order."""
            self.append((order, amount))
            return {"paid": amount}

        return pay

    def write(self, **options: Any) -> Action:
        @action(**options)
        def write(n: Any) -> str:
            """Write."""
            self.append(n)
            return "written"

        return write


@pytest.fixture
def ran() -> Ran:
    return Ran()


def redefine(mock: MockChat, *actions: Action, **options: Any) -> None:
    """Run the cell that defines the agent again."""
    mock.chat._bind(Agent(ScriptedModel(["bye"] * 5), actions=list(actions), **options), None)


class TestEdits:
    @pytest.mark.parametrize(
        "args",
        [
            {"amount": "much"},
            {"amount": None},
            {"amount": float("nan")},
            {"order": 3},
            {"nope": 1},
            {1: 2},
            [1],
            "x",
            5,
        ],
    )
    async def test_what_does_not_fit_leaves_it_pending(self, ran: Ran, args: Any) -> None:
        """4.5: invalid edits of any kind raise `InvalidArgumentsError`; the call is still pending."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            with pytest.raises(InvalidArgumentsError):
                mock.chat.approve(args=args)
            assert (len(mock.chat.pending), ran) == (1, [])

    async def test_an_edit_that_changes_nothing_is_none(self, ran: Ran) -> None:
        """4.5: the result only says that a person has edited what a person has edited."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            await mock.chat.approve(args={"amount": 10})
            assert (parts(mock)[0].output, parts(mock)[0].tool_metadata, ran) == ({"paid": 10.0}, None, PAID)

    async def test_all_arguments_are_shown(self, ran: Ran) -> None:
        """4.8: the person is shown all arguments, defaults too, also in the table of `chat.pending`."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            assert mock.chat.pending[0].args == {"order": "7", "amount": 10.0}
            assert "amount" in mock.chat.pending._repr_html_()


class TestWhoDecides:
    async def test_the_decision_says_who(self) -> None:
        """4.3, 2.6: the handler gets the consumed decision: who, when, why."""
        seen: list[ActionContext] = []

        @action(needs_approval=True)
        def note(ctx: ActionContext) -> str:
            """Note."""
            seen.append(ctx)
            return "noted"

        async with chat_of([note], calls(("note", {})), identity="ann") as mock:
            await mock.chat.send("go")
            await mock.chat.approve(reason="fine")
            decision = seen[0].approval
            assert decision is not None
            assert (decision.state, decision.decided_by, decision.reason) == ("consumed", "ann", "fine")
            assert decision.decided_at is not None

    async def test_a_service_never_approves(self, ran: Ran) -> None:
        """2.7: a service identity may call and reject, never approve."""
        async with chat_of([ran.pay()], ASK, identity=Identity("robot", kind="service")) as mock:
            await mock.chat.send("go")
            with pytest.raises(ForbiddenError):
                mock.chat.approve()
            assert len(mock.chat.pending) == 1
            assert (await mock.chat.reject()).status == "completed"
            assert ran == []

    async def test_a_predicate_never_approves(self, ran: Ran) -> None:
        """4.8: guards and predicates are code inside a dispatched call."""
        raised: list[type[Exception]] = []
        box: dict[str, Any] = {}

        def sneak(args: dict[str, Any]) -> bool:
            try:
                box["chat"].approve()
            except Exception as error:  # noqa: BLE001 - which one is the point
                raised.append(type(error))
            return True

        async with chat_of([ran.pay(needs_approval=sneak)], ASK) as mock:
            box["chat"] = mock.chat
            await mock.chat.send("go")
            assert (raised, ran) == ([ForbiddenError], [])

    async def test_approval_never_replaces_authorize(self, ran: Ran) -> None:
        """2.3: the guard judges at execution time; the grant is used up by its denial, and the handler not entered."""
        allowed = [True]
        async with chat_of([ran.pay(authorize=lambda args: allowed[0])], ASK, identity="ann") as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            allowed[0] = False
            await mock.chat.approve()
            assert (ran, ledger(mock), parts(mock)[0].error_text) == ([], [], "Not allowed.")
            grant = mock.store.find_grant(asked.id)
            assert grant is not None
            assert grant.state == "consumed"


class TestRedefinition:
    async def test_another_default_asks_anew(self, ran: Ran) -> None:
        """4.7: the stored arguments are prepared again; a changed hash asks anew with what would run now."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            old = mock.chat.pending[0]

            @action(needs_approval=True)
            def pay(order: str, amount: float = 10.0, note: str = "n") -> str:
                """Pay."""
                ran.append((order, amount, note))
                return "paid"

            redefine(mock, pay)
            assert (await mock.chat.approve(args={"amount": 5})).status == "awaiting"
            new = mock.chat.pending[0]
            assert (ran, new.id != old.id, new.hash != old.hash) == ([], True, True)
            assert new.args == {"order": "7", "amount": 10.0, "note": "n"}
            await mock.chat.approve(args={"amount": 5})
            assert ran == [("7", 5.0, "n")]

    async def test_another_signature_settles_it(self, ran: Ran) -> None:
        """4.7: arguments that do not fit any more settle the call as an error; nothing runs."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")

            @action(needs_approval=True)
            def pay(order: int) -> str:
                """Pay."""
                ran.append(order)
                return "paid"

            redefine(mock, pay)
            assert (await mock.chat.approve()).status == "completed"
            assert (parts(mock)[0].state, ran) == ("output-error", [])

    @pytest.mark.parametrize("args", [None, {"amount": 3}])
    async def test_an_action_that_is_gone(self, ran: Ran, args: Any) -> None:
        """4.7: approved, edited or not, a call of an action that is gone is an error; the turn goes on."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            redefine(mock)
            assert (await mock.chat.approve(args=args)).status == "completed"
            assert (parts(mock)[0].state, ran) == ("output-error", [])

    async def test_plan_mode_since(self, ran: Ran) -> None:
        """2.5: an agent that was put in plan mode runs no write, an approved one neither."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            redefine(mock, ran.pay(), plan_mode=True)
            assert (await mock.chat.approve()).status == "completed"
            assert ran == []
            assert audits(mock)[-1] == ("pay", "error", "plan_mode_blocked")

    async def test_a_held_call_that_is_gated_now(self, ran: Ran) -> None:
        """4.1: a held call whose action has got a gate meanwhile asks before it runs."""
        step = calls(("pay", {"order": "7"}), ("write", {"n": 1}))
        async with chat_of([ran.pay(), ran.write()], step) as mock:
            await mock.chat.send("go")
            redefine(mock, ran.pay(), ran.write(needs_approval=True))
            assert (await mock.chat.approve()).status == "awaiting"
            assert (ran, mock.chat.pending[0].action) == (PAID, "write")
            assert (await mock.chat.approve()).status == "completed"
            assert ran == [*PAID, 1]

    async def test_a_held_call_is_prepared_again(self, ran: Ran) -> None:
        """8.2: a held call is durable as its part: a new kernel and agent prepare what is nested in it as it was."""
        nested = {"a": [1, {"b": [2]}]}
        step = calls(("pay", {"order": "7"}), ("write", {"n": nested}))
        async with chat_of([ran.pay(), ran.write()], step) as mock:
            await mock.chat.send("go")
            await mock.restart(kill=True)
            redefine(mock, ran.pay(), ran.write())
            assert (await mock.chat.approve()).status == "completed"
            assert ran == [*PAID, nested]
            assert ledger(mock) == [("pay", "done", "committed"), ("write", "done", "committed")]


class TestExpiry:
    async def test_before_a_turn_starts(self, ran: Ran) -> None:
        """4.7: an old ask is settled as denied, `expired`, when the next turn starts, and is not just moved on from."""
        async with chat_of([ran.pay()], ASK, approval_ttl=60) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            await mock.clock.advance(61)
            assert (await mock.chat.send("next")).status == "completed"
            found = next(p for p in mock.chat.messages[1].parts if getattr(p, "tool_call_id", "") == asked.tool_call_id)
            assert (found.state, found.approval.reason) == ("output-denied", "expired")  # type: ignore[union-attr]
            assert (await mock.chat.approve(asked.id)).status == "skipped"
            assert audits(mock)[-1] == ("pay", "denied", "expired")

    async def test_what_was_approved_beside_it_runs(self, ran: Ran) -> None:
        """4.3, 4.7: an expiry that leaves nothing undecided lets the decided calls of the message go on."""
        step = calls(("pay", {"order": "1"}), ("pay", {"order": "2"}))
        async with chat_of([ran.pay()], step, approval_ttl=60) as mock:
            await mock.chat.send("go")
            first, second = mock.chat.pending
            assert (await mock.chat.approve(first.id)).status == "applied"
            await mock.clock.advance(61)
            with pytest.raises(ApprovalExpiredError):
                mock.chat.approve(second.id)
            await mock.done()
            assert ran == [("1", 10.0)]
            assert [p.state for p in parts(mock)] == ["output-available", "output-denied"]

    async def test_alone_it_starts_nothing(self, ran: Ran) -> None:
        """C22: with nothing else decided the model is not asked; the next request is valid."""
        async with chat_of([ran.pay()], ASK, approval_ttl=60) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            await mock.clock.advance(60)
            with pytest.raises(ApprovalExpiredError):
                mock.chat.reject(asked.tool_call_id)
            await mock.done()
            assert (len(mock.requests), part(mock, asked.tool_call_id).state) == (1, "output-denied")
            assert (await mock.chat.send("next")).status == "completed"

    @pytest.mark.parametrize(("alive", "runs"), [(5, True), (9, False)])
    async def test_a_dead_kernel_does_not_count(self, ran: Ran, alive: int, runs: bool) -> None:
        """4.7: an approval lives for 10 minutes of a living kernel: 5 before and `alive` after an hour without one."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            assert (await mock.chat.approve(continue_=False)).status == "applied"
            await mock.clock.advance(300)
            await mock.restart(kill=True, after=3600)
            await mock.clock.advance(60 * alive - 1)
            assert (await mock.chat.continue_last_turn()).status == "completed"
            assert ran == (PAID if runs else [])

    async def test_the_queue_does_not_count(self, ran: Ran) -> None:
        """4.7: waiting in the queue does not count: asked for in time, it runs, however long others have the slot."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            assert (await mock.chat.approve(continue_=False)).status == "applied"

            async def slow(messages: Any) -> Any:
                await mock.clock.sleep(700)
                return messages

            mock.chat.save_messages(slow)
            continued = mock.chat.continue_last_turn()
            await mock.clock.advance(701)
            assert ((await continued).status, ran) == ("completed", PAID)


class TestOffTheChain:
    async def test_clear_edit_and_switch(self, ran: Ran) -> None:
        """4.6, C49: `clear` and `edit` take asks off the chain undecidable; redo and switch bring them back, live."""
        async with chat_of([ran.pay()], ASK) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            await mock.chat.clear()
            for decide in (mock.chat.approve, mock.chat.reject):
                assert [(await decide(id_)).status for id_ in (asked.id, asked.tool_call_id)] == ["skipped"] * 2
            await mock.chat.redo()
            await mock.chat.edit(mock.chat.messages[0].id, "something else")
            assert (await mock.chat.approve(asked.id)).status == "skipped"
            await mock.chat.switch(mock.chat.history.branches(mock.chat.messages[0].id)[0].node_id)
            assert ([p.id for p in mock.chat.pending], ran) == ([asked.id], [])
            await mock.restart(kill=True)
            assert mock.chat.pending[0] == asked
            await mock.chat.approve()
            assert ran == PAID


class TestNeverAsked:
    """A history may come with answers that this chat has not asked for (`set_messages`, `mock_chat(messages=)`)."""

    @pytest.mark.parametrize("state", ["approval-requested", "approval-responded"])
    async def test_it_asks_before_it_runs(self, ran: Ran, state: str) -> None:
        """4.3, 4.4: without a grant of this chat nothing runs; it asks, and the answer to that runs it once."""
        approval = {"id": "elsewhere", **({"approved": True} if state == "approval-responded" else {})}
        call = {"type": "tool-pay", "toolCallId": "c9", "state": state, "input": {"order": "7"}, "approval": approval}
        history = [
            {"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]},
            {"id": "a", "role": "assistant", "parts": [{"type": "step-start"}, call]},
        ]
        async with chat_of([ran.pay()], "done") as mock:
            mock.chat.set_messages(history)
            first = mock.chat.approve() if state == "approval-requested" else mock.chat.continue_last_turn()
            assert ((await first).status, ran) == ("awaiting", [])
            (asked,) = mock.chat.pending
            assert (asked.id != "elsewhere", asked.hash is not None) == (True, True)
            assert (await mock.chat.approve()).status == "completed"
            assert ran == PAID
