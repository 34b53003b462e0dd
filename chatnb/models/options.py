"""Checks of models' options: one that can't work raises where it is written, and is named without its value."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import ConfigError


def check_text(option: str, value: object, *, or_none: bool = False) -> None:
    """Refuse what is no text.

    Args:
        option: The option, as the error names it.
        value: What was given.
        or_none: None will do.

    Raises:
        ConfigError: It is none, or an empty one.
    """
    if (value is None and or_none) or (isinstance(value, str) and value.strip()):
        return
    raise ConfigError(f"{option} is a text that is not empty{', or None' if or_none else ''}.")


def check_flag(option: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises:
        ConfigError: It is neither.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{option} is True or False.")


def check_seconds(option: str, value: object, *, above_zero: bool = False) -> None:
    """Refuse what is no finite number of seconds.

    Raises:
        ConfigError: It is none, or too small.
    """
    limit = "above 0" if above_zero else "not below 0"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(f"{option} is a number of seconds {limit}.")
    if above_zero and value == 0:
        raise ConfigError(f"{option} is a number of seconds {limit}.")


def check_count(option: str, value: object, *, least: int, what: str = "", or_none: bool = False) -> None:
    """Refuse what is no whole number from `least`.

    Raises:
        ConfigError: It is none.
    """
    if value is None and or_none:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        of = f" of {what}" if what else ""
        raise ConfigError(f"{option} is a whole number{of}, at least {least}{', or None' if or_none else ''}.")


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is none of a few words.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{option} is one of {', '.join(repr(choice) for choice in choices)}.")
