"""Which names a piece of code added, changed and deleted (spec/notebook.md, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chatnb.kernel.objects_held import Meaning
from chatnb.kernel.variables_privacy import is_visible
from chatnb.kernel.variables_shape import extent_of
from chatnb.policies import Variables


@dataclass(frozen=True, slots=True)
class NameDiff:
    """What became of the visible names.

    Attributes:
        added, changed, deleted: Names, sorted.
        in_place: Those of `changed` that are still bound to the same object.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()


class NamesBefore:
    """The names of a namespace before some code runs.

    It keeps nothing alive that can be held weakly, so that code which lets go of a large frame frees it.

    Args:
        namespace: The names as they are.
        policy: Names that it hides are left out.
        hidden: IPython's hidden names.
        keep: Hold the former bindings, for a snapshot.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        policy: Variables,
        hidden: Mapping[str, object] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        self._policy = policy
        self._hidden = hidden
        found = {name: value for name, value in dict(namespace).items() if self._sees(name, value)}
        self._meanings = {name: Meaning(value) for name, value in found.items()}
        self._extents = {name: extent_of(value) for name, value in found.items()}
        self._all = frozenset(dict(namespace))
        self.values: Mapping[str, Any] = found if keep else {}

    def compare(self, namespace: Mapping[str, Any]) -> NameDiff:
        """Return what has become of them."""
        now = {name: value for name, value in dict(namespace).items() if self._sees(name, value)}
        common = sorted(now.keys() & self._meanings.keys())
        bound_anew = {name for name in common if not self._meanings[name].is_of(now[name])}
        # A name that a hidden object had before, such as a function's, is changed and not added.
        was_hidden = {name for name in now.keys() - self._meanings.keys() if name in self._all}
        in_place = [name for name in common if name not in bound_anew and self._extents[name] != extent_of(now[name])]
        return NameDiff(
            added=tuple(sorted(now.keys() - self._meanings.keys() - was_hidden)),
            changed=tuple(sorted({*bound_anew, *in_place, *was_hidden})),
            deleted=tuple(sorted(name for name in self._meanings if name not in namespace)),
            in_place=tuple(in_place),
        )

    def _sees(self, name: str, value: object) -> bool:
        return is_visible(name, value, self._policy, self._hidden)
