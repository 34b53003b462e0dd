"""The state of a chat: what a cell, a hook or a view reads of it, from any thread.

The mixin of `Chat` that reads; it changes nothing (but `restore_variables`, which acts on the notebook's names).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._pending import PendingCalls
from .history import History
from .messages import UIMessage
from .turns import TurnError, Waiting
from .turns.hooks import current_checkpoint
from .turns.records import ChatStatus
from .usage import ChatUsage

if TYPE_CHECKING:
    from ._notebook import Notebook
    from .agent import Agent
    from .kernel.objects import ChatObjects
    from .kernel.snapshots import Restorable, Restored
    from .recovery import Interruption
    from .runtime import Runtime
    from .turns import ChatEngine

__all__ = ["ChatState"]


class ChatState:
    """What a chat shows of itself."""

    id: str
    agent: Agent
    _runtime: Runtime

    if TYPE_CHECKING:  # what `Chat` has

        @property
        def _engine(self) -> ChatEngine: ...

        @property
        def _notebook(self) -> Notebook: ...

        def _check_process(self) -> None: ...

    @property
    def messages(self) -> tuple[UIMessage, ...]:
        """The current history, with the message that is being written; in a hook with the hook's own edits."""
        checkpoint = current_checkpoint(self.id)
        if checkpoint is not None and checkpoint.pending is not None:
            return self._engine.with_edits(checkpoint.read())
        return self._engine.read_messages()

    @property
    def history(self) -> History:
        """Reads and edits the history and its branches."""
        return self._engine.history

    @property
    def status(self) -> ChatStatus:
        """`"ready"`, `"submitted"`, `"streaming"` or `"error"`."""
        return self._engine.status

    @property
    def is_streaming(self) -> bool:
        """An answer is arriving."""
        return self.status == "streaming" or self.is_server_streaming

    @property
    def is_server_streaming(self) -> bool:
        """A client-side call is being worked on, or an answer arrives that nobody here has asked for."""
        turn = self._engine.turn
        foreign = self.status == "streaming" and turn is not None and turn.input.origin == "recovery"
        return bool(self._engine.tool_phase) or foreign

    @property
    def is_tool_continuation(self) -> bool:
        """The answer goes on after a decision."""
        return self._engine.is_tool_continuation

    @property
    def is_recovering(self) -> bool:
        """An interrupted answer is being taken up again."""
        return self._engine.is_recovering

    @property
    def error(self) -> TurnError | None:
        """Why the last turn failed, until the next input."""
        return self._engine.error

    @property
    def pending(self) -> PendingCalls:
        """The calls that wait for a person; a table in a notebook."""
        return PendingCalls(self._runtime.call(self._engine.pending))

    @property
    def queue(self) -> tuple[Waiting, ...]:
        """The inputs that wait for their slot."""
        return self._runtime.call(self._engine.waiting_lines)

    @property
    def usage(self) -> ChatUsage:
        """What the chat has used: `turns`, `total`, `complete`, `to_frame()`."""
        return ChatUsage(self._engine.store, self.id, self._engine.total_usage, self.agent.model.name)

    @property
    def objects(self) -> ChatObjects:
        """The results of actions as Python objects, by name or tool call id."""
        self._check_process()
        return self._notebook.objects

    @property
    def interruption(self) -> Interruption | None:
        """An interrupted turn that is not running again, or None."""
        found: Interruption | None = self._engine.interruption
        return found

    @property
    def restorable(self) -> tuple[Restorable, ...]:
        """Calls off the chain whose variables can be brought back."""
        return self._notebook.of_chat.restorable(self.messages)

    def restore_variables(self, tool_call_id: str | None = None, *, force: bool = False) -> Restored:
        """Bring back what names meant before code that is no longer in the conversation ran.

        Args:
            tool_call_id: One call; None: all that `restorable` lists, newest first.
            force: Also names that were bound anew since.

        Returns:
            The names `restored` and `skipped`.

        Raises:
            InputError: Nothing is held for that call.
        """
        restored = self._notebook.of_chat.restore(self.messages, tool_call_id, force=force)
        self._runtime.call(self._engine.state_changed)
        return restored

    @property
    def has_pending_interaction(self) -> bool:
        """A call waits for a person."""
        return len(self.pending) > 0

    @property
    def is_closed(self) -> bool:
        """The chat is closed, or another kernel has taken it over."""
        return self._engine.closed is not None
