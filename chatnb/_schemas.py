"""The app's own schemas: what parses its chat actions and its client data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import ConfigError, InputError

__all__ = ["client_data_parser", "parse_actions"]


def client_data_parser(schema: Any) -> Callable[[Any], Any]:
    """Return what parses client data: by the agent's schema, or nothing at all."""
    if schema is None:
        return lambda value: value
    from pydantic import TypeAdapter, ValidationError

    adapter: TypeAdapter[Any] = TypeAdapter(schema)

    def parse(given: Any) -> Any:
        try:
            return adapter.validate_python(given)
        except ValidationError as error:
            raise InputError(f"client data{_first_fault(error)}") from error

    return parse


def _first_fault(error: Any, *, without: frozenset[str] = frozenset(), default: str = "") -> str:
    """Where and why data does not fit, without the data."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"] if part not in without) or default
    return f": {place}: {first['type']}" if place else f": {first['type']}"


def parse_actions(schema: Any) -> tuple[Callable[[Any], Any] | None, frozenset[str]]:
    """Return the parser of an app's chat actions, which takes payloads and models, and their types.

    Args:
        schema: A pydantic model with a literal field `type`, or a union of such models; None for no own actions.

    Raises:
        ConfigError: It is neither.
    """
    if schema is None:
        return None, frozenset()
    from pydantic import TypeAdapter

    types: set[str] = set()
    for model in _models_of(schema):
        literal = getattr(model, "model_fields", {}).get("type")
        values = getattr(literal.annotation, "__args__", ()) if literal is not None else ()
        if not values or not all(isinstance(v, str) for v in values):
            raise ConfigError(
                "chat_actions is a pydantic model, or a union of models, each with a field `type: Literal['name']`"
            )
        types.update(values)
    own = tuple(_models_of(schema))
    adapter: TypeAdapter[Any] = TypeAdapter(schema)

    def parse(given: Any) -> Any:
        from pydantic import ValidationError

        if isinstance(given, own):
            return given
        payload = given if isinstance(given, Mapping) else given.model_dump(by_alias=True)
        try:
            return adapter.validate_python(dict(payload))
        except ValidationError as error:
            fault = _first_fault(error, without=frozenset(types), default="type")
            raise InputError(f"chat action {payload.get('type')!r}{fault}") from None

    return parse, frozenset(types)


def _models_of(schema: Any) -> list[Any]:
    if isinstance(schema, type):
        return [schema]
    if hasattr(schema, "__metadata__"):
        return _models_of(schema.__origin__)
    arguments = getattr(schema, "__args__", ())
    if not arguments:
        raise ConfigError("chat_actions is a pydantic model, or a union of models")
    return [model for argument in arguments for model in _models_of(argument)]
