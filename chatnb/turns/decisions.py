"""Decisions of people: approvals, rejections, outputs of client-side calls (spec/turns.md, section 1).

They apply at once, in order of arrival, and the first write wins. When the last undecided call of the newest assistant
message is decided, exactly one continuation is queued.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from .._json import JsonValue
from .._killpoint import kill_point
from ..actions.approval import prepare_decision
from ..actions.ports import GrantRow
from ..actions.prepare import PreparedCall
from ..errors import InvalidArgumentsError, PendingError, StoreError
from ..messages import Fold, UIMessage, decide_call, is_tool_part, validate_part, with_part
from ..store.records import InputRow
from .expiry import check_expiry
from .inputs import Input
from .records import Outcome, Pending, TurnError
from .submission import Submission

if TYPE_CHECKING:
    from .engine_edits import EngineEdits
    from .engine_services import EngineServices
    from .turn_run import TurnRun

DecisionKind = Literal["approve", "reject", "output", "error"]
METHODS: dict[DecisionKind, str] = {
    "approve": "approve()",
    "reject": "reject()",
    "output": "add_tool_output()",
    "error": "add_tool_error()",
}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a person has decided about one call."""

    kind: DecisionKind
    id: str | None = None
    args: dict[str, JsonValue] | None = None
    reason: str | None = None
    output: JsonValue = None
    text: str = ""
    continue_: bool = True
    decided_by: str | None = None
    hash: str | None = None
    """The hash that a view displayed; a decision without one trusts the stored hash."""


@dataclass(frozen=True, kw_only=True)
class HeldDecision:
    """A decision on a message that still streams: laid over it when its turn ends."""

    target: Pending
    decision: Decision
    input_id: str
    submission: Submission | None
    edited: JsonValue = field(default=None)
    new_hash: str | None = None
    is_moot: bool = False
    """The turn has settled the call itself before the decision could be laid over it."""


def decide(engine: EngineEdits, submission: Submission, decision: Decision, origin: str) -> None:
    """Apply one decision, or hold it while its message streams.

    Raises:
        PendingError: An id this chat never asked; without an id, not exactly one call the method can decide.
        InvalidArgumentsError: The edited arguments do not fit; the call is still pending.
        ApprovalExpiredError: Asked for too long ago; the call is settled as denied.
    """
    target = _find(engine, decision)
    if target is None:
        submission._settle(Outcome(status="skipped"))
        return
    grant = engine.grants.get(target.id) if target.kind == "approval" else None
    if grant is not None:
        check_expiry(engine, target, grant, origin if decision.continue_ else None)
    edited: JsonValue = None
    new_hash: str | None = None
    if grant is not None and decision.kind == "approve" and decision.args is not None:
        prepared = _edit(engine, grant, decision.args)
        if prepared is not None:
            edited, new_hash = prepared.shown, prepared.hash
    row = engine.new_row(
        "decision",
        {
            "kind": decision.kind,
            "id": target.id,
            "toolCallId": target.tool_call_id,
            "args": edited,
            "reason": decision.reason,
            "output": decision.output,
            "text": decision.text,
            "continue": decision.continue_,
        },
    )
    held = HeldDecision(
        target=target, decision=decision, input_id=row.id, submission=submission, edited=edited, new_hash=new_hash
    )
    try:
        if engine.turn is not None and engine.turn.live.message_id == target.message_id:
            _hold(engine, held, row, grant)
        else:
            _apply(engine, held, row, grant, origin)
    except StoreError as failure:
        submission._settle(Outcome(status="error", error=TurnError.of("input", failure)))


def _edit(engine: EngineEdits, grant: GrantRow, args: dict[str, JsonValue]) -> PreparedCall | None:
    """Return the edited call.

    None: nothing differs; or the agent was redefined, so that the call is not the one that the person was shown. It is
    settled or asked anew then, as without an edit.

    Raises:
        InvalidArgumentsError: The edited arguments do not fit.
    """
    catalog = engine.definition.catalog
    if catalog.find(grant.action) is None:
        return None
    edited = prepare_decision(catalog, grant, args)
    try:
        asked = prepare_decision(catalog, grant)
    except InvalidArgumentsError:
        return None
    return edited if asked.hash == grant.hash != edited.hash else None


