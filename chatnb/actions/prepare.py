"""Prepared calls: validated once, frozen, classified, hashed (spec/actions.md, section 3)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from .._clock import Clock
from .._json import JsonValue
from ..messages import FrozenDict
from ..messages import thaw as thaw_json
from .arguments import invalid_arguments, validate_arguments
from .coercion import coerce
from .guards import run_guard, run_guard_here
from .hash import call_hash
from .snapshot import Mapped, NotPlainError, find_lone_surrogate, freeze_arguments, thaw, to_json

if TYPE_CHECKING:
    from .definition import Action

_log = logging.getLogger("chatnb")


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """One call, ready to run. The input that led to it takes part in nothing afterwards.

    Attributes:
        action: The action.
        hash: The hash of name and arguments (spec/actions.md, 3.5).
        is_write: Its effect class, decided once.
    """

    action: Action
    hash: str
    is_write: bool
    frozen: Mapped = field(repr=False)

    @property
    def args(self) -> dict[str, Any]:
        """The arguments by parameter: a fresh copy at each read."""
        copy: dict[str, Any] = thaw(self.frozen)
        return copy

    @property
    def shown(self) -> dict[str, JsonValue]:
        """The arguments as JSON: what a person is shown, what is stored, and what prepares to the same call again."""
        shown: dict[str, JsonValue] = to_json(self.frozen)
        return shown


def draft(action: Action, raw: Any) -> tuple[Mapped, str]:
    """Validate and freeze the arguments of a dispatched call; return them with the call's hash.

    Raises:
        InvalidArgumentsError: They do not fit, or are not plain data (issue `not_plain_data` at its path).
    """
    if type(raw) is FrozenDict:  # the input of a message's part: a held call that is prepared again
        raw = thaw_json(raw)
    values = validate_arguments(
        action.name, action.signature, coerce(raw, action.allowed_types), action.shown_signature, direct=False
    )
    try:
        frozen = freeze_arguments(values)
    except NotPlainError as error:
        place = error.path
    else:
        try:
            return frozen, call_hash(action.name, frozen)
        except UnicodeEncodeError:
            place = find_lone_surrogate(frozen)
    path = ".".join(str(step) for step in place)
    raise invalid_arguments(action.name, [], [(path, "not_plain_data")], action.shown_signature)


def prepare(action: Action, raw: Any) -> PreparedCall:
    """Prepare a call; a classifier runs in a worker thread while this one waits.

    Raises:
        InvalidArgumentsError: The input does not fit.
    """
    frozen, digest = draft(action, raw)
    is_read = action.fixed_read
    if is_read is None:
        classifier = action.classifier
        try:
            is_read = run_guard_here(lambda: classifier(thaw(frozen))) is True
        except Exception as error:  # noqa: BLE001 - a classifier that fails makes the call a write
            is_read = _failed(action, error)
    return PreparedCall(action, digest, not is_read, frozen)


async def prepare_call(action: Action, raw: Any, clock: Clock) -> PreparedCall:
    """Prepare a call from the runtime's loop.

    Raises:
        InvalidArgumentsError: The input does not fit.
    """
    frozen, digest = draft(action, raw)
    is_read = action.fixed_read
    if is_read is None:
        classifier = action.classifier
        try:
            is_read = await run_guard(lambda: classifier(thaw(frozen)), is_async=False, clock=clock) is True
        except Exception as error:  # noqa: BLE001 - a classifier that fails makes the call a write
            is_read = _failed(action, error)
    return PreparedCall(action, digest, not is_read, frozen)


def _failed(action: Action, error: Exception) -> bool:
    _log.warning("action %s: its read_only function failed (%s): a write", action.name, type(error).__name__)
    return False


class KeptCalls:
    """The prepared calls that wait for a person, so that a decided call runs exactly what was asked. Memory only.

    A new definition of the agent has a new, empty one: then the stored arguments are prepared again.
    """

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._calls: OrderedDict[tuple[str, str], PreparedCall] = OrderedDict()
        self._lock = Lock()

    def keep(self, key: str, call: PreparedCall) -> None:
        """Keep a call under an approval id, or a held call's key."""
        with self._lock:
            self._calls[key, call.hash] = call
            while len(self._calls) > self._limit:
                self._calls.popitem(last=False)

    def find(self, key: str, digest: str) -> PreparedCall | None:
        """Return the kept call with this hash."""
        return self._calls.get((key, digest))

    def find_any(self, key: str) -> PreparedCall | None:
        """Return the kept call of a key, whatever its hash."""
        return next((call for (name, _), call in list(self._calls.items()) if name == key), None)
