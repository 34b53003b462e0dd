"""What one call has put out so far: an ordered list of texts and MIME bundles, within limits.

The shape is that of the part `data-output` (spec/notebook.md, section 3). Any thread may write.
"""

from __future__ import annotations

import contextvars
import json
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chatnb.runtime.streams import StreamName, current_texts

Item = dict[str, Any]  # JSON: {"stream", "text"} or a MIME bundle

TEXT_LIMIT = 100_000  # characters, of both streams together
RICH_LIMIT = 50  # MIME bundles
ITEM_LIMIT = 400_000  # bytes of one bundle
ALL_LIMIT = 1_000_000  # bytes of all bundles and texts

# What a view can show. All else is left out, or becomes a note if nothing is left.
SHOWN = frozenset(
    {
        "application/json",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/svg+xml",
        "text/html",
        "text/latex",
        "text/markdown",
        "text/plain",
    }
)
_LIVE_ONLY = {
    "application/vnd.jupyter.widget-view+json": "A widget",
    "application/javascript": "JavaScript",
    "application/vnd.plotly.v1+json": "A plotly figure",
}


@dataclass(slots=True)
class _Text:
    stream: StreamName
    text: str


@dataclass(slots=True)
class _Gap:
    count: int


@dataclass(slots=True)
class _Rich:
    bundle: Item
    display_id: str | None
    size: int


class Outputs:
    """Collects the output of one call.

    Args:
        on_change: Told, on any thread, when there is something new since the last `items()`. It must be quick, must
            not print, and sees to it that a view hears of it at most 10 times a second.
    """

    def __init__(self, on_change: Callable[[Outputs], None] | None = None) -> None:
        self._on_change = on_change
        self._lock = threading.RLock()
        self._items: list[_Text | _Gap | _Rich] = []
        self._is_dirty = False
        self._clear_next = False
        self._returns: dict[StreamName, bool] = {"stdout": False, "stderr": False}
        self._left_out = 0
        self._length = 0  # of all texts: counting them at each print would be quadratic
        self._taken: list[weakref.ref[Any]] = []

    # --- writing ----------------------------------------------------------------------------------------------

    def write(self, stream: StreamName, text: str) -> None:
        """Append text to a stream; a carriage return overwrites its line."""
        if not text:
            return
        with self._lock:
            self._clear_if_due()
            last = self._items[-1] if self._items else None
            if not isinstance(last, _Text) or last.stream != stream:
                last = _Text(stream, "")
                self._items.append(last)
            before = len(last.text)
            self._append(last, text)
            self._length += len(last.text) - before
            if self._length > TEXT_LIMIT * 1.2:  # some room, so that not each print cuts
                self._cut_text()
        self._changed()

    def show(self, bundle: Mapping[str, Any], *, display_id: str | None = None, update: bool = False) -> bool:
        """Append a MIME bundle, or replace the items that carry its `display_id`.

        Args:
            bundle: The values by MIME type.
            display_id: The display that it is.
            update: It replaces, and is not appended.

        Returns:
            False if it is an update of a display that is not of this call.
        """
        with self._lock:
            targets = [
                item for item in self._items if isinstance(item, _Rich) and display_id and item.display_id == display_id
            ]
            if update and not targets:
                return False
            if not update:
                self._clear_if_due()
            shown, size = self._within_limits(_shown(bundle), targets if update else [])
            if update:
                for item in targets:
                    item.bundle, item.size = shown, size
            elif sum(isinstance(item, _Rich) for item in self._items) >= RICH_LIMIT:
                self._left_out += 1
            else:
                self._items.append(_Rich(shown, display_id, size))
        self._changed()
        return True

    def clear(self, *, wait: bool = False) -> None:
        """Forget all outputs, now or when the next comes."""
        with self._lock:
            if wait:
                self._clear_next = True
                return
            self._clear()
        self._changed()

    def room(self) -> int:
        """Return how many bytes the next bundle may have."""
        with self._lock:
            return max(0, min(ITEM_LIMIT, ALL_LIMIT - self._size_without([])))

    def take(self, thing: object) -> None:
        """Note that an object, a figure, is shown already."""
        self._taken.append(weakref.ref(thing))

    def has_taken(self, thing: object) -> bool:
        """Say whether an object is shown already, so that a returned figure is shown once."""
        return any(reference() is thing for reference in self._taken)

    @property
    def figure_count(self) -> int:
        """How many figures were taken."""
        return len(self._taken)

    # --- reading ----------------------------------------------------------------------------------------------

    def items(self) -> list[Item]:
        """Return what there is now, as JSON; the next change is announced again."""
        with self._lock:
            self._is_dirty = False
            self._cut_text()
            found = [_as_json(item) for item in self._items]
            if self._left_out:
                found.append({"text/plain": f"{self._left_out} more outputs are not shown (at most {RICH_LIMIT})."})
            return found

    def text(self, stream: StreamName) -> str:
        """Return what was printed to one stream, with a gap if it was long."""
        return "".join(item["text"] for item in self.items() if item.get("stream") == stream)

    # --- inside -----------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._on_change is not None and not self._is_dirty:
            self._is_dirty = True
            self._on_change(self)

    def _clear(self) -> None:
        self._items.clear()
        self._returns = {"stdout": False, "stderr": False}
        self._left_out = 0
        self._length = 0
        self._clear_next = False

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self._clear()

    def _append(self, item: _Text, text: str) -> None:
        """Append, minding carriage returns: what follows one takes the place of the line."""
        text = text.replace("\r\n", "\n")
        if "\r" not in text and not self._returns[item.stream]:
            item.text += text
            return
        first, *rest = text.split("\r")
        if self._returns[item.stream] and first and not first.startswith("\n"):
            item.text = item.text[: item.text.rfind("\n") + 1]
        if first:
            self._returns[item.stream] = False
        item.text += first
        for piece in rest:
            if piece and not piece.startswith("\n"):
                item.text = item.text[: item.text.rfind("\n") + 1]
            item.text += piece
            self._returns[item.stream] = not piece

    def _cut_text(self) -> None:
        """Keep the head and the tail of all text, with a gap between them."""
        if self._length <= TEXT_LIMIT:
            return
        half = TEXT_LIMIT // 2
        gap = next((item for item in self._items if isinstance(item, _Gap)), None)
        if gap is None:
            gap = self._split_at(half)
        after = self._items.index(gap) + 1
        tail = [item for item in self._items[after:] if isinstance(item, _Text)]
        excess = sum(len(item.text) for item in tail) - half
        for item in tail:
            if excess <= 0:
                break
            cut = min(excess, len(item.text))
            item.text = item.text[cut:]
            gap.count += cut
            self._length -= cut
            excess -= cut
        self._items = [item for item in self._items if not (isinstance(item, _Text) and not item.text)]

    def _split_at(self, position: int) -> _Gap:
        gap = _Gap(0)
        for index, item in enumerate(self._items):
            if not isinstance(item, _Text):
                continue
            if position <= len(item.text):
                self._items[index : index + 1] = [
                    _Text(item.stream, item.text[:position]),
                    gap,
                    _Text(item.stream, item.text[position:]),
                ]
                break
            position -= len(item.text)
        return gap

    def _size_without(self, replaced: list[_Rich]) -> int:
        rich = sum(item.size for item in self._items if isinstance(item, _Rich) and item not in replaced)
        return rich + min(self._length, TEXT_LIMIT)

    def _within_limits(self, bundle: Item, replaced: list[_Rich]) -> tuple[Item, int]:
        """Drop the largest representations until the bundle fits; a note if none does."""
        room = min(ITEM_LIMIT, ALL_LIMIT - self._size_without(replaced))
        left = dict(bundle)
        while left and _size(left) > room:
            del left[max(left, key=lambda mime: _size({mime: left[mime]}))]
        if not left:
            kinds = ", ".join(sorted(bundle)) or "nothing that can be shown"
            left = {"text/plain": f"An output is not shown: too large ({kinds}, {_size(bundle):,} bytes)."}
        return left, _size(left)


