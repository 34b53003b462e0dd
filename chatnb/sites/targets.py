"""What `module:agent` on a command line stands for."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec

import click

from chatnb.agent import Agent


def load_agent(target: str) -> Agent:
    """Import an agent; modules of the working directory are found first.

    Args:
        target: `module:agent`; the module may be dotted, and so may the agent's place in it.

    Raises:
        UsageError: It is not of this form, or there is no such module, or no agent of this name in it. What the module
            itself raises is passed on.
    """
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise click.UsageError("TARGET is module:agent, such as shop:agent for `agent` in shop.py.")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if not has_module(module_name):
        raise click.UsageError(f"There is no module {module_name!r} here.")
    module = import_module(module_name)
    found: object = module
    for name in path.split("."):
        found = getattr(found, name, None)
    if not isinstance(found, Agent):
        there = sorted(name for name, value in vars(module).items() if isinstance(value, Agent))
        hint = f" It has: {', '.join(there)}." if there else ""
        raise click.UsageError(f"The module {module_name!r} has no Agent {path!r}.{hint}")
    return found


def has_module(module_name: str) -> bool:
    """Tell whether there is such a module; it is not imported, but the packages around it are."""
    try:
        return find_spec(module_name) is not None
    except (ImportError, ValueError):
        return module_name in sys.modules
