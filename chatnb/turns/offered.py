"""What a model is offered in a turn: the agent's actions and the client-side tools, as plain specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..models import ActionSpec

if TYPE_CHECKING:
    from .turn_run import TurnRun


def agent_specs(run: TurnRun, only: Sequence[Any] | None = None) -> tuple[ActionSpec, ...]:
    """Return the specs of a turn.

    Args:
        run: The turn.
        only: Names or actions to offer; None for all. Client-side tools are always offered.
    """
    offered = run.definition.offer(run.definition.catalog.agent_tools())
    if only is not None:
        wanted = {a if isinstance(a, str) else a.name for a in only}
        offered = [a for a in offered if a.name in wanted]
    own = tuple(ActionSpec(a.name, a.description, a.input_schema) for a in offered)
    return own + tuple(
        ActionSpec(t["name"], t.get("description", ""), t.get("parameters") or {"type": "object"})
        for t in run.client_tools
    )
