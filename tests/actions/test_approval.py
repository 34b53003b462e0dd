from __future__ import annotations

import threading
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from chatnb import Agent
from chatnb.actions import Action, ActionContext, action
from chatnb.actions.call_run import CallRun
from chatnb.errors import ApprovalExpiredError, ForbiddenError, InvalidArgumentsError, PendingError
from chatnb.models import ScriptedModel
from chatnb.testing import mock_chat

from .agents import audits, calls, chat_of, last_results, ledger, part
from .fakes import ANN, ROBOT, bench


class Ran(list[Any]):
    """What handlers were called with."""

    def refund(self, **options: Any) -> Action:
        options.setdefault("needs_approval", lambda args, ctx: args["amount"] > 100)

        @action(**options)
        def refund(order: str, amount: float) -> dict[str, Any]:
            """Refund an order."""
            self.append((order, amount))
            return {"refunded": amount}

        return refund


@pytest.fixture
def ran() -> Ran:
    return Ran()


ASK = calls(("refund", {"order": "7", "amount": 250.0}))


class TestAsking:
    async def test_a_gated_call_waits(self, ran: Ran) -> None:
        """C15: outcome awaiting, one pending entry, handler 0; approve: handler 1 with the same arguments."""
        async with chat_of([ran.refund()], ASK) as mock:
            outcome = await mock.chat.send("refund 7")
            assert (outcome.status, len(mock.chat.pending), ran) == ("awaiting", 1, [])
            pending = mock.chat.pending[0]
            assert (pending.action, pending.args) == ("refund", {"order": "7", "amount": 250.0})
            assert pending.hash == "26757a05306a1ba48578c3df2572809c2b8acf3d674235ac0c8e081dd1cf6841"
            assert part(mock, pending.tool_call_id).state == "approval-requested"
            outcome = await mock.chat.approve()
            assert (outcome.status, ran) == ("completed", [("7", 250.0)])
            assert audits(mock) == [("refund", "denied", "approval_required"), ("refund", "success", None)]
            assert ledger(mock) == [("refund", "done", "committed")]

    async def test_small_calls_run(self, ran: Ran) -> None:
        """4.1: the predicate's truth decides."""
        async with chat_of([ran.refund()], calls(("refund", {"order": "7", "amount": 5}))) as mock:
            assert (await mock.chat.send("go")).status == "completed"
            assert ran == [("7", 5.0)]

    async def test_it_fails_closed(self, ran: Ran) -> None:
        """C2: a predicate that raises asks, at the agent, HTTP, MCP and the command line; handler 0."""

        def broken(args: dict[str, Any], ctx: ActionContext) -> bool:
            raise KeyError("nope")

        refund = ran.refund(needs_approval=broken)
        async with chat_of([refund], ASK) as mock:
            assert (await mock.chat.send("go")).status == "awaiting"
        for site in ("http", "mcp", "cli"):
            settled = await bench(refund).dispatcher.dispatch("refund", {"order": "7", "amount": 1}, site=site)  # type: ignore[arg-type]
            assert settled.failure is not None
            assert settled.failure.code == "approval_required"
        assert ran == []

    async def test_the_predicate_cannot_change_the_call(self, ran: Ran) -> None:
        """C7: what the predicate does to its copy reaches neither handler nor audit nor history."""

        def meddle(args: dict[str, Any]) -> bool:
            args["order"] = "8"
            return True

        async with chat_of([ran.refund(needs_approval=meddle)], ASK) as mock:
            await mock.chat.send("go")
            assert mock.chat.pending[0].args["order"] == "7"
            await mock.chat.approve()
            assert ran == [("7", 250.0)]
            assert mock.store.load_audit()[-1].input == {"order": "7", "amount": 250.0}

    async def test_validators_run_once(self) -> None:
        """C9: a dispatched, gated and approved call is validated once."""
        runs = []

        class Counted(BaseModel):
            n: int

            @field_validator("n")
            @classmethod
            def count(cls, n: int) -> int:
                runs.append(n)
                return n

        @action(needs_approval=True)
        def f(item: Counted) -> int:
            """Do."""
            return item.n

        async with chat_of([f], calls(("f", {"item": {"n": 3}}))) as mock:
            await mock.chat.send("go")
            await mock.chat.approve()
            assert runs == [3]

    async def test_the_same_call_asks_again(self, ran: Ran) -> None:
        """C16, C17: in the continuation the repeated and the changed call both ask anew, with new ids."""
        other = calls(("refund", {"order": "7", "amount": 251.0}))
        async with chat_of([ran.refund()], ASK, ASK, other) as mock:
            await mock.chat.send("go")
            first = mock.chat.pending[0].id
            assert (await mock.chat.approve()).status == "awaiting"
            second = mock.chat.pending[0].id
            assert second != first
            assert (await mock.chat.approve()).status == "awaiting"
            assert ran == [("7", 250.0), ("7", 250.0)]
            assert mock.chat.pending[0].args["amount"] == 251.0

    async def test_the_decision_is_in_the_context(self) -> None:
        """2.6: `ctx.approval` is the consumed decision; the model never sees ids or hashes."""
        seen: list[ActionContext] = []

        @action(needs_approval=True)
        def f(ctx: ActionContext) -> str:
            """Do."""
            seen.append(ctx)
            return "ok"

        async with chat_of([f], calls(("f", {}))) as mock:
            await mock.chat.send("go")
            approval_id = mock.chat.pending[0].id
            await mock.chat.approve()
            (ctx,) = seen
            assert ctx.approval is not None
            assert ctx.approval.id == approval_id
            assert (ctx.site, ctx.chat_id, ctx.call_hash) == ("agent", "chat-1", f.prepare({}).hash)
            assert ctx.call_hash not in last_results(mock)


