"""What `chatnb action TARGET --help` and `TARGET NAME --help` print: the agent's actions, or one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from chatnb.actions import Action
    from chatnb.agent import Agent

HELP = ("--help", "-h")


def is_call_for_help(words: Sequence[str]) -> bool:
    """Tell whether the words are `TARGET`, `TARGET --help` or `TARGET NAME --help`."""
    if not words or words[0].startswith("-"):
        return False
    return len(words) == 1 or words[1] in HELP or (len(words) == 3 and words[2] in HELP)


def describe(agent: Agent, words: Sequence[str]) -> str | None:
    """Return what helps with these words; None where `--help` is an argument of the action itself.

    Raises:
        UsageError: The action's name is missing, with no `--help` after the target, or there is no such action.
    """
    if len(words) == 1:
        raise click.UsageError(f"Name the agent and the action: chatnb action TARGET NAME. {list_actions(agent)}")
    if len(words) == 2:
        return list_actions(agent)
    found = agent.catalog.find(words[1])
    if found is None or found.ui_only:
        raise click.UsageError(f"There is no action {words[1]!r} here. {list_actions(agent)}")
    return None if "help" in found.input_schema["properties"] and words[2] == "--help" else _explain(found)


def list_actions(agent: Agent) -> str:
    """Return the actions that the command line runs, a line each."""
    shown = [made for made in agent.actions if not made.ui_only]
    if not shown:
        return "The agent has no actions."
    lines = [f"  {made.name}{made.shown_signature}  {_first_line(made)}" for made in shown]
    return "\n".join(["Actions:", *lines])


def _explain(made: Action) -> str:
    lines = [f"{made.name}{made.shown_signature}", "", made.description]
    told = {
        name: child["description"]
        for name, child in made.input_schema["properties"].items()
        if isinstance(child, dict) and child.get("description")
    }
    if told:
        lines += ["", *(f"  --{name}  {text}" for name, text in told.items())]
    if made.needs_approval is not False:
        lines += ["", "It may need a person's approval."]
    return "\n".join(lines)


def _first_line(made: Action) -> str:
    return made.description.strip().split("\n", 1)[0]
