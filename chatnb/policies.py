"""The policies about results and variables that an agent takes (spec/notebook.md, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from .errors import ConfigError

__all__ = ["Objects", "Share", "Variables"]

Share = Literal["summary", "names", "off"]


@dataclass(frozen=True, slots=True)
class Objects:
    """How many results `chat.objects` holds strongly.

    Attributes:
        max_items: The newest results that are held.
        max_bytes: Their estimated size in bytes, together.

    Example:
        agent = Agent("offline", objects=Objects(max_items=10))
    """

    max_items: int = 50
    max_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        for name in ("max_items", "max_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"Objects({name}): a whole number, at least 1")


@dataclass(frozen=True, slots=True)
class Variables:
    """What of the notebook's variables a model may see.

    Attributes:
        share: `"summary"`; `"names"`: name and type alone; `"off"`: nothing is listed, exact names still resolve.
        hide: Glob patterns of names that are treated as if they did not exist.

    Example:
        agent = Agent("offline", variables=Variables(share="names", hide=["salar*"]))
    """

    share: Share = "summary"
    hide: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.share not in get_args(Share):
            raise ConfigError(f"Variables(share) is one of {', '.join(get_args(Share))}")
        if isinstance(self.hide, str):
            raise ConfigError("Variables(hide): a list of patterns")
        object.__setattr__(self, "hide", tuple(self.hide))
