"""The options of an action: their types and which go together (spec/actions.md, section 1)."""

from __future__ import annotations

import concurrent.futures
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import TypeAdapter

from .._clock import is_duration
from .._ports import RunIn
from ..errors import ActionDefinitionError
from .errors_sets import ErrorSet

Verb = Literal["GET", "POST", "PUT", "DELETE"]
Guard = Callable[..., Any]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
VERBS = ("GET", "POST", "PUT", "DELETE")
MAX_BODY_BYTES = 1024 * 1024
_HINTS = ("readOnlyHint", "destructiveHint", "openWorldHint", "idempotentHint")


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """Where the HTTP site serves an action."""

    method: Verb
    path: str
    max_body_bytes: int = MAX_BODY_BYTES


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the audit log keeps of an action's calls. `enabled` None: writes yes, reads no."""

    enabled: bool | None = None
    inputs: bool = True
    summary: str | Callable[..., Any] | None = None
    target: str | Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """An action's options, checked. The fields are those of spec/actions.md, section 1."""

    name: str
    title: str | None = None
    read_only: bool | Guard | None = None
    parallel_safe: bool = False
    ends_turn: bool = False
    needs_approval: bool | Guard = False
    authorize: Guard | None = None
    output: Literal["strict", "warn"] = "strict"
    output_schema: Any = None
    errors: ErrorSet | None = None
    http: bool | str | Mapping[str, Any] = True
    agent_tool: bool | None = None
    mcp_tool: bool | None = None
    mcp_output_schema: bool = False
    mcp_annotations: Mapping[str, bool] | None = None
    ui_only: bool = False
    to_model_output: Callable[[Any], Any] | None = None
    run_in: RunIn = "kernel"
    timeout: float | None = None
    max_result_chars: int = 20_000
    audit: bool | Mapping[str, Any] | None = None
    idempotent: bool = False

    @property
    def route(self) -> HttpRoute | None:
        """The HTTP route, or None."""
        if self.http is False:
            return None
        given: Mapping[str, Any] = {}
        if isinstance(self.http, str):
            given = {"method": self.http}
        elif isinstance(self.http, Mapping):
            given = self.http
        return HttpRoute(
            cast(Verb, str(given.get("method", "POST")).upper()),
            given.get("path", f"/actions/{self.name}"),
            given.get("max_body_bytes", MAX_BODY_BYTES),
        )

    @property
    def fixed_read(self) -> bool | None:
        """Whether every call is a read; None when each call is classified."""
        if callable(self.read_only):
            return None
        if self.read_only is not None:
            return self.read_only
        return self.route is not None and self.route.method == "GET"

    @property
    def effective_read_only(self) -> bool | Guard | None:
        """`read_only` as it counts: True for a GET that says nothing else; None for a write that says nothing."""
        return True if self.read_only is None and self.fixed_read else self.read_only

    @property
    def audited(self) -> AuditOptions:
        """What is audited."""
        if isinstance(self.audit, Mapping):
            return AuditOptions(**self.audit)
        return AuditOptions(self.audit)


def check_options(function: Callable[..., Any], options: Options) -> None:
    """Check the type of each option, then which go together.

    Raises:
        ActionDefinitionError: An option can't be so; the text names the action and the option.
    """
    _Check(options.name, function, options).run()


