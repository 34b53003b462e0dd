"""Whether a worker has begun a call, where the future does not tell (spec/notebook.md, section 2).

A future of a process pool runs as soon as it is in the pipe to the workers, one of Dask or ipyparallel is pending until
it is done. So the worker leaves a mark before it enters the function. Dask also runs a task again when its worker dies,
or when it lost the result: the mark tells, and the function is not entered twice. None of the libraries is imported: if
one is at work, it is loaded.
"""

from __future__ import annotations

import concurrent.futures
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from chatnb.runtime.reports import Reports, Take, Way, inbox

_MARK = "chatnb-call-"


@dataclass(frozen=True, slots=True)
class Ticket:
    """One handing-over of a call: no two are equal, so no executor takes two calls for the same.

    Attributes:
        library: Whose executor it is, if its futures do not tell whether a worker has begun.
        way: How the worker reaches the kernel, if it is a process of this machine.
        number: What makes it this one.
    """

    library: Literal["distributed", "ipyparallel"] | None = None
    way: Way | None = None
    number: str = field(default_factory=lambda: secrets.token_hex(12))

    @property
    def mark(self) -> str:
        """The name of the mark."""
        return _MARK + self.number


def one_worker(executor: concurrent.futures.Executor) -> concurrent.futures.Executor:
    """Return an executor that runs a call once: a view of several engines runs it on each, so one is chosen for it."""
    view: Any = getattr(executor, "view", None)
    if type(executor).__module__.split(".")[0] != "ipyparallel" or not hasattr(view, "scatter") or len(view) < 2:
        return executor
    chosen = view.client.load_balanced_view(view.targets).executor
    return chosen if isinstance(chosen, concurrent.futures.Executor) else executor


def ticket_for(executor: concurrent.futures.Executor, take: Take | None) -> Ticket:
    """Return a new ticket for a call on an executor.

    Args:
        executor: Where it goes.
        take: Takes what the function reports; None if it reports nothing.
    """
    if _is_local_pool(executor):
        return Ticket(way=inbox().open(take))
    match type(executor).__module__.split(".")[0]:
        case "distributed":
            return Ticket("distributed")
        case "ipyparallel":
            return Ticket("ipyparallel")
    return Ticket()


class Mark(Protocol):
    """The mark of one call, as the kernel sees it. All methods may block for a round trip."""

    def is_set(self) -> bool:
        """Say whether the worker has begun."""

    def withdraw(self) -> None:
        """Ask that the call does not begin any more, if that can be asked."""

    def remove(self) -> None:
        """Remove the mark; the call is over."""


def mark_of(
    ticket: Ticket, executor: concurrent.futures.Executor, future: concurrent.futures.Future[Any]
) -> Mark | None:
    """Return a call's mark; None where the future itself tells whether it has begun."""
    if ticket.way is not None:
        return _LocalMark(future, ticket.way)
    match ticket.library:
        case "distributed":
            return _DaskMark(executor, future, ticket)
        case "ipyparallel":
            return _EngineMark(future, ticket)
    return None


def begin(ticket: Ticket, reports: Reports) -> bool:
    """Leave the mark, in the worker, right before the function is entered.

    Returns:
        False if the function must not be entered: the call was begun before, or was taken back.
    """
    if ticket.way is not None:
        return reports.begin()
    if ticket.library == "distributed":
        distributed: Any = sys.modules["distributed"]
        event = distributed.Event(ticket.mark, client=distributed.get_client())
        if event.is_set():
            return False
        event.set()
    elif ticket.library == "ipyparallel":
        shell: Any = sys.modules["IPython"].get_ipython()
        shell.data_pub.publish_data({ticket.mark: True})
    return True


def _is_local_pool(executor: concurrent.futures.Executor) -> bool:
    """Tell whether an executor's workers are processes that this one started: the standard library's, loky's."""
    return any(cls.__name__ == "ProcessPoolExecutor" for cls in type(executor).__mro__)


class _LocalMark:
    """What the worker asks over the way on which it reports."""

    def __init__(self, future: concurrent.futures.Future[Any], way: Way) -> None:
        self._future = future
        self._way = way

    def is_set(self) -> bool:
        return inbox().has_begun(self._way)

    def withdraw(self) -> None:
        inbox().withdraw(self._way)
        self._future.cancel()

    def remove(self) -> None:
        inbox().close(self._way)


# --- Dask ---------------------------------------------------------------------------------------------------------


class _DaskMark:
    """An event that the scheduler keeps."""

    def __init__(self, executor: Any, future: concurrent.futures.Future[Any], ticket: Ticket) -> None:
        self._future = future
        self._event: Any = sys.modules["distributed"].Event(ticket.mark, client=executor._client)

    def is_set(self) -> bool:
        with suppress(Exception):  # the cluster is gone: its future says so
            return bool(self._event.is_set())
        return False

    def withdraw(self) -> None:
        self._future.cancel()

    def remove(self) -> None:
        with suppress(Exception):
            self._event.clear()


# --- ipyparallel --------------------------------------------------------------------------------------------------


class _EngineMark:
    """What the engine publishes with the call."""

    def __init__(self, future: Any, ticket: Ticket) -> None:
        self._future = future
        self._name = ticket.mark

    def is_set(self) -> bool:
        return self._name in self._future.data

    def withdraw(self) -> None:
        with suppress(Exception):  # it is done
            self._future.abort()

    def remove(self) -> None:
        """Do nothing: it goes with the future."""