class TestDeciding:
    async def test_editing_binds_the_new_arguments(self, ran: Ran) -> None:
        """C18: the handler sees 50; history and audit show 50; the hash changed; the result says who edited."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            await mock.chat.approve(asked.id, args={"amount": 50})
            assert ran == [("7", 50.0)]
            done = part(mock, asked.tool_call_id)
            assert done.input == {"order": "7", "amount": 50.0}
            assert done.output.startswith("[arguments edited by the person]")
            assert done.tool_metadata is not None
            assert done.tool_metadata["chatnb"]["originalInput"] == {"order": "7", "amount": 250.0}
            row = mock.store.load_audit()[-1]
            assert row.input == {"order": "7", "amount": 50.0}
            assert row.hash not in (None, asked.hash)
            assert "edited by the person" in last_results(mock)

    async def test_a_bad_edit_leaves_it_pending(self, ran: Ran) -> None:
        """4.5: an invalid edit raises and changes nothing."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")
            with pytest.raises(InvalidArgumentsError, match="amount"):
                mock.chat.approve(args={"amount": "much"})
            assert len(mock.chat.pending) == 1
            await mock.chat.approve()
            assert ran == [("7", 250.0)]

    async def test_rejecting_tells_the_model(self, ran: Ran) -> None:
        """C20: the part is denied with the reason, the model's request has it, the handler never ran."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            outcome = await mock.chat.reject(reason="too much")
            assert (outcome.status, ran) == ("completed", [])
            assert part(mock, asked.tool_call_id).state == "output-denied"
            assert "too much" in last_results(mock)
            assert audits(mock)[-1][1] == "denied"

    async def test_rejecting_without_going_on(self, ran: Ran) -> None:
        """C20: until the continuation the part is `approval-responded` with approved false and the reason."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            await mock.chat.reject(reason="too much", continue_=False)
            approval = part(mock, asked.tool_call_id).approval
            assert approval is not None
            assert (approval.approved, approval.reason) == (False, "too much")

    async def test_a_decision_twice_counts_once(self, ran: Ran) -> None:
        """C27 of turns.md: the second decision by id is skipped; an id never asked raises PendingError."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0].id
            one, two = mock.chat.approve(asked), mock.chat.approve(asked)
            assert sorted([(await one).status, (await two).status]) == ["completed", "skipped"]
            assert len(ran) == 1
            with pytest.raises(PendingError):
                mock.chat.approve("approval-99")

    async def test_two_asks_one_continuation(self, ran: Ran) -> None:
        """C26 of turns.md: two pending calls; the first decision is applied, the second starts the continuation."""
        both = calls(("refund", {"order": "1", "amount": 200}), ("refund", {"order": "2", "amount": 300}))
        async with chat_of([ran.refund()], both) as mock:
            await mock.chat.send("go")
            one, two = mock.chat.pending
            assert (await mock.chat.approve(one.id)).status == "applied"
            assert len(mock.requests) == 1
            assert (await mock.chat.approve(two.id)).status == "completed"
            assert ran == [("1", 200.0), ("2", 300.0)]
            assert len(mock.requests) == 2

    async def test_an_hour_between_two_decisions(self, ran: Ran) -> None:
        """C48: a grant's 10 minutes begin with the decision that completes the batch."""
        both = calls(("refund", {"order": "1", "amount": 200}), ("refund", {"order": "2", "amount": 300}))
        async with chat_of([ran.refund()], both) as mock:
            await mock.chat.send("go")
            one, two = mock.chat.pending
            await mock.chat.approve(one.id)
            mock.clock.advance(3600)
            await mock.chat.approve(two.id)
            assert ran == [("1", 200.0), ("2", 300.0)]

    async def test_an_old_ask_expires(self, ran: Ran) -> None:
        """C22: `ApprovalExpiredError`, the part is denied as expired, the next request is valid."""
        async with chat_of([ran.refund()], ASK, approval_ttl=60) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0]
            mock.clock.advance(61)
            with pytest.raises(ApprovalExpiredError):
                mock.chat.approve(asked.id)
            denied = part(mock, asked.tool_call_id)
            assert denied.state == "output-denied"
            assert denied.approval is not None
            assert denied.approval.reason == "expired"
            assert (await mock.chat.send("and now?")).status == "completed"
            assert ran == []

    async def test_a_restart_keeps_the_ask(self, ran: Ran) -> None:
        """C21: after a killed kernel it is still pending; approving runs it once."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")
            await mock.restart(kill=True)
            assert len(mock.chat.pending) == 1
            outcome = await mock.chat.approve()
            assert (outcome.status, ran) == ("completed", [("7", 250.0)])

    async def test_a_new_definition_prepares_again(self, ran: Ran) -> None:
        """4.7: another definition whose defaults change the hash asks anew; nothing runs on the old approval."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")

            @action(name="refund", needs_approval=True)
            def changed(order: str, amount: float, note: str = "none") -> str:
                """Refund an order."""
                ran.append((order, amount, note))
                return "ok"

            mock.chat._bind(Agent(ScriptedModel(["done"]), actions=[changed]), None)
            outcome = await mock.chat.approve()
            assert (outcome.status, ran) == ("awaiting", [])
            outcome = await mock.chat.approve()
            assert (outcome.status, ran) == ("completed", [("7", 250.0, "none")])

    async def test_undo_takes_the_ask_away_and_redo_brings_it_back(self, ran: Ran) -> None:
        """C49: after undo nothing can be decided; after redo it is pending and runs once."""
        async with chat_of([ran.refund()], ASK) as mock:
            await mock.chat.send("go")
            asked = mock.chat.pending[0].id
            await mock.chat.undo()
            assert mock.chat.pending == ()
            assert (await mock.chat.approve(asked)).status == "skipped"
            assert ran == []
            await mock.chat.redo()
            assert [p.id for p in mock.chat.pending] == [asked]
            await mock.chat.approve(asked)
            assert ran == [("7", 250.0)]

    async def test_a_call_never_approves(self, ran: Ran) -> None:
        """4.8: code inside a dispatched call that calls approve gets ForbiddenError."""
        raised: list[Exception] = []
        box: dict[str, Any] = {}

        @action(read_only=True)
        def sneak() -> str:
            """Sneak."""
            try:
                box["chat"].approve()
            except ForbiddenError as error:
                raised.append(error)
            return "ok"

        async with chat_of(
            [ran.refund(), sneak], calls(("refund", {"order": "7", "amount": 250}), ("sneak", {}))
        ) as mock:
            box["chat"] = mock.chat
            await mock.chat.send("go")
            assert len(raised) == 1
            assert len(mock.chat.pending) == 1

    def test_threads_race(self, tmp_path: Any) -> None:
        """C19: from three threads of Python at the same moment one outcome counts, the others are skipped."""
        ran: list[int] = []

        @action(needs_approval=True, run_in="thread")
        def pay(n: int) -> str:
            """Pay."""
            ran.append(n)
            return "paid"

        rounds = 10
        script = [step for n in range(rounds) for step in (calls(("pay", {"n": n})), "done")]
        chat = Agent(ScriptedModel(script), actions=[pay]).chat("race")
        try:
            for _ in range(rounds):
                chat.send("go").result(30)
                asked, gate, statuses = chat.pending[0].id, threading.Barrier(3), list[str]()

                def decide(asked: str = asked, gate: Any = gate, statuses: list[str] = statuses) -> None:
                    gate.wait()
                    statuses.append(chat.approve(asked).result(30).status)

                threads = [threading.Thread(target=decide) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert sorted(statuses) == ["completed", "skipped", "skipped"]
        finally:
            chat.close()
        assert ran == list(range(rounds))


class TestOtherSites:
    async def test_the_command_line(self, ran: Ran) -> None:
        """C25, C26: refused with the hash when nobody is there; that hash runs it, another or a bare one does not."""
        at = bench(ran.refund())
        raw = {"order": "7", "amount": 250}
        refused = await at.dispatcher.dispatch("refund", raw, site="cli")
        assert refused.failure is not None
        assert (refused.failure.code, refused.hash) == ("approval_required", ran.refund().prepare(raw).hash)
        for approved in ("", "0" * 64):
            wrong = await at.dispatcher.dispatch("refund", raw, site="cli", approved_hash=approved)
            assert wrong.failure is not None
            assert wrong.failure.code == "approval_mismatch"
            assert refused.hash in wrong.failure.text
        assert ran == []
        assert (await at.dispatcher.dispatch("refund", raw, site="cli", approved_hash=refused.hash)).is_success
        other = await at.dispatcher.dispatch("refund", {**raw, "order": "8"}, site="cli", approved_hash=refused.hash)
        assert other.failure is not None
        assert ran == [("7", 250.0)]
        small = await at.dispatcher.dispatch("refund", {"order": "7", "amount": 1}, site="cli", approved_hash="")
        assert small.is_success

    async def test_a_person_on_a_terminal(self, ran: Ran) -> None:
        """11.6: only a yes runs it."""
        at = bench(ran.refund())
        raw = {"order": "7", "amount": 250}

        async def no(prepared: Any) -> bool:
            return False

        async def yes(prepared: Any) -> bool:
            return True

        assert not (await at.dispatcher.dispatch("refund", raw, site="cli", confirm=no)).is_success
        assert (await at.dispatcher.dispatch("refund", raw, site="cli", confirm=yes)).is_success
        assert len(ran) == 1

    async def test_proof_is_the_decision(self, ran: Ran) -> None:
        """4.8, 2.7: a proven click runs a gated call; a service identity never approves."""
        at = bench(ran.refund())
        raw = {"order": "7", "amount": 250}
        refused = await at.dispatcher.dispatch("refund", raw, site="http", identity=ROBOT, proof=True)
        assert refused.failure is not None
        assert refused.failure.code == "approval_required"
        assert (await at.dispatcher.dispatch("refund", raw, site="http", identity=ANN, proof=True)).is_success

    async def test_ui_only(self, ran: Ran) -> None:
        """Section 1: `ui_only` runs by a proven click alone, and is hidden from the command line and models."""
        only = ran.refund(ui_only=True, needs_approval=False)
        at = bench(only)
        raw = {"order": "7", "amount": 5}
        for site, code in (("widget", "ui_only_action"), ("cli", "unknown_action"), ("agent", "unknown_action")):
            settled = await at.dispatcher.dispatch("refund", raw, site=site)  # type: ignore[arg-type]
            assert settled.failure is not None
            assert settled.failure.code == code
        assert (await at.dispatcher.dispatch("refund", raw, site="widget", proof=True)).is_success

    async def test_a_stored_grant_is_used_once(self, ran: Ran) -> None:
        """4.4: taking a grant and the write's entry are one transaction; a second run does not happen."""
        from dataclasses import replace

        at = bench(ran.refund())
        prepared = ran.refund().prepare({"order": "7", "amount": 250})
        grant, _ = at.dispatcher.road.ask(prepared, _place())
        at.books.add_grant(replace(grant, state="approved"))
        run = CallRun(prepared=prepared, place=_place(), grant=grant)
        assert (await at.dispatcher.road.run(run)).is_success
        again = await at.dispatcher.road.run(run)
        assert again.failure is not None
        assert again.failure.code == "not_executed"
        assert at.books.grants[grant.id].state == "consumed"
        assert len(ran) == 1


def _place() -> Any:
    from chatnb.actions.audit import CallPlace

    return CallPlace(site="mcp", identity=ANN)


async def test_the_agent_of_a_mock_is_not_changed() -> None:
    """A guard for the builder: two chats of one agent have their own asks."""
    ran = Ran()
    agent = Agent(ScriptedModel([ASK, "done"]), actions=[ran.refund()])
    async with mock_chat(agent, "a") as one:
        await one.chat.send("go")
        assert len(one.chat.pending) == 1
