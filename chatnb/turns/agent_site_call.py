"""One call at the agent site: what it is, how it is settled, and what is written with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._json import JsonValue, canonical, dumps
from .._killpoint import kill_point
from .._ports import Phase
from ..actions.approval import EDITED_NOTE
from ..actions.audit import CallPlace
from ..actions.batches import CallClass, class_of
from ..actions.breakers import Breakers
from ..actions.call_run import CallRun, WriteRows
from ..actions.catalog import Catalog
from ..actions.definition import Action
from ..actions.dispatch import Road
from ..actions.environment import CallEnvironment
from ..actions.failures import CallFailure
from ..actions.ledger import TurnLedger, Verdict
from ..actions.ports import GrantRow
from ..actions.prepare import PreparedCall
from ..actions.settled import Settled
from ..messages import StepStartPart, ToolPart, UIMessage, is_tool_part, settle_call
from .io import CallsEnd, TurnIO

UNCOUNTED = frozenset(["cancelled", "not_executed"])
"""Failures that no loop breaker counts: nothing was tried."""


@dataclass(eq=False)
class SiteCall:
    """One call of a step, on its way.

    Attributes:
        action: None when the agent has no such action.
        prepared: None when the input is invalid.
        verdict: What the ledger says about it.
        grant: The approval that it waits for, or uses.
        settled: How it ended.
    """

    tool_call_id: str
    name: str
    raw: JsonValue
    place: CallPlace
    action: Action | None = None
    prepared: PreparedCall | None = None
    verdict: Verdict = field(default_factory=lambda: Verdict("run"))
    grant: GrantRow | None = None
    is_gated: bool = False
    is_held: bool = False
    is_edited: bool = False
    settled: Settled | None = None

    @property
    def kind(self) -> CallClass:
        """Its class, for batches."""
        return class_of(self.prepared)

    @property
    def held_key(self) -> str:
        """The key under which its preparation is kept while it is held."""
        return f"{self.place.message_id}/{self.place.step}/{self.tool_call_id}"

    @property
    def waits(self) -> bool:
        """It waits for a person, or behind a call that does."""
        return self.settled is None and (self.is_gated or self.is_held)


def find_call(message: UIMessage, tool_call_id: str) -> tuple[ToolPart | None, int]:
    """Return the newest part of a call and the number of its step in the message, from 1."""
    found: ToolPart | None = None
    step = number = 0
    for part in message.parts:
        if isinstance(part, StepStartPart):
            step += 1
        elif is_tool_part(part) and part.tool_call_id == tool_call_id:
            found, number = part, step
    return found, max(number, 1)


def is_edited(part: ToolPart) -> bool:
    """Tell whether a person has edited a call's arguments: the original is kept in its metadata."""
    own = part.tool_metadata.get("chatnb") if part.tool_metadata is not None else None
    return isinstance(own, Mapping) and "originalInput" in own


