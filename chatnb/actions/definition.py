"""`Action` and `@action`: one operation, defined once (spec/actions.md, section 1)."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from pydantic import TypeAdapter

from .._ports import RunIn
from ..errors import ActionDefinitionError
from ..runtime.entry import is_async
from .arguments import show_signature
from .context import ActionContext
from .docstrings import Documented, read_docstring
from .errors_sets import ErrorSet
from .options import AuditOptions, Guard, HttpRoute, Options, check_options, output_adapter
from .portable import Schema, allowed_types, make_portable
from .prepare import PreparedCall, prepare
from .signature import Signature, outer_level, read_signature

if TYPE_CHECKING:  # the defaults let a bare `Action` be written; typing has them from Python 3.13 on
    from typing_extensions import ParamSpec as _ParamSpec
    from typing_extensions import TypeVar as _TypeVar

    P = _ParamSpec("P", default=...)
    R_co = _TypeVar("R_co", default=Any, covariant=True)
else:
    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)
Q = ParamSpec("Q")
S = TypeVar("S")

CallGuard = Callable[[dict[str, Any], ActionContext], Any] | Callable[[dict[str, Any]], Any] | Guard
"""A guard as an editor shows it: of the arguments and the context, or of the arguments alone; sync or async."""


class ActionOptions(TypedDict, total=False):
    """What `@action(...)` takes; the fields of spec/actions.md, section 1."""

    name: str | None
    title: str | None
    description: str | None
    read_only: bool | Callable[[dict[str, Any]], Any] | None
    parallel_safe: bool
    ends_turn: bool
    needs_approval: bool | CallGuard
    authorize: CallGuard | None
    output: Literal["strict", "warn"]
    output_schema: Any
    errors: ErrorSet | None
    http: bool | str | Mapping[str, Any]
    agent_tool: bool
    mcp_tool: bool | None
    mcp_output_schema: bool
    mcp_annotations: Mapping[str, bool] | None
    ui_only: bool
    to_model_output: Callable[[Any], Any] | None
    run_in: RunIn
    timeout: float | None
    max_result_chars: int
    audit: bool | Mapping[str, Any] | None
    idempotent: bool


class Action(Generic[P, R_co]):
    """One operation: description, input schema, handler, flags. Every site calls this same object.

    To a type checker it has the signature of its function. Calling it runs it directly: validation, authorize, run,
    output validation, audit (spec/actions.md, 2.2).

    Attributes:
        function: The handler.
        options: The options, checked.
        name, title, description: What people and models read.
        output: What validates results, or None.

    Raises:
        ActionDefinitionError: The function or an option can't be so; the text names the action and the option.
    """

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Any,
    ) -> None:
        self.function = function
        self.name = _name_of(function, name)
        _check_function(self.name, function)
        unknown = set(options) - set(ActionOptions.__annotations__)
        if unknown:
            raise ActionDefinitionError(f"action {self.name!r}: {_say_unknown(sorted(unknown)[0])}")
        if "agent_tool" in options and type(options["agent_tool"]) is not bool:
            raise ActionDefinitionError(f"action {self.name!r}, option 'agent_tool': True or False")
        self.options = Options(name=self.name, **options)
        check_options(function, self.options)
        if description is not None and not isinstance(description, str):
            raise ActionDefinitionError(f"action {self.name!r}, option 'description': a text or None")
        documented = read_docstring(function)
        self.title = (self.options.title or "").strip() or None
        self.description = _describe(self.name, description, documented)
        self.signature: Signature = read_signature(self.name, function, documented.parameters, _local_names())
        self.output: TypeAdapter[Any] | None = output_adapter(
            self.name, self.options.output_schema, self.signature.returns
        )
        self.is_async = is_async(inspect.unwrap(function))
        self._check_output()
        functools.update_wrapper(self, function, assigned=("__module__", "__qualname__", "__doc__"), updated=())
        self.__name__ = self.name

    # --- the schema ---------------------------------------------------------------------------------------------

    @cached_property
    def input_schema(self) -> Schema:
        """The advertised schema: portable, the same bytes for the same definition (spec/actions.md, 1.3)."""
        made = make_portable(self.signature.json_schema())
        made.setdefault("properties", {})
        ordered: Schema = {key: made.pop(key) for key in ("type", "properties", "required") if key in made}
        made.pop("additionalProperties", None)
        return {**ordered, "additionalProperties": False, **made}

    @cached_property
    def allowed_types(self) -> dict[str, frozenset[str]]:
        """The JSON types that each argument's advertised schema allows."""
        schema = self.input_schema
        return {name: allowed_types(child, schema) for name, child in schema["properties"].items()}

    @cached_property
    def shown_signature(self) -> str:
        """The expected arguments in one line, for errors."""
        return show_signature(self.input_schema)

    @cached_property
    def output_schema(self) -> Schema | None:
        """The JSON schema of results, or None."""
        return None if self.output is None else self.output.json_schema(mode="serialization")

    @property
    def error_codes(self) -> tuple[str, ...]:
        """The declared error codes, in order."""
        return () if self.options.errors is None else self.options.errors.codes

    # --- the options that others ask for ------------------------------------------------------------------------

    @property
    def fixed_read(self) -> bool | None:
        """True: every call is a read; False: a write; None: each call is classified."""
        return self.options.fixed_read

    @property
    def classifier(self) -> Guard:
        """The `read_only` function; only where `fixed_read` is None."""
        assert callable(self.options.read_only)
        return self.options.read_only

    @property
    def read_only(self) -> bool | Guard | None:
        """Whether its calls only read: a flag, a function that says so for each call, or None, which is a write."""
        return self.options.effective_read_only

    @property
    def parallel_safe(self) -> bool:
        """Internally safe and independent of order."""
        return self.options.parallel_safe

    @property
    def ends_turn(self) -> bool:
        """A success ends the turn."""
        return self.options.ends_turn

    @property
    def needs_approval(self) -> bool | Guard:
        """The gate, as given."""
        return self.options.needs_approval

    @property
    def authorize(self) -> Guard | None:
        """The guard."""
        return self.options.authorize

    @property
    def ui_only(self) -> bool:
        """Only a person's click may run it."""
        return self.options.ui_only

    @property
    def agent_tool(self) -> bool:
        """Models see it."""
        return self.options.agent_tool is not False and not self.options.ui_only

    @property
    def idempotent(self) -> bool:
        """An interrupted write may run again."""
        return self.options.idempotent

    @property
    def timeout(self) -> float | None:
        """Seconds that the handler may run, or None."""
        return self.options.timeout

    @property
    def run_in(self) -> RunIn:
        """Where the handler runs."""
        return self.options.run_in

    @property
    def errors(self) -> ErrorSet | None:
        """The closed set of errors, or None."""
        return self.options.errors

    @property
    def http(self) -> bool | str | Mapping[str, Any]:
        """The `http` option, as given; `route` is what it means."""
        return self.options.http

    @property
    def mcp_tool(self) -> bool | None:
        """Whether MCP and A2A show it; None: as `agent_tool` says."""
        return self.options.mcp_tool

    @property
    def mcp_output_schema(self) -> bool:
        """MCP is told the output schema."""
        return self.options.mcp_output_schema

    @property
    def mcp_annotations(self) -> Mapping[str, bool] | None:
        """The declared hints for MCP clients."""
        return self.options.mcp_annotations

    @property
    def to_model_output(self) -> Callable[[Any], Any] | None:
        """Makes what the model reads of a result."""
        return self.options.to_model_output

    @property
    def max_result_chars(self) -> int:
        """Characters of a result that the model reads."""
        return self.options.max_result_chars

    @property
    def audit(self) -> bool | Mapping[str, Any] | None:
        """The `audit` option, as given; `audited` is what it means."""
        return self.options.audit

    @property
    def route(self) -> HttpRoute | None:
        """Where the HTTP site serves it."""
        return self.options.route

    @property
    def audited(self) -> AuditOptions:
        """What the audit log keeps."""
        return self.options.audited

    # --- calls --------------------------------------------------------------------------------------------------

    def prepare(self, input: Any) -> PreparedCall:
        """Prepare one call; nothing of the action runs but its classifier.

        Args:
            input: A dict of arguments, or one JSON text that holds an object.

        Raises:
            InvalidArgumentsError: It does not fit the schema, or is not plain data.
        """
        return prepare(self, input)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run it directly. A sync action returns its value, an async one an awaitable.

        Raises:
            InvalidArgumentsError: The arguments do not fit.
            ForbiddenError: `authorize` denies.
            ActionOutputContractError: The result does not fit the output schema.
        """
        from .direct import call_directly

        made: R_co = call_directly(self, args, kwargs)
        return made

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """An action in a class body stays an action; it is no method."""
        return self

    def __repr__(self) -> str:
        return f"<Action {self.name}{self.shown_signature}>"

    def _check_output(self) -> None:
        if self.options.mcp_output_schema:
            if self.output is None:
                raise ActionDefinitionError(
                    f"action {self.name!r}, option 'mcp_output_schema': there is no output schema to show"
                )
            from .mcp_output import check_advertisable

            check_advertisable(self.name, self.output)


class ActionDecorator(Protocol):
    """What `@action(...)` gives: it makes an action of the function that it decorates."""

    def __call__(self, function: Callable[Q, S], /) -> Action[Q, S]:
        """Make the action."""


@overload
def action(function: Callable[Q, S], /) -> Action[Q, S]: ...
@overload
def action(function: None = None, /, **options: Unpack[ActionOptions]) -> ActionDecorator: ...


def action(function: Callable[..., Any] | None = None, /, **options: Unpack[ActionOptions]) -> Action | ActionDecorator:
    """Make a function an action: `@action`, or `@action(read_only=True, ...)`.

    A type checker sees the function's own signature: `sales("EU")` is checked, and gives what `sales` returns.

    Raises:
        ActionDefinitionError: The function or an option can't be so.

    Example:
        @action(read_only=True)
        def sales(region: str, year: int = 2025) -> list[dict]:
            "Look up the sales of a region."
            return [{"region": region, "year": year, "amount": 1250}]

        sales("EU")  # still your function; checked, and refused with InvalidArgumentsError if it does not fit
    """
    if function is not None:
        if not callable(function):
            raise ActionDefinitionError("action: options are given by name: @action(read_only=True)")
        return Action(function, **options)

    def decorate(decorated: Callable[Q, S], /) -> Action[Q, S]:
        return Action(decorated, **options)

    return decorate


def _name_of(function: Callable[..., Any], given: str | None) -> str:
    if given is not None:
        return given
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        if not callable(function):
            raise ActionDefinitionError(f"an action is a function or an Action, not {type(function).__name__}")
        raise ActionDefinitionError("action: the function has no name; give it one with name=")
    return name


def _say_unknown(option: str) -> str:
    import difflib

    near = difflib.get_close_matches(option, ActionOptions.__annotations__, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ActionOptions.__annotations__)}"
    return f"unknown option {option!r}; {hint}"


def _check_function(name: Any, function: Any) -> None:
    if isinstance(function, Action):
        raise ActionDefinitionError(f"action {name!r}: it is an action already")
    if not callable(function) or inspect.isclass(function):
        raise ActionDefinitionError(f"action {name!r}: an action is made of a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ActionDefinitionError(
            f"action {name!r}: a generator function can't be an action; return a value, and show how far "
            "it is with ctx.progress(done, total), where ctx is a parameter annotated ActionContext"
        )


def _describe(name: str, given: str | None, documented: Documented) -> str:
    text = (given or "").strip() or documented.description
    if text:
        return text
    warnings.warn(
        f"action {name!r} has no description; a model only sees its name. Write a docstring.",
        UserWarning,
        stacklevel=outer_level(),
    )
    return name.replace("_", " ").replace("-", " ")


def _local_names() -> Mapping[str, Any]:
    """Return the names at the place of definition, for annotations that are text."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("chatnb.actions"):
        frame = frame.f_back
    names: dict[str, Any] = {}
    while frame is not None:  # a class defined in an enclosing function is a name of an outer frame
        names = {**frame.f_locals, **names} if frame.f_locals is not frame.f_globals else names
        frame = frame.f_back if frame.f_locals is not frame.f_globals else None
    return names
