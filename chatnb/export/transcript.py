"""The static transcript: a history as one html and one Markdown output (spec/widget.md, section 9). Pure.

Made from history alone: no ids, times, costs or addresses, so the same history gives the same bytes. Readable without
kernel, network or style sheet.
"""

from __future__ import annotations

import html
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from urllib.parse import quote

from .._json import JsonValue, whole
from ..messages import DataPart, FilePart, ReasoningPart, SourceUrlPart, TextPart, ToolPart, UIMessage
from .calls import (
    WITHOUT_MARKUP,
    Redact,
    Shown,
    call_title,
    denied_reason,
    original_input,
    outputs_by_call,
    plain,
    show_json,
    shown_outputs,
    state_word,
)
from .images import LARGEST_IMAGE, bytes_of, fit_images, image_line
from .markdown import CODE_STYLE, escape_raw_html, fenced, remote_image, render
from .sanitise import sanitise, visible

LARGEST = 2_000_000
"""Bytes of a transcript; the newest messages are kept."""
FIRST_LINE = "<!-- chatnb transcript -->"
"""How the Markdown form begins, so that one rule of nbval matches it whole."""
EMPTY = "No messages yet."
_IN_URL = "%/:=&?~#+!$,;'@()*[]"

_ROOT = '<div class="chatnb-transcript" style="line-height:1.5;overflow-wrap:anywhere">'
_MESSAGE = 'style="margin:0.6em 0;padding:0.1em 0 0.1em 0.8em;border-left:3px solid rgba(128,128,128,{shade})"'
_HEAD = '<p style="margin:0.2em 0"><strong>{role}</strong></p>'
_QUIET = 'style="opacity:0.75"'
_CARD = 'style="margin:0.5em 0;padding:0.3em 0.7em;border:1px solid rgba(128,128,128,0.4);border-radius:4px"'
_ROLES = {"user": "You", "assistant": "Assistant", "system": "System"}

KEPT = 32_000_000
"""Characters of blocks that are kept, over all chats: what several transcripts show at most, in both forms."""
_EACH = 1_000  # what an entry takes beside its text, about


