"""What the agent site of a turn has sent by itself, beside what the model's stream brings."""

from __future__ import annotations

from .wire import WireChunk

_INPUT_CHUNKS = ("tool-input-start", "tool-input-delta", "tool-input-available")


class SiteChunks:
    """Keeps it, so that a `run` which is given these chunks and passes them on does not send them twice."""

    def __init__(self) -> None:
        self._fresh: list[WireChunk] = []
        self._sent: set[tuple[str, str]] = set()

    def add(self, chunk: WireChunk) -> None:
        """Take note of a chunk that was sent, to be handed over by `take`."""
        self._fresh.append(chunk)
        if "toolCallId" in chunk:
            self._sent.add((chunk["type"], chunk["toolCallId"]))

    def take(self) -> list[WireChunk]:
        """Return what was added since the last call."""
        taken, self._fresh = self._fresh, []
        return taken

    def note_part(self, chunk: WireChunk) -> None:
        """Take note of a data part that was sent."""
        self._sent.add((chunk["type"], chunk["id"]))

    def note_input(self, tool_call_id: str) -> None:
        """Take note that the whole input of a call was sent."""
        self._sent |= {(kind, tool_call_id) for kind in _INPUT_CHUNKS}

    def has(self, chunk: WireChunk) -> bool:
        """Tell whether a chunk, or one that it is a copy of, was sent."""
        if not self._sent:
            return False
        id_ = chunk.get("toolCallId") or chunk.get("id")
        return isinstance(id_, str) and (chunk.get("type"), id_) in self._sent
