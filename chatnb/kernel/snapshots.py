"""Taking back what `run_code` bound, after an undo (spec/notebook.md, section 6, Snapshot).

Bindings are held, not copies: an object that was changed in place stays as it is. Undo itself never touches the
namespace; a person asks for it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from chatnb._json import JsonValue
from chatnb.errors import InputError
from chatnb.kernel.objects_held import Meaning
from chatnb.kernel.objects_size import estimate_bytes
from chatnb.kernel.run_code_names import NameDiff

MAX_CALLS = 10
MAX_BYTES = 1 << 30
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Restorable:
    """A call off the chain whose bindings can be brought back.

    Attributes:
        tool_call_id: The call.
        names: Names that are bound to their former objects, or deleted since the call added them.
        in_place: Names whose objects were changed in place: that can't be taken back.
    """

    tool_call_id: str
    names: tuple[str, ...]
    in_place: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """Return it for a view."""
        return {"toolCallId": self.tool_call_id, "names": list(self.names), "inPlace": list(self.in_place)}


@dataclass(frozen=True, slots=True)
class Restored:
    """What `restore_variables` did.

    Attributes:
        restored: Names that have their former objects again, or are gone again.
        skipped: Names that were bound anew since, and left alone.
    """

    restored: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(slots=True)
class _Snapshot:
    call_id: str
    former: dict[str, Any]
    later: dict[str, Meaning | None]
    in_place: tuple[str, ...]
    size: int = field(default=0)


class Snapshots:
    """The former bindings of one chat's last calls: at most 10 calls and 1 GiB, the oldest dropped."""

    def __init__(self, *, max_calls: int = MAX_CALLS, max_bytes: int = MAX_BYTES) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._snapshots: dict[str, _Snapshot] = {}

    def record(
        self, tool_call_id: str, former: Mapping[str, Any], diff: NameDiff, namespace: Mapping[str, Any]
    ) -> None:
        """Hold the former bindings of what a call has changed and deleted, and what it added.

        Args:
            tool_call_id: The call.
            former: Bindings before it.
            diff: What it did.
            namespace: The names after it.
        """
        rebound = [name for name in (*diff.changed, *diff.deleted) if name not in diff.in_place and name in former]
        held = {name: former[name] for name in rebound} | dict.fromkeys(diff.added, _MISSING)
        if not held and not diff.in_place:
            return
        later = {name: Meaning(namespace[name]) if name in namespace else None for name in held}
        size = sum(estimate_bytes(value) for value in held.values() if value is not _MISSING)
        with self._lock:
            self._snapshots.pop(tool_call_id, None)
            self._snapshots[tool_call_id] = _Snapshot(tool_call_id, held, later, diff.in_place, size)
            while len(self._snapshots) > self._max_calls or self._bytes() > self._max_bytes:
                self._snapshots.pop(next(iter(self._snapshots)))

    @property
    def is_empty(self) -> bool:
        """Nothing is held."""
        return not self._snapshots

    def restorable(self, on_chain: Collection[str]) -> tuple[Restorable, ...]:
        """Return the calls off the chain, newest first.

        Args:
            on_chain: The tool call ids of the history as it is shown now.
        """
        with self._lock:
            return tuple(
                Restorable(snapshot.call_id, tuple(sorted(snapshot.former)), snapshot.in_place)
                for snapshot in reversed(self._snapshots.values())
                if snapshot.call_id not in on_chain
            )

    def restore(
        self,
        namespace: MutableMapping[str, Any],
        on_chain: Collection[str],
        tool_call_id: str | None = None,
        *,
        force: bool = False,
    ) -> Restored:
        """Bring former bindings back. On the main thread.

        Args:
            namespace: The user's.
            on_chain: The tool call ids of the history as it is shown now.
            tool_call_id: One call; None: all that are off the chain, newest first.
            force: Also names that were bound anew since.

        Raises:
            InputError: Nothing is held for that call.
        """
        with self._lock:
            if tool_call_id is None:
                chosen = [s for s in reversed(self._snapshots.values()) if s.call_id not in on_chain]
            else:
                found = self._snapshots.get(tool_call_id)
                if found is None:
                    raise InputError(f"nothing is held to restore for the call {tool_call_id!r}")
                chosen = [found]
        restored: dict[str, None] = {}
        skipped: dict[str, None] = {}
        for snapshot in chosen:
            for name in list(snapshot.former):
                if _restore_name(snapshot, name, namespace, force=force):
                    restored[name] = None
                    del snapshot.former[name]
                else:
                    skipped[name] = None
            with self._lock:  # what was skipped stays, for a later `force`
                if not snapshot.former and self._snapshots.get(snapshot.call_id) is snapshot:
                    del self._snapshots[snapshot.call_id]
        return Restored(tuple(restored), tuple(name for name in skipped if name not in restored))

    def _bytes(self) -> int:
        return sum(snapshot.size for snapshot in self._snapshots.values())


def _restore_name(snapshot: _Snapshot, name: str, namespace: MutableMapping[str, Any], *, force: bool) -> bool:
    now = namespace.get(name, _MISSING)
    later = snapshot.later[name]
    former = snapshot.former[name]
    is_as_left = now is _MISSING if later is None else now is not _MISSING and later.is_of(now)
    if now is former:
        return True
    if not (is_as_left or force):
        return False
    if former is _MISSING:
        namespace.pop(name, None)
    else:
        namespace[name] = former
    return True
