"""Functions and arguments on their way to a worker (spec/notebook.md, section 2).

Functions of importable modules go by name, so that the worker finds them behind their decorator; all others go by value
with cloudpickle.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

from chatnb.errors import ActionError
from chatnb.runtime.remote import ByName, describe, type_name_of

_DEEPEST = 20  # decorators on one function


def portable_function(function: Callable[..., Any]) -> ByName | bytes:
    """Return a function by its name if a worker can import it, else pickled by value.

    Raises:
        ActionError: It cannot be pickled.
    """
    by_name = _by_name(function)
    if by_name is not None:
        return by_name
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    # cloudpickle itself goes by name for every loaded module but `__main__`, importable elsewhere or not.
    by_value = module is not None and module.__name__ != "__main__" and not _is_importable(module.__name__)
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            data: bytes = cloudpickle.dumps(function)
        finally:
            if by_value:
                cloudpickle.unregister_pickle_by_value(module)
    except Exception as error:
        raise cannot_pickle("function", getattr(function, "__qualname__", "function"), describe(error)) from error
    return data


def _by_name(function: Callable[..., Any]) -> ByName | None:
    module = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", None)
    if not module or not qualname or module == "__main__" or "<" in qualname or not _is_importable(module):
        return None
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    for depth in range(_DEEPEST):
        if found is function:
            return ByName(module, qualname, depth)
        found = getattr(found, "__wrapped__", None)
    return None


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def portable_arguments(kwargs: Mapping[str, Any]) -> bytes:
    """Return arguments pickled by value.

    Raises:
        ActionError: One of them cannot be pickled; it is named by its type.
    """
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(dict(kwargs))
    except Exception as error:
        raise cannot_pickle("argument", *_culprit(kwargs, error)) from error
    return data


def _culprit(kwargs: Mapping[str, Any], error: Exception) -> tuple[str, str]:
    import cloudpickle

    for value in kwargs.values():
        try:
            cloudpickle.dumps(value)
        except Exception as why:  # noqa: BLE001 - this is the one
            return type_name_of(value), describe(why)
    return "dict", describe(error)


def cannot_pickle(item: str, type_name: str, reason: str) -> ActionError:
    """Make the error that says which of the four cannot be pickled, and what to do."""
    return ActionError(
        f"The {item} cannot be pickled for the executor ({type_name}; {reason}). Put the function and its classes into "
        'a module, pass and return plain data, or use run_in="thread".'
    )
