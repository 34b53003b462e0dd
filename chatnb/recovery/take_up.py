"""What becomes of an interrupted turn in its place: budgets, the hook, its decision (spec/recovery.md, 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._clock import ride_out, within
from .._killpoint import kill_point
from ..errors import InputError, MessageError
from ..history.repair import find_orphans
from ..messages import UIMessage, is_tool_part
from ..turns import Input, Outcome
from ..turns.beginning import as_messages
from ..turns.failure import StageError
from ..turns.records import CHAT_CLOSED
from ..turns.resumed import Resumed
from .budget import next_attempt, over_budget
from .case import Case, HookRun, describe_input
from .ends import end_turn, interrupted_outcome, tell_completions
from .events import PendingToolCall, RecoveryEvent
from .exhaustion import exhaust
from .in_line import drop_partial, put_in_line, store_partial
from .inputs import choose_inputs, plan_inputs
from .offer import make_offer
from .rebuild import rebuild
from .records import RecoveryDecision

HOOK_SECONDS = 30.0
MAX_PAUSE = 60.0
OFFERED = "The reply was interrupted; it goes on when a person continues it."


class TakeUpTurn:
    """Decides, in the slot, what becomes of one interrupted turn."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def drop(self, reason: str) -> None:
        """End the turn `stopped` before its place has come."""
        end_turn(self._case, "stopped", reason=reason)

    async def tell(self, input_: Input) -> None:
        """Call `on_turn_complete` for the turn that was ended."""
        await tell_completions(self._case.engine, input_)

    async def __call__(self, input_: Input) -> Resumed | Outcome:
        """Return the turn to run, or the outcome when nothing runs."""
        taken = await self._decide(input_)
        if isinstance(taken, Outcome):
            await tell_completions(self._case.engine, input_)
        return taken

    async def _decide(self, input_: Input) -> Resumed | Outcome:
        case, engine = self._case, self._case.engine
        kill_point("recovery.scanned")
        await ride_out(engine.clock, self._note, is_over=lambda: engine.closed is not None)
        if case.has_moved:
            return self._stop("conversation_changed")
        run = HookRun.of(engine, case.row, input_)
        try:
            await engine.boot(run)
        except StageError as failure:
            engine.log_failure("on_boot failed before a recovery; the turn will call it again", failure.cause)
        if not case.is_old:
            reason = await over_budget(case)
            if reason is not None:
                return await exhaust(case, reason)
        try:
            decision = await self._ask(run)
        except StageError as failure:
            make_offer(case, status="failed", reason=failure.error.message)
            engine.log_failure("on_chat_recovery failed; the turn is offered", failure.cause)
            return interrupted_outcome(case, failure.error.message)
        if engine.closed is not None:
            return Outcome(status="stopped", error=CHAT_CLOSED)
        if engine.stop_wanted:
            return self._stop("stopped")
        if case.has_moved:
            return self._stop("conversation_changed")
        return await self._follow(decision)

    def _note(self) -> None:
        """Write that the turn is being looked at: whoever does not answer now is waited for before anything is done."""
        with self._case.engine.write(durable=False) as tx:
            tx.set_chat(recovering=not self._case.is_old)

    def _stop(self, reason: str) -> Outcome:
        end_turn(self._case, "stopped", reason=reason)
        return Outcome(status="stopped", turn=self._case.row.number, message=self._case.partial)

    # --- the hook -----------------------------------------------------------------------------------------------

    async def _ask(self, run: HookRun) -> RecoveryDecision | None:
        """Call the hook, with a limit of 30 s, and check what it returns.

        Raises:
            StageError: It raised, overran, or returned something else.
        """
        case, engine = self._case, self._case.engine
        if "on_chat_recovery" not in engine.definition.hooks:
            return None
        try:
            value, checkpoint = await within(
                engine.clock,
                HOOK_SECONDS,
                engine.fire(run, "on_chat_recovery", lambda: recovery_event(case, run), apply=False),
            )
        except TimeoutError as error:
            engine.runtime.leave_worker(engine.chat_id)
            raise StageError("on_chat_recovery", error) from error
        checked = _checked(case, value)
        engine.apply_checkpoint(checkpoint)
        return checked

    # --- the decision -------------------------------------------------------------------------------------------

    async def _follow(self, decision: RecoveryDecision | None) -> Resumed | Outcome:
        case, engine = self._case, self._case.engine
        if decision is None:
            if case.is_old:
                make_offer(case)
                return interrupted_outcome(case, OFFERED)
            decision = RecoveryDecision()
        elif case.is_old and decision.continue_:
            reason = await over_budget(case)
            if reason is not None:
                return await exhaust(case, reason)
        keeps = case.partial is not None and (decision.persist or case.has_settled_work)
        if keeps:
            store_partial(case)
        elif case.partial is not None:
            drop_partial(case)
        kill_point("recovery.stored")
        choose_inputs(case, decision.recovered_inputs)
        if decision.chain is not None and not self._take_chain(decision.chain):
            return self._stop("conversation_changed")
        if not decision.continue_:
            note = case.interruption(offered=False, reason="continue_disabled")
            end_turn(case, "stopped", reason="continue_disabled", keep=keeps)
            engine.set_state(interruption=note)
            return interrupted_outcome(case, "The reply was interrupted and is not continued.")
        await self._pause()
        if engine.stop_wanted:
            return self._stop("stopped")
        if engine.closed is not None:
            return Outcome(status="stopped", error=CHAT_CLOSED)
        return put_in_line(case, is_retry=not keeps or case.partial is None)

    def _take_chain(self, chain: Any) -> bool:
        """Make the decision's chain the history; False when it leaves nothing to run."""
        case, engine = self._case, self._case.engine
        case.own_input = None  # what it has brought is in the chain, or is not wanted
        engine.apply_list(as_messages(list(chain), "on_chat_recovery"))
        head = engine.tree.head
        if head is None:
            return False
        leaf = engine.tree.message(head)
        if case.partial is not None and leaf.id == case.partial.id and case.node_id is not None:
            case.node_id = head
        elif leaf.role == "assistant":
            case.node_id = head
            case.rebuilt = rebuild((), leaf.id, leaf)
            case.row = replace(case.row, assistant_id=leaf.id, trigger="continuation")
        else:
            case.node_id = None
            case.rebuilt = rebuild((), "", None)
            case.row = replace(case.row, assistant_id=engine.new_id("msg"))
        case.row = replace(case.row, leaf_id=head)
        return True

    async def _pause(self) -> None:
        """Wait before an attempt in the process that was interrupted: 2^(n-1) s, at most 60. A stop ends the wait."""
        case = self._case
        if not case.is_in_process:
            return
        engine = case.engine
        seconds = min(MAX_PAUSE, 2.0 ** (next_attempt(case) - 1))
        await engine.pause(seconds)


