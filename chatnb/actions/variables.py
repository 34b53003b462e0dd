"""Variable parameters: arguments that name a notebook variable (spec/notebook.md, section 5).

In schema, snapshot, hash, ask, guard and audit such an argument is the name; only the handler gets the object.
"""

from __future__ import annotations

import types
import typing
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Variable:
    """Marks a parameter as the name of a notebook variable: `df: Annotated[list, Variable()]`."""


@dataclass(frozen=True, slots=True)
class VariableParameter:
    """What a parameter asks for: an instance of one of `types`.

    Attributes:
        name: The parameter.
        types: The classes of the annotation.
        optional: None is accepted too.
        shown: The annotation as the model reads it.
    """

    name: str
    types: tuple[type[Any], ...]
    optional: bool
    shown: str

    def accepts(self, value: object) -> bool:
        """Tell whether an object is what the parameter asks for."""
        return (value is None and self.optional) or isinstance(value, self.types)


class Resolve(Protocol):
    """Looks names up in the notebook. Bound by the kernel; called where the handler runs."""

    def __call__(self, name: str, wanted: VariableParameter) -> object:
        """Return the object.

        Raises:
            ActionError: Code `unknown_variable` or `wrong_type`, with name, wanted type and candidates.
        """

    def remember(self, name: str) -> object:
        """Return a token for what a name means now; equal tokens mean the same object. Never raises."""


def variable_of(name: str, annotation: Any, *, marked: bool) -> VariableParameter | None:
    """Return what a variable parameter asks for, or None if its annotation is made of more than classes."""
    members = tuple(
        typing.get_args(member)[0] if typing.get_origin(member) is typing.Annotated else member
        for member in union_members(annotation)
    )
    classes = tuple(member for member in members if member is not type(None))
    if not classes:
        return None
    if marked:
        classes = tuple(typing.get_origin(member) or member for member in classes)
    if not all(isinstance(member, type) and not isinstance(member, types.GenericAlias) for member in classes):
        return None
    shown = " or ".join(member.__name__ for member in classes)
    return VariableParameter(name, classes, type(None) in members, shown)


def union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union; of all else the annotation itself."""
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return typing.get_args(annotation)
    return (annotation,)


class MeantObjects:
    """Which objects the variables of asked calls meant, by approval id. Memory only: another process has none."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._meant: OrderedDict[str, dict[str, object]] = OrderedDict()
        self._lock = Lock()

    def note(self, approval_id: str, meant: dict[str, object]) -> None:
        """Note what each name means now."""
        with self._lock:
            self._meant[approval_id] = meant
            while len(self._meant) > self._limit:
                self._meant.popitem(last=False)

    def find(self, approval_id: str) -> dict[str, object] | None:
        """Return what the names meant when the call was asked."""
        return self._meant.get(approval_id)


meant_objects = MeantObjects()
"""This process's memory: it outlives a redefinition of the agent, not the kernel, as the objects do."""


class MainNamespace:
    """A `Resolve` over the names of `__main__`: what a script has when no kernel has bound another."""

    def __init__(self, namespace: Mapping[str, object] | None = None) -> None:
        self._namespace = namespace

    def __call__(self, name: str, wanted: VariableParameter) -> object:
        """Return the object of that name."""
        from ..errors import ActionError

        namespace = self._names()
        if not name.isidentifier() or name.startswith("_") or name not in namespace:
            raise ActionError(
                f"There is no variable of that name for {wanted.name} ({wanted.shown}).", code="unknown_variable"
            )
        value = namespace[name]
        if not wanted.accepts(value):
            raise ActionError(f"The variable for {wanted.name} is no {wanted.shown}.", code="wrong_type")
        return value

    def remember(self, name: str) -> object:
        """Return the object's identity, or None."""
        namespace = self._names()
        return id(namespace[name]) if name in namespace else None

    def _names(self) -> Mapping[str, object]:
        if self._namespace is not None:
            return self._namespace
        import __main__

        return vars(__main__)