class _Blocks:
    """The blocks of messages, kept by identity: a message does not change. The longest unused go first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], tuple[UIMessage, str]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def find(self, message: UIMessage, form: str) -> str | None:
        """Return a block that is kept."""
        key = (id(message), form)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
        return None if known is None else known[1]

    def keep(self, message: UIMessage, form: str, block: str) -> None:
        """Keep a block, and with it the message, so that its identity stays its own."""
        key = (id(message), form)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (message, block)
                self._size += len(block) + _EACH
            while self._size > KEPT:
                _, gone = self._kept.popitem(last=False)
                self._size -= len(gone[1]) + _EACH


_blocks = _Blocks()


def render_html(messages: Sequence[UIMessage], *, redact: Redact | None = None, limit: int = LARGEST) -> str:
    """Return a history as sanitised html with one root.

    Args:
        messages: The history.
        redact: Takes credentials out of a text.
        limit: Bytes, at most.
    """
    blocks, left_out = _newest(messages, "html", redact, limit - 500)
    if not messages:
        return f"{_ROOT}<p>{EMPTY}</p></div>"
    if left_out:
        blocks.append(f"<p {_QUIET}>{_left_out(left_out)}</p>")
    return f"{_ROOT}{''.join(blocks)}</div>"


def render_markdown(messages: Sequence[UIMessage], *, redact: Redact | None = None, limit: int = LARGEST) -> str:
    """Return a history as Markdown: TeX as source, images by name."""
    blocks, left_out = _newest(messages, "markdown", redact, limit - 500)
    if not messages:
        blocks = [EMPTY]
    if left_out:
        blocks.append(f"*{_left_out(left_out)}*")
    return "\n\n".join([FIRST_LINE, *blocks]) + "\n"


def _left_out(count: int) -> str:
    return f"{count} earlier {'message is' if count == 1 else 'messages are'} left out here."


def _newest(messages: Sequence[UIMessage], form: str, redact: Redact | None, room: int) -> tuple[list[str], int]:
    blocks: list[str] = []
    for message in reversed(messages):
        block = _block(message, form, redact)
        size = len(block.encode()) + 2
        if size > room and not blocks:  # the newest is never left out
            block = _shortened(message, block, form, room)
            size = len(block.encode()) + 2
        room -= size
        if room < 0:
            break
        blocks.append(block)
    blocks.reverse()
    return blocks, len(messages) - len(blocks)


def _block(message: UIMessage, form: str, redact: Redact | None) -> str:
    # Each settled turn renders the whole history again.
    block = _blocks.find(message, form)
    if block is None:
        block = whole(_html_block(message) if form == "html" else _markdown_block(message))
        _blocks.keep(message, form, block)
    return block if redact is None else redact(block)


def _shortened(message: UIMessage, block: str, form: str, room: int) -> str:
    """Return a message that does not fit: without its images, or else a line that tells of it."""
    line = f"This message of {len(block.encode()):,} bytes is too long to be shown here."
    role = _ROLES[message.role]
    if form != "html":
        return f"**{role}**\n\n*{line}*"
    small = fit_images(block, 8_000)
    if len(small.encode()) <= room:
        return small
    return f"<div {_MESSAGE.format(shade=_shade(message))}>{_HEAD.format(role=role)}<p {_QUIET}>{line}</p></div>"


def _shade(message: UIMessage) -> str:
    return "0.7" if message.role == "user" else "0.25"


# --- html -------------------------------------------------------------------------------------------------------------


def _html_block(message: UIMessage) -> str:
    outputs = outputs_by_call(message)
    parts = [piece for part in message.parts if (piece := _html_part(part, outputs))]
    sources = [part for part in message.parts if isinstance(part, SourceUrlPart)]
    if sources:
        links = (f"<li>{_link(part.url, part.title or part.url)}</li>" for part in sources)
        parts.append(f"<p {_QUIET}>Sources</p><ol>{''.join(links)}</ol>")
    if _is_cut_off(message):
        parts.append(f"<p {_QUIET}><em>(interrupted)</em></p>")
    head = _HEAD.format(role=_ROLES[message.role])
    return f"<div {_MESSAGE.format(shade=_shade(message))}>{head}{fit_images(''.join(parts))}</div>"


def _html_part(part: object, outputs: Mapping[str, Sequence[JsonValue]]) -> str:
    if isinstance(part, TextPart):
        return f'<div dir="auto">{render(part.text)}</div>'
    if isinstance(part, ReasoningPart):
        if not part.text.strip():
            return ""
        return f'<details><summary>Thought</summary><div dir="auto">{render(part.text)}</div></details>'
    if isinstance(part, FilePart):
        return _html_file(part)
    if isinstance(part, ToolPart):
        return _html_call(part, outputs.get(part.tool_call_id, ()))
    if isinstance(part, DataPart):
        return _html_data(part)
    return ""


def _html_call(part: ToolPart, outputs: Sequence[JsonValue]) -> str:
    state = state_word(part)
    head = f"<strong>{_text(call_title(part))}</strong> <em>{state}</em>"
    body: list[str] = []
    before = original_input(part)
    if part.has("input"):
        edited = " (edited by the person)" if before is not None else ""
        body.append(f"<p {_QUIET}>Arguments{edited}</p>{_pre(show_json(part.input))}")
    elif isinstance(part.raw_input, str):
        body.append(_pre(part.raw_input))
    if before is not None:
        body.append(f"<p {_QUIET}>Arguments as asked</p>{_pre(show_json(before))}")
    if part.state == "output-error" and part.error_text:
        body.append(f"<p {_QUIET}>Error</p>{_pre(plain(part.error_text))}")
    if state == "Denied" and (reason := denied_reason(part)):
        body.append(f"<p>Reason: {_text(reason)}</p>")
    body.extend(_html_output(shown) for shown in shown_outputs(outputs))
    if part.state == "output-available" and part.output is not None and not _is_shown(outputs):
        body.append(f"<p {_QUIET}>Result</p>{_pre(show_json(part.output))}")
    return f"<div {_CARD}><details open><summary>{head}</summary>{''.join(body)}</details></div>"


def _is_shown(outputs: Sequence[JsonValue]) -> bool:
    """Whether a result was displayed as more than printed text."""
    return any(isinstance(item, Mapping) and "stream" not in item for item in outputs)


def _html_output(shown: Shown) -> str:
    kind, content = shown.media_type, shown.content
    if kind in ("image/png", "image/jpeg"):
        data = str(content).replace("\n", "")
        if bytes_of(data) > LARGEST_IMAGE:
            return f"<p>{image_line(bytes_of(data))}</p>"
        return sanitise(f'<img src="data:{kind};base64,{data}" alt="output">')
    if kind == "image/svg+xml" or kind == "text/html":
        return f'<div style="overflow-x:auto">{sanitise(plain(str(content)))}</div>'
    if kind == "text/markdown":
        return f"<div>{render(str(content))}</div>"
    if kind == "text/latex":
        text = str(content).strip()
        return render(text if text[:1] in "$\\" else f"$${text}$$")
    return _pre(show_json(content))


def _html_file(part: FilePart) -> str:
    name = part.filename or part.media_type
    if part.url.startswith("data:"):
        size = (len(part.url) - part.url.find(",") - 1) * 3 // 4
        if part.media_type.startswith("image/") and size <= LARGEST_IMAGE:
            shown = sanitise(f'<img src="{html.escape(part.url)}" alt="{html.escape(visible(name))}">')
            if "src=" in shown:
                return f"<p>{shown}</p>"
        return f"<p {_QUIET}>[file: {_text(name)}, {size:,} bytes]</p>"
    if part.media_type.startswith("image/"):
        return f"<p>{sanitise(remote_image(part.url, visible(name)))}</p>"
    return f"<p {_QUIET}>[file: {_link(part.url, name)}]</p>"


def _html_data(part: DataPart) -> str:
    if part.type == "data-steering-message":
        return f"<div {_MESSAGE.format(shade='0.7')}><p><strong>You</strong></p>{render(steering_text(part))}</div>"
    if part.type == "data-variable" and isinstance(part.data, Mapping):
        name, kind = part.data.get("name", ""), part.data.get("type", "")
        return f"<p {_QUIET}>@{_text(str(name))} ({_text(str(kind))})</p>"
    return ""


def steering_text(part: DataPart) -> str:
    """Return what a person said between two steps."""
    data = part.data
    if isinstance(data, str):
        return data
    if not isinstance(data, Mapping):
        return ""
    if isinstance(data.get("text"), str):
        return str(data["text"])
    message = data.get("message")
    parts = data.get("parts") or (message.get("parts") if isinstance(message, Mapping) else None) or ()
    return "\n\n".join(str(item["text"]) for item in parts if isinstance(item, Mapping) and "text" in item)


def _is_cut_off(message: UIMessage) -> bool:
    """Whether a settled message has a text that was never ended."""
    return any(isinstance(part, TextPart) and part.state == "streaming" for part in message.parts)


def _text(text: str) -> str:
    return html.escape(visible(text))


def _pre(text: str) -> str:
    return f"<pre {CODE_STYLE}><code>{_text(text)}</code></pre>"


def _link(url: str, text: str) -> str:
    return sanitise(f'<a href="{html.escape(url)}">{_text(text)}</a>')


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _markdown_block(message: UIMessage) -> str:
    outputs = outputs_by_call(message)
    pieces = [f"**{_ROLES[message.role]}**"]
    pieces += [piece for part in message.parts if (piece := _markdown_part(part, outputs))]
    sources = [part for part in message.parts if isinstance(part, SourceUrlPart)]
    if sources:
        named = ((escape_raw_html(part.title or ""), quote(part.url, safe=_IN_URL)) for part in sources)
        lines = (f"{number}. {title} <{url}>" for number, (title, url) in enumerate(named, 1))
        pieces.append("\n".join(lines))
    if _is_cut_off(message):
        pieces.append("*(interrupted)*")
    return "\n\n".join(pieces)


def _markdown_part(part: object, outputs: Mapping[str, Sequence[JsonValue]]) -> str:
    if isinstance(part, TextPart):
        return escape_raw_html(part.text.strip(), names_images=True)
    if isinstance(part, FilePart):
        kind = "image" if part.media_type.startswith("image/") else "file"
        return f"[{kind}: {escape_raw_html(part.filename or part.media_type)}]"
    if isinstance(part, ToolPart):
        return markdown_call(part, outputs.get(part.tool_call_id, ()))
    if isinstance(part, DataPart) and part.type == "data-steering-message":
        return f"**You**\n\n{escape_raw_html(steering_text(part), names_images=True)}"
    if isinstance(part, DataPart) and part.type == "data-variable" and isinstance(part.data, Mapping):
        return escape_raw_html(f"*@{part.data.get('name', '')} ({part.data.get('type', '')})*")
    return ""


def markdown_call(part: ToolPart, outputs: Sequence[JsonValue]) -> str:
    """Return a call as Markdown: name, state, fenced arguments, result."""
    edited = ", arguments edited by the person" if original_input(part) is not None else ""
    pieces = [f"**{escape_raw_html(call_title(part))}** ({state_word(part)}{edited})"]
    if part.has("input"):
        pieces.append(fenced(show_json(part.input), "json"))
    elif isinstance(part.raw_input, str):
        pieces.append(fenced(part.raw_input))
    if part.state == "output-error" and part.error_text:
        pieces.append(fenced(plain(part.error_text)))
    if part.state == "output-denied" and (reason := denied_reason(part)):
        pieces.append(f"Reason: {escape_raw_html(reason)}")
    pieces.extend(_markdown_output(shown) for shown in shown_outputs(outputs, WITHOUT_MARKUP))
    if part.state == "output-available" and part.output is not None and not _is_shown(outputs):
        pieces.append(fenced(show_json(part.output)))
    return "\n\n".join(pieces)


def _markdown_output(shown: Shown) -> str:
    kind = shown.media_type
    if kind.startswith("image/"):
        return f"[image: {kind}]"
    if kind == "text/markdown":
        return escape_raw_html(str(shown.content), names_images=True)
    if kind == "text/html":
        return "[table or page: text/html]"
    return fenced(show_json(shown.content))
