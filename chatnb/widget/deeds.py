"""What each command of a view does. On the chat's runtime (spec/widget.md, 3.2)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._json import JsonValue
from ..turns.records import ChatState, Outcome, Update
from .answers import answer_problem
from .cells import CellInserts
from .channel import Channel, error_ack
from .client_tools import ClientTools, output_problem
from .commands import Answer, Fields, refusal
from .inputs import BodyMaker
from .notices import Notices
from .reads import Reads
from .seam import ChatSeam
from .sends import Sends
from .settings import Settings
from .site import DECIDED, NOT_PENDING, WidgetSite
from .view_form import ViewForm

logger = logging.getLogger("chatnb.widget")


class WidgetDeeds(Reads, Sends):
    """Carries out the commands of one widget.

    Args:
        seam: The chat.
        channel: The views.
        settings: The widget's options.
        form: How values are shown.
        body: Makes the body of inputs.
        take_over: Opens the chat again after a lost lease.
        release: Shows a reply that was held back (`resume=False`).
    """

    def __init__(
        self,
        seam: ChatSeam,
        channel: Channel,
        settings: Settings,
        form: ViewForm,
        body: BodyMaker,
        *,
        take_over: Callable[[], Any],
        greeted: Callable[[Any], None],
        left: Callable[[], None],
    ) -> None:
        self._seam = seam
        self._channel = channel
        self._settings = settings
        self._form = form
        self._body = body
        self._reopen = take_over
        self._greeted = greeted
        self._left = left
        self.epoch = channel.epoch
        self.site = WidgetSite(seam, channel, form, self.finish, auto_continue=settings.auto_continue)
        self.tools = ClientTools(seam, channel, settings.client_tools, settings.on_tool_call, self._settle_tool)
        self.notices = Notices(form, channel.refresh)
        self.cells = CellInserts(channel)
        self.command_ids = {}
        self._greetings: dict[str, tuple[Any, Answer]] | None = None
        self._unwritten: list[tuple[Any, Answer, Fields | None, Fields | None]] = []
        self._submissions = OrderedDict()
        self._taken_back = OrderedDict()

    # --- what the desk asks for ---------------------------------------------------------------------------------

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the runtime."""
        self._seam.post(function, *args)

    def is_closed(self) -> bool:
        """Tell whether the chat takes nothing more."""
        return self._seam.state().closed is not None

    def send_ack(self, view: str, id: str, fields: Fields) -> None:
        """Send an answer."""
        self._channel.now({"type": "ack", "to": view, "id": id, **fields})

    def do(self, command: Any, buffers: Sequence[bytes], answer: Answer) -> None:
        """Do a command."""
        kind: str = command.type
        if kind not in ("hello", "bye"):
            self._channel.touch(command.view)
        if kind == "hello" and self._greetings is not None:
            self._greetings[command.view] = (command, answer)
        elif kind == "send":
            self._send(command, buffers, answer)
        elif kind in ("approve", "reject"):
            self.site.decide(command, answer)
        else:
            handler: Callable[[Any, Answer], None] = getattr(self, f"_{_snake(kind)}")
            handler(command, answer)

    def hold_greetings(self) -> None:
        """Answer no view until `release_greetings`: what they are to show is being made."""
        self._greetings = {}

    def release_greetings(self) -> None:
        """Answer the views that have said hello meanwhile, each once."""
        held, self._greetings = self._greetings or {}, None
        for command, answer in held.values():
            self._hello(command, answer)

    def on_update(self, update: Update, state: ChatState) -> None:
        """Answer what has been written meanwhile; look for client-side calls; pass notices on."""
        if self._unwritten:
            waiting, self._unwritten = self._unwritten, []
            for entry in waiting:
                self.finish(*entry)
        if update.kind == "chunk":
            self.notices.passing(update)
            return
        if update.kind == "settled":
            self.notices.drop("data-retry", "data-compaction")
        if update.kind in ("pending", "settled", "history", "state"):
            self.tools.look(state)

    # --- inputs -------------------------------------------------------------------------------------------------

    def finish(
        self, submission: Any, answer: Answer, result: Fields | None = None, skipped: Fields | None = None
    ) -> None:
        """Answer a command once its input is written, or has failed before.

        Args:
            submission: The input; None when there is nothing to be written.
            answer: Answers the command.
            result: What the answer tells.
            skipped: The answer when the input was skipped at once; None: that is fine.
        """
        outcome = self._seam.outcome(submission) if submission is not None else None
        if outcome is not None and outcome.status == "error" and (outcome.turn is None or not submission.admitted):
            answer(_failed(outcome, self._form))
        elif outcome is not None and outcome.status == "skipped" and skipped is not None:
            answer(skipped)
        elif submission is None or outcome is not None or submission.admitted:
            answer({"ok": True, **({"result": result} if result else {})})
        else:
            self._unwritten.append((submission, answer, result, skipped))
            self._seam.spawn(self._when_done(submission), "answer of a command")

    def _around(self, trigger: str, message_id: str | None) -> dict[str, Any]:
        """Return what the widget adds to an input that is answered."""
        return {"client_tools": self._settings.client_tools, **self._body.options(trigger, message_id, None)}

    async def _when_done(self, submission: Any) -> None:
        await submission
        self.on_update(Update(kind="queue"), self._seam.state())

    def stop(self) -> None:
        """Stop the running turn, and what works on client-side calls."""
        self._seam.chat.stop()
        self.tools.stop()

    def _stop(self, command: Any, answer: Answer) -> None:
        self.stop()
        answer({"ok": True})

    def _act(self, command: Any, answer: Answer) -> None:
        self.finish(self._seam.do("act", command.action, **self._around("action-turn", None)), answer)

    def _is_gone(self, message_id: str | None, answer: Answer, *, shown: bool = True) -> bool:
        """Refuse a command about a message that is no more: its control says so, and what was typed stays there."""
        if message_id is None or self._seam.knows(message_id, shown=shown):
            return False
        answer(error_ack("not_found", "The chat has no such message any more."))
        return True

    def _regenerate(self, command: Any, answer: Answer) -> None:
        if self._is_gone(command.message_id, answer):
            return
        around = self._around("regenerate-message", command.message_id)
        self.finish(self._seam.do("regenerate", command.message_id, **around), answer)

    def _edit(self, command: Any, answer: Answer) -> None:
        if not command.text.strip():
            answer(error_ack("invalid", "Write something first.", "text"))
            return
        if self._is_gone(command.message_id, answer):
            return
        around = self._around("action-turn", command.message_id)
        self.finish(self._seam.do("edit", command.message_id, command.text, **around), answer)

    def _rollback(self, command: Any, answer: Answer) -> None:
        self._on_message(command, answer)

    _remove = _rollback

    def _switch(self, command: Any, answer: Answer) -> None:
        if command.index is None or command.message_id is None:
            self._on_message(command, answer)
            return
        version = self._seam.version(command.message_id, command.index)
        if version is None:
            answer(error_ack("not_found", "There is no such version any more."))
            return
        self.finish(self._seam.do("switch", version), answer)

    def _on_message(self, command: Any, answer: Answer) -> None:
        if command.message_id is None:
            answer(error_ack("invalid", "Which message?", "messageId"))
            return
        if self._is_gone(command.message_id, answer, shown=command.type != "switch"):
            return
        self.finish(self._seam.do(command.type, command.message_id), answer)

    def _undo(self, command: Any, answer: Answer) -> None:
        self.finish(self._seam.do(command.type), answer)

    _redo = _clear = _undo

    def _continue(self, command: Any, answer: Answer) -> None:
        self.finish(self._seam.do("continue_last_turn", **self._around("continuation", None)), answer)

    def _discard(self, command: Any, answer: Answer) -> None:
        self._seam.chat.discard()
        self.finish(None, answer)

    # --- actions ------------------------------------------------------------------------------------------------

    def _call(self, command: Any, answer: Answer) -> None:
        self.site.call(command, answer)

    def _tool_started(self, command: Any, answer: Answer) -> None:
        if self.tools.started(command.view, command.tool_call_id):
            answer({"ok": True})
        else:
            is_open = any(item.tool_call_id == command.tool_call_id for item in self._seam.state().pending)
            answer(error_ack("already_decided", "This runs elsewhere already.") if is_open else NOT_PENDING)

    def _tool_output(self, command: Any, answer: Answer) -> None:
        problem = output_problem(command.output)
        if problem is not None:
            answer(error_ack("too_large", problem))
            return
        schema = self._form_of(command.tool_call_id)
        wrong = answer_problem(command.output, schema) if schema is not None else None
        if wrong is not None:
            answer(error_ack("invalid", wrong.message, wrong.field))
            return
        self.tools.answered(command.tool_call_id)
        auto = self._settings.auto_continue
        settled = self._seam.do("add_tool_output", command.tool_call_id, command.output, continue_=auto)
        self.finish(settled, answer, None, DECIDED)

    def _form_of(self, tool_call_id: str) -> Mapping[str, JsonValue] | None:
        """Return the schema of the form that answers a pending call; None where no form does."""
        name = next((p.action for p in self._seam.state().pending if p.tool_call_id == tool_call_id), None)
        tool = next((t for t in self._settings.client_tools if t.name == name), None)
        if tool is None or not tool.form:
            return None
        return tool.form if isinstance(tool.form, Mapping) else tool.parameters

    def _tool_error(self, command: Any, answer: Answer) -> None:
        self.tools.answered(command.tool_call_id)
        auto = self._settings.auto_continue
        text = command.text[:2000]
        settled = self._seam.do("add_tool_error", command.tool_call_id, text, continue_=auto)
        self.finish(settled, answer, None, DECIDED)

    def _settle_tool(self, tool_call_id: str, output: JsonValue, error: str | None, goes_on: bool) -> None:
        method, value = ("add_tool_output", output) if error is None else ("add_tool_error", error)
        try:
            self._seam.do(method, tool_call_id, value, continue_=goes_on and self._settings.auto_continue)
        except Exception:
            logger.info("a client tool answered too late", exc_info=True)

    def _restore(self, command: Any, answer: Answer) -> None:
        restore = self._seam.chat.restore_variables

        async def work() -> None:
            result = await self._seam.run_in_kernel(restore, tool_call_id=command.tool_call_id, force=command.force)
            restored, skipped = (getattr(result, name, ()) for name in ("restored", "skipped"))
            answer({"ok": True, "result": {"restored": list(restored), "skipped": list(skipped)}})

        self._later(work, answer)

    # --- the rest -----------------------------------------------------------------------------------------------

    def _cell_inserted(self, command: Any, answer: Answer) -> None:
        self.cells.answered(command.id, command.ok)
        answer({"ok": True})

    def _take_over(self, command: Any, answer: Answer) -> None:
        closed = self._seam.state().closed
        if closed is None:  # it is here, or here again
            answer({"ok": True})
            return
        if not closed.startswith("taken over"):
            answer(error_ack("closed", "This chat is closed; run the cell to open it again."))
            return

        async def work() -> None:
            await asyncio.to_thread(self._reopen)
            answer({"ok": True})

        self._later(work, answer)


def _snake(kind: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in kind)


def _failed(outcome: Outcome, form: ViewForm) -> Fields:
    error = outcome.error
    if error is None:
        return error_ack("failed", "This failed.")
    if error.cause is not None:
        return refusal(error.cause)
    return error_ack("failed", form.text(error.message))
