"""The list of notebook variables as the last text block of a request (spec/notebook.md, section 5).

Pure functions of model messages. The block belongs to one request alone: it is marked as ephemeral, so no model marks
it for its cache and no recording compares it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chatnb.models.port import EPHEMERAL_OPTIONS, ModelMessage

MAX_NAMES = 20
MAX_CHARACTERS = 2000
MAX_COLUMNS = 12

_TITLE = "[Notebook variables that fit the actions, the most recently bound first]"
_NONE = "[Notebook variables: none fits the actions.]"


def variables_text(variables: Sequence[Mapping[str, Any]]) -> str:
    """Return the list as text: at most 20 names and 2,000 characters. An empty list says so."""
    if not variables:
        return _NONE
    lines = [_TITLE]
    room = MAX_CHARACTERS - len(_TITLE) - len("\n… and 99999 more")
    for variable in variables[:MAX_NAMES]:
        line = variable_line(variable)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    left_out = len(variables) - (len(lines) - 1)
    if left_out:
        lines.append(f"… and {left_out} more")
    return "\n".join(lines)


def variable_line(variable: Mapping[str, Any]) -> str:
    """Return one line: name, type, shape or length, and the first 12 columns."""
    line = f"- {variable['name']}: {variable['type']}"
    shape, columns = variable.get("shape"), variable.get("columns")
    if shape:
        line += f", {' x '.join(map(str, shape))}"
    elif variable.get("length") is not None:
        line += f", length {variable['length']}"
    if columns:
        shown = ", ".join(_cut(str(column)) for column in columns[:MAX_COLUMNS])
        more = int(variable.get("columnCount", len(columns))) - min(len(columns), MAX_COLUMNS)
        line += f"; columns: {shown}{f' and {more} more' if more > 0 else ''}"
    return line


def variables_block(variables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content item that holds the list."""
    return {"type": "text", "text": variables_text(variables), "providerOptions": EPHEMERAL_OPTIONS}


def with_variables(
    messages: Sequence[ModelMessage], variables: Sequence[Mapping[str, Any]] | None
) -> list[ModelMessage]:
    """Return a request's messages with the list at the end of the last user message, after any results.

    Results stand in messages of their own, which vendors join with the user message behind them: there a new one holds
    the list. Where no message of a user stands, nothing is added.

    Args:
        messages: The model messages; they are not changed.
        variables: The list; None: the agent has no parameter that names a variable.
    """
    made = list(messages)
    last = next((n for n in reversed(range(len(made))) if made[n].get("role") in ("user", "tool")), None)
    if variables is None or last is None:
        return made
    block = variables_block(variables)
    message = made[last]
    if message["role"] == "tool":
        made.insert(last + 1, {"role": "user", "content": [block]})
    else:
        content = message["content"]
        items = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        made[last] = {**message, "content": [*items, block]}
    return made


def _cut(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
