"""A widget on the real engine, and what it sent: what the tests of the view begin with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from chatnb import Agent, ClientTool, action
from chatnb.models import ScriptedModel
from chatnb.testing.clock import settle
from chatnb.testing.mock import MockChat, mock_chat
from chatnb.widget import ChatWidget


@action
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@action(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    ran.append((order, amount))
    return f"refunded {amount}"


ran: list[Any] = []
PICK = ClientTool("pick", "Pick a colour", {"type": "object", "properties": {}})


class Shown:
    """A widget and what it sent."""

    def __init__(self, mock: MockChat, **options: Any) -> None:
        self.mock = mock
        self.sent: list[dict[str, Any]] = []
        self.widget = ChatWidget(mock.chat, **options)
        self.widget._send_frame = lambda frame, buffers: self.sent.append(frame)  # type: ignore[method-assign]
        self.widget._panel.channel._send_raw = self.widget._send_frame  # type: ignore[union-attr]
        self.number = 0

    async def command(self, type: str, view: str = "v1", **fields: Any) -> dict[str, Any]:
        self.number += 1
        id = f"{view}-{self.number}"
        panel = self.widget._panel
        assert panel is not None
        self.widget._handle_custom_msg(
            {"v": 1, "epoch": panel.channel.epoch, "view": view, "id": id, "type": type, **fields}, []
        )

        def answers() -> list[dict[str, Any]]:
            return [frame for frame in self.sent if frame["type"] == "ack" and frame["id"] == id]

        await until(lambda: bool(answers()))
        return answers()[0]

    async def hello(self, view: str = "v1", **fields: Any) -> str:
        await self.command("hello", view, versions=[1], **fields)
        return next(str(f["nonce"]) for f in reversed(self.sent) if f["type"] == "secret" and f["to"] == view)


@asynccontextmanager
async def shown(*steps: Any, actions: Any = (), agent: Agent | None = None, **options: Any) -> AsyncIterator[Shown]:
    ran.clear()
    used = agent or Agent(ScriptedModel(list(steps)), actions=list(actions))
    async with mock_chat(used) as mock:
        view = Shown(mock, **options)
        yield view
        view.widget.close()


async def until(is_so: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for a condition. What a widget sends, and whom it tells, goes by the loop's own clock."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not is_so():
        assert loop.time() < end, "what was waited for did not come"
        await asyncio.sleep(0.001)


async def still(view: Shown) -> None:
    """Wait until all has gone on that can, and the widget has told of it: no frame and no observer is due."""
    panel = view.widget._panel
    assert panel is not None
    await settle()
    await until(lambda: panel.channel._pacer._due is None and panel.notifier._due is None)
    await settle()


async def quiet(view: Shown) -> None:
    """Wait until nothing runs or waits, and the widget has told of it."""
    await view.mock.done()
    await still(view)