def _size(bundle: Item) -> int:
    return len(json.dumps(bundle, default=str))


def _shown(bundle: Mapping[str, Any]) -> Item:
    live = next((name for mime, name in _LIVE_ONLY.items() if mime in bundle), None)
    shown = {mime: value for mime, value in bundle.items() if mime in SHOWN}
    if live is not None and not any(mime.startswith("image/") for mime in shown):
        text = str(shown.get("text/plain", "")).strip().splitlines()
        what = f" ({text[0][:80]})" if text else ""
        return {"text/plain": f"{live}{what} cannot be shown here. Return it and take it from `chat.objects`."}
    if not shown:
        return {"text/plain": f"An output of type {', '.join(sorted(bundle)) or 'none'} cannot be shown here."}
    return shown


def _as_json(item: _Text | _Gap | _Rich) -> Item:
    if isinstance(item, _Text):
        return {"stream": item.stream, "text": item.text}
    if isinstance(item, _Gap):
        return {"stream": "stdout", "text": f"\n… {item.count:,} characters left out …\n"}
    return dict(item.bundle)


# Whose output the running code's is. Threads and tasks that carry the call's context carry it too.
current_outputs: contextvars.ContextVar[Outputs | None] = contextvars.ContextVar("chatnb_outputs", default=None)


@contextmanager
def going_to(outputs: Outputs) -> Iterator[None]:
    """Have all that the block and whatever carries its context puts out go to `outputs`, texts included."""
    token, texts = current_outputs.set(outputs), current_texts.set(outputs)
    try:
        yield
    finally:
        current_texts.reset(texts)
        current_outputs.reset(token)
