"""Exports as files: Markdown, html and JSON (spec/notebook.md, section 10). Pure functions of a chat's record."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass

from .._json import JsonValue, whole, with_escapes
from ..errors import ExportError, ExportFormatError
from ..messages import DataPart, FilePart, SourceUrlPart, TextPart, ToolPart, UIMessage
from .calls import (
    WITHOUT_MARKUP,
    Redact,
    call_title,
    denied_reason,
    outputs_by_call,
    plain,
    show_json,
    shown_outputs,
    state_word,
)
from .markdown import escape_raw_html, fenced
from .notebook import export_notebook
from .transcript import render_html, steering_text

FORMATS = ("md", "html", "json", "ipynb")
FORMAT_NAME = "chatnb.chat"
FORMAT_VERSION = 1
_ROLES = {"user": "User", "assistant": "Assistant", "system": "System"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRecord:
    """A chat as it is exported and loaded.

    Attributes:
        chat_id: The chat's id.
        agent: The agent's name.
        messages: The chain, with the unfinished message.
        head: The chain's last node, with `tree`.
        tree: All nodes and messages (`branches=True`), as the history folder writes them.
        usage: Tokens and cost.
        is_unfinished: The last message is being written.
    """

    chat_id: str
    agent: str
    messages: tuple[UIMessage, ...] = ()
    head: str | None = None
    tree: JsonValue = None
    usage: JsonValue = None
    is_unfinished: bool = False


def export_chat(record: ChatRecord, format: str, *, redact: Redact | None = None) -> str:
    """Return a chat in one of the formats "md", "html", "json" and "ipynb".

    Raises:
        ExportError: There is no such format.
    """
    if format == "md":
        text = export_markdown(record)
    elif format == "html":
        text = export_html(record)
    elif format == "json":
        text = export_json(record)
    elif format == "ipynb":
        text = export_notebook(record.messages, title=record.chat_id, is_unfinished=record.is_unfinished)
    else:
        raise ExportError(f"there is no export format {format!r}; the formats are {', '.join(FORMATS)}")
    text = with_escapes(text) if format == "json" else whole(text)
    return redact(text) if redact is not None else text


# --- Markdown ---------------------------------------------------------------------------------------------------------


def export_markdown(record: ChatRecord) -> str:
    """Return roles as headings, text verbatim, calls with arguments, state and result."""
    blocks = [f"# {record.chat_id}"]
    for message in record.messages:
        blocks.append(f"## {_ROLES[message.role]}")
        blocks.extend(_markdown_parts(message))
    if record.is_unfinished:
        blocks.append("*(unfinished)*")
    return "\n\n".join(blocks) + "\n"


def _markdown_parts(message: UIMessage) -> list[str]:
    outputs = outputs_by_call(message)
    blocks: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text.strip():
            blocks.append(part.text)
        elif isinstance(part, FilePart):
            name = part.filename or part.media_type
            mark = "!" if part.media_type.startswith("image/") else ""
            blocks.append(f"{mark}[{name}]({part.url})")
        elif isinstance(part, ToolPart):
            blocks.append(_markdown_call(part, outputs.get(part.tool_call_id, ())))
        elif isinstance(part, SourceUrlPart):
            blocks.append(f"- [{part.title or part.url}]({part.url})")
        elif isinstance(part, DataPart) and part.type == "data-steering-message":
            blocks.append(f"### User, meanwhile\n\n{steering_text(part)}")
    return blocks


def _markdown_call(part: ToolPart, outputs: Sequence[JsonValue]) -> str:
    pieces = [f"### {call_title(part)} ({state_word(part)})"]
    if part.has("input"):
        pieces.append(fenced(show_json(part.input), "json"))
    elif isinstance(part.raw_input, str):
        pieces.append(fenced(part.raw_input))
    if part.error_text:
        pieces.append(fenced(plain(part.error_text)))
    if part.state == "output-denied" and (reason := denied_reason(part)):
        pieces.append(f"Reason: {reason}")
    if part.state == "output-available":
        pieces.append(fenced(show_json(part.output), "" if isinstance(part.output, str) else "json"))
    for shown in shown_outputs(outputs, WITHOUT_MARKUP):
        if shown.media_type in ("image/png", "image/jpeg"):
            data = str(shown.content).replace("\n", "")
            pieces.append(f"![output](data:{shown.media_type};base64,{data})")
        elif shown.media_type == "text/markdown":
            pieces.append(escape_raw_html(str(shown.content)))
        else:
            pieces.append(fenced(show_json(shown.content)))
    return "\n\n".join(pieces)


# --- html -------------------------------------------------------------------------------------------------------------

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 48rem; margin: 2rem auto; padding: 0 1rem; font-family: system-ui, sans-serif; }}
img, svg {{ max-width: 100%; height: auto; }}
pre, code {{ font-family: ui-monospace, monospace; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}{end}
</body>
</html>
"""


def export_html(record: ChatRecord) -> str:
    """Return one page without script and without any request; a content policy forbids both."""
    end = "\n<p><em>(unfinished)</em></p>" if record.is_unfinished else ""
    body = render_html(record.messages, limit=1 << 62)
    return _PAGE.format(title=html.escape(record.chat_id), body=body, end=end)


# --- JSON -------------------------------------------------------------------------------------------------------------


def export_json(record: ChatRecord) -> str:
    """Return everything that makes the chat again: `parse_json` reads it."""
    data: dict[str, JsonValue] = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "id": record.chat_id,
        "agent": record.agent,
        "messages": [message.to_wire() for message in record.messages],
        "usage": record.usage,
    }
    if record.tree is not None:
        data |= {"head": record.head, "tree": record.tree}
    if record.is_unfinished:
        data["unfinished"] = True
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def parse_json(text: str) -> ChatRecord:
    """Return the record of a JSON export.

    Raises:
        ExportFormatError: It is none, or one of a newer version.
        MessageValidationError: A message in it is not valid.
    """
    try:
        data = json.loads(text)
    except ValueError:
        raise ExportFormatError("this is no JSON export of chatnb") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT_NAME or not isinstance(data.get("messages"), list):
        raise ExportFormatError("this is no JSON export of chatnb")
    version = data.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ExportFormatError("this export was made by a newer version of chatnb; update chatnb to load it")
    return ChatRecord(
        chat_id=str(data.get("id", "")),
        agent=str(data.get("agent", "")),
        messages=tuple(UIMessage.from_wire(message) for message in data["messages"]),
        head=data.get("head"),
        tree=data.get("tree"),
        usage=data.get("usage"),
        is_unfinished=data.get("unfinished") is True,
    )
