"""A check for agents that are served over MCP or A2A: no write is offered without saying whether it destroys."""

from __future__ import annotations

from typing import Any, Protocol

from ..actions import Catalog
from ..actions.exposure import is_offered


class HasCatalog(Protocol):
    """An agent."""

    @property
    def catalog(self) -> Catalog:
        """Its actions."""


def check_annotations(agent: HasCatalog | Any) -> None:
    """Fail for every exposed write without a declared `destructiveHint` (spec/actions.md, 11.2).

    Declare it with `@action(mcp_annotations={"destructiveHint": False})`. True means that the action removes or
    replaces content, even recoverably. An action whose `read_only` is a function may write, so it counts as a write.

    Args:
        agent: The agent.

    Raises:
        AssertionError: Such actions, by name.
    """
    undeclared = [
        made.name
        for made in agent.catalog.values()
        if is_offered(made)
        and made.fixed_read is not True
        and "destructiveHint" not in (made.options.mcp_annotations or {})
    ]
    if undeclared:
        raise AssertionError(
            f"exposed writes without a declared destructiveHint: {', '.join(undeclared)}; "
            'add mcp_annotations={"destructiveHint": True} or False'
        )
