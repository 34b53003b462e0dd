"""What the offline model says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from chatnb.models.offline_words import parameters, summary_line
from chatnb.models.port import ActionSpec

OWN_NAME = "offline model"
INTRODUCTION = "I'm the offline model that comes with chatnb: I run inside your kernel, with no network and no key."
ASKING = "To call `{name}` I need "
WHICH = "I can't tell which one you mean: "
MAX_ACTIONS = 5
MAX_ROWS = 10
_MAX_CELL = 60
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?")

PLUG_IN = (
    "To plug in Claude, set the environment variable `ANTHROPIC_API_KEY` and restart the kernel, "
    'or name the model: `Agent("claude-sonnet-4-5")`.'
)

SAMPLES_LINE = "I can also show you a sample: ask for a table, for code, for math or for a long text."

_TABLE = """Here is a small table, made up for the occasion:

| Quarter | Visitors | Change |
|:--|--:|--:|
| Q1 | 1,204 | |
| Q2 | 1,377 | +14 % |
| Q3 | 1,290 | -6 % |
| Q4 | 1,518 | +18 % |
"""

_CODE = """Here is a short function. It finds the middle value of a list:

```python
def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
```

Copy it into a cell and try `median([3, 1, 2])`.
"""

_MATH = r"""The standard deviation of a sample measures how far values lie from their mean $\bar{x}$:

$$
s = \sqrt{\frac{1}{n - 1} \sum_{i=1}^{n} (x_i - \bar{x})^2}
$$

The division by $n - 1$ makes up for the mean, which came from the same values.
"""

_LONG = """Here is a longer text, so that you can watch it stream, stop it, or scroll while it grows.

A notebook is a conversation with data. You write a cell, look at what comes back, and write the next one because of
what you saw. The order in which you ran things matters as much as the things themselves, and nobody but the kernel
remembers it. That is why a chat beside the cells is useful: it shares the memory of the kernel, so that a question can
be about the very table that you just made.

Three habits make such work easier to trust. First, keep each step small. A step that does one thing can be read at a
glance, and when it is wrong only that one thing has to be done again. Second, let results be looked at before they are
used. A mean over a column with a typing error in it is still a number, and a wrong one looks just like a right one.
Third, write down what you decided and why. A week later the code will still say what was done, but not what else you
had tried.

The same holds for an assistant that can act. It should say what it is about to do in words that you can check, wait for
your click where something can't be taken back, and show what came of it in the same place. If it was wrong, you should
be able to go back to the moment before and take another path, without losing the first one.

