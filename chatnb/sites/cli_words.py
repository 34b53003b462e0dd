"""The words of `chatnb action`, read into a call (spec/actions.md, 11.6)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import click

APPROVED = "--approved"


@dataclass(frozen=True, slots=True)
class Words:
    """A command line, taken apart.

    Attributes:
        target: `module:agent`.
        name: The action's name.
        rest: What follows, without `--approved`.
        approved: The hash of `--approved`; "" for a bare one, or for several that differ; None for none.
    """

    target: str
    name: str
    rest: tuple[str, ...]
    approved: str | None


def read_words(words: Sequence[str]) -> Words:
    """Take `--approved` out, wherever it stands, and name the rest.

    Raises:
        UsageError: TARGET or NAME is missing.
    """
    others, approved = _take_approved(words)
    if len(others) < 2 or others[0].startswith("--") or others[1].startswith("--"):
        raise click.UsageError("Name the agent and the action: chatnb action TARGET NAME ['{json}'] [--k v ...]")
    return Words(others[0], others[1], tuple(others[2:]), approved)


def _take_approved(words: Sequence[str]) -> tuple[list[str], str | None]:
    others: list[str] = []
    hashes: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith(f"{APPROVED}="):
            hashes.append(word.removeprefix(f"{APPROVED}="))
        elif word == APPROVED:
            # A JSON argument after it is the call's: no hash begins so.
            hashes.append(left.pop(0) if left and not left[0].startswith(("--", "{")) else "")
        else:
            others.append(word)
    if not hashes:
        return others, None
    return others, hashes[0] if len(set(hashes)) == 1 else ""


def read_input(rest: Sequence[str], allowed: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Read a JSON argument and flags into the input of a call; flags win.

    Args:
        rest: The words after NAME.
        allowed: The JSON types that each argument of the action allows.

    Raises:
        UsageError: Two JSON arguments, bad JSON, no object, or a flag without a name.
    """
    given: dict[str, Any] | None = None
    flags: dict[str, list[Any]] = {}
    left = list(rest)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            if given is not None:
                raise click.UsageError("More than one JSON argument; all others are flags: --name value.")
            given = _read_object(word)
            continue
        key, has_value, value = word[2:].partition("=")
        name = _name_of(key, allowed)
        if has_value:
            flags.setdefault(name, []).append(value)
        elif left and not left[0].startswith("--"):
            flags.setdefault(name, []).append(left.pop(0))
        else:
            flags.setdefault(name, []).append(True)
    return {**(given or {}), **{name: _value_of(values, allowed.get(name, ())) for name, values in flags.items()}}


def _name_of(key: str, allowed: Mapping[str, Collection[str]]) -> str:
    if not key:
        raise click.UsageError("A flag needs a name: --name value.")
    underscored = key.replace("-", "_")
    return underscored if key not in allowed and underscored in allowed else key


def _value_of(values: list[Any], types: Collection[str]) -> Any:
    """A repeated flag is a list; so is a single one where only a list fits."""
    if len(values) > 1:
        return values
    value = values[0]
    is_lone = "array" in types and "string" not in types and isinstance(value, str)
    return [value] if is_lone and not value.lstrip().startswith("[") else value


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise click.UsageError("The argument after NAME is no valid JSON.") from None
    if not isinstance(value, dict):
        raise click.UsageError("The JSON argument has to be an object: '{\"name\": value}'.")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
