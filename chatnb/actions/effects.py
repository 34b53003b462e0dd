"""What a call has done so far, through nested calls, tasks and threads (spec/actions.md, 5.3 and 2.2)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..errors import ForbiddenError
from .identity import Identity
from .ports import Effect, Site

if TYPE_CHECKING:
    from .environment import CallEnvironment

_log = logging.getLogger("chatnb")


class CallScope:
    """One running call and those around it. Flags only go up, so that threads may share it.

    Attributes:
        parent: The call in whose handler this one was made.
        is_dispatched: A site dispatched this call or one around it; a direct call alone is not.
        resources: What the outermost call names as changed.
    """

    def __init__(
        self,
        action: str,
        *,
        site: Site,
        identity: Identity | None = None,
        chat_id: str | None = None,
        turn_id: str | None = None,
        tool_call_id: str | None = None,
        environment: CallEnvironment | None = None,
        parent: CallScope | None = None,
        is_dispatched: bool = False,
    ) -> None:
        self.action = action
        self.site: Site = site
        self.identity = identity
        self.chat_id = chat_id
        self.turn_id = turn_id
        self.tool_call_id = tool_call_id
        self.environment = environment
        self.parent = parent
        self.is_dispatched: bool = is_dispatched or (parent is not None and parent.is_dispatched)
        self.resources: dict[str, None] = {}
        self._own = False
        self._nested = False

    @property
    def effect(self) -> Effect:
        """`committed` once a write has entered its handler here or below."""
        return "committed" if self._own or self._nested else "none"

    @property
    def outermost(self) -> CallScope:
        """The call around all others."""
        return self if self.parent is None else self.parent.outermost

    def enter_write(self) -> None:
        """Note that a write enters its handler."""
        self._own = True
        above = self.parent
        while above is not None:
            above._nested = True
            above = above.parent

    def state_nothing_written(self) -> None:
        """Take the handler's word that it wrote nothing itself; what nested writes did stays."""
        self._own = False
        if self._nested:
            _log.warning("action %s says that nothing was written, but a write inside it was entered", self.action)

    def name_resources(self, resources: Sequence[str]) -> None:
        """Note what was changed, for the one event of the outermost call."""
        for resource in resources:
            self.outermost.resources[str(resource)] = None


_current: ContextVar[CallScope | None] = ContextVar("chatnb_call", default=None)


def current_call() -> CallScope | None:
    """Return the call in whose handler this code runs, or None."""
    return _current.get()


@contextmanager
def inside(scope: CallScope) -> Iterator[CallScope]:
    """Run a block as a part of a call."""
    token = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(token)


def refuse_decision_inside_call() -> None:
    """Refuse to decide an approval from inside a dispatched call (spec/actions.md, 4.8).

    Raises:
        ForbiddenError: This code runs inside one.
    """
    scope = _current.get()
    if scope is not None and scope.is_dispatched:
        raise ForbiddenError("A call never approves: decide from a cell, a view, or the served page.")
