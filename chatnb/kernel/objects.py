"""`chat.objects`: what the actions of a chat have returned, as Python objects (spec/notebook.md, section 4)."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NoReturn

from chatnb.actions.environment import Presented
from chatnb.errors import ObjectLostError
from chatnb.kernel.objects_former import Former
from chatnb.kernel.objects_held import Held
from chatnb.kernel.objects_size import estimate_bytes
from chatnb.policies import Objects

Reason = Literal["kernel_restarted", "evicted", "cleared"]

_HOW: Mapping[Reason, str] = {
    "kernel_restarted": "the kernel was restarted since",
    "evicted": "newer results took its place, and nothing else held it; chat.objects.pin(name) keeps one",
    "cleared": "it was cleared",
}


@dataclass(slots=True)
class _Entry:
    name: str
    action: str
    call_id: str | None
    held: Held
    size: int
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class LostObject:
    """A result that is gone.

    Attributes:
        reason: Why.
        action: The action that returned it, or None if that is not known any more.
        tool_call_id: The call, or None.
    """

    reason: Reason
    action: str | None = None
    tool_call_id: str | None = None


def _nothing() -> Mapping[str, object]:
    return {}


def _no_former() -> Former:
    return {}


class ChatObjects(Mapping[str, object]):
    """The results of one chat by name (`ACTION_N`) or tool call id. Read-only from outside, and safe in threads.

    Iterating gives the names of what is there, oldest first.

    Args:
        policy: How much is held strongly.
        namespace: The user's names; a result never gets a name that is taken there.
        former: Finds the results of a former kernel in the history; asked once, when it is first needed.
    """

    def __init__(
        self,
        policy: Objects | None = None,
        *,
        namespace: Callable[[], Mapping[str, object]] = _nothing,
        former: Callable[[], Former] = _no_former,
    ) -> None:
        self._policy = policy or Objects()
        self._namespace = namespace
        self._former: Callable[[], Former] | None = former
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}
        self._calls: dict[str, str] = {}
        self._lost: dict[str, LostObject] = {}
        self._counts: dict[str, int] = {}

    # --- the port -----------------------------------------------------------------------------------------------

    def keep(self, value: object, *, action: str, tool_call_id: str | None) -> str | None:
        """Keep a result and return its name; None is not kept."""
        if value is None:
            return None
        size = estimate_bytes(value)
        self._recall()
        with self._lock:
            name = self._next_name(action.replace("-", "_"))
            self._entries[name] = _Entry(name, action, tool_call_id, Held(value), size)
            if tool_call_id is not None:
                self._calls[tool_call_id] = name
            self._make_room()
        return name

    def present(self, value: object) -> Presented:
        """Describe a result. Called where the handler ran; never raises, never changes it."""
        from chatnb.kernel.summaries import present

        return present(value)

    # --- reading ------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> object:
        """Return an object by name or tool call id.

        Raises:
            ObjectLostError: It is gone; `reason` says why.
            KeyError: There never was one; the text names the closest.
        """
        self._recall()
        with self._lock:
            name = key if key in self._entries or key in self._lost else self._calls.get(key, key)
            entry = self._entries.get(name)
            if entry is not None:
                try:
                    return entry.held.get()
                except LookupError:
                    self._lose(entry, "evicted")
            lost = self._lost.get(name)
            if lost is None:
                raise KeyError(self._unknown(key))
        raise ObjectLostError(_say_lost(name, lost), reason=lost.reason)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, key: object) -> bool:
        with self._lock:
            name = self._calls.get(key, key) if isinstance(key, str) and key not in self._entries else key
            entry = self._entries.get(name) if isinstance(name, str) else None
            return entry is not None and entry.held.is_alive

    @property
    def last(self) -> object:
        """The newest object that is there, or None."""
        with self._lock:
            for entry in reversed(self._entries.values()):
                if entry.held.is_alive:
                    return entry.held.get()
        return None

    def names(self) -> list[str]:
        """Return the names of what is there, oldest first."""
        with self._lock:
            return [name for name, entry in self._entries.items() if entry.held.is_alive]

    @property
    def lost(self) -> Mapping[str, LostObject]:
        """What is gone, by name: why, and which call it came from."""
        self._recall()
        with self._lock:
            for entry in [entry for entry in self._entries.values() if not entry.held.is_alive]:
                self._lose(entry, "evicted")
            return MappingProxyType(dict(self._lost))

    def find(self, name: str) -> tuple[bool, object]:
        """Return whether an object of that very name is there, and the object. Tool call ids are no names."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or not entry.held.is_alive:
                return False, None
            return True, entry.held.get()

    # --- what a user may do ---------------------------------------------------------------------------------------

    def pin(self, name: str) -> None:
        """Hold an object strongly until it is deleted or cleared. It counts among the limits.

        Raises:
            ObjectLostError: It is gone.
            KeyError: There never was one.
        """
        value = self[name]
        with self._lock:
            entry = self._entries[name if name in self._entries else self._calls[name]]
            entry.is_pinned = True
            entry.held = Held(value)
            self._make_room()

    def __delitem__(self, key: str) -> None:
        """Let go of one object.

        Raises:
            ObjectLostError: It is gone already.
            KeyError: There never was one.
        """
        self[key]
        with self._lock:
            self._lose(self._entries[key if key in self._entries else self._calls[key]], "cleared")

    def __setitem__(self, key: str, value: object) -> NoReturn:
        raise TypeError("chat.objects holds what actions return; put other objects into variables")

    def clear(self) -> None:
        """Let go of all objects, pinned ones too."""
        with self._lock:
            for entry in list(self._entries.values()):
                self._lose(entry, "cleared" if entry.held.is_alive else "evicted")

    # --- what the composition does --------------------------------------------------------------------------------

    def forget_all(self, names: Former | Iterable[str]) -> None:
        """Say which results a former kernel held: their names are lost, and not given again.

        Args:
            names: The names, or for each name its action and tool call id.
        """
        known: Former = names if isinstance(names, Mapping) else dict.fromkeys(names, (None, None))
        with self._lock:
            for name, (action, call_id) in known.items():
                if name in self._entries:
                    continue
                self._lost[name] = LostObject("kernel_restarted", action, call_id)
                if call_id is not None:
                    self._calls[call_id] = name

    def fork(self) -> ChatObjects:
        """Return the objects for a fork of the chat: the same ones by name, to go their own way from here."""
        self._recall()
        made = ChatObjects(self._policy, namespace=self._namespace)
        with self._lock:
            for entry in self._entries.values():
                if entry.held.is_alive:
                    copy = _Entry(
                        entry.name, entry.action, entry.call_id, Held(entry.held.get()), entry.size, entry.is_pinned
                    )
                    made._entries[entry.name] = copy
            made._calls, made._lost, made._counts = dict(self._calls), dict(self._lost), dict(self._counts)
            made._make_room()
        return made

    def __repr__(self) -> str:
        with self._lock:
            shown = [
                f"{name}: {type(entry.held.get()).__name__}"
                for name, entry in self._entries.items()
                if entry.held.is_alive
            ]
        return f"<chat.objects: {', '.join(shown) or 'empty'}>"

    # --- inside ---------------------------------------------------------------------------------------------------

    def _recall(self) -> None:
        """Look up once what a former kernel held. Without the lock: it asks the runtime, which may wait for that."""
        former, self._former = self._former, None
        if former is not None:
            self.forget_all(former())

    def _next_name(self, base: str) -> str:
        taken = self._namespace()
        number = self._counts.get(base, 0)
        while True:
            number += 1
            name = f"{base}_{number}"
            if name not in taken and name not in self._entries and name not in self._lost:
                self._counts[base] = number
                return name

    def _make_room(self) -> None:
        """Weaken what is over the limits: pinned ones count first, then the newest."""
        items, used = 0, 0
        seen: set[int] = set()

        def count(entry: _Entry) -> tuple[int, int]:
            identity = id(entry.held.get())
            fresh = identity not in seen
            seen.add(identity)
            return items + 1, used + (entry.size if fresh else 0)

        for entry in self._entries.values():
            if entry.is_pinned:
                items, used = count(entry)
        is_full = False
        for entry in reversed(list(self._entries.values())):
            if entry.is_pinned or not entry.held.is_strong:
                continue
            # One that is too large for itself does not push all others out.
            if entry.size <= self._policy.max_bytes:
                would = count(entry)
                is_full = is_full or would[0] > self._policy.max_items or would[1] > self._policy.max_bytes
                if not is_full:
                    items, used = would
                    continue
            entry.held.weaken()
            if not entry.held.is_alive:
                self._lose(entry, "evicted")

    def _lose(self, entry: _Entry, reason: Reason) -> None:
        entry.held.release()
        self._entries.pop(entry.name, None)
        self._lost[entry.name] = LostObject(reason, entry.action, entry.call_id)

    def _unknown(self, key: str) -> str:
        close = difflib.get_close_matches(str(key), self.names(), n=5, cutoff=0.4)
        hint = f" Closest: {', '.join(close)}." if close else ""
        return f"chat.objects has no {key!r}.{hint}"


def _say_lost(name: str, lost: LostObject) -> str:
    source = f", the result of {lost.action}" if lost.action else ""
    call = f" (call {lost.tool_call_id})" if lost.tool_call_id else ""
    return f"{name}{source}{call}, is gone: {_HOW[lost.reason]}."
