"""Direct calls: `sales("EU")`, from a cell or from inside another action (spec/actions.md, 2.2).

Validation, authorize, run, output validation, audit; in the caller's thread. No snapshot rule, no coercion of texts, no
approval, plan mode, ledger or batching. A nested call inherits identity, site and chat, and tells the calls around it
what it does.
"""

from __future__ import annotations

import copy
import logging
import sys
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .._clock import now
from .._ids import new_id
from .._json import JsonValue
from ..errors import ActionError, ActionOutputContractError, ForbiddenError, StoreError
from .arguments import invalid_arguments, validate_arguments
from .audit import CallPlace, Status, audit_call
from .catalog import Catalog
from .change import Change
from .context import ActionContext
from .effects import CallScope, current_call, inside
from .environment import CallEnvironment
from .errors_sets import NothingWrittenError
from .failures import STATUS_CODES, is_declared
from .guards import ask_guard, run_guard_here
from .hash import call_hash
from .images import FIELD
from .output import check_output, contract_error
from .prepare import PreparedCall
from .snapshot import Mapped, NotPlainError, freeze_arguments, thaw
from .variables import MainNamespace

if TYPE_CHECKING:
    from .definition import Action

_log = logging.getLogger("chatnb")


class PythonSite(Protocol):
    """An agent, as the direct calls of its actions see it: where they are audited and who hears of changes."""

    @property
    def catalog(self) -> Catalog:
        """Its actions."""

    @property
    def environment(self) -> CallEnvironment:
        """What it gives to calls that belong to no chat."""


_sites: weakref.WeakSet[PythonSite] = weakref.WeakSet()


def add_python_site(site: PythonSite) -> None:
    """Let direct calls of an agent's actions reach it; it is forgotten with the agent."""
    _sites.add(site)


