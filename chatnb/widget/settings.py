"""The options of a widget, checked when it is made (spec/widget.md, section 1)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from .._json import whole
from .._pending import json_or_none
from ..errors import ConfigError
from ..turns.records import ClientTool
from .client_tools import ToolCall
from .inputs import BodyOption, SendRequest

THEMES = ("auto", "light", "dark")
_UNITS = "px|r?(em|ex|ch|ic|lh|cap)|[dsl]?v(h|w|b|i|min|max)|cq(w|h|b|i|min|max)|cm|mm|in|pt|pc|q|%"
_LENGTH = re.compile(rf"\+?(0|(\d+(\.\d+)?|\.\d+)(e[+-]?\d{{1,3}})?({_UNITS}))", re.IGNORECASE)
_CALC = re.compile(r"(calc|min|max|clamp)\([\w\s.,%+*/()-]+\)", re.IGNORECASE)

# Options that may change while a widget is shown.
LIVE = ("height", "theme", "placeholder", "title", "suggestions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is fixed for the life of a widget; the options that may change are traits."""

    locale: str | None = None
    transcript: bool = True
    client_tools: tuple[ClientTool, ...] = ()
    on_tool_call: Callable[[ToolCall], Any] | None = None
    on_data: Callable[[Any], Any] | None = None
    auto_continue: bool = True
    resume: bool = True
    cancel_on_client_abort: bool = False
    body: BodyOption = None
    prepare: Callable[[SendRequest], Any] | None = None
    get_initial_messages: Callable[[], Any] | None = None
    sync_messages: bool = False
    max_attachment_bytes: int = 5_000_000
    allow_attachments: bool = True


# Options whose name differs from that of their field.
_OPTION_OF = {
    "auto_continue_after_tool_result": "auto_continue",
    "prepare_send_messages_request": "prepare",
}
_FLAGS = tuple(field.name for field in fields(Settings) if isinstance(field.default, bool))
_FIELD_NAMES = {field.name for field in fields(Settings)} - set(_OPTION_OF.values())
OPTIONS = (*LIVE, *sorted(_FIELD_NAMES | set(_OPTION_OF)))


def signature() -> inspect.Signature:
    """Return what `ChatWidget` takes, for help and completion: the options stand in no signature of Python code."""
    defaults: dict[str, Any] = {
        "height": "560px",
        "theme": "auto",
        "placeholder": None,
        "title": None,
        "suggestions": (),
    }
    fixed = {_public(field.name): field.default for field in fields(Settings)} | {"client_tools": None}
    made = [inspect.Parameter("chat", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, default in {**defaults, **fixed}.items():
        made.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    return inspect.Signature(made)


def check_known(options: Iterable[str]) -> None:
    """Refuse unknown keywords.

    Raises:
        TypeError: There is one; the text names the nearest that is known.
    """
    for name in options:
        if name not in OPTIONS:
            near = get_close_matches(name, OPTIONS, 1, 0.0)
            raise TypeError(f"ChatWidget has no option {name!r}; did you mean {near[0]!r}?")


def read_settings(options: Mapping[str, Any]) -> Settings:
    """Return the settings of keywords that are known.

    Raises:
        ConfigError: An option can't be so.
    """
    given = {_OPTION_OF.get(name, name): value for name, value in options.items() if name not in LIVE}
    for name in ("on_tool_call", "on_data", "prepare", "get_initial_messages"):
        if given.get(name) is not None and not callable(given[name]):
            raise ConfigError(f"{_public(name)} must be a function")
    body = given.get("body")
    if body is not None and not callable(body) and not isinstance(body, Mapping):
        raise ConfigError("body must be a dict, or a function that returns one")
    listed = given.pop("client_tools", None) or ()
    if not isinstance(listed, Sequence):
        raise ConfigError("client_tools must be a list of ClientTool")
    tools = tuple(listed)
    _check_tools(tools)
    for name in _FLAGS:
        if name in given and not isinstance(given[name], bool):
            raise ConfigError(f"{_public(name)} must be True or False")
    limit = given.get("max_attachment_bytes", 1)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigError("max_attachment_bytes must be a whole number of bytes above 0")
    locale = given.get("locale")
    if locale is not None and not (isinstance(locale, str) and re.fullmatch(r"[A-Za-z]{2,3}([-_]\w{2,8})*", locale)):
        raise ConfigError('locale must be a language tag such as "en" or "pt-BR"')
    return Settings(**given, client_tools=tools)


def _public(name: str) -> str:
    return next((option for option, field in _OPTION_OF.items() if field == name), name)


def _check_tools(tools: Sequence[object]) -> None:
    names = set()
    for tool in tools:
        if not isinstance(tool, ClientTool):
            raise ConfigError("client_tools must be a list of ClientTool")
        if not isinstance(tool.parameters, dict) or tool.parameters.get("type", "object") != "object":
            raise ConfigError(f"client tool {tool.name!r}: parameters must be a JSON Schema of an object")
        if json_or_none({**tool.to_json(), "form": tool.form}) is None:
            raise ConfigError(f"client tool {tool.name!r}: parameters and form must be JSON")
        if tool.name in names:
            raise ConfigError(f"client tool {tool.name!r} is there twice")
        names.add(tool.name)


def check_names(tools: Sequence[ClientTool], actions: Container[str]) -> None:
    """Refuse a client tool that has the name of an action.

    Raises:
        ConfigError: There is one.
    """
    for tool in tools:
        if tool.name in actions:
            raise ConfigError(f"client tool {tool.name!r} has the name of an action of this agent; call it otherwise")


def check_height(value: object) -> str:
    """Return a height that is a CSS length or "auto".

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(value, str):
        text = value.strip()
        if text == "auto" or _LENGTH.fullmatch(text) or _CALC.fullmatch(text):
            return text
    raise ConfigError('height must be a CSS length such as "560px" or "70vh", or "auto"')


def check_theme(value: object) -> str:
    """Return a theme.

    Raises:
        ConfigError: It is none of "auto", "light" and "dark".
    """
    if value in THEMES:
        return str(value)
    raise ConfigError('theme must be "auto", "light" or "dark"')


def check_text(value: object) -> str | None:
    """Return a text, or None.

    Raises:
        ConfigError: It is neither.
    """
    if value is None or isinstance(value, str):
        return value if value is None else whole(value)
    raise ConfigError("placeholder and title must be texts")


def check_suggestions(value: object) -> tuple[str, ...]:
    """Return suggestions as a tuple.

    Raises:
        ConfigError: They are no list of texts.
    """
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return tuple(map(whole, value))
    raise ConfigError("suggestions must be a list of texts")
