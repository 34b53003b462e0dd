"""The first half of a turn: from its row to the moment before `run` (spec/turns.md, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

from .._json import JsonValue
from .._killpoint import kill_point
from ..errors import InputError, MessageError
from ..history import settle_open_calls
from ..messages import Fold, UIMessage, replace_parts, validate_messages
from ..store.records import TurnRow
from .events import ChatStartEvent, PrepareEvent, TurnStartEvent, ValidateEvent
from .expiry import expire_old_asks
from .failure import StageError
from .hooks import Checkpoint, call_hook
from .kernel_notes import note_places
from .mending import mend_history
from .moves import move_turn

if TYPE_CHECKING:
    from .engine import ChatEngine
    from .turn_run import TurnRun


async def begin(run: TurnRun) -> None:
    """Write the turn's row, take in the message, call the hooks, build the model's view.

    Raises:
        StageError: A hook, client data, instructions or the conversion failed. The user message has been stored.
        Stopped: A stop was asked for.
        StoreError: The store can't be written.
    """
    if run.resumed is None:
        await run.ride_out(lambda: _write_row(run))
        run.is_written = True
    else:
        await run.ride_out(lambda: _start_again(run))
    kill_point("turn.started")
    run.engine.turn_begins(run)
    chain = await _take_in(run)
    await run.ride_out(lambda: _store_chain(run, chain))
    kill_point("turn.stored")
    run.raise_if_stopped()
    await _call_starting_hooks(run)
    run.take_injected()
    run.instructions = await evaluate_instructions(run)
    run.raise_if_stopped()
    if not run.goes_on:
        await prepare_view(run)
        run.raise_if_stopped()


def _write_row(run: TurnRun) -> None:
    engine, row = run.engine, run.input.row
    with engine.write() as tx:
        tx.add_turn(
            TurnRow(
                id=run.turn_id,
                number=run.number,
                trigger=run.trigger,
                state="starting",
                assistant_id=run.live.message_id,
                input_id=row.id if run.input.stored else None,
                body=row.body,
                client_data=row.client_data,
                client_tools=row.client_tools,
                started_at=run.clock.now(),
            )
        )
        if run.input.stored:
            tx.move_input(row.id, {"waiting", "held"}, "taken")
        tx.set_chat(next_number=run.number + 1, body=row.body, client_tools=row.client_tools, terminal=None)
    engine.next_number = run.number + 1


def _start_again(run: TurnRun) -> None:
    """Let a recovered turn begin; its row is there."""
    with run.engine.write() as tx:
        move_turn(tx, run.turn_id, "queued", "starting")
        if run.input.stored:
            tx.move_input(run.input.row.id, {"waiting", "held"}, "taken")


async def _take_in(run: TurnRun) -> list[UIMessage]:
    """Boot, parse, validate, hydrate or merge; return the chain that is to be answered."""
    incoming = run.incoming
    try:
        await run.engine.boot(run)
        run.raise_if_stopped()
        expire_old_asks(run.engine)
        try:
            run.client_data = run.definition.parse_client_data(run.input.client_data)
        except Exception as error:
            raise StageError("client_data", error) from error
        if incoming:
            incoming = await _validate(run, incoming)
            run.raise_if_stopped()
        return await _hydrate(run, incoming)
    except StageError as failure:
        if failure.error.stage != "on_validate_messages":
            _keep_incoming(run, incoming)
        raise
    except BaseException:
        _keep_incoming(run, incoming)
        raise


def _keep_incoming(run: TurnRun, incoming: Sequence[UIMessage]) -> None:
    if incoming:
        run.new_user_messages = tuple(incoming)
        run.engine.apply_list(merge(run.engine.tree.messages, incoming))


async def _validate(run: TurnRun, incoming: tuple[UIMessage, ...]) -> tuple[UIMessage, ...]:
    engine = run.engine
    try:
        result = await engine.fire(
            run, "on_validate_messages", lambda: ValidateEvent(messages=incoming, **engine.common(run))
        )
        if result is None:
            return incoming
        return tuple(as_messages(result, "on_validate_messages"))
    except StageError:
        engine.keep_refused(run, incoming)
        raise


async def _hydrate(run: TurnRun, incoming: tuple[UIMessage, ...]) -> list[UIMessage]:
    engine = run.engine
    run.new_user_messages = incoming or run.new_user_messages
    hydrated = None
    if not run.after_action and "hydrate_messages" in run.definition.hooks:
        hydrated = await engine.hydrate(run, incoming, run.regenerates)
    if hydrated is None:
        anew = run.resumed is None or run.resumed.is_anew
        if run.first_trigger == "regenerate-message" and anew:
            try:
                return list(engine.chain_to_answer(run.regenerates))
            except InputError as error:
                raise StageError("input", error) from error
        return merge(engine.tree.messages, incoming)
    return hydrated if run.continues is None else lay_own(hydrated, engine.tree.message(run.continues))


def lay_own(hydrated: Sequence[UIMessage], own: UIMessage) -> list[UIMessage]:
    """Lay the message that goes on, with its decided calls, over a hydrated chain: it is the last one."""
    index = next((i for i, m in enumerate(hydrated) if m.id == own.id), len(hydrated))
    return [*hydrated[:index], own]


def merge(chain: Sequence[UIMessage], incoming: Sequence[UIMessage]) -> list[UIMessage]:
    """Put new user messages at the end; one whose id is on the chain replaces it there, and the chain ends with it."""
    merged = list(chain)
    for message in incoming:
        for index, known in enumerate(merged):
            if known.id == message.id:
                del merged[index:]
                break
        merged.append(message)
    return merged


def as_messages(value: Any, stage: str) -> list[UIMessage]:
    """Return a hook's list as messages.

    Raises:
        StageError: It is no list of valid messages.
    """
    if not isinstance(value, list | tuple):
        who = "the function of save_messages()" if stage == "input" else stage
        raise StageError(stage, TypeError(f"{who} returns a list of messages, not {type(value).__name__}"))
    try:
        wires = [m.to_wire() if isinstance(m, UIMessage) else m for m in value]
        checked = validate_messages(wires) if wires else []
    except MessageError as error:
        raise StageError(stage, error) from error
    return [m if isinstance(m, UIMessage) else c for m, c in zip(value, checked, strict=True)]


def _store_chain(run: TurnRun, chain: list[UIMessage]) -> None:
    """Settle what is open, then write the chain, the head and the turn's leaf (W3)."""
    engine = run.engine
    in_place: dict[str, UIMessage] = {}
    superseded: list[str] = []
    if not run.by_decision and (run.resumed is None or run.resumed.is_anew):
        chain, in_place, superseded = engine.settle_chain(chain, keep_approved=run.first_trigger == "continuation")
    edit = engine.tree.plan_list(chain, lambda: engine.new_id("node"), in_place=in_place)
    with engine.write() as tx:
        engine.put_edit(tx, edit)
        tx.set_turn(run.turn_id, leaf_id=edit.head)
        for grant in superseded:
            tx.move_grant(grant, {"pending", "approved", "rejected"}, "superseded")
        for id_ in run.input.other_rows:
            tx.move_input(id_, {"waiting", "held"}, "done")
    changed = not edit.is_empty
    engine.tree.commit(edit)
    if run.continues is not None:
        run.continues = engine.tree.on_chain(run.live.message_id) or run.continues
        if run.resumed is None or run.resumed.fold is None:
            run.live.replace(engine.tree.message(run.continues))
    if changed:
        engine.history_changed()


