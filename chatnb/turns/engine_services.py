"""What a turn and a chat action ask of their chat: hooks, the chain to answer, the model's view, how an end is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from .._json import JsonValue
from ..errors import InputError
from ..history import TreeEdit
from ..messages import UIMessage
from ..models import ModelRequest, Usage
from ..store.port import WriteTx
from ..store.records import InjectedRow, InputKind, InputRow
from .beginning import as_messages, settle_list
from .compaction import compacted_view, overlays_of
from .ending import Verdict
from .engine_base import EngineBase, log
from .events import BootEvent, HookEvent, HydrateEvent
from .failure import StageError
from .history_backend import unknown_message
from .hooks import Checkpoint, call_hook
from .inputs import Input
from .records import TurnError
from .submission import Submission

if TYPE_CHECKING:
    from .chat_actions import ActionRun
    from .turn_run import TurnRun


class EngineServices(EngineBase):
    """The part of the engine that works for the turn in the slot."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.compaction_error: TurnError | None = None
        self.overlays: Any = None
        self._settled: tuple[UIMessage, ...] = ()
        self._warned_about_hydrate = False
        self._former: tuple[Any, ...] = (None, None, None, None)

    def stop_submission(self, submission: Submission) -> None:
        """Stop one input (`submission.stop()`), from any thread."""
        raise NotImplementedError

    def kick(self) -> None:
        """Give the slot to the next input if it is free."""
        raise NotImplementedError

    def new_row(self, kind: InputKind, payload: JsonValue, **fields: Any) -> InputRow:
        """Make an input's row with the next arrival number."""
        row = InputRow(
            id=self.new_id("input"),
            arrival=self.arrival,
            kind=kind,
            payload=payload,
            generation=self.generation,
            **fields,
        )
        self.arrival += 1
        return row

    def new_continuation(self, message_id: str, submissions: list[Submission], origin: str) -> Input:
        """Make the continuation of a decided message; it inherits the body and client tools of the last turn."""
        row = self.new_row(
            "continuation",
            {"messageId": message_id},
            body=self.last_body,
            client_data=self.last_client_data_row,
            client_tools=self.last_client_tools,
        )
        waiting = submissions or [Submission(self.runtime, self.chat_id, self.stop_submission)]
        return Input(row, waiting, origin=origin, client_data=self.last_client_data)

    def inherit(self, input_: Input) -> None:
        """Give a continuation that was asked for what the turn it continues had and it does not bring itself."""
        row = input_.row
        body = row.body if row.body is not None else self.last_body
        tools = row.client_tools if row.client_tools is not None else self.last_client_tools
        data = row.client_data
        if input_.client_data is None:
            input_.client_data, data = self.last_client_data, self.last_client_data_row
        input_.row = replace(row, body=body, client_tools=tools, client_data=data)

    def queue_continuation(self, continuation: Input, *, kick: bool = True) -> None:
        """Put a stored continuation in line."""
        for submission in continuation.submissions:
            submission._admit(continuation)
        self.queue.put(continuation)
        self.set_state(is_tool_continuation=True)
        self.queue_changed()
        if kick:
            self.kick()

    def common(self, run: TurnRun | ActionRun) -> dict[str, Any]:
        """Return the fields that all events of a turn have."""
        return {
            "chat": self.chat,
            "chat_id": self.chat_id,
            "turn_number": run.number,
            "trigger": run.trigger,
            "client_data": run.client_data,
            "body": run.body,
            "stopping": run.stop.is_set,
        }

    async def boot(self, run: Any) -> None:
        """Call `on_boot` if it is due; after a failure it is due again before the next input."""
        if self.booted:
            return
        await self.fire(run, "on_boot", lambda: BootEvent(is_new=self.is_new, **self.common(run)))
        self.booted = True

    def note_hook(self, name: str, event: Any) -> None:
        """Tell who watches hooks (tests) that one is called."""
        for listener in self.hook_listeners:
            listener(name, event)

    def note_request(self, model: Any, request: ModelRequest) -> None:
        """Tell who watches requests (tests) what a step asks of a model."""
        for listener in self.request_listeners:
            listener(model, request)

    async def fire(self, run: Any, name: Any, make_event: Any, *, apply: bool = True) -> Any:
        """Call a hook if there is one; apply its edits and injections when it returns.

        Args:
            run: The turn, or the chat action.
            name: The hook's name; a failure has it as its stage.
            make_event: Makes the event.
            apply: Leave the edits to the caller: then the result is a pair with the checkpoint.

        Raises:
            StageError: The hook raised; its edits and injections are discarded.
        """
        hook = run.definition.hooks.get(name)
        if hook is None:
            return None if apply else (None, None)
        event: HookEvent = make_event()
        checkpoint = Checkpoint(self.chat_id, self.read_chain, is_hook=True)
        self.note_hook(name, event)
        with self.tracer.span(f"hook {name}") as span:
            try:
                result = await call_hook(self.runtime, hook, event, checkpoint=checkpoint)
            except (asyncio.CancelledError, GeneratorExit):
                raise
            except BaseException as error:
                span.fail(type(error).__name__)
                raise StageError(name, error) from error
        if not apply:
            return result, checkpoint
        self.apply_checkpoint(checkpoint)
        return result

    def apply_checkpoint(
        self, checkpoint: Checkpoint | None, *, also: Callable[[WriteTx], None] | None = None, durable: bool = True
    ) -> None:
        """Apply the edits and keep the injections that have gathered, in one transaction.

        Args:
            checkpoint: None: nothing has gathered.
            also: Writes more in the same transaction.
            durable: A power loss may not take it.
        """
        edit: TreeEdit | None = None
        pending = checkpoint.take() if checkpoint is not None else None
        turn = self.turn
        if pending is not None and turn is not None and turn.final is not None and turn.state == "finishing":
            turn.final = pending
        elif pending is not None:
            edit = self.tree.plan_list(pending, lambda: self.new_id("node"))
        injected = self.number_injected(checkpoint)
        if (edit is None or edit.is_empty) and not injected and also is None:
            return
        with self.write(durable=durable) as tx:
            if edit is not None:
                self.put_edit(tx, edit)
            for row in injected:
                tx.add_injected(row)
            if also is not None:
                also(tx)
        self.injected += injected
        if edit is not None and not edit.is_empty:
            self.tree.commit(edit)
            self.history_changed()

    def number_injected(self, checkpoint: Checkpoint | None) -> list[InjectedRow]:
        """Return what a checkpoint has injected as rows, and forget it there."""
        rows: list[InjectedRow] = []
        for messages in checkpoint.injected if checkpoint is not None else ():
            self.injected_count += 1
            rows.append(InjectedRow(n=self.injected_count, messages=messages))
        if checkpoint is not None:
            checkpoint.injected.clear()
        return rows

    async def hydrate(self, run: Any, incoming: Sequence[UIMessage], message_id: str | None) -> list[UIMessage] | None:
        """Call `hydrate_messages`; return its list with the hook's own edits on top, or None."""
        result, checkpoint = await self.fire(
            run,
            "hydrate_messages",
            lambda: HydrateEvent(
                incoming_messages=tuple(incoming),
                previous_messages=self.tree.messages,
                message_id=message_id,
                **self.common(run),
            ),
            apply=False,
        )
        if result is None or checkpoint is None:
            self.apply_checkpoint(checkpoint)
            return None
        chain: list[UIMessage] = checkpoint.take_on_top(as_messages(result, "hydrate_messages"))
        self.apply_checkpoint(checkpoint)
        return chain

    def chain_to_answer(self, message_id: str | None) -> tuple[UIMessage, ...]:
        """Return the chain that a regenerate answers.

        Raises:
            UnknownMessageError: No such message on the chain.
            InputError: Nothing to answer.
        """
        chain = self.tree.messages
        if message_id is None:
            if chain and chain[-1].role == "user":
                return chain
            index = next((i for i in reversed(range(len(chain))) if chain[i].role == "assistant"), None)
        else:
            index = next((i for i, m in enumerate(chain) if m.id == message_id), None)
            if index is None:
                raise unknown_message(message_id)
            if chain[index].role == "user":
                return chain[: index + 1]
        if index is not None:
            for before in reversed(range(index)):
                if chain[before].role == "user":
                    return chain[: before + 1]
        raise InputError("there is nothing to answer: the conversation holds no message of the user")

    def settle_chain(
        self, chain: list[UIMessage], *, keep_approved: bool
    ) -> tuple[list[UIMessage], dict[str, UIMessage], list[str]]:
        """Settle the open calls of a chain; return it, what changes in place, and the grants that are superseded."""
        settled, changed = settle_list(chain, keep_approved=keep_approved, known=self._settled)
        if not keep_approved:
            self._settled = tuple(settled)
        in_place: dict[str, UIMessage] = {}
        calls: set[str] = set()
        for index, message in changed.items():
            node_id = self.tree.on_chain(message.id)
            if node_id is not None and self.tree.message(node_id) == chain[index]:
                in_place[node_id] = message
            before = {id(p) for p in chain[index].parts}
            calls |= {getattr(p, "tool_call_id", "") for p in message.parts if id(p) not in before}
        superseded = [g.id for g in self.grants.values() if g.tool_call_id in calls]
        return settled, in_place, superseded

    def keep_refused(self, run: TurnRun, incoming: Sequence[UIMessage]) -> None:
        """Store refused messages as nodes; the head stays before them."""
        # What waits on the chain goes on with what its own turn had.
        self.last_body, self.last_client_tools, self.last_client_data, self.last_client_data_row = self._former
        with self.write() as tx:
            tx.set_chat(body=self.last_body, client_tools=self.last_client_tools)
        for message in incoming:
            edit = self.tree.plan_branch(self.tree.head, message, lambda: self.new_id("node"))
            with self.write() as tx:
                self.put_edit(tx, edit)
            self.tree.commit(edit)

    def model_view(self, messages: Sequence[UIMessage]) -> list[dict[str, JsonValue]]:
        """Return the model's view of a chain: repaired, compacted, converted."""
        return compacted_view(self, messages)

    def seen(self, messages: Sequence[UIMessage]) -> dict[str, Any]:
        """Return the fields of an event that shows a chain: as it is now, whenever the view of it is made."""
        chain, overlays = self.tree.chain, tuple(overlays_of(self))
        turn = self.turn
        if overlays and turn is not None and turn.final is not None:
            # The turn's end is not in the tree yet, and a hook may have edited it.
            same = (self.tree.node(n).message_id == m.id for n, m in zip(chain, messages, strict=False))
            chain = tuple(n for n, _ in zip(chain, takewhile(bool, same), strict=False))
            if len(chain) < len(messages) and messages[len(chain)].id == turn.live.message_id:
                chain = (*chain, turn.node_id)  # set aside for the response, which a compaction may stand in for
        return {"ui_messages": tuple(messages), "make_view": lambda: compacted_view(self, messages, chain, overlays)}

    def turn_begins(self, run: TurnRun) -> None:
        """A turn has its row: the views see it submitted."""
        row = run.input.row
        self._former = (self.last_body, self.last_client_tools, self.last_client_data, self.last_client_data_row)
        self.last_body, self.last_client_tools = row.body, row.client_tools
        self.last_client_data, self.last_client_data_row = run.input.client_data, row.client_data
        self.calls.clear()
        self.partial = None
        self.set_state(
            status="submitted",
            error=None,
            is_tool_continuation=run.by_decision and not run.stop.is_set(),
            interruption=None,
        )

    def turn_ended(self, run: TurnRun, verdict: Verdict) -> None:
        """A turn is stored: the views see it ended, in one step."""
        self.turn = None
        self.tidy_later(run.turn_id)
        status = "error" if verdict.status == "error" else "ready"
        self.history_changed()
        error, self.compaction_error = verdict.error or self.compaction_error, None
        self.set_state(status=status, is_tool_continuation=self.continuation_waits(), is_recovering=False, error=error)
        self.pending_changed()

    def continuation_waits(self) -> bool:
        """Tell whether a continuation is in line."""
        return any(i.kind == "continuation" for i in self.queue)

    def end_written(self, run: TurnRun, usage: Usage, continuation: Input | None) -> None:
        """The last write of a turn has been committed."""
        self.previous_usage = usage
        self.note_message_usage(run.live.message_id, usage)
        self.total_usage = self.total_usage + usage
        used = {placed.n for placed in run.injected} if run.has_asked else set()
        self.injected = [row for row in self.injected if row.n not in used]
        if continuation is not None:
            self.queue_continuation(continuation, kick=False)

    def keep_unsaved(self, run: TurnRun, verdict: Verdict) -> None:
        """Go on showing a response that could not be stored, and try again. The engine overrides this."""
        raise NotImplementedError

    def hand_over(self, run: TurnRun, cause: str) -> bool:
        """Let recovery put an interrupted turn in line. The engine overrides this."""
        raise NotImplementedError

    def tidy_later(self, turn_id: str) -> None:
        """Forget the log of a turn that has just ended, in 10 minutes. The engine overrides this."""
        raise NotImplementedError

    def hook_failed(self, failure: StageError) -> None:
        """`on_turn_complete` raised: the outcome stands, `chat.error` has it."""
        log.error("chat %s: %s failed", self.chat_id, failure.error.stage, exc_info=failure.cause)
        self.set_state(error=failure.error)

    def keep_injected(self, messages: JsonValue) -> None:
        """Store context for the next turn."""
        self.apply_checkpoint(Checkpoint(self.chat_id, self.read_chain, injected=[messages]))

    def forget_context(self) -> None:
        """Drop injected context and the body that continuations inherit (`clear`)."""
        self.injected.clear()
        self.last_body = None

    def warn_about_hydrate(self, kind: str) -> None:
        """Say once per chat that a built-in edit lives only here until the app mirrors it."""
        if not self._warned_about_hydrate:
            self._warned_about_hydrate = True
            log.warning(
                "chat %s: %r edits a history that hydrate_messages owns; mirror it in your own storage, or the next "
                "turn brings the old messages back",
                self.chat_id,
                kind,
            )
