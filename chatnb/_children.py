"""Child chats: an action opens the chat `PARENT/CALL_ID` of another agent (spec/turns.md, section 8).

They live in the parent's store, so that the same call id always means the same child, also after a restart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

from ._ids import check_chat_id
from ._json import JsonValue
from .actions.environment import ChildEnd, ChildRun
from .errors import MessageError
from .messages import Fold
from .turns import Outcome, Submission

if TYPE_CHECKING:
    from ._composition import Composition
    from .agent import Agent
    from .chat import Chat

__all__ = ["ChatChildren"]


class ChatChildren:
    """The child chats of one chat's calls."""

    def __init__(self, composition: Composition, parent: Chat) -> None:
        self._composition = composition
        self._parent = parent

    def open(self, agent: Agent, tool_call_id: str) -> Chat:
        """Open the chat `PARENT/CALL_ID`. Any thread.

        Raises:
            InputError: The id would be too long.
            ChatInUseError: Another process owns it.
            StoreError: The store can't be used.
        """
        chat_id = f"{self._parent.id}/{tool_call_id}"
        check_chat_id(chat_id, child=True)
        store = self._parent._engine.store
        chat = self._composition.find(store, chat_id)
        if chat is None:
            chat = self._composition.open(agent, store, chat_id, self._parent._owner)
        chat._bind(agent, self._parent._client_data)
        return chat

    def watch(self, value: object) -> ChildRun | None:
        """Return the run that a handler's result stands for: a submission of a chat. None for an ordinary value."""
        return SubmissionRun(value) if isinstance(value, Submission) else None


class SubmissionRun:
    """A child chat's turn, as the call that returned its submission follows it."""

    def __init__(self, submission: Submission) -> None:
        self._submission = submission
        self._outcome: Outcome | None = None

    async def snapshots(self) -> AsyncIterator[JsonValue]:
        """Yield the child's message, whole, as it grows: once for all chunks that are there."""
        fold: Fold | None = None
        async for batch in self._submission._log.read_batches():
            for chunk in batch:
                if chunk["type"] == "start":
                    fold = Fold(None, id=str(chunk.get("messageId", "")), strict=False)
                if fold is not None:
                    _feed(fold, chunk)
            if fold is not None and fold.message.parts:
                yield fold.message.to_wire()

    def stop(self) -> None:
        """Stop the child."""
        self._submission.stop()

    async def end(self) -> ChildEnd:
        """Wait for the outcome."""
        outcome = await self._submission._wait()
        message = outcome.message
        return ChildEnd(
            status=_status(outcome),
            output=message.to_wire() if message is not None else None,
            text=outcome.error.message if outcome.error is not None else outcome.text,
            chat_id=self._submission._chat_id,
        )


def _status(outcome: Outcome) -> Literal["completed", "awaiting", "stopped", "error"]:
    if outcome.status == "applied":
        return "completed"
    return "stopped" if outcome.status == "skipped" else outcome.status


def _feed(fold: Fold, chunk: Any) -> None:
    try:
        fold.feed(chunk, validated=True)
    except MessageError:
        return  # a continuation's chunk about an older part: the outcome has the whole message