def settle_list(
    chain: Sequence[UIMessage], *, keep_approved: bool = False, known: Sequence[UIMessage] = ()
) -> tuple[list[UIMessage], dict[int, UIMessage]]:
    """Settle the open calls of a chain; return it, and the changed messages by position.

    Args:
        chain: The chain.
        keep_approved: Leave calls that a person has decided.
        known: A chain that was settled before; messages in the same place of both are not looked at again.
    """
    changed: dict[int, UIMessage] = {}
    result = list(chain)
    for index, (message, before) in enumerate(zip_longest(result, known[: len(result)])):
        if message is before or message.role != "assistant":
            continue
        settled = settle_open_calls(message, deny=deny_call, keep_approved=keep_approved)
        if settled is not message:
            changed[index] = settled
            result[index] = settled
    return result, changed


def deny_call(message: UIMessage, part: Any) -> UIMessage:
    """Settle a call that a person has rejected."""
    fold = Fold(message)
    fold.feed({"type": "tool-output-denied", "toolCallId": part.tool_call_id})
    return fold.message


def _note_started(engine: ChatEngine) -> None:
    with engine.write() as tx:
        tx.set_chat(chat_started=True)
    engine.chat_started = True


async def _call_starting_hooks(run: TurnRun) -> None:
    engine = run.engine
    if not engine.chat_started:
        await run.ride_out(lambda: _note_started(engine))
        await engine.fire(
            run,
            "on_chat_start",
            lambda: ChatStartEvent(send_part=run.write_part, **engine.seen(engine.tree.messages), **engine.common(run)),
        )
        run.raise_if_stopped()
    await engine.fire(
        run,
        "on_turn_start",
        lambda: TurnStartEvent(
            previous_turn_usage=engine.previous_usage,
            total_usage=engine.total_usage,
            send_part=run.write_part,
            **engine.seen(engine.tree.messages),
            **engine.common(run),
        ),
    )
    run.raise_if_stopped()


