"""Views while the kernel lives: a snapshot between two folds, then only what comes after it (spec/recovery.md, 10)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from chatnb import Agent
from chatnb.chat import Chat
from chatnb.models import Reply, ScriptedModel
from chatnb.store import memory_store
from chatnb.testing import mock_chat
from chatnb.testing.clock import settle
from chatnb.widget.panel import Panel
from chatnb.widget.settings import Settings
from tests.recovery.moments import flushed
from tests.widget.page import Page

WORDS = " ".join(f"word{n}" for n in range(400))
VIEWS, EVERY = 12, 30


class Timers:
    """The page's timers: nothing is lost here, so nothing has to be sent again."""

    def time(self) -> float:
        return time.monotonic()

    def call_later(self, seconds: float, callback: Any) -> None:
        """Forget it."""


class View:
    """A view that is opened at some moment: a page, and every frame that it got, in order."""

    def __init__(self, chat: Chat, name: str) -> None:
        self.frames: list[Mapping[str, Any]] = []
        self.texts: list[str] = []
        self._changed = threading.Condition()
        self.page = Page(name, Timers(), lambda command, buffers: self.panel.desk.receive(command))
        live = {"height": "560px", "theme": "auto", "placeholder": None, "title": None, "suggestions": ()}
        self.panel = Panel(
            chat, name, Settings(), lambda: live, self._receive, lambda *told: None, lambda: None, lambda: False
        )
        self.page.open()

    def _receive(self, frame: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
        with self._changed:
            self.frames.append(frame)
            self.page.receive(dict(frame), list(buffers))
            self.texts.append(self.text)
            self._changed.notify_all()

    def wait_until(self, text: str) -> None:
        """Wait until the page shows a text, and that nothing runs."""

        def is_there() -> bool:
            return self.text == text and self.page.state.get("status") == "ready"

        with self._changed:
            assert self._changed.wait_for(is_there, 10), (self.text[-40:], self.page.state)

    @property
    def text(self) -> str:
        """The answer as the page shows it."""
        parts = self.page.messages[1]["parts"] if len(self.page.messages) > 1 else ()
        return "".join(part.get("text", "") for part in parts)

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """The numbered frames."""
        return [(frame["type"], frame["seq"]) for frame in self.frames if frame["type"] in ("reset", "ops")]


class TestOpenedMidStream:
    """A view that is opened while an answer is being said."""

    async def test_snapshot_first(self) -> None:
        """C31: the snapshot, then only later frames; the text is at each moment what was said, in the end all."""
        chat = Agent(ScriptedModel([Reply(WORDS, delay=0.002)]), store=memory_store()).chat("c")
        views: list[View] = []
        try:
            sent = chat.send("hi")
            deltas = 0
            async for chunk in sent:
                deltas += chunk["type"] == "text-delta"
                if deltas == EVERY * (len(views) + 1) and len(views) < VIEWS:
                    views.append(View(chat, f"view-{len(views)}"))
            assert (await sent).status == "completed"
            said = chat.messages[1].text
            for view in views:
                view.wait_until(said)
            assert len(views) == VIEWS
            assert said == WORDS
            for view in views:
                kinds = [kind for kind, _ in view.numbers]
                seqs = [seq for _, seq in view.numbers]
                assert kinds[0] == "reset"
                assert "reset" not in kinds[1:], kinds
                assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
                assert [text for text in view.texts if not said.startswith(text)] == []
            # Most of them came in the middle: they began with a part of the answer.
            begun = [next(text for text in view.texts if text) for view in views]
            assert sum(0 < len(text) < len(said) for text in begun) >= VIEWS - 2
        finally:
            for view in views:
                view.panel.close()
            chat.close()


class TestStatus:
    """What a view is told of a turn that is taken up again."""

    async def test_submitted_until_it_speaks(self) -> None:
        """Section 2 of widget.md: what ends a step that the dead process left open is no word of the model's yet."""
        speaks = asyncio.Event()

        async def silent(request: Any) -> str:
            await speaks.wait()
            return "three"

        async with mock_chat(Agent(ScriptedModel([Reply("one two", hang=True), silent]))) as mock:
            mock.chat.send("hi")
            await settle()
            await flushed(mock)
            await mock.restart(kill=True)
            await settle()
            assert [chunk["type"] for chunk in mock.chunks][-2:] == ["finish-step", "start-step"]
            assert (mock.chat.status, mock.chat.is_recovering) == ("submitted", True)
            speaks.set()
            await mock.done()
            assert (mock.chat.messages[-1].text, mock.chat.status) == ("one two\n\nthree", "ready")
