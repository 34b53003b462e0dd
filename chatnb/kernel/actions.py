"""The notebook actions: run code, list and inspect variables, insert a cell (spec/notebook.md, section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal

from chatnb._json import JsonValue
from chatnb.actions import Action, ActionContext, action, action_errors
from chatnb.errors import ActionError
from chatnb.kernel.host import running_shell
from chatnb.kernel.notebook import ChatNotebook, notebook_of
from chatnb.kernel.run_code import run_cell
from chatnb.kernel.variables_rows import inspect_object
from chatnb.kernel.variables_shape import describe_briefly
from chatnb.policies import Variables

__all__ = ["insert_cell", "inspect_variable", "list_variables", "notebook_actions", "run_code", "without_variables"]

MAX_ROWS = 50

_CODE_HELP = """Run Python code in the user's notebook, as a cell runs.

Variables, imports and functions stay for later calls and for the user's own cells. The value of a last expression is
the result. Figures are shown to the user.

Args:
    code: The Python code of one cell; IPython magics and top-level await work.
"""


def _make_run_code(*, snapshot: bool, approve_code: bool) -> Action:
    def run_code(code: str, ctx: ActionContext) -> Any:
        return run_cell(code, notebook_of(ctx.chat_id), tool_call_id=ctx.tool_call_id, snapshot=snapshot)

    run_code.__doc__ = _CODE_HELP
    return Action(run_code, title="Run code", needs_approval=approve_code, read_only=False, max_result_chars=50_000)


run_code = _make_run_code(snapshot=False, approve_code=True)


@action(title="List variables", read_only=True)
def list_variables(ctx: ActionContext, pattern: str | None = None) -> Any:  # noqa: D417 - the model has no `ctx`
    """List the variables of the user's notebook: names, types, shapes and columns.

    Args:
        pattern: A glob that the names have to match, such as `df*`; all of them if left out.
    """
    notebook = _sharing(ctx)
    found = notebook.variables.variables()
    names = [name for name in notebook.watch.recent_first(found) if pattern is None or fnmatchcase(name, pattern)]
    names_only = notebook.policy.share == "names"
    made: dict[str, JsonValue] = {
        "variables": [describe_briefly(name, found[name], names_only=names_only) for name in names[:MAX_ROWS]]
    }
    if len(names) > MAX_ROWS:
        made["more"] = len(names) - MAX_ROWS
    return made


@action(title="Inspect a variable", read_only=True)
def inspect_variable(  # noqa: D417
    ctx: ActionContext, name: str, columns: list[str] | None = None, rows: int = 5
) -> Any:
    """Look at one variable of the user's notebook: its type, a summary and its first rows.

    Args:
        name: The name of the variable.
        columns: The columns of a table to show; all of them if left out.
        rows: How many rows or items to show, at most 50.
    """
    notebook = _sharing(ctx)
    value = notebook.variables.find(name)
    if notebook.policy.share == "names":
        return describe_briefly(name, value, names_only=True)
    return inspect_object(name, value, columns=columns, rows=max(0, min(rows, MAX_ROWS)))


_insert_errors = action_errors("not_supported")


@action(title="Insert a cell", needs_approval=True, read_only=False, run_in="thread", errors=_insert_errors)
def insert_cell(  # noqa: D417
    ctx: ActionContext,
    source: str,
    kind: Literal["code", "markdown"] = "code",
    position: Literal["above", "below"] = "below",
) -> Any:
    """Insert a new cell into the user's notebook. The cell is not run.

    Args:
        source: The text of the cell.
        kind: What kind of cell it is.
        position: On which side of the chat's cell it is put.
    """
    notebook = notebook_of(ctx.chat_id)
    if notebook.insert_cell is not None and notebook.insert_cell(source, kind, position):
        return {"inserted": True, "where": position}
    if kind == "code" and _set_next_input(source, notebook):
        return {"inserted": True, "where": "next input"}
    return _insert_errors.no_write(
        "Cells can't be inserted here. The text is offered to be copied.", "not_supported", details={"source": source}
    )


def notebook_actions(*, snapshot: bool = False, approve_code: bool = True) -> list[Action]:
    """Return the four notebook actions.

    Args:
        snapshot: Hold the former bindings of what code changes, so that they can be restored after an undo.
        approve_code: Ask a person before code runs.
    """
    plain = not snapshot and approve_code
    code = run_code if plain else _make_run_code(snapshot=snapshot, approve_code=approve_code)
    return [code, list_variables, inspect_variable, insert_cell]


def without_variables(actions: Iterable[Action], policy: Variables) -> list[Action]:
    """Return the actions that are offered under a policy: nothing about variables where nothing is shared."""
    return [made for made in actions if policy.share != "off" or made not in (list_variables, inspect_variable)]


def _sharing(ctx: ActionContext) -> ChatNotebook:
    notebook = notebook_of(ctx.chat_id)
    if notebook.policy.share == "off":
        raise ActionError("This agent may not look at the notebook's variables.", code="forbidden", status_code=403)
    return notebook


def _set_next_input(source: str, notebook: ChatNotebook) -> bool:
    """Offer a text as the next input, where there is one: in the terminal, and while a cell runs."""
    shell = running_shell()
    if shell is None or not notebook.watch.is_busy:
        return False
    shell.set_next_input(source)
    return True
