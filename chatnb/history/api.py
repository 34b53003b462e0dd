"""`chat.history`: what hooks, cells and views share to read and edit the chain.

Reads and edits go to a backend, which knows whether this is a hook (edits compose and apply at the next checkpoint)
or a cell (edits apply at once when the chat is idle).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..errors import InputError
from ..messages import UIMessage
from .calls import ResolvedCall, ToolCall, new_tool_results, pending_calls, resolved_calls
from .nodes import Branch

Edit = Callable[[Sequence[UIMessage]], list[UIMessage] | None]
"""Makes a chain of a chain. In `hydrate_messages` it is done again on top of the list that the hook returns."""


class Backend(Protocol):
    """Where a history reads and writes."""

    def read_chain(self) -> tuple[UIMessage, ...]:
        """Return the chain, with the edits that wait for a checkpoint."""

    def edit_chain(self, edit: Edit) -> None:
        """Make what an edit gives the chain; None changes nothing."""

    def read_branches(self, id: str) -> list[Branch]:
        """Return the siblings of a message."""

    def switch_chain(self, id: str) -> None:
        """Move to the leaf last shown below a message or node."""


class History:
    """The history of one chat (spec/turns.md, section 4).

    Nothing is destroyed by any of these: what leaves the chain stays in the tree as a branch.

    From a cell each edit applies at once and raises `ChatBusyError` while the chat works. In a hook the edits compose
    and apply when the hook returns; if it raises they are discarded.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def all(self) -> list[UIMessage]:
        """Return the chain as a new list."""
        return list(self._backend.read_chain())

    def get_chain(self) -> list[UIMessage]:
        """Return the chain as a new list."""
        return self.all()

    def find_message(self, id: str) -> UIMessage | None:
        """Return the chain's message with this id, or None."""
        return next((m for m in self._backend.read_chain() if m.id == id), None)

    def set(self, messages: Iterable[UIMessage | dict[str, Any]]) -> None:
        """Make this list the chain.

        Args:
            messages: Messages, or their wire dicts.

        Raises:
            MessageValidationError: A message is not valid; nothing changed.
            ChatBusyError: From a cell, while the chat works.
        """
        wanted = checked_messages(messages)
        self._backend.edit_chain(lambda chain: list(wanted))

    def remove(self, id: str) -> None:
        """Drop every message with this id. An unknown id changes nothing."""

        def edit(chain: Sequence[UIMessage]) -> list[UIMessage] | None:
            kept = [m for m in chain if m.id != id]
            return kept if len(kept) != len(chain) else None

        self._backend.edit_chain(edit)

    def rollback_to(self, id: str) -> None:
        """Keep the chain up to and including the message with this id. An unknown id changes nothing."""

        def edit(chain: Sequence[UIMessage]) -> list[UIMessage] | None:
            index = _find(chain, id)
            return list(chain[: index + 1]) if index is not None and index + 1 < len(chain) else None

        self._backend.edit_chain(edit)

    def replace(self, id: str, message: UIMessage | dict[str, Any]) -> None:
        """Put a message in the place of another; its id may change, later messages stay. Unknown id: no change."""
        new = checked_message(message)

        def edit(chain: Sequence[UIMessage]) -> list[UIMessage] | None:
            index = _find(chain, id)
            return None if index is None else [*chain[:index], new, *chain[index + 1 :]]

        self._backend.edit_chain(edit)

    def slice(self, start: int, end: int | None = None) -> None:
        """Keep the half-open range `[start, end)`, as Python slices do."""

        def edit(chain: Sequence[UIMessage]) -> list[UIMessage] | None:
            kept = list(chain[start:end])
            return kept if len(kept) != len(chain) else None

        self._backend.edit_chain(edit)

    def get_pending_tool_calls(self) -> list[ToolCall]:
        """Return the calls in `input-available` on the last assistant message. Awaited approvals are not among them."""
        return pending_calls(self._backend.read_chain())

    def get_resolved_tool_calls(self) -> list[ToolCall]:
        """Return all calls of the chain that have an output or an error."""
        return resolved_calls(self._backend.read_chain())

    def extract_new_tool_results(self, message: UIMessage | dict[str, Any]) -> list[ResolvedCall]:
        """Return the results in a message that the chain does not have yet. Changes nothing."""
        return new_tool_results(self._backend.read_chain(), checked_message(message))

    def branches(self, id: str) -> list[Branch]:
        """Return the versions of a message, itself included, in order of making; empty for an unknown id."""
        return self._backend.read_branches(id)

    def switch(self, id: str) -> None:
        """Show the version with this message or node id, and what followed it when it was last shown.

        Raises:
            UnknownMessageError: There is no such message in the tree.
            ChatBusyError: From a cell, while the chat works.
        """
        self._backend.switch_chain(id)

    def __len__(self) -> int:
        return len(self._backend.read_chain())

    def __repr__(self) -> str:
        return f"History({len(self)} messages)"


def _find(chain: Sequence[UIMessage], id: str) -> int | None:
    """Return the place of a message; looked for from the end, where edits are."""
    return next((i for i in range(len(chain) - 1, -1, -1) if chain[i].id == id), None)


def checked_messages(messages: Iterable[UIMessage | dict[str, Any]]) -> list[UIMessage]:
    """Return messages from messages or their wire dicts; a long list of messages costs no more than a glance.

    Raises:
        InputError: It is no list of messages.
        MessageValidationError: A dict is no valid message.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InputError(f"a history is a list of messages, not {type(messages).__name__}")
    wanted: list[Any] = list(messages)
    if set(map(type, wanted)) - {UIMessage}:
        wanted = [m if type(m) is UIMessage else checked_message(m) for m in wanted]
    return wanted


def checked_message(value: UIMessage | dict[str, Any]) -> UIMessage:
    """Return a message from a message or its wire dict.

    Raises:
        MessageValidationError: The dict is no valid message.
    """
    return value if isinstance(value, UIMessage) else UIMessage.from_wire(value)
