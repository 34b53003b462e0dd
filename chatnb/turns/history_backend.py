"""Where `chat.history` reads and writes: the checkpoint of the hook that runs, or the chat at once (a cell)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UnknownMessageError
from ..history import Branch
from ..history.api import Edit
from ..messages import UIMessage
from .hooks import current_checkpoint

if TYPE_CHECKING:
    from .engine import ChatEngine


class EngineHistory:
    """The backend of `History` on a chat's engine."""

    def __init__(self, engine: ChatEngine) -> None:
        self._engine = engine

    def read_chain(self) -> tuple[UIMessage, ...]:
        """Return the chain, with the edits that wait for a checkpoint."""
        checkpoint = current_checkpoint(self._engine.chat_id)
        return checkpoint.read() if checkpoint is not None else self._engine.read_chain()

    def edit_chain(self, edit: Edit) -> None:
        """Edit the chain: at the checkpoint in a hook, at once from a cell.

        Raises:
            ChatBusyError: From a cell, while the chat works.
        """
        checkpoint = current_checkpoint(self._engine.chat_id)
        if checkpoint is not None:
            checkpoint.edit(edit)
        else:
            self._engine.runtime.call(self._engine.edit_from_cell, edit)

    def read_branches(self, id: str) -> list[Branch]:
        """Return the siblings of a message."""
        return self._engine.runtime.call(self._engine.tree.branches, id)

    def switch_chain(self, id: str) -> None:
        """Move to the leaf last shown below a message or node.

        Raises:
            UnknownMessageError: There is no such message.
            ChatBusyError: From a cell, while the chat works.
        """
        checkpoint = current_checkpoint(self._engine.chat_id)
        if checkpoint is None:
            self._engine.runtime.call(self._engine.switch_from_cell, id)
            return
        shown = self._engine.runtime.call(self._engine.messages_below, id)
        checkpoint.edit(lambda chain: list(shown))


def unknown_message(id: str) -> UnknownMessageError:
    """Return the error for an id that the tree does not hold."""
    return UnknownMessageError(f"this chat has no message {id!r}; chat.messages and chat.history.branches() list ids")
