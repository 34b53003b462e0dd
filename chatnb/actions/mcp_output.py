"""What the MCP site may advertise as an output schema (spec/actions.md, 11.3)."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from ..errors import ActionDefinitionError
from .portable import FORMATS, Schema

_ASSERTIONS = frozenset(
    [
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "default",
        "deprecated",
        "description",
        "discriminator",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "oneOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "readOnly",
        "required",
        "title",
        "type",
        "uniqueItems",
        "writeOnly",
    ]
)
_TRANSFORMS = frozenset(["function-plain", "function-wrap", "function-before", "function-after"])


def advertised_output(adapter: TypeAdapter[Any]) -> Schema:
    """Return the output schema that MCP clients see: a list root becomes `{"items": [...]}`, `oneOf` `anyOf`."""
    schema: Schema = _any_of(adapter.json_schema(mode="serialization"))
    if _root(schema).get("type") != "array":
        return schema
    defs = schema.pop("$defs", None)
    wrapped: Schema = {"type": "object", "properties": {"items": schema}, "required": ["items"]}
    return {**wrapped, "$defs": defs} if defs else wrapped


def check_advertisable(action: str, adapter: TypeAdapter[Any]) -> None:
    """Check that an output schema can be advertised and enforced.

    Raises:
        ActionDefinitionError: Its root is no object, union of objects or array; it recurses at the root; it transforms
            without a schema; or it holds a keyword or format that the check does not enforce.
    """
    schema = adapter.json_schema(mode="serialization")
    if not _is_root(schema, schema):
        _fail(action, "its root must be an object, a union of objects, or an array")
    if isinstance(schema.get("$ref"), str):
        _fail(action, "a recursive root can't be advertised")
    _check_keywords(action, schema)
    if _transforms(adapter.core_schema):
        _fail(action, "a validator or serialiser that transforms needs a schema of its own")


def _fail(action: str, problem: str) -> None:
    raise ActionDefinitionError(f"action {action!r}, option 'mcp_output_schema': {problem}")


def _root(schema: Schema) -> Schema:
    ref = schema.get("$ref")
    if isinstance(ref, str):
        found: Schema = schema.get("$defs", {}).get(ref.rpartition("/")[2], {})
        return found
    return schema


def _is_root(node: Schema, root: Schema) -> bool:
    ref = node.get("$ref")
    if isinstance(ref, str):
        return _is_root(root.get("$defs", {}).get(ref.rpartition("/")[2], {}), root)
    members = node.get("anyOf") or node.get("oneOf")
    if members:
        return all(_is_root(member, root) and member.get("type") != "array" for member in members)
    return node.get("type") in ("object", "array")


def _check_keywords(action: str, node: Any) -> None:
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key not in _ASSERTIONS:
            _fail(action, f"the keyword {key!r} is not enforced")
        if key == "format" and value not in FORMATS:
            _fail(action, "a format that is not enforced")
        if key in ("properties", "$defs", "patternProperties"):
            for child in value.values():
                _check_keywords(action, child)
        elif key in ("items", "additionalProperties", "propertyNames"):
            _check_keywords(action, value)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for child in value:
                _check_keywords(action, child)


def _transforms(node: Any) -> bool:
    if isinstance(node, dict):
        serialization = node.get("serialization")
        if isinstance(serialization, dict) and serialization.get("type") in _TRANSFORMS:
            return serialization.get("return_schema") is None
        kind = node.get("type")
        if kind == "function-plain" and not node.get("metadata", {}).get("pydantic_js_functions"):
            return True
        return any(_transforms(value) for key, value in node.items() if key not in ("serialization", "metadata"))
    if isinstance(node, list | tuple):
        return any(_transforms(value) for value in node)
    return False


def _any_of(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            "anyOf" if key == "oneOf" else key: value
            if key in ("default", "const", "enum", "examples")
            else _any_of(value)
            for key, value in node.items()
            if key != "discriminator"
        }
    if isinstance(node, list):
        return [_any_of(value) for value in node]
    return node
