"""Client-side calls: asked of a Python function, of the script in a page, or left to a person (spec/widget.md, 5.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from .._json import JsonValue, dumps
from ..turns.records import ChatState, ClientTool, Pending
from .channel import Channel
from .pacer import Handle
from .seam import ChatSeam

logger = logging.getLogger("chatnb.widget")

ANSWER_WITHIN = 5.0
"""Seconds in which a view says that it has begun; then the next one is asked."""
STOPPED = "Stopped while running; it may have had effects."
LARGEST_OUTPUT = 1024 * 1024

# Each call is given to a Python function once per kernel, however many widgets and views show it: by store, then by
# chat, message and call, since scripts use the ids of their calls again.
_taken: WeakKeyDictionary[Any, set[tuple[str, str, str]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What `on_tool_call` gets."""

    tool_call_id: str
    tool_name: str
    input: JsonValue


@dataclass(slots=True)
class _Run:
    """One call that the pages are asked to run."""

    item: Pending
    asked: list[str] = field(default_factory=list)
    started_by: str | None = None
    timer: Handle | None = None


@dataclass(slots=True)
class _Work:
    """One call that the Python function works on."""

    item: Pending
    stop: asyncio.Event = field(default_factory=asyncio.Event)


class ClientTools:
    """The client-side calls of one widget.

    Args:
        seam: The chat.
        channel: The views.
        tools: The widget's client tools.
        on_tool_call: Asked first; None leaves the call pending.
        settle: Gives an output or, as a text, an error to the chat: `(tool_call_id, output, error, goes_on)`.
    """

    def __init__(
        self,
        seam: ChatSeam,
        channel: Channel,
        tools: Sequence[ClientTool],
        on_tool_call: Callable[[ToolCall], Any] | None,
        settle: Callable[[str, JsonValue, str | None, bool], None],
    ) -> None:
        self._seam = seam
        self._channel = channel
        self._scripts = {tool.name: tool for tool in tools if tool.js is not None}
        self._on_tool_call = on_tool_call
        self._settle = settle
        self._runs: dict[str, _Run] = {}
        self._work: dict[str, _Work] = {}
        self._declined: set[str] = set()
        self.is_former = False
        """Another widget stands where this one was shown: the Python function is that one's."""

    def look(self, state: ChatState) -> None:
        """Take up the client-side calls of the newest assistant message, and forget the settled ones."""
        newest = next((message.id for message in reversed(state.messages) if message.role == "assistant"), None)
        waiting = {
            item.tool_call_id: item
            for item in state.pending
            if item.kind == "client-tool" and item.message_id == newest
        }
        for id in [id for id in self._runs if id not in waiting]:
            self.settled(id)
        for work in [work for id, work in self._work.items() if not _is_same(work.item, waiting.get(id))]:
            self._leave(work)
        for id, item in waiting.items():
            if self._on_tool_call is not None and not self._is_retired and self._take(item):
                self._work[id] = work = _Work(item)
                self._seam.spawn(self._ask_function(work), f"client tool {item.action}")
                self._seam.set_tool_phase(id, True)  # comes back here for the next one
            elif id not in self._runs and self._is_for_pages(item):
                self._runs[id] = _Run(item)
                self._ask_page(id)

    @property
    def _is_retired(self) -> bool:
        return self.is_former and not self._channel.views

    def _take(self, item: Pending) -> bool:
        taken = _taken.setdefault(self._seam.store, set())
        key = (self._seam.chat.id, item.message_id, item.tool_call_id)
        is_new = key not in taken
        taken.add(key)
        return is_new

    def _is_for_pages(self, item: Pending) -> bool:
        is_free = self._on_tool_call is None or item.tool_call_id in self._declined
        return is_free and item.action in self._scripts

    def started(self, view: str, tool_call_id: str) -> bool:
        """A view has begun; False when another has, and this one was only asked before it."""
        run = self._runs.get(tool_call_id)
        if run is None:
            return False
        if run.started_by not in (None, view) and view in run.asked:
            return False
        self._cancel(run)
        run.started_by = view
        self._seam.set_tool_phase(tool_call_id, True)
        return True

    def answered(self, tool_call_id: str) -> None:
        """A page has answered. The call is remembered until it is settled, so that nobody is asked meanwhile."""
        run = self._runs.get(tool_call_id)
        if run is not None:
            self._cancel(run)
            if run.started_by is not None:
                run.started_by = None
                self._seam.set_tool_phase(tool_call_id, False)

    def settled(self, tool_call_id: str) -> None:
        """A call is over."""
        run = self._runs.pop(tool_call_id, None)
        if run is not None:
            self._cancel(run)
            if run.started_by is not None:
                self._seam.set_tool_phase(tool_call_id, False)

    def view_left(self, view: str) -> None:
        """A view is gone. What it had begun stays pending, for a person to decide."""
        for id, run in self._runs.items():
            if run.started_by == view:
                run.started_by = None
                self._seam.set_tool_phase(id, False)
            elif run.started_by is None and run.asked[-1:] == [view]:
                self._ask_page(id)

    def view_came(self) -> None:
        """A view is there: ask it for what nobody has begun."""
        for id, run in self._runs.items():
            if run.started_by is None and not run.asked:
                self._ask_page(id)

    def stop(self) -> None:
        """A person has stopped what runs: the calls that are worked on fail, and nothing goes on by itself."""
        for id in [*self._work, *(id for id, run in self._runs.items() if run.started_by is not None)]:
            self._settle(id, None, STOPPED, False)

    def close(self) -> None:
        """Ask nobody any more."""
        for id in list(self._runs):
            self.settled(id)

    # ------------------------------------------------------------------------------------------------------------

    def _ask_page(self, tool_call_id: str) -> None:
        run = self._runs[tool_call_id]
        self._cancel(run)
        if run.started_by is not None:
            return
        views = sorted(self._channel.views.values(), key=lambda view: view.used, reverse=True)
        view = next((view for view in views if view.id not in run.asked), None)
        if view is None:
            return
        run.asked.append(view.id)
        item = run.item
        self._channel.queue(
            {"type": "run", "to": view.id, "toolCallId": tool_call_id, "name": item.action, "input": item.args}
        )
        run.timer = self._seam.loop.call_later(ANSWER_WITHIN, self._ask_next, tool_call_id)

    def _ask_next(self, tool_call_id: str) -> None:
        if tool_call_id in self._runs:
            self._ask_page(tool_call_id)

    def _cancel(self, run: _Run) -> None:
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None

    def _leave(self, work: _Work) -> None:
        """A call is over, or off the conversation, while the function works on it: nobody waits for what it gives."""
        if self._work.get(work.item.tool_call_id) is work:
            del self._work[work.item.tool_call_id]
            work.stop.set()
            self._seam.set_tool_phase(work.item.tool_call_id, False)

    async def _ask_function(self, work: _Work) -> None:
        item = work.item
        assert self._on_tool_call is not None
        call = ToolCall(tool_call_id=item.tool_call_id, tool_name=item.action, input=item.args)
        output: JsonValue = None
        error: str | None = None
        try:
            output = await self._seam.ask(self._on_tool_call, call, stop=work.stop)
            error = output_problem(output)
        except (Exception, KeyboardInterrupt, SystemExit) as failure:  # noqa: BLE001 - a person's function
            error = f"{type(failure).__name__}: {failure}"[:2000]
        finally:
            is_wanted = self._work.get(item.tool_call_id) is work
            self._leave(work)
        if not is_wanted:
            return
        if error is None and output is None:
            self._declined.add(item.tool_call_id)
            self.look(self._seam.state())
            return
        self._settle(item.tool_call_id, output, error, True)


def _is_same(item: Pending, waiting: Pending | None) -> bool:
    return waiting is not None and waiting.message_id == item.message_id


def output_problem(output: JsonValue) -> str | None:
    """Return why a value can't be a client tool's output, or None."""
    try:
        length = len(dumps(output).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError):
        return "The output is not JSON."
    return "The output is larger than 1 MiB." if length > LARGEST_OUTPUT else None
