"""A model that is asked once and replayed ever after, for lessons and tests without a key."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

from chatnb.errors import ConfigError, RecordingDriftError
from chatnb.models.anthropic_blocks import compact_json
from chatnb.models.port import Continuation, Model, ModelRequest, StepEnd, StepItem
from chatnb.models.recording import Entry, canonical, entry_line, first_difference, head_line, read_recording
from chatnb.models.redaction import Redactor
from chatnb.models.step_stream import stream_step

Mode = Literal["auto", "record", "replay"]


class RecordedModel:
    """Records what a model answers, and replays it with its timing.

    The file holds bodies alone: no headers, no URLs, no keys. Requests are matched in order per chat. Ids, times and
    what belongs to one request alone, such as the list of variables, do not take part.

    Args:
        path: The file, JSON lines.
        model: The model to ask when recording.
        mode: `"record"` asks the model and appends; `"replay"` never asks; `"auto"` replays what the file has, and
            records the rest if there is a model.
        speed: How much faster than it was recorded; None drops all waiting.

    Raises:
        ConfigError: An option that can't work.
        RecordingFormatError: The file is no recording, or one of a newer version.

    Example:
        real = ScriptedModel(["Forty-two."])  # or AnthropicModel("claude-sonnet-4-5")
        await Agent(RecordedModel("answer.jsonl", real)).chat().send("What is the answer?")
        replayed = Agent(RecordedModel("answer.jsonl", speed=None))  # asks nobody
        assert (await replayed.chat().send("What is the answer?")).text == "Forty-two."
    """

    def __init__(
        self, path: str | Path, model: Model | None = None, *, mode: Mode = "auto", speed: float | None = 1.0
    ) -> None:
        if mode not in ("auto", "record", "replay"):
            raise ConfigError(f'RecordedModel has no mode {mode!r}; use "auto", "record" or "replay".')
        if mode == "record" and model is None:
            raise ConfigError('RecordedModel(path, model, mode="record") needs the model to record.')
        if not isinstance(path, str | Path):
            raise ConfigError("RecordedModel(path) takes the path of a file.")
        if speed is not None and (isinstance(speed, bool) or not isinstance(speed, int | float) or not speed > 0):
            raise ConfigError("speed is a number above 0, or None for no waiting.")
        self.path = Path(path)
        self.model = model
        self.mode: Mode = mode
        self.speed = speed
        self._recorded_name, self._entries = read_recording(self.path)
        self._chats: dict[str | None, int] = {}
        self._asked: dict[str | None, int] = {}
        self._replayable = {entry.chat for entry in self._entries}
        self._last_chat = max(self._replayable, default=0)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"RecordedModel({self.path.name!r}, mode={self.mode!r})"

    @property
    def name(self) -> str:
        """The recorded model's name."""
        return self.model.name if self.model is not None else self._recorded_name or "recorded"

    @property
    def continuation(self) -> Continuation:
        """As the recorded model's; without it, by a message of the user."""
        found: Continuation = getattr(self.model, "continuation", "user-message")
        return found if found != "retrieve" else "user-message"

    @property
    def accepts_images(self) -> bool:
        """As the recorded model's; without it, whether its name is one of a model that does."""
        return bool(getattr(self.model, "accepts_images", self.name.startswith("claude")))

    async def count_tokens(self, request: ModelRequest) -> int:
        """Characters divided by 4: a replay never asks."""
        text = compact_json(list(request.messages)) + (request.instructions or "")
        return -(-len(text) // 4)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Replay the step, or ask and record it.

        Raises:
            RecordingDriftError: The request is not the recorded one, or there is none and no model to ask.
        """
        redactor = Redactor()
        form = canonical(request, redactor)
        with self._lock:
            chat, entry, number = self._take(request.chat_id, form)
        if entry is not None:
            self._check(entry, form)
            async for item in self._replay(entry, request):
                yield item
            return
        if self.model is None or self.mode == "replay":
            raise RecordingDriftError(
                f"{self.path.name} ends before request {number} of this chat, so there is nothing to replay. "
                f"{self._advice()}"
            )
        items: list[tuple[float, StepItem]] = []
        began = time.monotonic()
        async with aclosing(stream_step(self.model, request)) as stream:
            async for item in stream:
                if not (isinstance(item, dict) and item.get("transient")):
                    items.append(((time.monotonic() - began) * 1000, item))
                if isinstance(item, StepEnd):
                    with self._lock:
                        self._append(entry_line(chat, form, items, redactor))
                yield item

    def _take(self, chat_id: str | None, form: dict[str, Any]) -> tuple[int, Entry | None, int]:
        """The chat's number in the file, the entry to replay if there is one, and the request's number."""
        if chat_id not in self._chats:
            self._chats[chat_id] = self._assign(form)
            self._asked[chat_id] = 0
        chat = self._chats[chat_id]
        mine = [entry for entry in self._entries if entry.chat == chat] if self.mode != "record" else []
        index = self._asked[chat_id]
        self._asked[chat_id] += 1
        entry = mine[index] if index < len(mine) else None
        return chat, entry, entry.number if entry is not None else index + 1

    def _assign(self, form: dict[str, Any]) -> int:
        """Pair a chat with a recorded one: one that begins like it, else the first that is left, else a new one."""
        left = sorted(self._replayable - set(self._chats.values())) if self.mode != "record" else []
        first = {chat: next(entry for entry in self._entries if entry.chat == chat) for chat in left}
        equal = [chat for chat in left if first_difference(first[chat].request, form) is None]
        if equal or left:
            return (equal or left)[0]
        self._last_chat += 1
        return self._last_chat

    def _check(self, entry: Entry, form: dict[str, Any]) -> None:
        difference = first_difference(entry.request, form)
        if difference is not None:
            path, recorded, asked = difference
            raise RecordingDriftError(
                f"Request {entry.number} differs from {self.path.name} at {path}: {recorded} was recorded and {asked} "
                f"is asked{', another one' if recorded == asked else ''}. {self._advice()}"
            )

    def _advice(self) -> str:
        return (
            f"To record anew, delete {self.path.name} and run again with "
            f'RecordedModel("{self.path.name}", model, mode="record").'
        )

    async def _replay(self, entry: Entry, request: ModelRequest) -> AsyncIterator[StepItem]:
        before = 0.0
        for at, item in entry.items:
            if self.speed is not None and at > before:
                await request.sleep((at - before) / 1000 / self.speed)
            before = at
            yield dict(item) if isinstance(item, dict) else item

    def _append(self, line: str) -> None:
        is_new = not self.path.exists() or self.path.stat().st_size == 0
        head = f"{head_line(self.name)}\n" if is_new else ""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{head}{line}\n")
