"""Which names of the notebook an agent may know of (spec/notebook.md, section 5, Privacy)."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from chatnb.actions import Action
from chatnb.policies import Variables

_SECRET_WORDS = ("key", "token", "secret", "passw", "credential")
_OWN_NAMES = frozenset({"In", "Out", "exit", "quit", "get_ipython"})
_CODE_TYPES = (types.ModuleType, type, types.GenericAlias, functools.partial, Action)
_CODE_TYPE_NAMES = frozenset({"_lru_cache_wrapper", "ufunc", "cython_function_or_method", "fused_cython_function"})


def is_visible(name: str, value: object, policy: Variables, hidden: Mapping[str, object] | None = None) -> bool:
    """Tell whether a name may be listed, resolved, completed and inspected.

    Args:
        name: The name.
        value: What it means.
        policy: The agent's, for its globs.
        hidden: IPython's hidden names with what they meant when it hid them; a name that the user rebinds is theirs.
    """
    if not name.isidentifier() or name.startswith("_") or name in _OWN_NAMES:
        return False
    if hidden is not None and name in hidden and hidden[name] is value:
        return False
    if any(fnmatchcase(name, pattern) for pattern in policy.hide):
        return False
    return not (is_code(value) or is_secret(name, value))


def is_code(value: object) -> bool:
    """Tell whether an object is a module, function, class or the like."""
    return isinstance(value, _CODE_TYPES) or inspect.isroutine(value) or type(value).__name__ in _CODE_TYPE_NAMES


def is_secret(name: str, value: object) -> bool:
    """Tell whether a name says that its text or bytes are a secret."""
    if not isinstance(value, str | bytes | bytearray | memoryview):
        return False
    lower = name.lower()
    return any(word in lower for word in _SECRET_WORDS)


def visible_items(
    namespace: Mapping[str, Any], policy: Variables, hidden: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Return the visible names of a namespace with what they mean, in its order. Safe while the kernel runs."""
    return {name: value for name, value in _copy(namespace).items() if is_visible(name, value, policy, hidden)}


def _copy(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a namespace that another thread may be changing: of a dict in one step."""
    found = namespace.copy() if type(namespace) is dict else dict(namespace)
    return {name: value for name, value in found.items() if isinstance(name, str)}
