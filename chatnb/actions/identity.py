"""Who calls and who decides (spec/actions.md, 2.7)."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError

Kind = Literal["user", "service"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A person or a service. A service may call, never approve.

    Attributes:
        id: Unique and lasting.
        name: For display.
        email: An address, or None.
        kind: `"user"` or `"service"`.
        roles: What guards may look at.
    """

    id: str
    name: str | None = None
    email: str | None = None
    kind: Kind = "user"
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise ConfigError("Identity(id): a non-empty text")
        if self.kind not in ("user", "service"):
            raise ConfigError('Identity(kind): "user" or "service"')
        if isinstance(self.roles, str) or not all(isinstance(role, str) for role in self.roles):
            raise ConfigError("Identity(roles): a list of texts")
        object.__setattr__(self, "roles", tuple(self.roles))


def find_identity(
    configured: Identity | str | None = None,
    *,
    host: Literal["kernel", "terminal", "script"] = "script",
    environment: Mapping[str, str] | None = None,
) -> Identity | None:
    """Return the identity of who works here, or None: it is never made up.

    Args:
        configured: `Agent(identity=)`; a text is an id.
        host: In a kernel or on a terminal the login user counts; in a script (cron, CI) nobody does.
        environment: Where `CHATNB_IDENTITY` is read; default: the process's.
    """
    if isinstance(configured, Identity):
        return configured
    if isinstance(configured, str) and configured:
        return Identity(configured)
    named = (os.environ if environment is None else environment).get("CHATNB_IDENTITY", "").strip()
    if named:
        return Identity(named)
    if host in ("kernel", "terminal"):
        login = _login()
        if login:
            return Identity(f"local:{login}", name=login)
    return None


def _login() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
