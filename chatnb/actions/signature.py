"""A function's parameters as a schema (spec/actions.md, 1.1 and 1.2)."""

from __future__ import annotations

import inspect
import typing
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from ..errors import ActionDefinitionError
from .context import ActionContext
from .hash import call_hash
from .snapshot import NotPlainError, freeze_arguments
from .variables import Variable, VariableParameter, union_members, variable_of

# Patterns may look around and back, which the other engine can not.
_CONFIG = ConfigDict(extra="forbid", regex_engine="python-re")
_EMPTY = inspect.Parameter.empty
_NOT_PLAIN_CORE = frozenset(
    ["set", "frozenset", "bytes", "decimal", "uuid", "timedelta", "time", "url", "multi-host-url", "complex"]
)
_CALLED: tuple[Any, ...] = (Callable, Iterator, AsyncIterator, Awaitable)
_NOT_PLAIN_TYPES = (PurePath, Decimal, UUID, bytes, set, frozenset)


class _Schemas(GenerateJsonSchema):
    """JSON schemas without titles made of field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never make a title of a field's name."""
        return False


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that is part of the schema.

    Attributes:
        name: Its name.
        field: The name of its field in the pydantic model; parameters may have names that models can't.
        variable: What it asks for when it names a notebook variable.
        is_positional: A direct call may give it without its name.
    """

    name: str
    field: str
    required: bool
    variable: VariableParameter | None = None
    is_positional: bool = True


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of an action's function.

    Attributes:
        parameters: Those in the schema, in order.
        context: The parameter that gets the `ActionContext`, or None.
        model: Validates dispatched input; variables are names.
        direct_model: Validates a direct call; variables are objects or names.
        returns: The return annotation, or `inspect.Parameter.empty`.
        is_strict: Some part of the schema is strict, so that JSON has to be validated as JSON.
    """

    parameters: tuple[Parameter, ...]
    context: str | None
    model: type[BaseModel]
    direct_model: type[BaseModel]
    returns: Any
    is_strict: bool

    def json_schema(self) -> dict[str, Any]:
        """Return the full JSON schema of the input."""
        return self.model.model_json_schema(by_alias=True, schema_generator=_Schemas)


def read_signature(
    action: str, function: Callable[..., Any], documented: Mapping[str, str], namespace: Mapping[str, Any] | None
) -> Signature:
    """Read a function's signature.

    Args:
        action: The action's name, for errors.
        function: The handler.
        documented: Descriptions from the docstring.
        namespace: Local names of the place of definition, for annotations that are text.

    Raises:
        ActionDefinitionError: A parameter can't be part of an action.
    """
    try:
        raw = inspect.signature(function)
    except (ValueError, TypeError):
        raise ActionDefinitionError(f"action {action!r}: its function has no readable signature") from None
    hints = _hints(action, function, namespace)
    context: str | None = None
    parameters: list[Parameter] = []
    fields: dict[str, Any] = {}
    direct_fields: dict[str, Any] = {}
    for index, (name, raw_parameter) in enumerate(raw.parameters.items()):
        _check_kind(action, raw_parameter)
        annotation = hints.get(name, _EMPTY)
        if _is_context(annotation):
            if context is not None:
                raise ActionDefinitionError(f"action {action!r}: parameters {context!r} and {name!r} are both contexts")
            context = name
            continue
        made = _Made(action, name, f"p{index}", annotation, raw_parameter.default, documented.get(name))
        is_positional = raw_parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        parameters.append(Parameter(name, made.field, made.required, made.variable, is_positional))
        fields[made.field] = made.definition
        direct_fields[made.field] = made.direct_definition
    config = ConfigDict(title=action, **_CONFIG)
    try:
        model = create_model(f"{action}_arguments", __config__=config, **fields)
        direct = model
        if any(parameter.variable for parameter in parameters):
            direct = create_model(f"{action}_direct_arguments", __config__=config, **direct_fields)
    except (PydanticUserError, TypeError) as error:
        raise ActionDefinitionError(f"action {action!r}: its parameters make no schema: {error}") from error
    return Signature(
        tuple(parameters),
        context,
        model,
        direct,
        hints.get("return", _EMPTY),
        _holds(model.__pydantic_core_schema__, lambda node: node.get("strict") is True),
    )


class _Made:
    """One parameter as a field of the model."""

    def __init__(
        self, action: str, name: str, field: str, annotation: Any, default: Any, description: str | None
    ) -> None:
        where = f"action {action!r}, parameter {name!r}"
        self.field = field
        inner = Any if annotation is _EMPTY else annotation
        if isinstance(default, FieldInfo):
            inner, default = Annotated[inner, default], _EMPTY
        self.variable = _find_variable(where, name, inner)
        if self.variable is not None:
            noun = f"The name of a notebook variable of type {self.variable.shown}."
            description = f"{description} {noun}" if description else noun
            direct, inner = Any, (str | None if self.variable.optional else str)
        else:
            direct = inner
            _warn_if_not_plain(where, inner)
        if default is not _EMPTY:
            try:
                call_hash(action, freeze_arguments({name: default}))
            except (NotPlainError, UnicodeEncodeError):
                raise ActionDefinitionError(f"{where}: its default is not plain data") from None
        explicit: dict[str, Any] = {"alias": name, "validation_alias": name, "serialization_alias": name}
        own = _field_infos(inner)
        if description and not any(info.description for info in own):
            explicit["description"] = description
        if default is not _EMPTY:
            explicit["default"] = default
        self.required = default is _EMPTY and all(info.is_required() for info in own)
        self.definition = (inner, Field(**explicit))
        self.direct_definition = (direct, Field(**explicit))