class CallDesk:
    """Runs and settles the calls of one turn: what `run_calls` and `resume_calls` have in common.

    Args:
        io: The turn.
        catalog: The agent's actions.
        environment: What the chat gives.
        ledger: What earlier attempts mean.
        breakers: The turn's counts.
    """

    def __init__(
        self, io: TurnIO, catalog: Catalog, environment: CallEnvironment, ledger: TurnLedger, breakers: Breakers
    ) -> None:
        self.io = io
        self.catalog = catalog
        self.environment = environment
        self.ledger = ledger
        self.road = Road(environment, calls=io.calls, clock=io.clock, new_id=io.new_id, open_books=io.write)
        self._breakers = breakers
        self._running: set[str] = set()
        self._images: dict[str, list[JsonValue]] = {}
        self._breaker: tuple[str, str] | None = None
        self._ends_turn: str | None = None
        self._ran = 0

    # --- what the turn is told ----------------------------------------------------------------------------------

    @property
    def halt(self) -> str | None:
        """Why no further call may run, or None."""
        if self._breaker is not None:
            return "the turn was ended by a loop breaker"
        return self._ends_turn

    @property
    def is_stopped(self) -> bool:
        """A stop was asked for."""
        return self.io.stop.is_set()

    def end(self, *, awaiting: bool) -> CallsEnd:
        """Return how the calls ended."""
        return CallsEnd(
            awaiting=awaiting,
            ends_turn=self._ends_turn is not None,
            breaker=self._breaker,
            images=self._images or None,
            ran=self._ran,
        )

    def place(self, tool_call_id: str) -> CallPlace:
        """Return where a call stands."""
        identity = self.io.identity
        _, step = find_call(self.io.message, tool_call_id)
        return CallPlace(
            site="agent",
            identity=self.environment.identity,
            chat_id=identity.chat_id,
            turn_id=identity.turn_id,
            message_id=identity.message_id,
            step=step,
            tool_call_id=tool_call_id,
            attempt=identity.attempt,
        )

    # --- running ------------------------------------------------------------------------------------------------

    async def run(self, call: SiteCall, *, overlap: bool, same: Sequence[SiteCall] = ()) -> None:
        """Run a prepared call; identical reads of its batch share the result."""
        assert call.prepared is not None
        tool_call_id = call.tool_call_id

        def on_phase(phase: Phase) -> None:
            if phase == "running":
                self._running.add(tool_call_id)
            self.io.show_call(tool_call_id, phase)

        run = CallRun(
            prepared=call.prepared,
            place=call.place,
            grant=call.grant,
            stop=self.io.stop,
            context=self.io.context,
            overlap=overlap,
            client_data=self.io.client_data,
            on_phase=on_phase,
            show=lambda progress, lines: self._show(tool_call_id, progress, lines),
            show_outputs=lambda outputs: self._emit_outputs(tool_call_id, outputs),
            show_snapshot=lambda output: self._emit_snapshot(tool_call_id, output),
            record=lambda settled, write_rows: self._record((call, *same), settled, write_rows),
        )
        try:
            settled = await self.road.run(run)
        finally:
            self._running.discard(tool_call_id)
        if settled.row_id is not None and settled.is_detached:
            self.ledger.note_detached(settled.row_id)
        self.io.show_call(tool_call_id, "done", durationMs=settled.duration_ms)

    def refuse(self, call: SiteCall, problem: CallFailure, *, is_denied: bool = False, as_text: bool = False) -> None:
        """Settle a call that does not run.

        Args:
            call: The call.
            problem: Why.
            is_denied: A person or a guard said no.
            as_text: It is no error: the text is the call's output.
        """

        def record(settled: Settled, write_rows: WriteRows) -> None:
            if as_text:
                settled = replace(settled, status="success", output=problem.text, failure=None)
            self._record((call,), settled, write_rows, counts=problem.code not in UNCOUNTED)

        assert call.action is not None
        self.road.refuse(
            call.action,
            call.place,
            problem,
            prepared=call.prepared,
            raw=call.raw,
            is_denied=is_denied,
            record=record,
        )

    def settle_unknown(self, call: SiteCall, problem: CallFailure) -> None:
        """Settle a call whose action the agent does not have."""
        settled = Settled(status="error", action=call.name, failure=problem)
        self._record((call,), settled, lambda books: None)

    def settle_asked(self, call: SiteCall, text: str) -> None:
        """Settle a call that a person was asked about, and need not answer any more."""
        assert call.grant is not None
        call.settled = Settled(status="error", action=call.name, prepared=call.prepared)
        self._ran += 1
        with self.io.write() as books:
            books.move_grant(call.grant.id, {"pending", "approved", "rejected"}, "superseded", reason=text)
            self.io.edit(lambda message: settle_call(message, call.tool_call_id, text))

    def take_over(self, call: SiteCall, settled: Settled, row_id: str) -> bool:
        """Settle a call with what an earlier attempt recorded; False when another call has taken that row."""
        won = True

        def write(books: Any) -> None:
            nonlocal won
            won = books.reuse_call(row_id, call.held_key)
            if not won:
                raise _TakenError

        try:
            self._record((call,), settled, write)
        except _TakenError:
            return False
        return won

    # --- writing ------------------------------------------------------------------------------------------------

    def _record(
        self, calls: Sequence[SiteCall], settled: Settled, write_rows: WriteRows, *, counts: bool = True
    ) -> None:
        """Write how calls ended: their rows and chunks in one transaction (W7)."""
        with self.io.write() as books:
            write_rows(books)
            for call in calls:
                if settled.outputs:
                    self.io.emit(_outputs_chunk(call.tool_call_id, list(settled.outputs)))
                self.io.emit(self._chunk(call, settled))
        for call in calls:
            call.settled = settled
            self._running.discard(call.tool_call_id)
            self._count(call, settled, counts=counts)
        kill_point("tool.recorded")
        if self._running:
            kill_point("batch.partial")

    def _count(self, call: SiteCall, settled: Settled, *, counts: bool) -> None:
        self._ran += 1
        if settled.images and self.environment.accepts_images:
            self._images[call.tool_call_id] = list(settled.images)
        if settled.ends_turn:
            self._ends_turn = f"{call.name} ended the turn"
        if self._breaker is not None or not counts:
            return
        if settled.is_success and settled.hash is not None:
            self._breaker = self._breakers.note_result(call.name, settled.hash, dumps(settled.output))
        elif settled.failure is not None and not settled.ends_turn and settled.failure.code not in UNCOUNTED:
            digest = settled.hash or canonical(call.raw)  # an invalid call has no hash, and is the same call again
            self._breaker = self._breakers.note_error(call.name, digest, settled.failure.code, settled.failure.text)

    def _chunk(self, call: SiteCall, settled: Settled) -> Any:
        part, _ = find_call(self.io.message, call.tool_call_id)
        metadata = dict(part.tool_metadata or {}) if part is not None else {}
        own = dict(metadata.get("chatnb", {}))
        if settled.replayed:
            own["replayed"] = True
        chunk: dict[str, JsonValue]
        if settled.failure is None:
            output = settled.output
            if call.is_edited:
                output = f"{EDITED_NOTE}\n{output if isinstance(output, str) else dumps(output)}"
            chunk = {"type": "tool-output-available", "toolCallId": call.tool_call_id, "output": output}
        else:
            text = f"{EDITED_NOTE}\n{settled.failure.text}" if call.is_edited else settled.failure.text
            chunk = {"type": "tool-output-error", "toolCallId": call.tool_call_id, "errorText": text}
            if not settled.replayed:
                own |= {"errorCode": settled.failure.code, "effect": settled.effect}
        if own:
            chunk["toolMetadata"] = {**metadata, "chatnb": own}
        return chunk

    # --- while it runs ------------------------------------------------------------------------------------------

    def _show(
        self, tool_call_id: str, progress: dict[str, JsonValue] | None, lines: tuple[dict[str, JsonValue], ...]
    ) -> None:
        fields: dict[str, Any] = {}
        if progress is not None:
            fields["progress"] = progress
        if lines:
            fields["log"] = lines
        self.io.show_call(tool_call_id, "running", **fields)

    def _emit_outputs(self, tool_call_id: str, outputs: list[JsonValue]) -> None:
        if tool_call_id in self._running:
            self.io.emit(_outputs_chunk(tool_call_id, outputs))

    def _emit_snapshot(self, tool_call_id: str, output: JsonValue) -> None:
        chunk: Any = {
            "type": "tool-output-available",
            "toolCallId": tool_call_id,
            "output": output,
            "preliminary": True,
        }
        self.io.emit(chunk)


class _TakenError(Exception):
    """Another call has taken the recorded outcome; the transaction is rolled back."""


def _outputs_chunk(tool_call_id: str, outputs: list[JsonValue]) -> Any:
    return {
        "type": "data-output",
        "id": tool_call_id,
        "data": {"toolCallId": tool_call_id, "outputs": outputs},
    }