def call_directly(action: Action, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an action for a caller in Python; see `Action.__call__`."""
    call = _DirectCall(action, args, kwargs)
    return call.run_async() if action.is_async else call.run()


class _DirectCall:
    def __init__(self, action: Action, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._action = action
        self._args = args
        self._kwargs = kwargs
        outer = current_call()
        self._sites = [] if outer is not None else [s for s in list(_sites) if s.catalog.find(action.name) is action]
        environment = self._find_environment(outer)
        self._environment = environment
        identity = outer.identity if outer is not None else environment.identity if environment is not None else None
        self._scope = CallScope(
            action.name,
            site=outer.site if outer is not None else "python",
            identity=identity,
            chat_id=outer.chat_id if outer is not None else None,
            turn_id=outer.turn_id if outer is not None else None,
            tool_call_id=outer.tool_call_id if outer is not None else None,
            environment=environment,
            parent=outer,
        )
        self._frozen: Mapped | None = None
        self._hash: str | None = None
        self._is_write = action.fixed_read is not True
        self._has_entered = False
        self._started = time.monotonic()

    def run(self) -> Any:
        """Run a sync action in this thread."""
        try:
            handler_kwargs = self._begin()
            with inside(self._scope):
                value = self._action.function(**handler_kwargs)
                result = self._check(value)
        except BaseException as error:
            self._failed(error)
            raise
        self._end("success")
        return result

    def run_async(self) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs an async action."""
        return self._run_async()

    async def _run_async(self) -> Any:
        try:
            handler_kwargs = self._begin()
            with inside(self._scope):
                value = await self._action.function(**handler_kwargs)
                result = self._check(value)
        except BaseException as error:
            self._failed(error)
            raise
        self._end("success")
        return result

    # --- before the handler -------------------------------------------------------------------------------------

    def _begin(self) -> dict[str, Any]:
        raw = self._bind()
        values = validate_arguments(
            self._action.name, self._action.signature, raw, self._action.shown_signature, direct=True
        )
        shown, handler = self._split_variables(values)
        try:
            self._frozen = freeze_arguments(shown)
            self._hash = call_hash(self._action.name, self._frozen)
        except (NotPlainError, UnicodeEncodeError):
            self._frozen = None
        context = self._context()
        self._classify(shown)
        self._authorize(shown, context)
        if self._action.signature.context is not None:
            handler[self._action.signature.context] = context
        if self._is_write:
            self._scope.enter_write()
        self._has_entered = True
        return handler

    def _bind(self) -> dict[str, Any]:
        """Give positional arguments their names.

        Raises:
            InvalidArgumentsError: Too many of them.
            TypeError: A parameter is given twice.
        """
        names = [parameter.name for parameter in self._action.signature.parameters if parameter.is_positional]
        if len(self._args) > len(names):
            issue = ("(root)", f"at most {len(names)} positional argument{'' if len(names) == 1 else 's'}")
            raise invalid_arguments(self._action.name, [], [issue], self._action.shown_signature)
        raw = dict(zip(names, self._args, strict=False))
        for name, value in self._kwargs.items():
            if name in raw:
                raise TypeError(f"{self._action.name}() got two values for argument {name!r}")
            raw[name] = value
        return raw

    def _split_variables(self, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what guards see, and what the handler gets: for a variable the object, never a copy."""
        shown, handler = dict(values), dict(values)
        for parameter in self._action.signature.parameters:
            wanted = parameter.variable
            if wanted is None:
                continue
            value = values[parameter.name]
            if wanted.accepts(value):
                if value is not None:
                    shown[parameter.name] = f"<{type(value).__name__}>"
                continue
            if not isinstance(value, str):
                issue = (parameter.name, f"not a {wanted.shown}, nor the name of one")
                raise invalid_arguments(self._action.name, [], [issue], self._action.shown_signature)
            resolve = self._environment.resolve if self._environment is not None else MainNamespace()
            handler[parameter.name] = resolve(value, wanted)
        return shown, handler

    def _classify(self, shown: dict[str, Any]) -> None:
        if self._action.fixed_read is not None:
            return
        classifier = self._action.classifier
        try:
            self._is_write = run_guard_here(lambda: classifier(self._copy(shown))) is not True
        except Exception as error:  # noqa: BLE001 - a classifier that fails makes the call a write
            _log.warning("action %s: its read_only function failed (%s)", self._action.name, type(error).__name__)

    def _authorize(self, shown: dict[str, Any], context: ActionContext) -> None:
        guard = self._action.authorize
        if guard is None:
            return
        if context.identity is None:
            raise ForbiddenError("Not allowed: nobody is known to make this call.")
        denial: str | None = None
        try:
            with inside(self._scope):
                verdict = run_guard_here(ask_guard(guard, self._copy(shown), context))
        except Exception as error:  # noqa: BLE001 - raising is how a guard denies
            denial = str(error)[:2000] or "Not allowed."
        else:
            denial = "Not allowed." if verdict is False else None
        if denial is not None:
            raise ForbiddenError(denial)

    def _copy(self, shown: dict[str, Any]) -> dict[str, Any]:
        if self._frozen is not None:
            copied: dict[str, Any] = thaw(self._frozen)
            return copied
        return copy.deepcopy(shown)

    def _context(self) -> ActionContext:
        scope = self._scope
        return ActionContext(
            site=scope.site,
            action=self._action.name,
            identity=scope.identity,
            chat_id=scope.chat_id,
            turn_id=scope.turn_id,
            tool_call_id=scope.tool_call_id,
            call_hash=self._hash,
            reporter=_DirectReporter(scope),
        )

    # --- after the handler --------------------------------------------------------------------------------------

    def _check(self, value: object) -> object:
        if type(value) is dict and FIELD in value and self._action.output is not None:
            images = value[FIELD]
            checked = check_output(self._action, {key: item for key, item in value.items() if key != FIELD})
            return {**checked, FIELD: images} if isinstance(checked, dict) else checked
        return check_output(self._action, value)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, NothingWrittenError):
            self._scope.state_nothing_written()
        if isinstance(error, ActionError):
            error.effect = self._scope.effect
            if self._has_entered and not is_declared(error, self._action):
                error.code, error.status_code = "action_failed", STATUS_CODES["action_failed"]
        if isinstance(error, ActionOutputContractError) and error.action == self._action.name:
            error.args = contract_error(error.action, error.issues, effect=self._scope.effect).args
        code = error.code if isinstance(error, ActionError) else "action_failed"
        is_changed = isinstance(error, ActionOutputContractError)
        is_denied = isinstance(error, ForbiddenError) and not self._has_entered
        self._end("denied" if is_denied else "error", code, is_changed=is_changed)

    def _end(self, status: Status, code: str | None = None, *, is_changed: bool = True) -> None:
        change = self._change() if is_changed else None
        self._record(status, code, change)
        if change is None:
            return
        for site in self._sites:
            site.environment.publish_change(change)

    def _change(self) -> Change | None:
        scope = self._scope
        if scope.parent is not None or scope.effect != "committed":
            return None
        return Change(
            action=self._action.name,
            hash=self._hash,
            site=scope.site,
            at=now(),
            chat_id=scope.chat_id,
            turn_id=scope.turn_id,
            identity=scope.identity.id if scope.identity is not None else None,
            resources=tuple(scope.resources),
        )

    def _record(self, status: Status, code: str | None, change: Change | None) -> None:
        """Audit the call. Never raises, and never changes its result."""
        environment = self._environment
        if environment is None or environment.books is None:
            return
        scope = self._scope
        place = CallPlace(
            site=scope.site,
            identity=scope.identity,
            chat_id=scope.chat_id,
            turn_id=scope.turn_id,
            tool_call_id=scope.tool_call_id,
        )
        prepared = None
        if self._frozen is not None:
            prepared = PreparedCall(self._action, self._hash or "", self._is_write, self._frozen)
        row = audit_call(
            self._action,
            place,
            new_id=new_id,
            now=now(),
            status=status,
            prepared=prepared,
            is_write=self._is_write,
            effect=scope.effect,
            error_code=code,
            duration_ms=round((time.monotonic() - self._started) * 1000),
        )
        if row is None and change is None:
            return
        try:
            with environment.books.write() as books:
                if row is not None:
                    books.add_audit(row)
                if change is not None:
                    books.add_change(change.to_row())
        except StoreError as error:
            _log.error("action %s: its call can't be audited (%s)", self._action.name, error)

    def _find_environment(self, outer: CallScope | None) -> CallEnvironment | None:
        if outer is not None:
            return outer.environment
        return self._sites[0].environment if self._sites else None


class _DirectReporter:
    """Shows what a direct call says: objects in the cell, lines in logging."""

    def __init__(self, scope: CallScope) -> None:
        self._scope = scope

    def progress(self, done: float, total: float | None, text: str | None) -> None:
        """A cell has no place for it."""

    def log(self, text: str, level: str) -> None:
        """Log a line."""
        number = logging.getLevelName(level.upper())
        logging.getLogger("chatnb.actions").log(number if isinstance(number, int) else logging.INFO, "%s", text)

    def display(self, value: object) -> None:
        """Display an object where the caller is."""
        module: Any = sys.modules.get("IPython.display")
        show: Callable[[object], Any] | None = getattr(module, "display", None)
        if show is not None:
            show(value)

    def changed(self, resources: Sequence[str]) -> None:
        """Name what the call has changed."""
        self._scope.name_resources(resources)

    def child(self, agent: Any) -> JsonValue:
        """Refuse: there is no parent chat.

        Raises:
            ActionError: Always, outside a chat's call.
        """
        environment, call_id = self._scope.environment, self._scope.tool_call_id
        if environment is None or environment.children is None or call_id is None:
            raise ActionError("ctx.child() works in an action that an agent's turn calls.")
        return environment.children.open(agent, call_id)
