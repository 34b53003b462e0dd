"""Which results a former kernel held, read from the history (spec/recovery.md, section 9, "Empty kernel")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from chatnb._json import JsonValue
from chatnb.messages import UIMessage, is_tool_part

Former: TypeAlias = Mapping[str, tuple[str | None, str | None]]
"""By name: the action and the tool call id."""

# How a result's name stands in an output: as JSON, in a text of JSON (an edited call's), or in the note of a cut.
_IN_TEXT = re.compile(r"""(?:"object": ?"|; object )(?P<name>[^\W\d]\w*)["\]]""")


def former_results(messages: Iterable[UIMessage]) -> dict[str, tuple[str | None, str | None]]:
    """Return the names of all results in messages, as `ChatObjects` gave them.

    A plain JSON result does not carry its name; it is counted, as it was then.
    """
    found: dict[str, tuple[str | None, str | None]] = {}
    seen: set[str] = set()
    counts: dict[str, int] = {}
    for message in messages:
        for part in message.parts:
            if not is_tool_part(part) or part.state != "output-available" or part.output is None:
                continue
            if part.tool_call_id in seen or part.preliminary:
                continue
            seen.add(part.tool_call_id)
            base = part.tool_name.replace("-", "_")
            counts[base] = counts.get(base, 0) + 1
            name = _stated(part.output)
            if name is None:
                name = f"{base}_{counts[base]}"
            else:
                counts[base] = _number(name, base, counts[base])
            found.setdefault(name, (part.tool_name, part.tool_call_id))
    return found


def _stated(output: JsonValue) -> str | None:
    if isinstance(output, dict):
        name = output.get("object")
        return name if isinstance(name, str) and "summary" in output else None
    if isinstance(output, str):
        match = _IN_TEXT.search(output)
        return match["name"] if match is not None else None
    return None


def _number(name: str, base: str, otherwise: int) -> int:
    number = name.removeprefix(f"{base}_")
    return int(number) if number.isdecimal() else otherwise
