"""What tests on `mock_chat` share: moments to wait for, replies that break off."""

from __future__ import annotations

import asyncio
from typing import Any

from chatnb import action
from chatnb.errors import ModelStreamError
from chatnb.models import Reply
from chatnb.testing.clock import settle


async def flushed(mock: Any) -> None:
    """Let what was said reach the log: its timer is the loop's."""
    await settle()
    await asyncio.sleep(0.07)
    await settle()


async def advance(mock: Any, seconds: float, step: float = 1.0) -> None:
    while seconds > 0:
        await mock.clock.advance(min(step, seconds))
        seconds -= step


def drops(text: str = "so far", **options: Any) -> Reply:
    return Reply(text, fail=ModelStreamError("gone", kind="connection_lost"), **options)


@action
def pay(order: str) -> str:
    """Pay."""
    return f"paid {order}"
