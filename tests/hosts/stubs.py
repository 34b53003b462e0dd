"""Hosts that are not installed here, by their rules of delivery (spec/widget.md, section 8), in simulated time.

A stub host shows a real `ChatWidget` over a comm of its own. Its pages follow section 3 of the chapter; the chat is the
fake one of the widget's tests, so that time is simulated throughout.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import comm
from comm.base_comm import BaseComm

from chatnb.widget import ChatWidget
from tests.widget.fakes import FakeChat, SimTime
from tests.widget.page import Page

LATENCY = 0.002
REPLY_WINDOW = 0.2
"""Seconds after a page's message in which Colab still passes on what the kernel sends."""


class StubHost:
    """A notebook application.

    Args:
        during_cells: Whether a page's messages reach the kernel while a cell runs.
        by_itself: Whether the kernel's messages reach a page when neither a cell runs nor the page has just sent one.
        all_outputs: Whether one widget can be drawn by more than one output.
        clock_ahead: By how many seconds the pages' clock is ahead.
    """

    def __init__(
        self,
        *,
        during_cells: bool = False,
        by_itself: bool = True,
        all_outputs: bool = True,
        clock_ahead: float = 0.0,
    ) -> None:
        self.time = SimTime()
        self.chat = FakeChat(self.time)
        self._during_cells = during_cells
        self._by_itself = by_itself
        self._all_outputs = all_outputs
        self._clock_ahead = clock_ahead
        self._waiting: deque[tuple[float, BaseComm, dict[str, Any], list[bytes]]] = deque()
        self._cell_runs = False
        self._open_until = float("-inf")
        self._pages: dict[str, list[Page]] = {}

    # --- cells --------------------------------------------------------------------------------------------------

    def run_cell(self, seconds: float, body: Callable[[], Any] | None = None) -> Any:
        """Run a cell that takes so long; what pages sent meanwhile is delivered as the host does."""
        self._cell_runs = True
        result = body() if body is not None else None
        self.time.run(seconds)
        self._cell_runs = False
        while self._waiting:
            sent, channel, content, buffers = self._waiting.popleft()
            self._deliver(sent, channel, content, buffers)
        self.time.run(0)
        return result

    def wait(self, seconds: float) -> None:
        """Let time pass while no cell runs."""
        self.time.run(seconds)

    # --- widgets and pages --------------------------------------------------------------------------------------

    def show(self, **options: Any) -> ChatWidget:
        """Make a widget, in a cell."""
        before = comm.create_comm
        comm.create_comm = self._create_comm
        try:
            widget: ChatWidget = self.run_cell(0.01, lambda: ChatWidget(self.chat, **options))
        finally:
            comm.create_comm = before
        return widget

    def draw(self, widget: ChatWidget, id: str = "view-1") -> Page:
        """Draw a widget in an output."""
        pages = self._pages[widget.comm.comm_id]
        assert self._all_outputs or not pages, "this host draws a widget in one output only"
        page = Page(id, self.time, lambda content, buffers: self._send(widget.comm, content, buffers))
        pages.append(page)
        page.open()
        return page

    # --- the comm -----------------------------------------------------------------------------------------------

    def _create_comm(self, **given: Any) -> BaseComm:
        made = StubComm(self, **given)
        self._pages[made.comm_id] = []
        return made

    def _send(self, channel: BaseComm, content: dict[str, Any], buffers: list[bytes]) -> None:
        sent = self.time.time()
        content = json.loads(json.dumps(content))
        if self._cell_runs and not self._during_cells:
            self._waiting.append((sent, channel, content, buffers))
        else:
            self.time.call_later(LATENCY, self._deliver, sent, channel, content, buffers)

    def _deliver(self, sent: float, channel: BaseComm, content: dict[str, Any], buffers: list[bytes]) -> None:
        self._open_until = self.time.time() + REPLY_WINDOW
        moment = datetime.now(UTC) + timedelta(seconds=sent - self.time.time() + self._clock_ahead)
        data = {"method": "custom", "content": content}
        message = {"header": {"date": moment}, "content": {"data": data}, "buffers": buffers}
        channel.handle_msg(message)

    def publish(self, comm_id: str, data: dict[str, Any], buffers: list[bytes]) -> None:
        """Pass a message of the kernel on, or lose it."""
        is_open = self._by_itself or self._cell_runs or self.time.time() <= self._open_until
        if data.get("method") == "custom" and is_open:
            text = json.dumps(data["content"])
            for page in self._pages[comm_id]:
                self.time.call_later(LATENCY, page.receive, json.loads(text), list(buffers))


class StubComm(BaseComm):
    """A comm of a stub host."""

    def __init__(self, host: StubHost, **given: Any) -> None:
        self._host = host
        super().__init__(**given)

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
    ) -> None:
        if msg_type == "comm_msg":
            self._host.publish(self.comm_id, data, [bytes(buffer) for buffer in buffers or ()])
