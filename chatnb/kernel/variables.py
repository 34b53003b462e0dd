"""Kernel variables by name: what may be listed, what a name means (spec/notebook.md, section 5)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from chatnb.actions import Action
from chatnb.actions.variables import VariableParameter
from chatnb.errors import ActionError
from chatnb.kernel.objects import ChatObjects
from chatnb.kernel.objects_held import Meaning
from chatnb.kernel.summaries_text import type_name
from chatnb.kernel.variables_privacy import is_visible, visible_items
from chatnb.kernel.variables_shape import describe_all
from chatnb.kernel.variables_watch import NamespaceWatch
from chatnb.models.variables import variables_block, variables_text, with_variables
from chatnb.policies import Variables

__all__ = ["ChatVariables", "variable_parameters", "variables_block", "variables_text", "with_variables"]

MAX_CANDIDATES = 10
_NO_OBJECT = object()


def variable_parameters(actions: Iterable[Action]) -> list[VariableParameter]:
    """Return what the variable parameters of some actions ask for."""
    return [p.variable for action in actions for p in action.signature.parameters if p.variable is not None]


class ChatVariables:
    """The notebook's variables as one chat may see them. The port `Resolve` of the actions.

    Args:
        policy: What the agent shares and hides.
        watch: The user's namespace.
        objects: The chat's results; their names come first.
    """

    def __init__(self, policy: Variables, watch: NamespaceWatch, objects: ChatObjects | None = None) -> None:
        self.policy = policy
        self.watch = watch
        self.objects = objects

    # --- what a name means ----------------------------------------------------------------------------------------

    def __call__(self, name: str, wanted: VariableParameter) -> object:
        """Return the object that a name means. Call it on the thread where the action runs.

        Raises:
            ActionError: Code `unknown_variable`: there is none, or it is private. `wrong_type`: it is of another type.
        """
        value = self._find(name)
        if value is _NO_OBJECT:
            self._refuse("unknown_variable", f"There is no notebook variable {_shown(name)}", name, wanted)
        if not _accepts(wanted, value):
            self._refuse("wrong_type", f"{_shown(name)} is of type {type_name(value)}", name, wanted)
        return value

    def remember(self, name: str) -> object:
        """Return a token for what a name means now; equal tokens mean the same object. Never raises."""
        value = self._find(name)
        return None if value is _NO_OBJECT else Meaning(value)

    def find(self, name: str) -> object:
        """Return the object that a name means, of any type.

        Raises:
            ActionError: Code `unknown_variable`.
        """
        value = self._find(name)
        if value is _NO_OBJECT:
            self._refuse("unknown_variable", f"There is no notebook variable {_shown(name)}", name, None)
        return value

    def has(self, name: str) -> bool:
        """Tell whether a name means something that the agent may know of."""
        return self._find(name) is not _NO_OBJECT

    def _find(self, name: str) -> object:
        if not isinstance(name, str) or not name.isidentifier():
            return _NO_OBJECT
        if self.objects is not None:
            found, value = self.objects.find(name)
            if found:
                return value if is_visible(name, value, self.policy) else _NO_OBJECT
        namespace = self.watch.namespace()
        value = namespace.get(name, _NO_OBJECT)
        if value is _NO_OBJECT or not is_visible(name, value, self.policy, self.watch.hidden()):
            return _NO_OBJECT
        return value

    def _refuse(self, code: str, reason: str, name: str, wanted: VariableParameter | None) -> NoReturn:
        candidates = [] if self.policy.share == "off" else self._candidates(name, wanted)
        parts = [f"{reason} ({code})."]
        if wanted is not None:
            parts.append(f"{wanted.name} takes the name of a variable of type {wanted.shown}.")
        if candidates:
            parts.append(f"Candidates: {', '.join(candidates)}.")
        elif self.policy.share != "off":
            parts.append("There is no such variable now.")
        if not name.isidentifier():
            parts.append("A name alone is taken, no path, index or expression.")
        details = {"name": name, "wanted": wanted.shown if wanted is not None else None, "candidates": candidates}
        raise ActionError(" ".join(parts), code=code, status_code=409, details=details)

    def _candidates(self, name: str, wanted: VariableParameter | None) -> list[str]:
        fitting = [n for n, value in self.items().items() if wanted is None or _accepts(wanted, value)]
        matcher = difflib.SequenceMatcher(b=name.lower())

        def closeness(candidate: str) -> float:
            matcher.set_seq1(candidate.lower())
            return -matcher.ratio()

        return sorted(fitting, key=lambda n: (closeness(n), n))[:MAX_CANDIDATES]

    # --- lists ----------------------------------------------------------------------------------------------------

    def items(self) -> dict[str, Any]:
        """Return all that may be named: visible variables and results, results first where both have a name."""
        made = self.variables()
        if self.objects is not None:
            for name in self.objects.names():
                found, value = self.objects.find(name)
                if found and is_visible(name, value, self.policy):
                    made[name] = value
        return made

    def variables(self) -> dict[str, Any]:
        """Return the visible variables of the namespace, without results."""
        return visible_items(self.watch.namespace(), self.policy, self.watch.hidden())

    def listing(self, parameters: Sequence[VariableParameter]) -> tuple[dict[str, Any], ...] | None:
        """Return `request.variables`: the variables that fit some parameter, the most recently bound first.

        Any thread; does not wait for the kernel and takes about 50 ms at most.

        Args:
            parameters: The agent's variable parameters.

        Returns:
            None where no list belongs: no such parameters, or nothing is shared.
        """
        if not parameters or self.policy.share == "off":
            return None
        fitting = {n: v for n, v in self.variables().items() if any(_accepts(p, v) for p in parameters)}
        ordered = [(name, fitting[name]) for name in self.watch.recent_first(fitting)]
        return tuple(describe_all(ordered, names_only=self.policy.share == "names"))


def _accepts(wanted: VariableParameter, value: object) -> bool:
    try:
        return wanted.accepts(value)
    except Exception:  # noqa: BLE001 - a foreign `__instancecheck__` or `__class__`
        return False


def _shown(name: object) -> str:
    text = str(name)
    return repr(text if len(text) <= 60 else text[:59] + "…")
