"""What the soak runs inside its kernel: the agent, one round of a day's work, and what is counted after it."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from chatnb import Agent, Chat, StepEnd, action, notebook_actions

PLOT = """
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(4, 3))
axes.plot([{n}, 2, 3, {n}])
plt.show()
"""
PAGE = os.sysconf("SC_PAGE_SIZE")


@action(read_only=True)
def sales(region: str) -> list[dict[str, int]]:
    """Look up sales."""
    return [{"month": month, region: month * 7} for month in range(12)]


@action(needs_approval=True)
def refund(order: str) -> str:
    """Pay back."""
    return f"paid {order}"


class Clerk:
    """A model that does at once what the last message says, and remembers nothing."""

    name = "clerk"

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Answer one step."""
        last = request.messages[-1]
        content = last["content"]
        words = content if isinstance(content, str) else " ".join(str(part.get("text", "")) for part in content)
        if words.startswith("fail"):
            raise RuntimeError("no line")
        if (call := _call_of(words)) is not None:
            name, arguments = call
            yield {
                "type": "tool-input-available",
                "toolCallId": f"c{time.monotonic_ns()}",
                "toolName": name,
                "input": arguments,
            }
            yield StepEnd("tool-calls")
            return
        yield {"type": "text-start", "id": "t"}
        for number in range(400 if words.startswith("long") else 8):
            yield {"type": "text-delta", "id": "t", "delta": f"**word** {number} "}
            if words.startswith("long"):
                await asyncio.sleep(0.002)
        yield {"type": "text-end", "id": "t"}
        yield StepEnd("stop")


def _call_of(words: str) -> tuple[str, dict[str, Any]] | None:
    if words.startswith("sales"):
        return "sales", {"region": "EU"}
    if words.startswith("refund"):
        return "refund", {"order": words[-6:]}
    if words.startswith("plot"):
        return "run_code", {"code": PLOT.format(n=time.monotonic_ns() % 1000)}
    return None


def make_agent() -> Agent:
    """Return the agent, as a cell that is run again would make it anew."""
    return Agent(Clerk(), actions=[sales, refund, *notebook_actions(approve_code=False)])


def watch(widget: Any, heard: Counter[str]) -> None:
    """Attach observers, as a notebook's own views do."""
    for name in ("messages", "status", "pending"):
        widget.observe(lambda change: heard.update([change.name]), name)


async def work(chat: Chat, other: Chat, number: int) -> int:
    """Do one round: every kind of turn once.

    Returns:
        How many turns and chat actions it was.
    """
    done = 0

    async def say(to: Chat, text: str, **options: Any) -> Any:
        nonlocal done
        done += 1
        return await to.send(f"{text} {number:06d}", **options)

    await say(chat, "hello")
    await say(chat, "sales")
    await say(chat, "plot")
    assert (await say(chat, "refund")).status == "awaiting"
    assert (await chat.approve()).status == "completed"
    await say(chat, "refund")
    await chat.reject(reason="no")
    assert (await say(chat, "fail")).status == "error"
    await chat.regenerate()
    await say(other, "hello", files=[("note.png", os.urandom(20_000))])
    await say(other, "sales")
    await other.undo()
    await other.redo()
    user = next(message for message in reversed(other.messages) if message.role == "user")
    await other.edit(user.id, f"hello instead {number}")
    await other.regenerate()
    await other.undo()
    slow = other.send(f"long {number}")
    async for _ in slow:
        break
    await asyncio.sleep(0.05)
    other.stop()
    assert (await slow).status == "stopped"
    assert sales("EU")
    if number % 5 == 0:
        await other.clear()
    return done + 11


def count(store: Path) -> dict[str, float]:
    """Return what a kernel holds now, after a collection."""
    import comm
    from ipywidgets.widgets.widget import _instances

    for _ in range(3):
        gc.collect()
    kinds = Counter(type(thing).__qualname__ for thing in gc.get_objects() if _is_ours(type(thing)))
    return {
        "rss MB": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6,
        "threads": threading.active_count(),
        "threads of chatnb": sum(thread.name.startswith("chatnb") for thread in threading.enumerate()),
        "open files": len(os.listdir("/proc/self/fd")),
        "tasks": sum(1 for thing in gc.get_objects() if isinstance(thing, asyncio.Task) and not thing.done()),
        "comms": len(comm.get_comm_manager().comms),
        "widgets": len(_instances),
        "views": sum(len(panel.channel.views) for panel in map(_panel_of, _instances.values()) if panel is not None),
        "objects": len(gc.get_objects()),
        "objects of chatnb": sum(kinds.values()),
        "store MB": store.stat().st_size / 1e6,
        "wal MB": _size(store.with_name(store.name + "-wal")) / 1e6,
        **{f"type {name}": number for name, number in kinds.most_common(40)},
    }


def _panel_of(widget: Any) -> Any:
    return getattr(widget, "_panel", None)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_ours(kind: type) -> bool:
    return str(kind.__module__).startswith("chatnb")
