"""What code prints, for the card and for the model: one writing, two readers."""

from __future__ import annotations

import contextvars
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from chatnb.export.calls import ANSI
from chatnb.kernel.figures import Figures
from chatnb.kernel.host import running_shell
from chatnb.kernel.outputs import Outputs, current_outputs, going_to
from chatnb.runtime.streams import StreamName, hook_streams

LIMIT = 10_000
"""Characters of a stream that the model reads."""
_HELD = 50_000
"""Characters that are held of a stream's head, and of its tail: colours go before it is cut to the limit."""


class _Printed:
    """What was printed to one stream: its head and its tail, so that code which prints for ever fills no memory."""

    def __init__(self) -> None:
        self._head: list[str] = []
        self._head_length = 0
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._dropped = 0

    def append(self, text: str) -> None:
        """Append text."""
        room = _HELD - self._head_length
        if room > 0:
            self._head.append(text[:room])
            self._head_length += len(self._head[-1])
            text = text[room:]
        if not text:
            return
        self._dropped += max(0, len(text) - _HELD)
        self._tail.append(text[-_HELD:])
        self._tail_length += len(self._tail[-1])
        while self._tail_length - len(self._tail[0]) >= _HELD:
            gone = len(self._tail.popleft())
            self._tail_length -= gone
            self._dropped += gone

    def text(self) -> str:
        """Return it without colours, head and tail of 10,000 characters."""
        if not self._dropped:
            whole = _plain("".join((*self._head, *self._tail)))
            if len(whole) <= LIMIT:
                return whole
            head = tail = whole
            left_out = len(whole) - LIMIT
        else:
            head, tail = _plain("".join(self._head)), _plain("".join(self._tail))
            left_out = len(head) + len(tail) + self._dropped - LIMIT
        note = f"\n… {left_out} characters left out …\n"
        half = (LIMIT - len(note)) // 2
        return head[:half] + note + tail[-half:]


def _plain(text: str) -> str:
    """Take out colours, and the line ends that the terminal of a `!command` writes."""
    return ANSI.sub("", text).replace("\r\n", "\n")


class Tee(Outputs):
    """Passes all on to the call's outputs, and keeps the texts.

    Args:
        parent: The call's; None where no capture is at work: then it goes where it would have gone.
    """

    def __init__(self, parent: Outputs | None) -> None:
        super().__init__()
        self._parent = parent
        self._outside = contextvars.copy_context()
        self._texts: dict[StreamName, _Printed] = {"stdout": _Printed(), "stderr": _Printed()}

    def write(self, stream: StreamName, text: str) -> None:
        """Append text to a stream."""
        self._texts[stream].append(text)
        if self._parent is not None:
            self._parent.write(stream, text)
        else:
            self._outside.copy().run(getattr(sys, stream).write, text)

    def show(self, bundle: Mapping[str, Any], *, display_id: str | None = None, update: bool = False) -> bool:
        """Append a bundle."""
        if self._parent is not None:
            return self._parent.show(bundle, display_id=display_id, update=update)
        self._outside.copy().run(_display, dict(bundle))
        return True

    def clear(self, *, wait: bool = False) -> None:
        """Clear the card. What was printed is still told to the model."""
        if self._parent is not None:
            self._parent.clear(wait=wait)

    def room(self) -> int:
        """Return how many bytes the next bundle may have."""
        return self._parent.room() if self._parent is not None else super().room()

    def take(self, thing: object) -> None:
        """Note that a figure is shown."""
        super().take(thing)
        if self._parent is not None:
            self._parent.take(thing)

    def printed(self, stream: StreamName) -> str:
        """Return what was printed to a stream, head and tail of 10,000 characters."""
        return self._texts[stream].text()


@contextmanager
def teeing() -> Iterator[Tee]:
    """Read along with what the block puts out; figures that it leaves open are taken at its end."""
    hook_streams()
    parent = current_outputs.get()
    tee = Tee(parent)
    figures = Figures(tee) if parent is not None else None
    with going_to(tee):
        try:
            yield tee
        finally:
            if figures is not None:
                figures.take()


def _display(bundle: Mapping[str, Any]) -> None:
    if running_shell() is not None:
        sys.modules["IPython"].display.display(bundle, raw=True)
    elif bundle.get("text/plain"):
        sys.stdout.write(f"{bundle['text/plain']}\n")