def _find(engine: EngineEdits, decision: Decision) -> Pending | None:
    wanted = ("approval",) if decision.kind == "approve" else ("approval", "client-tool")
    if decision.kind in ("output", "error"):
        wanted = ("client-tool",)
    candidates = [p for p in engine.pending() if p.kind in wanted]
    if decision.id is None:
        if len(candidates) == 1:
            return candidates[0]
        raise PendingError(_pending_text(METHODS[decision.kind], candidates))
    for pending in engine.pending():
        if decision.id in (pending.id, pending.tool_call_id):
            if pending.kind in wanted:
                return pending
            kind = "an approval" if pending.kind == "approval" else "a client-side call"
            raise PendingError(f"{METHODS[decision.kind]} can't decide {decision.id!r}, which is {kind}")
    if _was_asked(engine, decision.id):
        return None
    if decision.kind == "reject" and " " in str(decision.id):
        raise PendingError("that is no id but a reason, which is given by name: chat.reject(reason=...)")
    raise PendingError(f"this chat never asked {decision.id!r}; {_pending_text(METHODS[decision.kind], candidates)}")


def _pending_text(method: str, candidates: list[Pending]) -> str:
    if not candidates:
        return f"nothing is pending that {method} can decide"
    listed = ", ".join(f"{p.id} ({p.action})" for p in candidates)
    return f"{method} needs the id of a pending call: {listed}"


def _was_asked(engine: EngineEdits, id: str) -> bool:
    """Tell whether this chat ever asked with this id, on the chain or on another branch."""
    return (
        _holds_call(engine.shown_messages(), id)
        or engine.store_knows_grant(id)
        or _holds_call(engine.tree.all_messages("assistant"), id)
    )


def _holds_call(messages: Iterable[UIMessage], id: str) -> bool:
    return any(
        id in (part.tool_call_id, part.approval.id if part.approval else None)
        for message in messages
        for part in message.parts
        if is_tool_part(part)
    )


def _move_grant(engine: EngineEdits, tx: Any, held: HeldDecision, grant: GrantRow) -> bool:
    fields: dict[str, Any] = {
        "decided_at": engine.clock.now(),
        "decided_by": held.decision.decided_by,
        "reason": held.decision.reason,
    }
    if held.new_hash is not None:
        fields |= {"hash": held.new_hash, "arguments": held.edited}
    to = "approved" if held.decision.kind == "approve" else "rejected"
    return bool(tx.move_grant(grant.id, {"pending"}, to, **fields))


def _hold(engine: EngineEdits, held: HeldDecision, row: InputRow, grant: GrantRow | None) -> None:
    """Write the decision down; the message's last write takes it up."""
    submission = held.submission
    with engine.write() as tx:
        if grant is not None and not _move_grant(engine, tx, held, grant):
            submission = None
        else:
            tx.add_input(row)
    if submission is None:
        if held.submission is not None:
            held.submission._settle(Outcome(status="skipped"))
        return
    kill_point("decision.after")
    asked = (p for p in engine.pending() if p.message_id == held.target.message_id)
    if any(p.tool_call_id != held.target.tool_call_id for p in asked):
        submission._settle(Outcome(status="applied"))
        held = replace(held, submission=None)
    engine.held_decisions[held.target.tool_call_id] = held
    engine.pending_changed()


def _apply(engine: EngineEdits, held: HeldDecision, row: InputRow, grant: GrantRow | None, origin: str) -> None:
    """Apply a decision to a message on the chain, and queue the continuation if it was the last (W8)."""
    submission = held.submission
    node_id = engine.tree.on_chain(held.target.message_id)
    if node_id is None or submission is None:
        raise AssertionError("a pending call is on the chain")
    message = decided_message(engine.tree.message(node_id), held)
    newest = engine.newest_answer()
    is_newest = newest is not None and newest.id == message.id
    complete = is_newest and not engine.waiting_in(message, engine.client_tool_names)
    continuation: Input | None = None
    if complete and held.decision.continue_:
        continuation = engine.new_continuation(message.id, [submission], origin)
    won, content_id = True, ""
    with engine.write() as tx:
        if grant is not None:
            won = _move_grant(engine, tx, held, grant)
        if won:
            tx.add_input(replace(row, state="done"))
            content_id = tx.set_message(node_id, message.to_wire())
            if continuation is not None:
                tx.add_input(continuation.row)
    if not won:
        submission._settle(Outcome(status="skipped"))
        return
    kill_point("decision.after")
    engine.replace_message(node_id, message, content_id)
    submission._admitted = True
    if continuation is None:
        submission._settle(Outcome(status="applied"))
    else:
        engine.queue_continuation(continuation)


