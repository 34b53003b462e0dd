"""An interrupted turn that waits for a person: offered, accepted, discarded, passed over (spec/recovery.md, 4, 6)."""

from __future__ import annotations

from dataclasses import replace

from .._killpoint import kill_point
from ..turns import Input, Outcome
from ..turns.resumed import Resumed
from .budget import over_budget
from .case import Case
from .ends import end_turn, put_incident, tell_completions
from .exhaustion import exhaust
from .in_line import put_in_line, store_partial
from .inputs import flat, move_inputs


class TurnOffer:
    """One offered turn; the engine holds it.

    Args:
        case: The turn, its partial stored.
        held: The inputs that wait behind it.
    """

    def __init__(self, case: Case, held: list[Input]) -> None:
        self._case = case
        self._held = held
        self.turn_id = case.row.id

    async def accept(self, input_: Input) -> Resumed | Outcome:
        """Take the turn up for a person; the held inputs go behind it."""
        case, engine = self._case, self._case.engine
        engine.offer = None
        input_.superseded, input_.absorbed = [*case.before], case.absorbed
        if case.has_moved:
            self._end(case, "conversation_changed")
            await tell_completions(engine, input_)
            self.release()
            return Outcome(status="stopped", turn=case.row.number)
        reason = await over_budget(case)
        if reason is not None:
            outcome = await exhaust(case, reason)
            await tell_completions(engine, input_)
            self.release()
            return outcome
        kill_point("recovery.stored")
        taken = put_in_line(
            case,
            is_retry=case.partial is None,
            body=input_.row.body,
            client_tools=input_.row.client_tools,
            accepted_by=input_.row.id,
        )
        self.release()
        return taken

    def end(self, reason: str) -> None:
        """End the turn `stopped`; its partial stays."""
        self._end(self._case, reason)

    def _end(self, case: Case, reason: str) -> None:
        engine = case.engine
        engine.offer = None
        end_turn(case, "stopped", reason=reason)
        engine.set_state(interruption=None)

    async def tell(self, input_: Input) -> None:
        """Call `on_turn_complete` for the turn that was ended."""
        await tell_completions(self._case.engine, input_)

    def release(self) -> list[Input]:
        """Put the held inputs in line."""
        engine, held = self._case.engine, self._held
        self._held = []
        if not held:
            return []
        with engine.write() as tx:
            move_inputs(tx, held, "held", "waiting")
        for input_ in held:
            input_.row = replace(input_.row, state="waiting")
        engine.queue.put_behind_first(held)  # they came before all that waits
        engine.queue_changed()
        return held

    def give_up(self) -> list[Input]:
        """Return the held sends, to become history before a new message; skip the other held inputs."""
        held, self._held = self._held, []
        found: list[Input] = []
        for input_ in held:
            if input_.kind != "send":
                self._case.engine.skip(input_)
                continue
            found += flat(input_)
            input_.settle(Outcome(status="skipped"))
        return found


def make_offer(case: Case, *, status: str = "offered", reason: str | None = None, is_again: bool = False) -> TurnOffer:
    """Keep the partial, hold the inputs behind it, and offer the turn.

    Args:
        case: The turn.
        status: The incident's status: `"offered"`, or `"failed"` when the hook has failed.
        reason: What the person reads.
        is_again: It was offered before. What waits has come since: it accepts the offer or passes it over.
    """
    engine = case.engine
    if case.partial is not None:
        store_partial(case)
    elif (edit := case.plan_message()) is not None:
        engine.apply_edit(edit)
    held = [i for i in case.in_flight if i.row.state == "held" or (not is_again and engine.queue.remove(i))]
    with engine.write() as tx:
        move_inputs(tx, held, "waiting", "held")
        if case.incident is not None:
            case.incident = replace(case.incident, status=status, reason=reason)
            put_incident(tx, case.incident)
        tx.set_chat(recovering=False)
    for input_ in held:
        input_.row = replace(input_.row, state="held")
    offer = TurnOffer(case, held)
    engine.offer = offer
    engine.partial = None
    interruption = case.interruption(offered=True, reason=reason, inputs=len(held))
    engine.set_state(is_recovering=False, interruption=interruption)
    engine.queue_changed()
    return offer
