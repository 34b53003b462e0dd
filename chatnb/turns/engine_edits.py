"""Edits of the history from cells, and decisions of people: they apply at once, outside the slot."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ChatBusyError
from ..history.api import Edit
from ..messages import UIMessage
from .decisions import Decision, decide
from .engine_services import EngineServices
from .history_backend import unknown_message
from .hooks import Checkpoint
from .submission import Submission


class EngineEdits(EngineServices):
    """The part of the engine that works for cells and views, outside the slot."""

    def edit_from_cell(self, edit: Edit) -> None:
        """Edit the chain from a cell.

        Raises:
            ChatBusyError: The chat works.
            ChatClosedError: The chat is closed.
            LeaseLostError: Another kernel has it.
        """
        self._check_idle()
        changed = edit(self.tree.messages)
        if changed is not None:
            self.apply_list(changed)

    def switch_from_cell(self, id: str) -> None:
        """Show another version, from a cell."""
        self._check_idle()
        node_id = self.tree.find(id)
        if node_id is None:
            raise unknown_message(id)
        self.apply_edit(self.tree.plan_head(self.tree.leaf_shown_below(node_id)))

    def messages_below(self, id: str) -> tuple[UIMessage, ...]:
        """Return the chain that a switch to a message or node would show."""
        node_id = self.tree.find(id)
        if node_id is None:
            raise unknown_message(id)
        return self.tree.messages_of(self.tree.leaf_shown_below(node_id))

    def persist(self, messages: Sequence[UIMessage], checkpoint: Checkpoint | None) -> None:
        """Update known ids and append unknown ones; removes nothing, runs nothing."""

        def edit(chain: Sequence[UIMessage]) -> list[UIMessage]:
            known = {m.id: m for m in chain} | {m.id: m for m in messages}
            return list(known.values())

        if checkpoint is not None:
            checkpoint.edit(edit)
        else:
            self.edit_from_cell(edit)

    def _check_idle(self) -> None:
        error = self.closed_error()
        if error is not None:
            raise error
        if not self.queue.is_idle:
            raise ChatBusyError(
                "the chat is at work, so its history can't be edited from a cell; wait for `await chat.stable()`, or "
                "edit in a hook"
            )

    def decide(self, submission: Submission, decision: Decision, origin: str) -> None:
        """Apply a person's decision; raises what its caller has to hear at once."""
        decide(self, submission, decision, origin)
