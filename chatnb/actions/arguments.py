"""Validation of arguments, and its errors, which hold no received values (spec/actions.md, 1.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import InvalidArgumentsError
from .paths import BUILT_IN_CODES, show_path
from .portable import Schema
from .signature import Signature

_MAX_SIGNATURE = 1200
_WORD = re.compile(r"[A-Za-z_]\w{0,63}")
_FIXED = {
    "bool_parsing": "not true or false",
    "bool_type": "not true or false",
    "date_from_datetime_parsing": "not a date",
    "date_parsing": "not a date",
    "date_type": "not a date",
    "datetime_from_date_parsing": "not a date and time",
    "datetime_parsing": "not a date and time",
    "datetime_type": "not a date and time",
    "dict_type": "not an object",
    "enum": "not one of the allowed values",
    "extra_forbidden": "unexpected argument",
    "finite_number": "not a finite number",
    "float_parsing": "not a number",
    "float_type": "not a number",
    "int_from_float": "not a whole number",
    "int_parsing": "not a whole number",
    "int_type": "not a whole number",
    "list_type": "not a list",
    "literal_error": "not one of the allowed values",
    "missing": "missing",
    "model_type": "not an object",
    "none_required": "not null",
    "string_pattern_mismatch": "does not match the pattern",
    "string_type": "not a text",
    "tuple_type": "not a list",
}
_BOUNDS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
}

Issue = tuple[str, str]


def validate_arguments(action: str, signature: Signature, raw: Any, shown: str, *, direct: bool) -> dict[str, Any]:
    """Return the validated values by parameter, defaults included.

    Args:
        action: The action's name.
        signature: Its parameters.
        raw: The input.
        shown: The signature for the error's text.
        direct: A direct call: the values are Python objects, and variables may be.

    Raises:
        InvalidArgumentsError: The input does not fit.
    """
    model = signature.direct_model if direct else signature.model
    try:
        held = _validate(model, raw, as_json=signature.is_strict and not direct)
        return {parameter.name: getattr(held, parameter.field) for parameter in signature.parameters}
    except ValidationError as error:
        missing, issues = _read_issues(error, model, signature)
    except Exception:  # noqa: BLE001 - a validator of the user's own failed in its own way
        missing, issues = [], [("(root)", "validator_threw")]
    # Raised out here, so that no context carries the values.
    raise invalid_arguments(action, missing, issues, shown)


def invalid_arguments(action: str, missing: list[str], issues: list[Issue], shown: str) -> InvalidArgumentsError:
    """Make the error of invalid arguments."""
    said = []
    if missing:
        said.append(f"missing: {', '.join(missing)}")
    if issues:
        said.append("issues: " + ", ".join(f"{path}: {message}" for path, message in issues))
    said.append(f"expected: {shown}")
    details = {"missing": missing, "issues": [{"path": path, "message": message} for path, message in issues]}
    return InvalidArgumentsError(f"Invalid arguments for {action}: {'; '.join(said)}", details=details)


def _validate(model: type[BaseModel], raw: Any, *, as_json: bool) -> BaseModel:
    if as_json and _is_json(raw):
        return model.model_validate_json(json.dumps(raw))
    if type(raw) is not dict:
        return model.model_validate_json(b"0")  # reports what any other non-object does
    return model.model_validate(raw)


def _is_json(value: Any) -> bool:
    """Tell whether a value is JSON by exact type: a float of numpy must not become a plain one by the way."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_json(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_json, value))
    if kind is float:
        return value == value and value not in (float("inf"), float("-inf"))
    return kind in (str, int, bool, type(None))


def _read_issues(error: ValidationError, model: type[BaseModel], signature: Signature) -> tuple[list[str], list[Issue]]:
    missing: list[str] = []
    issues: list[Issue] = []
    names = {parameter.name for parameter in signature.parameters}
    for item in error.errors(include_url=False, include_input=False, include_context=True):
        location, code = item["loc"], item["type"]
        if code == "missing" and len(location) == 1:
            missing.append(str(location[0]))
            continue
        first = location[0] if location else None
        if isinstance(first, str) and first not in names:
            path = first if _WORD.fullmatch(first) else "*"
        else:
            path = show_path(location, model.__pydantic_core_schema__)
        issue = (path, _message(code, item.get("ctx", {})))
        if issue not in issues:
            issues.append(issue)
    return missing, issues


def _message(code: str, context: Mapping[str, Any]) -> str:
    if code in _FIXED:
        return _FIXED[code]
    if code in _BOUNDS:
        return _BOUNDS[code].format_map(context)
    return code if code in BUILT_IN_CODES or re.fullmatch(r"[a-z][a-z0-9_]{0,63}", code) else "invalid"


def show_signature(schema: Schema) -> str:
    """Return the expected arguments as one line: `(region: string, year?: integer)`, at most 1,200 characters."""
    required = schema.get("required", [])
    shown = ", ".join(
        f"{name}{'' if name in required else '?'}: {_show_type(child, schema)}"
        for name, child in schema.get("properties", {}).items()
    )
    text = f"({shown})"
    return text if len(text) <= _MAX_SIGNATURE else text[: _MAX_SIGNATURE - 2] + "…)"


def _show_type(node: Any, root: Schema, depth: int = 0) -> str:
    if not isinstance(node, dict) or depth > 4:
        return "any"
    if "enum" in node:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in node["enum"])
    if "const" in node:
        return json.dumps(node["const"], ensure_ascii=False)
    for key in ("anyOf", "allOf"):
        if key in node:
            return " | ".join(dict.fromkeys(_show_type(child, root, depth + 1) for child in node[key]))
    named = node.get("type", "object")
    if isinstance(named, list):
        return "any" if len(named) >= 6 else " | ".join(named)
    if named == "array":
        item = _show_type(node.get("items", {}), root, depth + 1)
        return f"({item})[]" if " | " in item else f"{item}[]"
    if named == "object" and node.get("properties") and depth < 3:
        required = node.get("required", [])
        inner = ", ".join(
            f"{name}{'' if name in required else '?'}: {_show_type(child, root, depth + 1)}"
            for name, child in node["properties"].items()
        )
        return f"{{{inner}}}"
    return str(named)
