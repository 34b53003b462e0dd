"""The advertised schema: a JSON schema that every model vendor takes, the same bytes for the same definition.

The rules: spec/actions.md, 1.3. Only subschema positions are walked; `default`, `const`, `enum` and `examples` stay.
"""

from __future__ import annotations

import copy
import re
from typing import Any

Schema = dict[str, Any]

JSON_TYPES = ["string", "number", "boolean", "object", "array", "null"]
FORMATS = frozenset(
    ["date", "time", "date-time", "duration", "email", "uri", "uuid", "ipv4", "ipv6", "hostname"],
)
"""The formats that are advertised, and checked where chatnb itself checks."""
_DROPPED = frozenset(
    [
        "discriminator",
        "propertyNames",
        "patternProperties",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "if",
        "then",
        "else",
        "not",
    ]
)
_UNPORTABLE_PATTERN = re.compile(r"\(\?(?:[=!]|<[=!]|P=|\()|(?<!\\)(?:\\\\)*\\(?:[1-9]|k[<{'])")
_REF = "#/$defs/"


def make_portable(schema: Schema) -> Schema:
    """Return the portable form of a JSON schema; the argument is not changed."""
    defs = schema.get("$defs", {})
    walker = _Walker(defs)
    root: Schema = walker.walk({key: value for key, value in schema.items() if key not in ("$defs", "title")})
    kept = walker.kept_definitions()
    if kept:
        root["$defs"] = kept
    return root


class _Walker:
    def __init__(self, defs: dict[str, Schema]) -> None:
        self._defs = defs
        self._recursive = {name for name in defs if _reaches(name, name, defs)}
        self._wanted: list[str] = []

    def kept_definitions(self) -> dict[str, Schema]:
        """Return the definitions that recurse and are referred to."""
        kept: dict[str, Schema] = {}
        while pending := [name for name in self._wanted if name not in kept]:
            for name in pending:
                kept[name] = {}
                kept[name] = self.walk(self._definition(name))
        return dict(sorted(kept.items()))

    def walk(self, schema: Any) -> Any:
        if isinstance(schema, bool):
            return schema
        node = self._resolve(schema)
        if "$ref" in node:
            return node
        node = {key: value for key, value in node.items() if key not in _DROPPED}
        if "oneOf" in node:
            node["anyOf"] = [*node.get("anyOf", []), *node.pop("oneOf")]
        if node.get("format") not in FORMATS:
            node.pop("format", None)
        pattern = node.get("pattern")
        if isinstance(pattern, str) and _UNPORTABLE_PATTERN.search(pattern):
            del node["pattern"]
        _flatten_prefix(node)
        return self._finish({key: self._child(key, value) for key, value in node.items()})

    def _child(self, key: str, value: Any) -> Any:
        match key:
            case "properties":
                return {name: self.walk(child) for name, child in value.items()}
            case "items" | "additionalProperties" | "contains" | "unevaluatedItems" | "unevaluatedProperties":
                return self.walk(value)
            case "anyOf" | "allOf":
                return [self.walk(child) for child in value]
            case _:
                return copy.deepcopy(value)

    def _finish(self, node: Schema) -> Schema:
        if not any(key in node for key in ("type", "anyOf", "allOf", "$ref")):
            listed = [node["const"]] if "const" in node else node.get("enum")
            types = list(JSON_TYPES) if listed is None else _types_of(listed)
            node["type"] = types[0] if len(types) == 1 else types
        return node

    def _definition(self, name: str) -> Schema:
        definition = dict(self._defs[name])
        title = definition.get("title")
        if isinstance(title, str) and _is_generated(title, name):
            del definition["title"]
        return definition

    def _resolve(self, schema: Schema) -> Schema:
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith(_REF):
            return dict(schema)
        name = ref[len(_REF) :]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if name in self._recursive:
            self._wanted.append(name)
            return {"$ref": ref, **beside}
        return {**self._resolve(self._definition(name)), **beside}


def _is_generated(title: str, name: str) -> bool:
    plain = re.sub(r"\W", "_", title)
    return plain == name or name.startswith(f"{plain}_") or name.endswith(f"__{plain}") or f"__{plain}__" in name


def _flatten_prefix(node: Schema) -> None:
    prefix = node.pop("prefixItems", None)
    if prefix is None:
        return
    rest = node.pop("items", True)
    choices = list(prefix) + ([rest] if isinstance(rest, dict) else [])
    unique = [choice for index, choice in enumerate(choices) if choice not in choices[:index]]
    if unique:
        node["items"] = unique[0] if len(unique) == 1 else {"anyOf": unique}
    node.setdefault("minItems", len(prefix))
    if not isinstance(rest, dict):
        node.setdefault("maxItems", len(prefix))


def _types_of(values: list[Any]) -> list[str]:
    names = {
        bool: "boolean",
        str: "string",
        int: "integer",
        float: "number",
        type(None): "null",
        dict: "object",
        list: "array",
    }
    found = [names[type(value)] for value in values]
    return list(dict.fromkeys(found)) or list(JSON_TYPES)


def _reaches(start: str, target: str, defs: dict[str, Schema]) -> bool:
    seen: set[str] = set()
    open_names = [start]
    while open_names:
        for name in _refs(defs.get(open_names.pop(), {})):
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                open_names.append(name)
    return False


def _refs(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = node.get("$ref")
        found = [own[len(_REF) :]] if isinstance(own, str) and own.startswith(_REF) else []
        for value in node.values():
            found.extend(_refs(value))
        return found
    if isinstance(node, list):
        return [name for child in node for name in _refs(child)]
    return []


def allowed_types(schema: Any, root: Schema) -> frozenset[str]:
    """Return the JSON types that a portable schema allows."""
    if not isinstance(schema, dict):
        return frozenset(JSON_TYPES)
    ref = schema.get("$ref")
    if isinstance(ref, str):
        return allowed_types(root.get("$defs", {}).get(ref[len(_REF) :]), root)
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset([named])
    if isinstance(named, list):
        return frozenset(named)
    if "anyOf" in schema:
        return frozenset[str]().union(*(allowed_types(child, root) for child in schema["anyOf"]))
    if "allOf" in schema:
        return frozenset(JSON_TYPES).intersection(*(allowed_types(child, root) for child in schema["allOf"]))
    return frozenset(JSON_TYPES)
