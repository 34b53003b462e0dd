"""What the engine knows of an agent: the definition as of one moment, and the seams that the composition fills."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..messages import UIMessage
from ..models import Model
from .events import HookName
from .records import Compaction, Debounce, Steering

if TYPE_CHECKING:
    from ..actions import Catalog
    from .io import CallSite

Concurrency = Literal["queue", "latest", "merge", "drop", "debounce"] | Debounce
CONCURRENCY = ("queue", "latest", "merge", "drop", "debounce")


@dataclass(frozen=True, kw_only=True)
class Definition:
    """An agent, as its chats use it. A running turn finishes on the one it began with.

    Attributes:
        hooks: By name; the same mapping the agent's decorators write to.
        parse_client_data: Parses client data by the agent's schema, or returns it as given.
        parse_action: Turns a payload or a model into the app's chat action, or raises; None: there are none.
        action_types: The types of the app's own chat actions.
        make_site: Makes the agent site for one turn.
        offer: Which of the agent's actions a model is offered here.
        expand: Adds what a message mentions, before its turn is written.
    """

    name: str
    model: Model
    instructions: Any = None
    catalog: Catalog
    hooks: Mapping[HookName, Callable[..., Any]] = field(default_factory=dict)
    concurrency: Concurrency = "queue"
    steering: Steering | None = None
    compaction: Compaction | None = None
    recovery: Any = None
    max_steps: int = 20
    parse_client_data: Callable[[Any], Any] = lambda value: value
    parse_action: Callable[[Any], Any] | None = None
    action_types: frozenset[str] = frozenset()
    make_site: Callable[[Any], CallSite] | None = None
    convert_data: Callable[[Any], Any] | None = None
    offer: Callable[[list[Any]], list[Any]] = list
    variables: Callable[[Any], Any] | None = None
    expand: Callable[[UIMessage], Awaitable[UIMessage]] | None = None
