"""The actions of an agent, in order, with unique names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..errors import ActionDefinitionError
from .definition import Action
from .prepare import KeptCalls


class Catalog(Mapping[str, Action]):
    """An agent's actions by name, in the order of definition.

    Attributes:
        kept: The prepared calls of this definition that wait for a person.
    """

    def __init__(self, actions: Iterable[Action] = ()) -> None:
        self._actions: dict[str, Action] = {}
        self.kept = KeptCalls()
        for made in actions:
            if made.name in self._actions:
                raise ActionDefinitionError(
                    f"action {made.name!r}, option 'name': two actions of the agent have it; give one of them another, "
                    'as in @action(name="other")'
                )
            self._actions[made.name] = made

    @classmethod
    def of(cls, actions: Iterable[Action | Callable[..., Any]]) -> Catalog:
        """Make a catalog; plain functions become actions.

        Raises:
            ActionDefinitionError: Two have the same name, or a function can't be an action.
        """
        if isinstance(actions, Action) or callable(actions) or not isinstance(actions, Iterable):
            raise ActionDefinitionError("actions: give a list of actions")
        return cls(item if isinstance(item, Action) else Action(item) for item in actions)

    def agent_tools(self) -> list[Action]:
        """Return the actions that a model sees."""
        return [made for made in self._actions.values() if made.agent_tool]

    def find(self, name: str) -> Action | None:
        """Return the action of a name, or None."""
        return self._actions.get(name)

    def __getitem__(self, name: str) -> Action:
        return self._actions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._actions)

    def __len__(self) -> int:
        return len(self._actions)

    def __repr__(self) -> str:
        return f"Catalog({', '.join(self._actions)})"
