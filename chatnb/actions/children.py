"""A call whose handler has returned a child chat's submission (spec/turns.md, section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .._json import JsonValue
from .attempt import Ended
from .context import Cancellation
from .definition import Action
from .environment import ChildRun
from .failures import failure
from .results import Digest, own_words


async def follow_child(
    action: Action,
    child: ChildRun,
    *,
    stop: asyncio.Event | None,
    show: Callable[[JsonValue], None] | None,
) -> Ended:
    """Follow a child chat's turn to its end: its message as it grows is shown, the last one is the output.

    Args:
        action: The action that returned it.
        child: The child's run.
        stop: When set, the child is stopped.
        show: Takes each snapshot.
    """
    watch = watch_stop(stop, None, child.stop)
    snapshot: JsonValue
    try:
        async for snapshot in child.snapshots():
            if show is not None:
                show(snapshot)
        end = await child.end()
    finally:
        if watch is not None:
            watch.cancel()
    if end.status in ("error", "stopped"):
        code = "cancelled" if end.status == "stopped" else "action_failed"
        return Ended(failure=failure(code, f"The child chat {end.chat_id} ended as {end.status}: {end.text}"))
    if end.status == "awaiting":
        text = f"The child chat {end.chat_id} waits for a person's decision there."
        return Ended(digest=Digest(json=text, text=text), output=text)
    output = own_words(action, end.output, end.output)
    return Ended(digest=Digest(value=end.output, json=output, text=end.text), output=output)


def child_text(output: JsonValue) -> str | None:
    """Return the text of a child's message that stands as a call's output: what the model sees of it. Else None."""
    if not isinstance(output, dict) or output.get("role") != "assistant" or not isinstance(output.get("parts"), list):
        return None
    return "\n\n".join(part["text"] for part in output["parts"] if part.get("type") == "text")


def watch_stop(
    stop: asyncio.Event | None, cancellation: Cancellation | None, also: Callable[[], None] | None = None
) -> asyncio.Task[bool] | None:
    """Tell a call, and whatever else, when a stop is asked for; the caller cancels the task that watches."""
    if stop is None:
        return None

    def passed(task: asyncio.Task[bool]) -> None:
        if not task.cancelled():
            if cancellation is not None:
                cancellation.cancel()
            if also is not None:
                also()

    watch = asyncio.create_task(stop.wait())
    watch.add_done_callback(passed)
    return watch