def decided_message(message: UIMessage, held: HeldDecision) -> UIMessage:
    """Return the message with a decision laid over the call."""
    decision, target = held.decision, held.target
    if target.kind == "approval":
        approved = decision.kind == "approve"
        if held.edited is None:
            return decide_call(message, target.id, approved, decision.reason)
        original = target.args
        message = decide_call(message, target.id, approved, decision.reason, input=held.edited)
        return _with_original(message, target.tool_call_id, original)
    fold = Fold(message)
    if decision.kind == "output":
        fold.feed({"type": "tool-output-available", "toolCallId": target.tool_call_id, "output": decision.output})
    else:
        text = decision.text or decision.reason or "A person declined this call."
        fold.feed({"type": "tool-output-error", "toolCallId": target.tool_call_id, "errorText": text})
    return fold.message


def _with_original(message: UIMessage, tool_call_id: str, original: JsonValue) -> UIMessage:
    for index, part in enumerate(message.parts):
        if is_tool_part(part) and part.tool_call_id == tool_call_id:
            metadata = dict(part.tool_metadata or {})
            metadata["chatnb"] = {**metadata.get("chatnb", {}), "originalInput": original}
            return with_part(message, index, validate_part({**part.to_wire(), "toolMetadata": metadata}))
    return message


def lay_decision(message: UIMessage, payload: JsonValue) -> UIMessage | None:
    """Lay a decision over a message as its input row tells it; None when it does not wait for that any more."""
    for part in message.parts:
        if not is_tool_part(part) or part.tool_call_id != payload["toolCallId"]:
            continue
        is_ask = part.state == "approval-requested" and part.approval is not None and part.approval.id == payload["id"]
        if not is_ask and part.state != "input-available":
            continue
        target = Pending(
            kind="approval" if is_ask else "client-tool",
            id=payload["id"],
            tool_call_id=part.tool_call_id,
            action=part.tool_name,
            title=part.tool_name,
            args=part.input,
            hash=None,
            message_id=message.id,
        )
        decision = Decision(
            kind=payload["kind"], reason=payload["reason"], output=payload["output"], text=payload["text"]
        )
        held = HeldDecision(target=target, decision=decision, input_id="", submission=None, edited=payload["args"])
        return decided_message(message, held)
    return None


def lay_over(
    engine: EngineServices, run: TurnRun, message: UIMessage, *, goes_on: bool
) -> tuple[UIMessage, Input | None]:
    """Lay the decisions that arrived while a message streamed over it; return it, and a continuation if one is due.

    Nothing is changed: what is returned is written first, then `decisions_laid` forgets them.

    Args:
        engine: The chat.
        run: The turn that ends.
        message: Its response.
        goes_on: The turn ended `awaiting`; one that was stopped or failed is not continued by itself.
    """
    engine.applied_decisions = [held.input_id for held in engine.held_decisions.values()]
    if not engine.held_decisions:
        return message, None
    laid: list[HeldDecision] = []
    for call_id, held in engine.held_decisions.items():
        if _waits(message, held.target):
            message = decided_message(message, held)
            laid.append(held)
        else:  # the turn has settled the call meanwhile
            engine.held_decisions[call_id] = replace(held, is_moot=True)
    waiting = _waiting_for(laid)
    continuation: Input | None = None
    if laid and laid[-1].decision.continue_ and goes_on and not engine.waiting_in(message, run.client_tool_names):
        continuation = engine.new_continuation(message.id, waiting, run.input.origin)
    return message, continuation


def decisions_laid(engine: EngineServices, continuation: Input | None) -> None:
    """Forget the decisions that have been laid over a message and stored; tell those who wait for nothing more."""
    moot = [held for held in engine.held_decisions.values() if held.is_moot]
    for submission in _waiting_for(moot):
        submission._settle(Outcome(status="skipped"))
    if continuation is None:
        for submission in _waiting_for(engine.held_decisions.values()):
            submission._settle(Outcome(status="applied"))
    engine.held_decisions.clear()


def _waiting_for(decisions: Iterable[HeldDecision]) -> list[Submission]:
    return [held.submission for held in decisions if held.submission is not None]


def _waits(message: UIMessage, target: Pending) -> bool:
    """Tell whether the call that was decided about still waits for that in a message."""
    for part in message.parts:
        if is_tool_part(part) and part.tool_call_id == target.tool_call_id:
            if target.kind == "approval":
                asked = part.approval.id if part.approval is not None else None
                return part.state == "approval-requested" and asked == target.id
            return part.state == "input-available"
    return False
