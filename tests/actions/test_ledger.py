from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import pytest

from chatnb._ports import FunctionCall, FunctionResult
from chatnb.actions import Action, ActionContext, action, action_errors
from chatnb.actions.ledger import RunningHandlers, TurnLedger
from chatnb.actions.ports import CallRow
from chatnb.models import Reply

from .agents import calls, chat_of, ledger, parts
from .fakes import FakeTurn, InlineCalls


def row(id: str, **fields: Any) -> CallRow:
    fields = {"turn_id": "t", "state": "done", **fields}
    return CallRow(id=id, site="agent", action="f", hash="h", chat_id="c", **fields)


class TestRules:
    def test_rows_of_this_attempt_do_not_count(self) -> None:
        """7.2: only an earlier, cut-off attempt is replayed; the same thing asked again runs again."""
        assert TurnLedger("t", 1).judge([row("a")], idempotent=False).kind == "run"
        assert TurnLedger("t", 2).judge([row("a")], idempotent=False).kind == "replay"

    def test_rows_of_a_turn_that_settled_cleanly_do_not_count(self) -> None:
        """7.2: only turns that were stopped or failed, whose message this one extends."""
        other = [row("a", turn_id="old")]
        assert TurnLedger("t", 1).judge(other, idempotent=False).kind == "run"
        assert TurnLedger("t", 1, ["old"]).judge(other, idempotent=False).kind == "replay"

    def test_one_row_serves_one_call(self) -> None:
        """C35: two identical writes, one done row: one replay, one run."""
        rules = TurnLedger("t", 2)
        rows = [row("a")]
        assert [rules.judge(rows, idempotent=False).kind for _ in range(2)] == ["replay", "run"]
        assert TurnLedger("t", 2).judge([row("a", reused_by="x")], idempotent=False).kind == "run"

    def test_a_failure_without_effect_runs_again(self) -> None:
        """C36, 7.3: a failed row with effect none runs again; with effect committed it is replayed."""
        assert TurnLedger("t", 2).judge([row("a", state="failed", effect="none")], idempotent=False).kind == "run"
        assert TurnLedger("t", 2).judge([row("a", state="failed")], idempotent=False).kind == "replay"

    @pytest.mark.parametrize("state", ["entered", "unknown"])
    def test_an_interrupted_write_is_blocked(self, state: Any) -> None:
        """C34, 7.3: entered without a result is not run again, unless the action is idempotent."""
        rows = [row("a", state=state)]
        rules = TurnLedger("t", 2)
        assert [rules.judge(rows, idempotent=False).kind for _ in range(2)] == ["block", "block"]
        assert rules.judge(rows, idempotent=True).kind == "run"

    def test_a_detached_handler_of_this_attempt_counts(self) -> None:
        """7.3: a write that was left running blocks its hash in the same attempt."""
        rules = TurnLedger("t", 1)
        rules.note_detached("a")
        assert rules.judge([row("a", state="unknown"), row("b")], idempotent=False).kind == "block"
        assert rules.judge([row("a")], idempotent=False).kind == "replay"

    def test_running_handlers(self) -> None:
        """7.3: whoever waits gets the settled row."""
        running = RunningHandlers()
        future = running.add("a")
        assert running.find("a") is future
        running.end("a", row("a"))
        assert future.result(0).id == "a"
        assert running.find("a") is None


class Writes(list[str]):
    def write(self, **options: Any) -> Action:
        @action(**options)
        def write(n: int = 1) -> str:
            """Write."""
            self.append(f"write{n}")
            return "written"

        return write


@pytest.fixture
def ran() -> Writes:
    return Writes()


