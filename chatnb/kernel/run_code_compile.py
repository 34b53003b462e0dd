"""From a cell's source to code objects, as IPython does it but without running a cell (PLATFORM.md, addition D)."""

from __future__ import annotations

import ast
import hashlib
import inspect
import io
import linecache
import tokenize
from dataclasses import dataclass
from types import CodeType
from typing import Any


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a source is run as.

    Attributes:
        body: All but a trailing expression, or None.
        last: The trailing expression, or None.
        filename: Names the source in tracebacks.
        is_quiet: A semicolon at the end suppresses the result.
    """

    body: CodeType | None
    last: CodeType | None
    filename: str
    is_quiet: bool = False

    @property
    def is_async(self) -> bool:
        """It awaits at the top level."""
        return any(code is not None and code.co_flags & inspect.CO_COROUTINE for code in (self.body, self.last))


def compile_cell(source: str, shell: Any) -> Compiled:
    """Compile a cell; nothing runs.

    Args:
        source: The cell, with magics where there is an IPython.
        shell: The running IPython, or None.

    Raises:
        SyntaxError: It is no valid code.
    """
    filename = f"<run_code {hashlib.sha256(source.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}>"
    # Without a time, so that `linecache` never looks for a file.
    lines = [line + "\n" for line in source.splitlines()]
    linecache.cache[filename] = (len(source), None, lines, filename)
    text = source if shell is None else shell.transform_cell(source)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | (0 if shell is None else shell.compile.flags)
    tree = compile(text, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    if shell is not None:
        tree = shell.transform_ast(tree)
    statements = list(tree.body)
    last = statements.pop().value if statements and isinstance(statements[-1], ast.Expr) else None
    body = ast.Module(body=statements, type_ignores=[])
    return Compiled(
        compile(body, filename, "exec", flags, dont_inherit=True) if statements else None,
        compile(ast.Expression(last), filename, "eval", flags, dont_inherit=True) if last is not None else None,
        filename,
        _ends_quietly(text),
    )


def _ends_quietly(text: str) -> bool:
    """Tell whether the last token is a semicolon; comments and line ends do not count."""
    ignored = (tokenize.COMMENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in ignored:
                last = token.string
    except (tokenize.TokenError, IndentationError):
        return False
    return last == ";"