def _hints(action: str, function: Callable[..., Any], namespace: Mapping[str, Any] | None) -> dict[str, Any]:
    target = inspect.unwrap(function)
    if not inspect.isroutine(target):
        target = type(target).__call__ if callable(target) else target
    try:
        return typing.get_type_hints(target, localns=dict(namespace or {}), include_extras=True)
    except NameError as error:
        missing = error.name or str(error)
        raise ActionDefinitionError(
            f"action {action!r}: an annotation names {missing!r}, which is not defined where the function is"
        ) from error
    except (TypeError, SyntaxError) as error:
        raise ActionDefinitionError(f"action {action!r}: an annotation can't be read: {error}") from error


def _check_kind(action: str, parameter: inspect.Parameter) -> None:
    names = {
        inspect.Parameter.POSITIONAL_ONLY: ("positional-only", "leave the '/' out"),
        inspect.Parameter.VAR_POSITIONAL: ("*args", "take one list, as in `items: list[str]`"),
        inspect.Parameter.VAR_KEYWORD: ("**kwargs", "name each argument, or take one dict"),
    }
    if parameter.kind in names:
        kind, instead = names[parameter.kind]
        raise ActionDefinitionError(
            f"action {action!r}, parameter {parameter.name!r}: {kind} parameters have no schema; {instead}"
        )


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if annotation is ActionContext:
        return True
    members = typing.get_args(annotation)
    return ActionContext in members and set(members) <= {ActionContext, type(None)}


def _find_variable(where: str, name: str, annotation: Any) -> VariableParameter | None:
    bare = annotation
    metadata: tuple[Any, ...] = ()
    if typing.get_origin(annotation) is Annotated:
        bare, *rest = typing.get_args(annotation)
        metadata = tuple(rest)
    # `Annotated[T, Variable()] | None` says the same as `Annotated[T | None, Variable()]`.
    inner = [mark for member in union_members(bare) for mark in getattr(member, "__metadata__", ())]
    if any(mark is Variable or isinstance(mark, Variable) for mark in (*metadata, *inner)):
        marked = variable_of(name, bare, marked=True)
        if marked is None:
            raise ActionDefinitionError(f"{where}: Variable() needs a class")
        return marked
    try:
        probe = _probe(annotation)
        core = probe.__pydantic_core_schema__
        if _names_type_variable(annotation) or _holds(core, lambda node: node.get("type") in ("callable", "generator")):
            raise ActionDefinitionError(f"{where}: callables, generators and type variables have no JSON schema")
        probe.model_json_schema()
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        variable = variable_of(name, bare, marked=False)
        if variable is None or any(_is_callable_type(kind) for kind in variable.types):
            raise ActionDefinitionError(f"{where}: its type is neither expressible in JSON nor a class") from None
        return variable
    except (PydanticUserError, TypeError, NameError) as error:
        raise ActionDefinitionError(f"{where}: its type makes no schema: {error}") from error
    return None


def _probe(annotation: Any) -> type[BaseModel]:
    return create_model("probe", __config__=_CONFIG, value=(annotation, ...))


def _is_callable_type(kind: type[Any]) -> bool:
    """Tell whether a class only says that something can be called, awaited or run through."""
    if kind.__module__ == "types":
        return True
    return kind.__module__ == "collections.abc" and any(issubclass(kind, abstract) for abstract in _CALLED)


def _field_infos(annotation: Any) -> list[FieldInfo]:
    if typing.get_origin(annotation) is not Annotated:
        return []
    return [mark for mark in typing.get_args(annotation)[1:] if isinstance(mark, FieldInfo)]


def _warn_if_not_plain(where: str, annotation: Any) -> None:
    core = _probe(annotation).__pydantic_core_schema__
    found = _holds(core, lambda node: node.get("type") in _NOT_PLAIN_CORE) or _names_type(annotation)
    if found:
        warnings.warn(
            f"{where}: its type gives data that is not plain (sets, bytes, paths, decimals and the like), so every "
            "dispatched call is refused; take a list or a text",
            UserWarning,
            stacklevel=outer_level(),
        )


def _names_type(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, _NOT_PLAIN_TYPES):
        return True
    return any(_names_type(member) for member in typing.get_args(annotation))


def _names_type_variable(annotation: Any) -> bool:
    if isinstance(annotation, typing.TypeVar | typing.ParamSpec):
        return True
    return any(_names_type_variable(member) for member in typing.get_args(annotation))


def _holds(node: Any, test: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Tell whether a node of a core schema passes a test; serialisation and metadata are not looked at."""
    if isinstance(node, dict):
        if test(node):
            return True
        return any(_holds(value, test) for key, value in node.items() if key not in ("serialization", "metadata"))
    if isinstance(node, list | tuple):
        return any(_holds(value, test) for value in node)
    return False


def outer_level() -> int:
    """Return the `stacklevel` of the first frame outside this package, for a warning of the caller."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("chatnb.actions"):
        frame = frame.f_back
        level += 1
    return max(level - 1, 1)
