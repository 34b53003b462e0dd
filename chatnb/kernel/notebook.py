"""The notebook side of one chat: its results, its variables, its snapshots, and how a cell is inserted for it.

The composition makes one per chat; the kernel actions find it by the chat's id.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from chatnb._json import JsonValue
from chatnb.kernel.host import current_host
from chatnb.kernel.objects import ChatObjects
from chatnb.kernel.objects_former import former_results
from chatnb.kernel.snapshots import Restorable, Restored, Snapshots
from chatnb.kernel.variables import ChatVariables
from chatnb.kernel.variables_mentions import Mentions
from chatnb.kernel.variables_watch import NamespaceWatch, watch_of
from chatnb.messages import UIMessage
from chatnb.policies import Objects, Variables

InsertCell = Callable[[str, str, str], bool]
"""Asks a page to insert a cell: source, kind, position. Blocks; called on a thread of the pool."""


class ChatNotebook:
    """What a chat has of the notebook.

    Args:
        chat_id: The chat; None for calls outside any.
        objects: How much is kept of results.
        variables: What is shared of the namespace.
        namespace: Returns the user's namespace; None: that of the running IPython, else of `__main__`.
        insert_cell: How a page inserts a cell, or None.
        kept: The results of a chat that this one is a fork of.
        history: Returns the messages of the chat, all branches, in which a former kernel's results are looked up.
    """

    def __init__(
        self,
        chat_id: str | None = None,
        *,
        objects: Objects | None = None,
        variables: Variables | None = None,
        namespace: Callable[[], dict[str, Any]] | None = None,
        insert_cell: InsertCell | None = None,
        kept: ChatObjects | None = None,
        history: Callable[[], Iterable[UIMessage]] = tuple,
    ) -> None:
        self.chat_id = chat_id
        self.namespace: Callable[[], dict[str, Any]] = namespace or (lambda: current_host().namespace())
        self.watch: NamespaceWatch = watch_of(self.namespace) if namespace is None else NamespaceWatch(namespace)
        if kept is None:
            kept = ChatObjects(objects, namespace=self.namespace, former=lambda: former_results(history()))
        self.objects = kept
        self.variables = ChatVariables(variables or Variables(), self.watch, self.objects)
        self.mentions = Mentions(self.variables)
        self.snapshots = Snapshots()
        self.insert_cell = insert_cell
        if chat_id is not None:
            _notebooks[chat_id] = self

    @property
    def policy(self) -> Variables:
        """What is shared; assign it when the chat is bound to another definition of its agent."""
        return self.variables.policy

    @policy.setter
    def policy(self, policy: Variables) -> None:
        self.variables.policy = policy

    def restorable(self, messages: Collection[Any]) -> tuple[Restorable, ...]:
        """Return the calls off the chain whose bindings are held: `chat.restorable`.

        Args:
            messages: The history as it is shown now.
        """
        # Asked with each change of a chat; nearly always there is nothing, and the history may be long.
        return () if self.snapshots.is_empty else self.snapshots.restorable(calls_of(messages))

    def restore(self, messages: Collection[Any], tool_call_id: str | None = None, *, force: bool = False) -> Restored:
        """Bring former bindings back: `chat.restore_variables`. On the main thread; see `Snapshots.restore`."""
        done = self.snapshots.restore(self.namespace(), calls_of(messages), tool_call_id, force=force)
        self.watch.observe()
        return done


_notebooks: weakref.WeakValueDictionary[str, ChatNotebook] = weakref.WeakValueDictionary()


def notebook_of(chat_id: str | None) -> ChatNotebook:
    """Return a chat's notebook side, or one with the default policies."""
    found = _notebooks.get(chat_id) if chat_id is not None else None
    return found if found is not None else ChatNotebook()


def calls_of(messages: Collection[Any]) -> frozenset[str]:
    """Return the ids of the calls in messages, in wire form or as `UIMessage`."""
    found: set[str] = set()
    for message in messages:
        is_wire = isinstance(message, Mapping)
        parts: Iterable[Mapping[str, JsonValue]] = (
            message.get("parts", ()) if is_wire else (part.wire for part in message.parts)
        )
        found.update(str(part["toolCallId"]) for part in parts if "toolCallId" in part)
    return frozenset(found)
