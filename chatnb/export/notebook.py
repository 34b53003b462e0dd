"""The export as a notebook: talk as Markdown, code that ran as code (spec/notebook.md, section 10). Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from .._json import JsonValue
from ..messages import DataPart, FilePart, TextPart, ToolPart, UIMessage
from .calls import RICHEST, outputs_by_call, plain
from .markdown import escape_raw_html
from .sanitise import sanitise
from .transcript import markdown_call, steering_text

_ROLES = {"user": "**You**", "assistant": "", "system": "**System**"}

Cell = dict[str, JsonValue]


def export_notebook(messages: Sequence[UIMessage], *, title: str, is_unfinished: bool = False) -> str:
    """Return a valid notebook of format 4.5 with stable cell ids. It runs only code that ran in the chat."""
    cells: list[Cell] = [_markdown(f"# {title}")]
    for message in messages:
        cells.extend(_cells(message))
    if is_unfinished:
        cells.append(_markdown("*(unfinished)*"))
    for index, cell in enumerate(cells):
        content = f"{index}\n{cell['cell_type']}\n{cell['source']}"
        cell["id"] = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    notebook = {
        "cells": [{key: cell[key] for key in sorted(cell)} for cell in cells],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _cells(message: UIMessage) -> list[Cell]:
    outputs = outputs_by_call(message)
    cells: list[Cell] = []
    text: list[str] = [_ROLES[message.role]] if _ROLES[message.role] else []

    def flush() -> None:
        if any(text):
            cells.append(_markdown("\n\n".join(piece for piece in text if piece)))
        text.clear()

    for part in message.parts:
        if isinstance(part, TextPart):
            text.append(escape_raw_html(part.text.strip()))
        elif isinstance(part, FilePart):
            text.append(f"[file: {escape_raw_html(part.filename or part.media_type)}]")
        elif isinstance(part, DataPart) and part.type == "data-steering-message":
            text.append(f"**You**\n\n{escape_raw_html(steering_text(part))}")
        elif isinstance(part, ToolPart):
            code = _code_that_ran(part)
            if code is None:
                text.append(markdown_call(part, outputs.get(part.tool_call_id, ())))
            else:
                flush()
                cells.append(_code(code, outputs.get(part.tool_call_id, ()), part.output))
    flush()
    return cells


def _code_that_ran(part: ToolPart) -> str | None:
    if part.tool_name != "run_code" or part.state != "output-available" or not isinstance(part.input, Mapping):
        return None
    code = part.input.get("code")
    return code if isinstance(code, str) else None


def _markdown(source: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _result_of(output: JsonValue) -> JsonValue:
    """Return a call's result; that of an edited call stands as text below the note that says so."""
    if not isinstance(output, str):
        return output
    try:
        return json.loads(output.partition("\n")[2])
    except ValueError:
        return output


def _code(source: str, outputs: Sequence[JsonValue], output: JsonValue) -> Cell:
    result = _result_of(output)
    made = [made for item in outputs if isinstance(item, Mapping) and (made := _output(item)) is not None]
    error = result.get("error") if isinstance(result, Mapping) else None
    if isinstance(error, Mapping):
        made.append(
            {
                "output_type": "error",
                "ename": str(error.get("type", "Error")),
                "evalue": str(error.get("message", "")),
                "traceback": plain(str(error.get("traceback", ""))).splitlines(),
            }
        )
    # Code that raised in the chat may raise again: the notebook runs on.
    metadata: JsonValue = {"tags": ["raises-exception"]} if isinstance(error, Mapping) else {}
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": made, "source": source}


def _output(item: Mapping[str, JsonValue]) -> JsonValue:
    if "stream" in item:
        name = "stderr" if item["stream"] == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": plain(str(item.get("text", "")))}
    bundle = item["data"] if isinstance(item.get("data"), Mapping) else item
    data = {kind: _content(kind, value) for kind, value in bundle.items() if kind in RICHEST}
    return {"output_type": "display_data", "data": data, "metadata": {}} if data else None


def _content(kind: str, value: JsonValue) -> JsonValue:
    if isinstance(value, list | tuple) and kind != "application/json":
        value = "".join(value)
    if kind in ("text/html", "image/svg+xml"):
        return sanitise(plain(str(value)))
    return plain(value) if isinstance(value, str) and kind == "text/plain" else value
