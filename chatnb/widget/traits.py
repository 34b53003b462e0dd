"""The traits of a widget that show the chat: read from outside, observed on the main thread (spec/widget.md, 1).

They hold no values of their own: reading asks for the newest state, on any thread. Observers are told in order, at most
30 times a second, of the last value, and never of an equal one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, NoReturn

import traitlets

from ..messages import UIMessage
from .pacer import Handle, Timers

GAP = 0.034
"""Seconds between two rounds of observers."""
SLACK = 0.001
"""Seconds that a timer may be early."""


class Messages(tuple[UIMessage, ...]):
    """The messages that a widget shows. Changing them here would change nothing, so it says what to use."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("messages can't be changed in place; use set_messages(list) or set_messages(function)")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


class StateTrait(traitlets.TraitType[Any, Any]):
    """A trait that is computed from the chat and can't be set."""

    info_text = "a fact of the chat, which is read only"
    default_value = None
    allow_none = True

    def get(self, obj: Any, cls: Any = None) -> Any:
        """Return the newest value."""
        assert self.name is not None
        return obj._read_trait(self.name)

    def set(self, obj: Any, value: Any) -> NoReturn:
        """Refuse.

        Raises:
            TraitError: Always.
        """
        instead = "; use set_messages()" if self.name == "messages" else ""
        raise traitlets.TraitError(f"{self.name!r} shows the chat and can't be set{instead}")


class OptionTrait(traitlets.TraitType[Any, Any]):
    """An option that may change while a widget is shown. It is checked when it is set, from Python or by a page.

    Args:
        default: Its value until then.
        check: Returns the value as it is kept, or raises `ConfigError`.
    """

    def __init__(self, default: Any, check: Callable[[object], Any]) -> None:
        super().__init__(default)
        self.check = check
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> Any:
        """Return the value as it is kept.

        Raises:
            ConfigError: It can't be so.
        """
        return self.check(value)


class TraitNotifier:
    """Tells observers what has changed, all traits in one round.

    Args:
        timers: The runtime's loop.
        notify: Calls a function on the main thread, in order.
        read: Returns all traits as of one moment.
        tell: Tells the observers of one trait: name, old, new.
        is_observed: Whether there is an observer; without one nothing is read.
    """

    def __init__(
        self,
        timers: Timers,
        notify: Callable[[Callable[[], None]], object],
        read: Callable[[], Mapping[str, Any]],
        tell: Callable[[str, Any, Any], None],
        is_observed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._is_observed = is_observed
        self._timers = timers
        self._notify = notify
        self._read = read
        self._tell = tell
        self._told: dict[str, Any] = {}
        self._last = float("-inf")
        self._due: Handle | None = None
        self._lock = Lock()
        self._untold: Mapping[str, Any] | None = None

    def start(self) -> None:
        """Take the values that observers know from reading."""
        self._told = dict(self._read())

    def changed(self) -> None:
        """Something may have changed; on the runtime."""
        if self._due is None and self._is_observed():
            when = max(self._timers.time(), self._last + GAP)
            self._due = self._timers.call_at(when, self._round)

    def close(self) -> None:
        """Tell nobody any more."""
        if self._due is not None:
            self._due.cancel()

    def _round(self) -> None:
        self._due = None
        now = self._timers.time()
        if now < self._last + GAP - SLACK:  # what went before was told late
            self._due = self._timers.call_at(self._last + GAP, self._round)
            return
        self._last = now
        # All values as of now: what observers are told in one round belongs together.
        values = dict(self._read())
        with self._lock:
            is_on_its_way, self._untold = self._untold is not None, values
        if not is_on_its_way:  # while a cell blocks the main thread, the newest values take the place of older ones
            self._notify(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            values, self._untold = self._untold, None
        self._last = self._timers.time()
        for name, new in (values or {}).items():
            old = self._told.get(name)
            if old is not new and old != new:
                self._told[name] = new
                self._tell(name, old, new)