def _checked(case: Case, value: Any) -> RecoveryDecision | None:
    """Return a hook's result if it is one.

    Raises:
        StageError: It is something else, or its chain or inputs are no lists of messages.
    """
    if value is None:
        return None
    if not isinstance(value, RecoveryDecision):
        error = TypeError(f"on_chat_recovery returns a RecoveryDecision or None, not {type(value).__name__}")
        raise StageError("on_chat_recovery", error)
    if value.chain is not None:
        as_messages(list(value.chain), "on_chat_recovery")
    if value.recovered_inputs is not None:
        try:
            plan_inputs(case, value.recovered_inputs)
        except (InputError, MessageError) as error:
            raise StageError("on_chat_recovery", error) from error
    return value


def recovery_event(case: Case, run: HookRun) -> RecoveryEvent:
    """Return what the hook is told."""
    partial = case.known
    parts = partial.parts if partial is not None else ()
    chain = case.engine.tree.messages
    message_id = partial.id if partial is not None else None
    return RecoveryEvent(
        incident_id=case.incident.id if case.incident is not None else "",
        turn_id=case.row.id,
        attempt=next_attempt(case),
        max_attempts=case.policy.max_attempts,
        kind=case.kind,
        cause=case.cause,
        offered=case.is_old,
        created_at=case.row.started_at,
        interrupted_at=case.interrupted_at,
        partial_text=partial.text if partial is not None else "",
        partial_parts=parts,
        settled_parts=tuple(p for p in parts if is_tool_part(p) and p.state.startswith("output-")),
        pending_tool_calls=_pending_calls(case, partial),
        messages=tuple(m for m in chain if m.id != message_id),
        in_flight_inputs=tuple(describe_input(i.row) for i in case.in_flight),
        recovery_data=case.row.stash,
        client_tools=case.row.client_tools,
        **case.engine.common(run),  # type: ignore[arg-type]
    )


def _pending_calls(case: Case, partial: UIMessage | None) -> tuple[PendingToolCall, ...]:
    if partial is None:
        return ()
    orphans = {orphan.index: orphan for orphan in find_orphans(partial, case.records)}
    found: list[PendingToolCall] = []
    for index, part in enumerate(partial.parts):
        if not is_tool_part(part) or part.state.startswith("output-"):
            continue
        orphan = orphans.get(index)
        found.append(
            PendingToolCall(
                tool_call_id=part.tool_call_id,
                tool_name=part.tool_name,
                input=part.input,
                part_index=index,
                ledger=orphan.ledger if orphan is not None else "none",
            )
        )
    return tuple(found)