class TestContinuedTurns:
    """A turn whose first attempt was cut off: its site is asked again, as attempt 2, on the same books."""

    async def test_a_done_write_is_replayed(self, ran: Writes) -> None:
        """C33: the recorded result, the handler not run, no Change; the part says so."""
        first = FakeTurn([ran.write()])
        await first.step(("write", {}))
        again = first.next_attempt()
        await again.step(("write", {"n": 1}))
        assert ran == ["write1"]
        part = again.parts()[-1]
        assert (part.state, part.output) == ("output-available", "written")
        assert part.tool_metadata == {"chatnb": {"replayed": True}}
        assert (len(first.changes), len(again.changes), len(again.books.audits)) == (1, 0, 1)

    async def test_two_identical_writes_one_row(self, ran: Writes) -> None:
        """C35: in the continued turn one is replayed, one runs."""
        first = FakeTurn([ran.write()])
        await first.step(("write", {}))
        again = first.next_attempt()
        await again.step(("write", {}), ("write", {}))
        assert ran == ["write1", "write1"]
        assert [p.state for p in again.parts()[-2:]] == ["output-available"] * 2

    async def test_a_gated_write_is_replayed_without_asking(self, ran: Writes) -> None:
        """7.2: handler, approval and refresh do not happen."""
        first = FakeTurn([ran.write()])
        await first.step(("write", {}))
        again = first.next_attempt([ran.write(needs_approval=True)])
        assert not (await again.step(("write", {}))).awaiting
        assert again.books.grants == {}

    async def test_a_replayed_ends_turn_still_ends_it(self, ran: Writes) -> None:
        """7.2: `ends_turn` still applies."""
        first = FakeTurn([ran.write(ends_turn=True)])
        await first.step(("write", {}))
        assert (await first.next_attempt().step(("write", {}))).ends_turn

    @pytest.mark.parametrize("idempotent", [False, True])
    async def test_killed_inside_the_write(self, ran: Writes, idempotent: bool) -> None:
        """C34: `interrupted_write`, effect committed, not run again, for that turn; with `idempotent=True` it runs."""
        write = ran.write(idempotent=idempotent)
        first = FakeTurn([write])
        first.books.calls["old"] = CallRow(
            id="old",
            site="agent",
            action="write",
            hash=write.prepare({}).hash,
            state="unknown",
            chat_id="chat",
            turn_id="turn",
        )
        again = first.next_attempt()
        for _ in range(2):
            await again.step(("write", {}))
            part = again.parts()[-1]
            if idempotent:
                assert part.output == "written"
            else:
                assert part.state == "output-error"
                assert "interrupted_write" in (part.error_text or "")
        assert len(ran) == (2 if idempotent else 0)
        fresh = again.next_turn()
        await fresh.step(("write", {}))
        assert len(ran) == (3 if idempotent else 1)

    async def test_a_write_that_wrote_nothing_runs_again(self) -> None:
        """C36: failed by `no_write`, continued: the same hash runs again."""
        errors = action_errors("gone")
        ran: list[int] = []

        @action(errors=errors)
        def write() -> str:
            """Write."""
            ran.append(1)
            if len(ran) == 1:
                errors.no_write("not yet", "gone")
            return "written"

        first = FakeTurn([write])
        await first.step(("write", {}))
        assert first.parts()[-1].error_text == "not yet"
        again = first.next_attempt()
        await again.step(("write", {}))
        assert (len(ran), again.parts()[-1].output) == (2, "written")

    async def test_a_handler_that_still_runs_is_waited_for(self, ran: Writes) -> None:
        """7.3: a detached handler's late result is written to its row, and taken by the call that waits for it."""
        late: concurrent.futures.Future[FunctionResult] = concurrent.futures.Future()

        class Detaching(InlineCalls):
            async def run(self, call: FunctionCall) -> FunctionResult:
                assert call.enter is not None
                call.enter()
                self.function = call.function
                return FunctionResult(reason="timeout", late=late)

        first = FakeTurn([ran.write(timeout=5)])
        first.calls = detaching = Detaching()
        await first.step(("write", {}))
        assert first.parts()[-1].error_text == "timed out after 5 s; still running"
        assert [r.state for r in first.books.calls.values()] == ["unknown"]
        first.calls = InlineCalls()
        waiting = asyncio.create_task(first.step(("write", {})))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        late.set_result(FunctionResult(value=detaching.function()))
        await waiting
        assert ran == ["write1"]
        assert first.parts()[-1].output == "written"
        assert [(r.state, r.reused_by is not None) for r in first.books.calls.values()] == [("done", True)]


class TestStoppedTurns:
    async def test_going_on_replays_and_a_new_input_does_not(self, ran: Writes) -> None:
        """7.2: continuing a stopped turn replays what it wrote; asking for the same thing again runs it again."""
        step = calls(("write", {}))
        async with chat_of([ran.write()], step, Reply("thinking", hang=True), step, "done", step) as mock:
            submission = mock.chat.send("go")
            async for chunk in submission:
                if chunk["type"] == "text-delta":
                    mock.chat.stop()
            assert (await submission).status == "stopped"
            assert (await mock.chat.continue_last_turn()).status == "completed"
            assert ran == ["write1"]
            assert parts(mock)[-1].tool_metadata == {"chatnb": {"replayed": True}}
            await mock.chat.send("again")
            assert ran == ["write1", "write1"]


class TestStop:
    async def test_a_running_call_and_one_that_has_not_begun(self) -> None:
        """Section 10: stop settles a running write as cancelled, effect committed; a later one is not executed."""
        entered = asyncio.Event()

        @action
        async def slow(n: int) -> str:
            """Write."""
            entered.set()
            await asyncio.Event().wait()
            return "never"

        async with chat_of([slow], calls(("slow", {"n": 1}), ("slow", {"n": 2}))) as mock:
            submission = mock.chat.send("go")
            await entered.wait()
            mock.chat.stop()
            assert (await submission).status == "stopped"
            one, two = parts(mock)
            assert one.error_text == "Stopped while running; it may have had effects."
            assert two.error_text == "Not executed: stopped."
            assert ledger(mock) == [("slow", "failed", "committed")]

    async def test_the_context_says_so(self) -> None:
        """Section 10: a handler in a thread sees `ctx.cancelled`."""
        entered: concurrent.futures.Future[None] = concurrent.futures.Future()
        seen: list[bool] = []

        @action(run_in="thread")
        def slow(ctx: ActionContext) -> str:
            """Write."""
            entered.set_result(None)
            seen.append(ctx.cancellation._event.wait(5))
            ctx.check_cancelled()
            return "never"

        async with chat_of([slow], calls(("slow", {}))) as mock:
            submission = mock.chat.send("go")
            await asyncio.wrap_future(entered)
            mock.chat.stop()
            assert (await submission).status == "stopped"
            assert seen == [True]
