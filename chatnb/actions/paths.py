"""Paths into data that hold no data: they walk the schema (spec/actions.md, 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic_core.core_schema import ErrorType

BUILT_IN_CODES: frozenset[str] = frozenset(get_args(ErrorType))
"""Pydantic's own issue types."""

_LISTS = frozenset(["list", "tuple", "set", "frozenset", "generator"])
_FIELDS = frozenset(["model-fields", "typed-dict", "dataclass-args"])


def show_path(location: tuple[int | str, ...], core: Any) -> str:
    """Return a location as text: declared fields and indexes of declared lists stay, anything else is `*`.

    Args:
        location: Pydantic's location of an issue.
        core: The core schema that was validated against.
    """
    nodes = [core]
    definitions = _definitions(core)
    shown: list[str] = []
    for step in location:
        kept, nodes = _step(step, nodes, definitions)
        if kept is not None:
            shown.append(kept)
    return ".".join(shown) or "(root)"


def _step(step: int | str, nodes: list[Any], definitions: Mapping[str, Any]) -> tuple[str | None, list[Any]]:
    """Return what is shown of one step, and the schemas below it."""
    unwrapped = [inner for node in nodes for inner in _unwrap(node, definitions)]
    below: list[Any] = []
    for node in unwrapped:
        kind = node.get("type")
        if isinstance(step, str) and kind in _FIELDS:
            below.extend(_field(node, step))
        elif isinstance(step, int) and kind in _LISTS:
            below.extend(_item(node, step))
    if below:
        return str(step), below
    below = [node.get("values_schema", {}) for node in unwrapped if node.get("type") == "dict"]
    if below:
        return (None, below) if step == "[key]" else ("*", below)
    if isinstance(step, str) and any(node.get("type") == "union-of" for node in unwrapped):
        return None, unwrapped  # pydantic names the member of a union there; it is no place in the data
    return "*", []


def _field(node: Mapping[str, Any], step: str) -> Iterator[Any]:
    fields = node.get("fields", {})
    if isinstance(fields, list):
        for field in fields:
            if step in (field.get("name"), field.get("validation_alias")):
                yield field.get("schema", {})
        return
    for name, field in fields.items():
        if step in (name, field.get("validation_alias")):
            yield field.get("schema", {})


def _item(node: Mapping[str, Any], step: int) -> Iterator[Any]:
    if node.get("type") == "tuple":
        members = node.get("items_schema", [])
        yield members[step] if step < len(members) else {}
        return
    yield node.get("items_schema", {"type": "any"})


def _unwrap(node: Any, definitions: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that a schema stands for: through wrappers, unions and references."""
    if not isinstance(node, dict) or depth > 40:
        return
    kind = node.get("type")
    if kind == "definition-ref":
        yield from _unwrap(definitions.get(node.get("schema_ref", "")), definitions, depth + 1)
    elif kind in ("union", "tagged-union"):
        yield {"type": "union-of"}
        choices = node.get("choices", [])
        for choice in choices.values() if isinstance(choices, dict) else choices:
            yield from _unwrap(choice[0] if isinstance(choice, tuple) else choice, definitions, depth + 1)
    elif kind in ("model", "dataclass"):
        yield from _unwrap(node.get("schema"), definitions, depth + 1)
    elif kind == "lax-or-strict":
        yield from _unwrap(node.get("lax_schema"), definitions, depth + 1)
    elif kind == "json-or-python":
        yield from _unwrap(node.get("python_schema"), definitions, depth + 1)
    elif kind == "chain":
        for inner in node.get("steps", []):
            yield from _unwrap(inner, definitions, depth + 1)
    elif kind not in _LISTS and kind not in _FIELDS and isinstance(node.get("schema"), dict):
        yield from _unwrap(node["schema"], definitions, depth + 1)
    else:
        yield node


def _definitions(core: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("ref"), str) and node.get("type") != "definition-ref":
                found[node["ref"]] = node
            for key, value in node.items():
                if key not in ("serialization", "metadata"):
                    walk(value)
        elif isinstance(node, list | tuple):
            for value in node:
                walk(value)

    walk(core)
    return found
