"""What a person answers in a form, checked against its schema in the kernel too (spec/widget.md, 5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .._json import JsonValue


@dataclass(frozen=True, slots=True)
class AnswerProblem:
    """What is wrong with an answer. Holds no value of it.

    Attributes:
        message: One sentence for people.
        field: The field that it is about, or None.
    """

    message: str
    field: str | None


def answer_problem(answer: JsonValue, schema: Mapping[str, JsonValue]) -> AnswerProblem | None:
    """Return what is wrong with an answer, or None.

    Args:
        answer: The answer, JSON.
        schema: The form's JSON Schema. One that is no schema checks nothing.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import SPECIFICATIONS

    try:
        Draft202012Validator.check_schema(schema)
        # Nothing is fetched for a reference: one that leads elsewhere leads nowhere.
        errors = list(Draft202012Validator(schema, registry=SPECIFICATIONS).iter_errors(answer))
    except Exception:  # noqa: BLE001 - a schema that is none, or refers to what is not there
        return None
    error = next(iter(sorted(errors, key=lambda e: list(map(str, e.path)))), None)
    if error is None:
        return None
    if error.validator == "required":
        missing = next((name for name in error.validator_value if name not in error.instance), None)
        return AnswerProblem("This is needed.", missing)
    path = ".".join(str(key) for key in error.absolute_path)
    return AnswerProblem(f"This does not fit: {error.validator} is expected.", path or None)
