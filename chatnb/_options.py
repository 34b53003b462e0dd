"""The options of an `Agent`, checked before anything is made of them: each text says what the option takes."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ._clock import is_duration
from .actions import Identity
from .errors import ConfigError
from .policies import Objects, Variables
from .recovery import Recovery
from .store.location import locate
from .turns import CONCURRENCY, Compaction, Debounce, Steering

__all__ = ["check_names", "check_options", "named_options", "takes_one"]

P = ParamSpec("P")
T = TypeVar("T")

MAX_TTL = 100 * 366 * 86_400

# Options that take one kind of object, or None.
POLICIES: dict[str, type] = {
    "compaction": Compaction,
    "objects": Objects,
    "recovery": Recovery,
    "steering": Steering,
    "variables": Variables,
}

# What other libraries call it, and what to write here.
_ELSEWHERE = {
    "api_key": 'the model takes it: Agent(AnthropicModel("claude-sonnet-4-5", api_key=...))',
    "deps": "what calls share goes into agent.chat(id, client_data=...)",
    "deps_type": "it is called client_data here",
    "functions": "it is called actions here",
    "id": "a chat has an id: agent.chat(id)",
    "instruction": "it is called instructions",
    "max_tokens": 'the model takes it: Agent(AnthropicModel("claude-sonnet-4-5", max_tokens=...))',
    "output_type": "list an action with ends_turn=True whose arguments are the answer",
    "prompt": "it is called instructions here",
    "response_model": "list an action with ends_turn=True whose arguments are the answer",
    "retries": 'the model takes it: Agent(AnthropicModel("claude-sonnet-4-5", max_retries=...))',
    "system": "it is called instructions here",
    "system_prompt": "it is called instructions here",
    "thinking": 'the model takes it: Agent(AnthropicModel("claude-sonnet-4-5", thinking=...))',
    "tools": "it is called actions here",
    "toolsets": "it is called actions here",
    "usage_limits": "a turn is limited by max_steps",
}


def named_options(function: Callable[Concatenate[T, P], None]) -> Callable[Concatenate[T, P], None]:
    """Let an `__init__` name the option that was meant when it is given one that it does not have."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checked(self: T, /, *args: P.args, **kwargs: P.kwargs) -> None:
        check_names(type(self).__name__, kwargs, names)
        function(self, *args, **kwargs)

    return checked


def check_names(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an option that does not exist, and say which one is meant.

    Raises:
        TypeError: `given` has a name that `known` has not.
    """
    known = list(known)
    for name in given:
        if name in known:
            continue
        import difflib

        near = difflib.get_close_matches(name, known, 1)
        hint = _ELSEWHERE.get(name) or (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
        raise TypeError(f"{owner} has no option {name!r}; {hint}")


def takes_one(function: Any) -> bool:
    """Tell whether a function can be called with one argument; True where that can't be read."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def check_options(given: dict[str, Any]) -> None:
    """Refuse options that can't work.

    Args:
        given: The options by name, as `Agent` got them.

    Raises:
        ConfigError: One of them can't; the text names it.
    """
    for name, kind in POLICIES.items():
        if given[name] is not None and not isinstance(given[name], kind):
            raise ConfigError(f"{name} is a chatnb.{kind.__name__}(...) or None, not {_kind(given[name])}")
    concurrency = given["concurrency"]
    if not isinstance(concurrency, Debounce) and concurrency not in CONCURRENCY:
        raise ConfigError(f"concurrency is one of {', '.join(CONCURRENCY)}, or Debounce(seconds)")
    steps = given["max_steps"]
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ConfigError("max_steps is a whole number, at least 1")
    name = given["name"]
    if not isinstance(name, str) or not name or "/" in name or not name.isprintable():
        raise ConfigError("name is printable text without '/'")
    if given["runtime"] not in ("auto", "thread", "kernel"):
        raise ConfigError('runtime is "auto", "thread" or "kernel"')
    ttl = given["approval_ttl"]
    if ttl is not None and not (is_duration(ttl) and ttl <= MAX_TTL):
        raise ConfigError("approval_ttl is a number of seconds above 0 (at most 100 years), or None")
    if not isinstance(given["plan_mode"], bool):
        raise ConfigError("plan_mode is True or False")
    instructions = given["instructions"]
    if instructions is not None and not isinstance(instructions, str) and not callable(instructions):
        raise ConfigError(
            f"instructions are text, or a function of the turn that returns text, not {_kind(instructions)}"
        )
    if callable(instructions) and not takes_one(instructions):
        raise ConfigError("instructions as a function take one argument, the turn: lambda turn: ...")
    identity = given["identity"]
    if identity is not None and not isinstance(identity, Identity) and not (isinstance(identity, str) and identity):
        raise ConfigError(f"identity is a chatnb.Identity(...) or its id, not {_kind(identity)}")
    _check_store(given["store"])
    _check_client_data(given["client_data"])


def _check_client_data(schema: Any) -> None:
    if schema is None:
        return
    from pydantic import PydanticSchemaGenerationError, TypeAdapter

    try:
        if isinstance(schema, str):
            raise PydanticSchemaGenerationError("a text")
        TypeAdapter(schema)
    except PydanticSchemaGenerationError as error:
        raise ConfigError("client_data is a type that pydantic can check, such as a model or a TypedDict") from error


def _check_store(store: Any) -> None:
    """Refuse a place that is none. Nothing is opened."""
    if store is None:
        return
    if isinstance(store, str | os.PathLike):
        locate(store)
    elif not hasattr(store, "open_chat"):
        raise ConfigError(f"store is a URL (sqlite:///chats.db), a path, or a Store, not {_kind(store)}")


def _kind(value: Any) -> str:
    return "an empty text" if value == "" else type(value).__name__