class _Check:
    def __init__(self, name: str, function: Callable[..., Any], options: Options) -> None:
        self._name = name
        self._function = function
        self._options = options

    def run(self) -> None:
        self._types()
        self._http()
        self._audit()
        self._together()

    def _fail(self, option: str, problem: str) -> None:
        raise ActionDefinitionError(f"action {self._name!r}, option {option!r}: {problem}")

    def _types(self) -> None:
        o = self._options
        if not isinstance(o.name, str) or not NAME.fullmatch(o.name):
            self._fail("name", "a letter, then at most 63 letters, digits, underscores or dashes")
        if o.title is not None and not isinstance(o.title, str):
            self._fail("title", "a text or None")
        for option in ("parallel_safe", "ends_turn", "mcp_output_schema", "ui_only", "idempotent"):
            if type(getattr(o, option)) is not bool:
                self._fail(option, "True or False")
        for option in ("agent_tool", "mcp_tool"):
            if getattr(o, option) is not None and type(getattr(o, option)) is not bool:
                self._fail(option, "True or False")
        if o.read_only is not None and type(o.read_only) is not bool:
            self._guard("read_only", o.read_only, 1)
            if inspect.iscoroutinefunction(o.read_only):
                self._fail("read_only", "a classifier is a plain function, not async")
        if type(o.needs_approval) is not bool:
            self._guard("needs_approval", o.needs_approval, 2)
        if o.authorize is not None:
            self._guard("authorize", o.authorize, 2)
        if o.to_model_output is not None:
            self._guard("to_model_output", o.to_model_output, 1)
        if o.output not in ("strict", "warn"):
            self._fail("output", '"strict" or "warn"')
        if o.errors is not None and not isinstance(o.errors, ErrorSet):
            self._fail("errors", "a set from action_errors(...)")
        self._numbers()
        self._run_in()
        self._annotations()

    def _numbers(self) -> None:
        timeout, limit = self._options.timeout, self._options.max_result_chars
        if timeout is not None and not is_duration(timeout):
            self._fail("timeout", "seconds above 0, or None")
        if type(limit) is not int or limit < 200:
            self._fail("max_result_chars", "a whole number of at least 200")

    def _run_in(self) -> None:
        run_in = self._options.run_in
        if isinstance(run_in, concurrent.futures.Executor):
            if inspect.iscoroutinefunction(self._function):
                self._fail("run_in", "an async function can't go to an executor")
        elif not isinstance(run_in, str) or run_in not in ("kernel", "thread"):
            self._fail("run_in", '"kernel", "thread" or a concurrent.futures.Executor')

    def _annotations(self) -> None:
        hints = self._options.mcp_annotations
        if hints is None:
            return
        if not isinstance(hints, Mapping):
            self._fail("mcp_annotations", "a dict of hints, or None")
            return
        unknown = [key for key in hints if key not in _HINTS]
        if unknown:
            self._fail("mcp_annotations", f"unknown keys; known are {', '.join(_HINTS)}")
        if any(type(value) is not bool for value in hints.values()):
            self._fail("mcp_annotations", "each hint is True or False")

    def _guard(self, option: str, guard: Any, most: int) -> None:
        if not callable(guard):
            flag = ", True or False" if option in ("read_only", "needs_approval") else ", or None"
            self._fail(option, f"a function of at most {most} argument{'s' if most > 1 else ''}{flag}")
        needed = required_positionals(guard)
        if needed is None:
            return
        if needed > most:
            self._fail(option, f"the function takes more than {most} positional argument(s)")
        if not accepts_positionals(guard, 1):
            self._fail(option, "the function takes no argument; it gets the arguments of the call")

    def _http(self) -> None:
        http = self._options.http
        if type(http) is bool:
            return
        if isinstance(http, str):
            if http not in VERBS:
                self._fail("http", f"a verb of {', '.join(VERBS)}")
            return
        if not isinstance(http, Mapping):
            self._fail("http", "True, False, a verb, or a dict of method, path, max_body_bytes")
            return
        if unknown := set(http) - {"method", "path", "max_body_bytes"}:
            self._fail("http", f"unknown keys: {', '.join(map(str, sorted(unknown, key=str)))}")
        if http.get("method", "POST") not in VERBS:
            self._fail("http", f"method is one of {', '.join(VERBS)}")
        path = http.get("path", "/")
        if not isinstance(path, str) or not path.startswith("/"):
            self._fail("http", "path is a text that begins with /")
        limit = http.get("max_body_bytes", 1)
        if type(limit) is not int or limit < 1:
            self._fail("http", "max_body_bytes is a whole number above 0")

    def _audit(self) -> None:
        audit = self._options.audit
        if audit is None or type(audit) is bool:
            return
        if not isinstance(audit, Mapping):
            self._fail("audit", "True, False, or a dict of inputs, summary, target")
            return
        if set(audit) - {"inputs", "summary", "target"}:
            self._fail("audit", "unknown keys; known are inputs, summary, target")
        if type(audit.get("inputs", True)) is not bool:
            self._fail("audit", "inputs is True or False")
        for key in ("summary", "target"):
            value = audit.get(key)
            if value is not None and not isinstance(value, str):
                self._guard("audit", value, 2)

    def _together(self) -> None:
        o = self._options
        route = o.route
        if route is not None and route.method == "GET" and o.read_only is False:
            self._fail("http", "GET contradicts read_only=False")
        if o.ends_turn and o.parallel_safe:
            self._fail("ends_turn", "can't be combined with parallel_safe: it is always serial")
        if o.ui_only and o.mcp_tool is True:
            self._fail("ui_only", "contradicts mcp_tool=True")
        if o.ui_only and o.http is False:
            self._fail("ui_only", "contradicts http=False: the served page calls it over HTTP")
        if o.ui_only and o.agent_tool is True:
            self._fail("agent_tool", "agent_tool=True contradicts ui_only=True")
        if o.idempotent and o.fixed_read:
            self._fail("idempotent", "says that a write may run again; this action only reads")
        if o.mcp_output_schema and o.output == "warn":
            self._fail("mcp_output_schema", 'needs output="strict"')


def required_positionals(function: Callable[..., Any]) -> int | None:
    """Return how many positional arguments a function needs, or None when that can't be read."""
    parameters = _parameters(function)
    if parameters is None:
        return None
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return 99
    return sum(p.default is p.empty for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def accepts_positionals(function: Callable[..., Any], count: int) -> bool:
    """Tell whether a function takes that many positional arguments."""
    parameters = _parameters(function)
    if parameters is None or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) >= count


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return None


def output_adapter(name: str, given: Any, returns: Any) -> TypeAdapter[Any] | None:
    """Return what validates a result: the option's schema, else the return annotation's, else None.

    Raises:
        ActionDefinitionError: An explicit schema has no JSON schema.
    """
    explicit = given is not None
    wanted = given if explicit else returns
    if not explicit and returns is inspect.Parameter.empty:
        return None
    if explicit and inspect.isroutine(given):  # pydantic would make a schema of its arguments
        raise ActionDefinitionError(f"action {name!r}, option 'output_schema': a type, a model or a TypeAdapter")
    try:
        adapter = wanted if isinstance(wanted, TypeAdapter) else TypeAdapter(wanted)
        adapter.json_schema(mode="serialization")
        adapter.json_schema(mode="validation")
    except Exception as error:
        if explicit:
            raise ActionDefinitionError(
                f"action {name!r}, option 'output_schema': it has no JSON schema ({type(error).__name__})"
            ) from error
        return None
    return adapter
