"""Math in Markdown: the four delimiters and the currency rule (spec/widget.md, section 4), drawn as MathML."""

from __future__ import annotations

import html
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

LONGEST = 5_000
"""Characters of TeX above which the source is shown."""


def add_math(md: MarkdownIt) -> None:
    """Teach a Markdown parser the four delimiters: dollar signs, one or two, and brackets after a backslash."""
    md.inline.ruler.before("escape", "chatnb_math", _rule)
    md.block.ruler.before("fence", "chatnb_math_block", _block_rule, {"alt": ["paragraph", "blockquote", "list"]})
    md.add_render_rule("chatnb_math", lambda self, tokens, index, options, env: _render(tokens[index]))


def _render(token: Token) -> str:
    return to_mathml(token.content, block=token.meta["block"])


def _rule(state: StateInline, silent: bool) -> bool:
    found = find_math(state.src, state.pos, state.posMax)
    if found is None:
        return False
    tex, end, block = found
    if not silent:
        token = state.push("chatnb_math", "math", 0)
        token.content = tex
        token.markup = state.src[state.pos : end]
        token.meta = {"block": block}
    state.pos = end
    return True


def _block_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take math that fills lines of its own before anything in it looks like a list or a heading."""
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    closing = {"$$": "$$", "\\[": "\\]"}.get(first[:2])
    if closing is None or closing in first[2:]:
        return False
    for line in range(start + 1, end):
        text = state.src[state.bMarks[line] : state.eMarks[line]].rstrip()
        if not text:
            return False
        if text.endswith(closing):
            if not silent:
                inside = state.src[state.bMarks[start] + state.tShift[start] + 2 : state.bMarks[line]]
                token = state.push("chatnb_math", "math", 0)
                token.content = (inside + text.removesuffix(closing)).strip()
                token.meta = {"block": True}
                token.map = [start, line + 1]
            state.line = line + 1
            return True
    return False


def find_math(text: str, start: int, limit: int) -> tuple[str, int, bool] | None:
    """Return the TeX that begins at `start`, where it ends, and whether it is a block; None where there is none.

    A single `$` opens only before a non-space and closes only after a non-space and not before a digit.
    """
    for opening, closing, block in (("$$", "$$", True), ("\\(", "\\)", False), ("\\[", "\\]", True)):
        if text.startswith(opening, start):
            end = _find(text, closing, start + 2, limit)
            if end < 0 or not text[start + 2 : end].strip():
                return None
            return text[start + 2 : end].strip(), end + 2, block
    if not text.startswith("$", start) or start + 1 >= limit or text[start + 1].isspace():
        return None
    # The next dollar sign closes or nothing does: none can stand inside TeX, so two prices and a formula stay apart.
    end = _find(text, "$", start + 1, limit)
    if end <= start + 1 or text[end - 1].isspace() or text[end + 1 : end + 2].isdigit():
        return None
    return text[start + 1 : end], end + 1, False


def _find(text: str, closing: str, place: int, limit: int) -> int:
    """Find a delimiter, over code and escapes: code wins over math. Formulas longer than the limit are none."""
    limit = min(limit, place + LONGEST)
    if text.find(closing, place, limit) < 0:  # at once, so that many openings without an end cost little
        return -1
    while place < limit:
        if text[place] == "`":
            run = place
            while run < limit and text[run] == "`":
                run += 1
            end = text.find(text[place:run], run, limit)
            place = run if end < 0 else end + run - place
        elif text.startswith(closing, place):
            return place
        else:
            place += 2 if text[place] == "\\" else 1
    return -1


@lru_cache(maxsize=2_000)
def to_mathml(tex: str, *, block: bool) -> str:
    """Return MathML with the TeX as annotation; wrong TeX as its source, with the error as title."""
    if len(tex) > LONGEST:
        return f"<code>{html.escape(tex)}</code>"
    from latex2mathml.converter import convert

    try:
        made = convert(tex, display="block" if block else "inline")
    except Exception as error:  # noqa: BLE001 - the library raises many kinds for wrong TeX
        return f'<code title="{html.escape(type(error).__name__)}">{html.escape(tex)}</code>'
    head, bracket, rest = made.partition(">")
    body = rest.removesuffix("</math>")
    annotation = f'<annotation encoding="application/x-tex">{html.escape(tex)}</annotation>'
    return f"{head}{bracket}<semantics><mrow>{body}</mrow>{annotation}</semantics></math>"
