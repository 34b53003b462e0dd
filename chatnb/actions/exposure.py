"""Which sites show which actions (spec/actions.md, section 11)."""

from __future__ import annotations

from .definition import Action
from .ports import Site


def is_exposed(action: Action, site: Site) -> bool:
    """Tell whether a site shows an action. What it does not show, it does not run."""
    match site:
        case "agent":
            return action.agent_tool
        case "http":
            return action.route is not None
        case "mcp" | "a2a":
            return is_offered(action)
        case "cli":
            return not action.ui_only
        case "widget" | "python":
            return True


def is_offered(action: Action) -> bool:
    """Tell whether MCP and A2A offer an action (11.2)."""
    if action.ui_only:
        return False
    if action.ends_turn:
        return action.options.mcp_tool is True
    if action.options.mcp_tool is not None:
        return action.options.mcp_tool
    return action.agent_tool


def mcp_hints(action: Action) -> dict[str, bool]:
    """Return the annotations that MCP clients see: declared ones win whole."""
    if action.options.mcp_annotations is not None:
        return dict(action.options.mcp_annotations)
    hints: dict[str, bool] = {"readOnlyHint": action.fixed_read is True}
    if action.needs_approval is not False:
        hints["destructiveHint"] = True
    return hints
