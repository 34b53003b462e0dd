"""References to the user's objects: strong as long as the policy allows, weak after that where the type allows."""

from __future__ import annotations

import weakref
from collections.abc import Callable

_GONE = object()


class Held:
    """A reference to one object that can be let go of.

    A weak one dies with the user's last reference. Types that can't be weakly referenced (numbers, texts, lists,
    dicts) are lost at once when they are let go of.
    """

    __slots__ = ("_strong", "_weak")

    def __init__(self, value: object) -> None:
        self._strong: object = value
        self._weak: Callable[[], object | None] | None = None

    @property
    def is_strong(self) -> bool:
        """The object is kept alive."""
        return self._strong is not _GONE

    @property
    def is_alive(self) -> bool:
        """The object can still be read."""
        return self._strong is not _GONE or (self._weak is not None and self._weak() is not None)

    def get(self) -> object:
        """Return the object.

        Raises:
            LookupError: It is gone.
        """
        if self._strong is not _GONE:
            return self._strong
        value = self._weak() if self._weak is not None else None
        if value is None:
            raise LookupError("the object is gone")
        return value

    def weaken(self) -> None:
        """Hold it weakly from now on."""
        if self._strong is _GONE:
            return
        try:
            self._weak = weakref.ref(self._strong)
        except TypeError:
            self._weak = None
        self._strong = _GONE

    def release(self) -> None:
        """Let go of it altogether."""
        self._strong, self._weak = _GONE, None


class Meaning:
    """What a name meant at one moment. Two are equal while they mean the same, living object.

    It keeps nothing alive that can be held weakly; an identity number alone could be another object's by now.
    """

    __slots__ = ("_held", "_id")

    def __init__(self, value: object) -> None:
        self._id = id(value)
        self._held = Held(value)
        try:
            weakref.ref(value)
        except TypeError:
            return
        self._held.weaken()

    def is_of(self, value: object) -> bool:
        """Tell whether it means this very object."""
        return self._held.is_alive and self._held.get() is value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Meaning):
            return NotImplemented
        return self is other or (self._id == other._id and other._held.is_alive and self.is_of(other._held.get()))

    def __hash__(self) -> int:
        return self._id
