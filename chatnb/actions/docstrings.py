"""Descriptions from docstrings in Google, NumPy or Sphinx style, read by griffe."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# A docstring without any of these is one description; griffe, which takes time to load, need not look at it.
_SECTIONED = re.compile(r"^\s*(:\w+|-{3,}\s*$|={3,}\s*$|[A-Z][\w ]*:\s*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Documented:
    """What a docstring says.

    Attributes:
        description: The text before its sections; empty when there is none.
        parameters: Descriptions by parameter, also of names that are no parameters.
    """

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(function: Callable[..., Any]) -> Documented:
    """Return what a function's docstring says."""
    text = inspect.cleandoc(function.__doc__ or "").strip()
    if not text or not _SECTIONED.search(text):
        return Documented(text)
    readings = [_read(text, style) for style in ("google", "numpy", "sphinx")]
    # The style that documents most parameters is the docstring's; with none, the shortest text has lost its sections.
    return max(readings, key=lambda found: (len(found.parameters), -len(found.description)))


def _read(text: str, style: str) -> Documented:
    from griffe import Docstring, DocstringSectionKind

    parse = {"google": _google, "numpy": _numpy, "sphinx": _sphinx}[style]
    description: list[str] = []
    parameters: dict[str, str] = {}
    before = True
    for section in parse(Docstring(text)):
        if section.kind is DocstringSectionKind.text:
            if before:
                description.append(str(section.value).strip())
            continue
        before = False
        if section.kind in (DocstringSectionKind.parameters, DocstringSectionKind.other_parameters):
            for item in section.value:
                parameters[item.name.lstrip("*")] = " ".join(str(item.description).split())
    return Documented("\n\n".join(part for part in description if part), {k: v for k, v in parameters.items() if v})


def _google(docstring: Any) -> Any:
    from griffe import parse_google

    return parse_google(docstring, warnings=False, warn_unknown_params=False, warn_missing_types=False)


def _numpy(docstring: Any) -> Any:
    from griffe import parse_numpy

    return parse_numpy(docstring, warnings=False, warn_unknown_params=False, warn_missing_types=False)


def _sphinx(docstring: Any) -> Any:
    from griffe import parse_sphinx

    return parse_sphinx(docstring, warnings=False, warn_unknown_params=False)
