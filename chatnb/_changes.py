"""Who hears of changes: observers in Python, and views; also of what other processes change (spec/actions.md, 8.5)."""

from __future__ import annotations

import functools
import inspect
import logging
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .actions import Change
from .errors import ConfigError, StoreError

if TYPE_CHECKING:
    from ._composition import Composition
    from .agent import Agent
    from .chat import Chat
    from .store import Store

__all__ = ["ChangeWatch", "Observer"]

log = logging.getLogger("chatnb")

LOOK_SECONDS = 1.0
"""Between two looks at what other processes have changed; a view hears of it within 3 s."""

LATE_NUMBERS = 100
"""Where many write at once (PostgreSQL) a lower number may be committed later; so far back is looked again."""


class Observer:
    """What `on_change` returns: without arguments it ends the watching, with a `Change` it is the function itself.

    So it is an unsubscribe function, and the name below the decorator still does what it says.
    """

    def __init__(self, function: Callable[[Change], Any], observers: list[Observer]) -> None:
        if not callable(function):
            raise ConfigError("on_change takes a function of a Change")
        functools.update_wrapper(self, function)
        self._function = function
        self._observers = observers
        # The cell was run again: the function of that name is another one now, and the former can't be named any more.
        for former in [known for known in observers if _is_again(known._function, function)]:
            observers.remove(former)
        observers.append(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """End it; or, with arguments, call the function."""
        if args or kwargs:
            return self._function(*args, **kwargs)
        self.unsubscribe()
        return None

    def unsubscribe(self) -> None:
        """Hear of no more changes."""
        if self in self._observers:
            self._observers.remove(self)

    def tell(self, change: Change) -> None:
        """Call the function; what it raises is logged."""
        try:
            self._function(change)
        except Exception:
            log.exception("an observer of changes failed")


def _is_again(former: Any, function: Any) -> bool:
    """Tell whether a function stands in the place of a former one: its cell or module was run again.

    Then its code was compiled again too; a loop that defines one function after the other has one code for all.
    """
    if not (inspect.isfunction(former) and inspect.isfunction(function)) or "<" in function.__qualname__:
        return False
    same = (former.__module__, former.__qualname__) == (function.__module__, function.__qualname__)
    return same and former.__code__ is not function.__code__


class ChangeWatch:
    """Looks in one store for the changes of other processes, while somebody here wants to hear of them.

    Args:
        composition: The chats of this process.
        place: The store's place among them.
        store: The store.
    """

    def __init__(self, composition: Composition, place: str, store: Store) -> None:
        self._composition = composition
        self._place = place
        self._store = store
        self._last: int | None = None
        self._known: set[int] = set()
        self._overlap = 0 if store.url.startswith("sqlite") else LATE_NUMBERS
        self._task: Any = None
        self.agents: weakref.WeakSet[Agent] = weakref.WeakSet()

    def start(self) -> None:
        """Begin, and know from now on what is new; on the runtime."""
        self.look()
        if self._task is None or self._task.done():
            self._task = self._composition.runtime.spawn(self._run(), name="chatnb changes")

    async def _run(self) -> None:
        while list(self._chats()) or self._audience():
            await self._composition.clock.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Tell of what is new; on the runtime."""
        is_wanted = any(chat._observers or chat._engine.has_listeners for chat in self._chats())
        if not is_wanted and not any(agent._observers for agent in self._audience()):
            self._last = None
            return
        try:
            self._read()
        except StoreError as failure:
            log.debug("changes of other processes can't be read", exc_info=failure)

    def _read(self) -> None:
        if self._last is None:
            self._last = self._store.last_change()
            self._known = {number for number, _ in self._store.load_changes(self._last - self._overlap)}
            return
        for number, payload in self._store.load_changes(self._last - self._overlap):
            if number in self._known:
                continue
            self._last = max(self._last, number)
            if self._overlap:
                self._known.add(number)
            try:
                is_own, change = Change.is_of_this_process(payload), Change.from_json(payload)
            except (KeyError, TypeError, ValueError):
                continue  # a newer version has written it
            if not is_own:
                self._tell(change)
        self._known = {number for number in self._known if number > self._last - self._overlap}

    def _tell(self, change: Change) -> None:
        observers: list[Observer] = []
        for chat in self._chats():
            if change.chat_id in (None, chat.id):
                chat._show_change(change)
                observers += chat._observers
        for agent in self._audience():
            observers += agent._observers
        for observer in observers:
            self._composition.runtime.notify(observer.tell, change)

    def _chats(self) -> Iterator[Chat]:
        for (place, _), chat in list(self._composition.chats.items()):
            if place == self._place and not chat.is_closed:
                yield chat

    def _audience(self) -> list[Agent]:
        """The agents that are heard here: those of the open chats, and those that are observed without one."""
        found = [chat.agent for chat in self._chats()] + [agent for agent in self.agents if agent._observers]
        return list({id(agent): agent for agent in found}.values())
