"""Running hooks, and the checkpoint that their history edits and injections wait for (spec/turns.md, 3 and 4)."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .._json import JsonValue
from ..history.api import Edit
from ..messages import UIMessage
from ..runtime.contain import contained
from ..runtime.entry import is_async
from .submission import inside


@dataclass(eq=False)
class Checkpoint:
    """The edits of one hook, `run` or action, until they apply.

    Attributes:
        chat_id: Whose history it is; code may work inside several chats.
        pending: The edited chain, or None as long as nothing was edited.
        edits: The edits that made it, in order.
        injected: Messages injected by the hook.
        is_hook: It is discarded as a whole if the code raises; `run` and actions keep what they have injected.
        base: Returns the chain that an edit starts from.
    """

    chat_id: str
    base: Callable[[], tuple[UIMessage, ...]]
    pending: list[UIMessage] | None = None
    edits: list[Edit] = field(default_factory=list)
    injected: list[JsonValue] = field(default_factory=list)
    is_open: bool = True
    is_hook: bool = False

    def read(self) -> tuple[UIMessage, ...]:
        """Return the chain with the edits so far."""
        return self.base() if self.pending is None else tuple(self.pending)

    def edit(self, edit: Edit) -> None:
        """Compose one more edit."""
        self.edits.append(edit)
        changed = edit(self.read())
        if changed is not None:
            self.pending = changed

    def take(self) -> list[UIMessage] | None:
        """Return the edited chain and begin anew."""
        taken, self.pending = self.pending, None
        self.edits.clear()
        return taken

    def take_on_top(self, chain: list[UIMessage]) -> list[UIMessage]:
        """Do the edits again on another chain, and begin anew."""
        for edit in self.edits:
            changed = edit(chain)
            chain = chain if changed is None else changed
        self.take()
        return chain


_checkpoints: contextvars.ContextVar[dict[str, Checkpoint]] = contextvars.ContextVar("chatnb_checkpoints")


def current_checkpoint(chat_id: str) -> Checkpoint | None:
    """Return the checkpoint that code of this chat works under here, or None (a cell)."""
    found = _checkpoints.get({}).get(chat_id)
    return found if found is not None and found.is_open else None


def enter_context(context: contextvars.Context, checkpoint: Checkpoint) -> None:
    """Mark a context as working inside the checkpoint's chat."""

    def mark() -> None:
        inside.set(inside.get() | {checkpoint.chat_id})
        _checkpoints.set({**_checkpoints.get({}), checkpoint.chat_id: checkpoint})

    context.run(mark)


class Workers(Protocol):
    """Where hooks run: what the runtime offers."""

    def spawn(self, coro: Any, *, name: str, context: contextvars.Context | None = None) -> Any:
        """Start a task on the loop."""

    def in_worker(self, key: str, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Run a sync function on the one worker thread of a key."""


async def call_hook(
    workers: Workers,
    function: Callable[..., Any],
    event: Any,
    *,
    checkpoint: Checkpoint,
    context: contextvars.Context | None = None,
) -> Any:
    """Call one hook under a checkpoint: async ones on the runtime, sync ones on the chat's worker thread."""
    context = (context or contextvars.copy_context()).copy()
    enter_context(context, checkpoint)
    try:
        if is_async(function):
            work = contained(function(event))
            return await contained(workers.spawn(work, name=f"hook of {checkpoint.chat_id}", context=context))
        result = await contained(workers.in_worker(checkpoint.chat_id, context.run, function, event))
        if inspect.isawaitable(result):
            work = contained(result)
            result = await contained(workers.spawn(work, name=f"hook of {checkpoint.chat_id}", context=context))
        return result
    finally:
        checkpoint.is_open = False
