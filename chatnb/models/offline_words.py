"""Words, and the action that they mean: how the offline model chooses (spec/notebook.md, section 8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatnb.models.port import ActionSpec

NAME_POINTS = 3
ENOUGH_POINTS = 3

_STOP_TEXT = """
a about all also am an and any are as at be been but by can could did do does for from had has have he her him his
how i if in into is it its just let like may me my no not of off ok on one or our out over please she should so some
than thank thanks that the their them then there these they this those to too up us was we were what when where
which who whom whose why will with would yes you your
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


def split_words(text: str) -> list[str]:
    """The words of a text in order: split at case and `_`, in lower case, a plural `s` dropped, stop words out."""
    words = []
    for piece in _PIECES.findall(text):
        word = piece.lower()
        if word in _STOP_WORDS:
            continue
        words.append(word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word)
    return words


def is_stop_word(word: str) -> bool:
    """Whether a word says nothing about what is wanted."""
    return word.lower() in _STOP_WORDS


def summary_line(description: str) -> str:
    """The first line of a description, up to its first full stop."""
    line = description.strip().split("\n", 1)[0].strip()
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]


def resolve_schema(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A parameter's schema with references followed, and null left out of unions."""
    seen = 0
    while "$ref" in schema and seen < 16:
        target: Any = root
        for key in str(schema["$ref"]).lstrip("#/").split("/"):
            target = target.get(key, {}) if isinstance(target, Mapping) else {}
        schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
        seen += 1
    for key in ("anyOf", "oneOf", "allOf"):
        members = [m for m in schema.get(key) or () if isinstance(m, Mapping) and m.get("type") != "null"]
        if members:
            more = {k: v for k, v in schema.items() if k not in (key, "default")}
            return {**resolve_schema(members[0], root), **more}
    return schema


def parameters(spec: ActionSpec) -> dict[str, Mapping[str, Any]]:
    """The parameters of an action and their schemas, in order."""
    properties = spec.input_schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        str(name): resolve_schema(schema, spec.input_schema)
        for name, schema in properties.items()
        if isinstance(schema, Mapping)
    }


def choices(schema: Mapping[str, Any]) -> list[Any]:
    """The values that a parameter may have, if they are listed."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else []


def score(spec: ActionSpec, words: Sequence[str]) -> int:
    """The points of an action for the words of a text."""
    wanted = set(words)
    name = set(split_words(spec.name))
    summary = set(split_words(summary_line(spec.description)))
    return NAME_POINTS * len(wanted & name) + len(wanted & summary) + len(wanted & set(_parameter_words(spec)))


def _parameter_words(spec: ActionSpec) -> Iterator[str]:
    for name, schema in parameters(spec).items():
        yield from split_words(name)
        for value in choices(schema):
            if isinstance(value, str):
                yield from split_words(value)


@dataclass(frozen=True)
class Choice:
    """What a text asks for.

    Attributes:
        actions: What to call, in order.
        tied: Actions that fit equally well, when none is to be called.
    """

    actions: tuple[ActionSpec, ...] = ()
    tied: tuple[ActionSpec, ...] = ()


def choose(text: str, specs: Sequence[ActionSpec]) -> Choice:
    """Choose the actions that a text means.

    Several run when the text has the whole names of several; else the best with at least 3 points does, and a tie is
    for the person to decide.
    """
    words = split_words(text)
    named = _named(words, specs)
    if len(named) > 1:
        return Choice(tuple(named))
    points = {spec.name: score(spec, words) for spec in specs}
    top = max(points.values(), default=0)
    if top < ENOUGH_POINTS:
        return Choice()
    best = tuple(spec for spec in specs if points[spec.name] == top)
    return Choice(actions=best) if len(best) == 1 else Choice(tied=best)


def _named(words: Sequence[str], specs: Sequence[ActionSpec]) -> list[ActionSpec]:
    """Actions whose whole names are in the words, in the order of the words; a longer name hides those within it."""
    names = {spec.name: split_words(spec.name) for spec in specs}
    found = [spec for spec in specs if names[spec.name] and set(names[spec.name]) <= set(words)]
    whole = [
        spec
        for spec in found
        if not any(set(names[spec.name]) < set(names[other.name]) for other in found if other is not spec)
    ]
    if len({frozenset(names[spec.name]) for spec in whole}) < len(whole):
        return []  # two names of the same words: a tie
    return sorted(whole, key=lambda spec: min(words.index(word) for word in names[spec.name]))
