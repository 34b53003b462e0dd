"""The first messages of a chat that never held any: what `get_initial_messages` is for (spec/widget.md, section 1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ..messages import UIMessage, validate_messages
from .deeds import WidgetDeeds
from .redaction import describe
from .seam import ChatSeam

logger = logging.getLogger("chatnb.widget")

# They are made for a chat once, however many widgets would: by engine.
_making: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()


async def make_first_messages(
    seam: ChatSeam, deeds: WidgetDeeds, make: Callable[[], Any], redact: Callable[[str], str]
) -> None:
    """Make them, unless somebody else has, and let the views that wait for them be answered.

    Args:
        seam: The chat.
        deeds: Holds back what views have said, and shows what went wrong.
        make: A person's function, sync or async; returns a list.
        redact: Takes credentials out of a text.
    """
    try:
        async with _making.setdefault(seam.engine, asyncio.Lock()):
            if not seam.is_untouched():
                return
            messages = await seam.ask(make)
            found = validate_messages([wire_of(message) for message in messages]) if messages else []
            if found and seam.is_untouched():
                seam.chat.set_messages(found)
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - a person's function
        logger.warning("get_initial_messages failed: %s", describe(error, redact))
        text = f"The first messages could not be made: {type(error).__name__}: {error}"
        deeds.notices.show({"id": "initial-messages", "level": "error", "text": text})
    finally:
        deeds.release_greetings()


def wire_of(message: Any) -> Any:
    """Return a message's wire form; anything else as it is."""
    return message.to_wire() if isinstance(message, UIMessage) else message