async def evaluate_instructions(run: TurnRun) -> str | None:
    """Return the agent's instructions, evaluated for this turn."""
    engine, given = run.engine, run.definition.instructions
    if given is None or isinstance(given, str):
        return given
    try:
        checkpoint = Checkpoint(engine.chat_id, engine.read_chain, is_hook=True)
        text = await call_hook(engine.runtime, given, run.turn, checkpoint=checkpoint)
        engine.apply_checkpoint(checkpoint)
        if text is not None and not isinstance(text, str):
            raise TypeError(f"instructions return text or None, not {type(text).__name__}")
    except Exception as error:
        raise StageError("instructions", error) from error
    return text


async def prepare_view(run: TurnRun) -> None:
    """Make the model's view of the chain, with the message that goes on as it is now, and let the hook change it."""
    engine = run.engine
    await mend_history(run)
    chain: Sequence[UIMessage] = engine.tree.messages
    if run.continues is not None:
        own = run.live.message
        if run.join_base is not None:
            # The step that is open is said with the request of its next step: it goes on.
            own = replace_parts(own, own.parts[: run.join_base])
        chain = [own if m.id == own.id else m for m in chain]
    nodes = [engine.tree.node(node_id) for node_id in engine.tree.chain]
    has_actions = len(run.definition.catalog) > 0
    run.has_tail_note = has_actions and note_places(nodes, engine.kernel_id)[1]
    try:
        view = engine.model_view(chain)
    except MessageError as error:
        raise StageError("model", error) from error
    run.view = await prepared(run, view, "run")


async def prepared(
    run: TurnRun, view: list[dict[str, JsonValue]], reason: Literal["run", "compaction"]
) -> list[dict[str, JsonValue]]:
    """Let `prepare_messages` change a view; return what it is then."""
    engine = run.engine
    result = await engine.fire(
        run,
        "prepare_messages",
        lambda: PrepareEvent(messages=tuple(view), reason=reason, **engine.common(run)),
    )
    if result is None:
        return view
    if not isinstance(result, list | tuple) or not all(isinstance(m, dict) for m in result):
        raise StageError("prepare_messages", TypeError("prepare_messages returns a list of model messages or None"))
    return list(result)