None of this needs a clever model. I am the proof of it: I look for words that I know, and I call what fits.
"""

SAMPLES: Mapping[str, str] = {"table": _TABLE, "code": _CODE, "math": _MATH, "long": _LONG}
_SAMPLE_WORDS = {
    "table": "table",
    "code": "code",
    "math": "math",
    "formula": "math",
    "equation": "math",
    "long": "long",
}


def sample_for(words: Sequence[str]) -> str | None:
    """A sample of the first kind that the words ask for, or None."""
    return next((SAMPLES[_SAMPLE_WORDS[word]] for word in words if word in _SAMPLE_WORDS), None)


def cannot_know(specs: Sequence[ActionSpec], *, is_introduced: bool) -> str:
    """The answer to everything else: no pretence, and what can be done."""
    start = f"I'm only the {OWN_NAME}, so" if is_introduced else f"{INTRODUCTION} So"
    text = f"{start} I can't know that, and I won't guess."
    if specs:
        lines = [action_line(spec) for spec in specs[:MAX_ACTIONS]]
        text += "\n\nWhat I can do is call your actions:\n\n" + "\n".join(lines)
        if len(specs) > MAX_ACTIONS:
            text += f"\n- and {len(specs) - MAX_ACTIONS} more"
    return f"{text}\n\n{SAMPLES_LINE}\n\n{PLUG_IN}"


def action_line(spec: ActionSpec) -> str:
    """One line of a list of actions."""
    summary = summary_line(spec.description)
    return f"- `{spec.name}`: {summary}" if summary else f"- `{spec.name}`"


def ask_for(spec: ActionSpec, missing: Sequence[str], found: Mapping[str, Any] | None = None) -> str:
    """One question that names each missing argument with its description, and what was understood so far."""
    known = parameters(spec)
    text = ASKING.format(name=spec.name)
    understood = ", ".join(f"{name} is `{_cell(value).replace('`', '')}`" for name, value in (found or {}).items())
    so_far = f" (So far: {understood}.)" if understood else ""
    if len(missing) == 1:
        return f"{text}{_described(missing[0], known[missing[0]])}. What should it be?{so_far}"
    lines = [f"- {_described(name, known[name])}" for name in missing]
    return f"{text}a little more:\n\n" + "\n".join(lines) + f"\n\nWhat should they be?{so_far}"


def ask_which(specs: Sequence[ActionSpec]) -> str:
    """The question after a tie."""
    return WHICH + " or ".join(f"`{spec.name}`" for spec in specs) + "?"


def announce(spec: ActionSpec) -> str:
    """What is said before a call."""
    return f"Calling `{spec.name}`."


def _described(name: str, schema: Mapping[str, Any]) -> str:
    description = str(schema.get("description") or "").strip().rstrip(".")
    values = schema.get("enum")
    listed = ", ".join(f"`{value}`" for value in values) if isinstance(values, list) and values else ""
    details = [detail for detail in (description, f"one of {listed}" if listed else "") if detail]
    return f"`{name}`" + (f" ({'; '.join(details)})" if details else "")


def tell_result(name: str, output: Mapping[str, Any], *, is_rejected: bool = False, reason: str | None = None) -> str:
    """What came back from a call, in words."""
    kind, value = output.get("type"), output.get("value")
    if is_rejected or kind == "execution-denied":
        why = reason or output.get("reason")
        return f"You rejected the call of `{name}`, so it did not run." + (f" Your reason: {why}" if why else "")
    if kind in ("error-text", "error-json"):
        text = value if isinstance(value, str) else _json(value)
        return f"`{name}` failed: {text}\n\nI did not try it again."
    if kind == "content":
        items = value if isinstance(value, list | tuple) else ()
        texts = [str(item.get("text")) for item in items if isinstance(item, Mapping) and item.get("type") == "text"]
        return f"`{name}` returned:\n\n" + ("\n\n".join(texts) or "something that is no text.")
    return _tell_value(name, value)


def _tell_value(name: str, value: Any) -> str:
    if value is None:
        return f"`{name}` is done; it returned nothing."
    if isinstance(value, str) and (pictured := _with_pictures(value)) is not None:
        return f"{_tell_object(name, pictured)}\n\nIts card shows the picture."
    if isinstance(value, str):
        return f"`{name}` returned:\n\n{value}" if value.strip() else f"`{name}` returned an empty text."
    if isinstance(value, bool | int | float):
        return f"`{name}` returned **{json.dumps(value)}**."
    if isinstance(value, Mapping):
        return _tell_object(name, value)
    if isinstance(value, list | tuple):
        return _tell_list(name, value)
    return f"`{name}` returned {value}."


def _tell_object(name: str, value: Mapping[str, Any]) -> str:
    if isinstance(value.get("object"), str) and isinstance(value.get("summary"), str):
        kept = value["object"]
        text = f'`{name}` returned a {value.get("type", "object")}, kept as `chat.objects["{kept}"]`:'
        return f"{text}\n\n```text\n{value['summary']}\n```"
    if not value:
        return f"`{name}` returned an empty object."
    tables = [key for key, item in value.items() if _is_table(item)]
    rows = "\n".join(f"| {_cell(key)} | {_cell(item)} |" for key, item in value.items() if key not in tables)
    text = f"`{name}` returned:" + (f"\n\n| | |\n|:--|:--|\n{rows}" if rows else "")
    for key in tables:
        text += f"\n\n{key}:\n\n{_table(value[key])}"
    return text


def _with_pictures(text: str) -> Mapping[str, Any] | None:
    """The object of a text that is an object and, below it, notes of pictures."""
    first, _, rest = text.partition("\n")
    if not first.startswith('{"object":') or not all(line.startswith("[image") for line in rest.splitlines()):
        return None
    try:
        value = json.loads(first)
    except ValueError:
        return None
    return value if isinstance(value, Mapping) and isinstance(value.get("summary"), str) else None


def _tell_list(name: str, value: Sequence[Any]) -> str:
    if not value:
        return f"`{name}` returned an empty list."
    count = f"{len(value)} row{'s' if len(value) != 1 else ''}"
    if _is_table(value):
        return f"`{name}` returned {count}:\n\n{_table(value)}"
    lines = "\n".join(f"- {_cell(item)}" for item in value[:MAX_ROWS])
    return f"`{name}` returned {len(value)} item{'s' if len(value) != 1 else ''}:\n\n{lines}{_rest(value)}"


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) and row for row in value)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    shown = rows[:MAX_ROWS]
    columns = list(dict.fromkeys(key for row in shown for key in row))
    aligned = [_is_numeric(column, shown) for column in columns]
    head = "| " + " | ".join(_cell(column) for column in columns) + " |"
    rule = "|" + "|".join("--:" if right else ":--" for right in aligned) + "|"
    lines = ["| " + " | ".join(_cell(row.get(c, "")) for c in columns) + " |" for row in shown]
    return "\n".join([head, rule, *lines]) + _rest(rows)


def _is_numeric(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return all(_is_number(row.get(column, 0)) for row in rows)


def _is_number(value: Any) -> bool:
    # What a CSV file gives for a number is its text.
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rest(rows: Sequence[Any]) -> str:
    return f"\n\n… and {len(rows) - MAX_ROWS} more." if len(rows) > MAX_ROWS else ""


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else _json(value)
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else str(value)
