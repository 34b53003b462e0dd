"""Markdown of messages as sanitised html, and as Markdown that no raw html can hide in."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .images import name_images
from .sanitise import sanitise, visible
from .tex import add_math

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_TABLE = 'style="border-collapse:collapse;margin:0.5em 0"'
_CELL = "border:1px solid rgba(128,128,128,0.4);padding:0.2em 0.6em"
_CODE = (
    "background:rgba(128,128,128,0.12);padding:0.6em 0.8em;border-radius:4px;overflow-x:auto;white-space:pre-wrap;"
    "overflow-wrap:anywhere;text-align:left"
)
CODE_STYLE = f'style="{_CODE}" dir="ltr"'
_SAFE_LINK = re.compile(r"(https?://|mailto:|#)", re.IGNORECASE)


def render(text: str) -> str:
    """Return Markdown as html: CommonMark, tables, strikethrough, task lists, footnotes, math. Raw html is text."""
    return _own_styles(sanitise(_parser().render(visible(text))))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    md = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    footnote_plugin(md)
    add_math(md)
    md.validateLink = lambda url: True  # type: ignore[method-assign]  # the rules below decide
    md.add_render_rule("image", _image)
    md.add_render_rule("link_open", _link_open)
    md.add_render_rule("footnote_ref", lambda self, tokens, index, options, env: _note_ref(tokens[index]))
    md.add_render_rule("footnote_anchor", lambda *_: "")
    md.add_render_rule("footnote_open", lambda self, tokens, index, *_: _note_open(tokens[index]))
    md.add_render_rule("footnote_close", lambda *_: "</div>\n")
    md.add_render_rule("footnote_block_open", lambda *_: "<hr>\n<div>\n")
    md.add_render_rule("footnote_block_close", lambda *_: "</div>\n")
    return md


def _note_ref(token: Token) -> str:
    return f"<sup>[{int(token.meta['id']) + 1}]</sup>"


def _note_open(token: Token) -> str:
    return f"<div><sup>{int(token.meta['id']) + 1}</sup> "


def _image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A data image is drawn; a remote one is a link, so that nothing is loaded."""
    token = tokens[index]
    url, alt = str(token.attrs.get("src", "")), token.content
    if url.lower().startswith("data:image/"):
        return f'<img src="{html.escape(url)}" alt="{html.escape(alt)}">'
    return remote_image(url, alt)


def remote_image(url: str, alt: str) -> str:
    """Return what stands for an image that is elsewhere: a link that names host and alternative text."""
    if not _SAFE_LINK.match(url):
        return f"[image: {html.escape(alt)}]"
    host = urlsplit(url).hostname or "elsewhere"
    return f'<a href="{html.escape(url)}">[image at {html.escape(host)}: {html.escape(alt or "no description")}]</a>'


def _link_open(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    url = str(tokens[index].attrs.get("href", ""))
    return f'<a href="{html.escape(url)}">' if _SAFE_LINK.match(url) else "<a>"


def _own_styles(markup: str) -> str:
    """Give tables and code blocks a look that needs no style sheet; after sanitising, so that it is ours."""
    task = re.compile(r"<li>(\s*(?:<p>)?)\[([ xX])\] ")
    markup = task.sub(lambda m: f"<li>{m[1]}{'☑' if m[2] in 'xX' else '☐'} ", markup)
    markup = markup.replace("<table>", f"<table {_TABLE}>").replace("<pre>", f"<pre {CODE_STYLE}>")
    markup = re.sub(r'<(t[dh])(?=[\s>])( style="([^"]*)")?', rf'<\1 style="{_CELL};\3"', markup)
    return markup.replace(';">', '">')


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?!(?:https?://|mailto:)[^\s<>]*>)", re.IGNORECASE)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


def escape_raw_html(text: str, *, names_images: bool = False) -> str:
    """Return Markdown in which raw html is text; code stays as it is.

    Args:
        text: The Markdown.
        names_images: An image becomes its description: nothing is loaded, and no data stands in the text.
    """
    done: list[str] = []
    block: list[str] = []
    fence: str | None = None

    def flush() -> None:
        if block:
            done.append(_escape_outside_spans("\n".join(block), names_images))
            block.clear()

    for line in visible(text).split("\n"):
        mark = _FENCE.match(line)
        if fence is not None:
            done.append(line)
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
        elif mark and not (mark[1][0] == "`" and "`" in line[mark.end() :]):
            flush()
            fence = mark[1]
            done.append(line)
        elif line.strip():
            block.append(line)
        else:
            flush()
            done.append(line)
    flush()
    return "\n".join(done)


def _escape_outside_spans(text: str, names_images: bool) -> str:
    def escape(piece: str) -> str:
        return _TAG.sub("&lt;", name_images(piece) if names_images else piece)

    done, place = [], 0
    for span in _SPAN.finditer(text):
        done.append(escape(text[place : span.start()]))
        done.append(span.group())
        place = span.end()
    done.append(escape(text[place:]))
    return "".join(done)


def fenced(text: str, language: str = "") -> str:
    """Return a code block whose fence is longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
