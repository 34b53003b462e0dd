"""The switch that makes an unplanned connection fail: tests and CI turn it on."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from chatnb.errors import ModelRequestError

_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_forbidden = False


def forbid_network(forbidden: bool = True) -> None:
    """Let models connect to this machine only, or lift that again.

    The environment variable `CHATNB_FORBID_NETWORK=1` does the same for a whole process.
    """
    global _forbidden
    _forbidden = forbidden


def is_network_forbidden() -> bool:
    """Whether models may connect to this machine only."""
    return _forbidden or os.environ.get("CHATNB_FORBID_NETWORK", "") not in ("", "0")


def check_connection(url: str) -> None:
    """Refuse a connection that the switch forbids, before it is made.

    Raises:
        ModelRequestError: The switch is on and the host is not this machine.
    """
    if is_network_forbidden() and urlsplit(url).hostname not in _LOCAL:
        raise ModelRequestError(
            "This process may not use the network (CHATNB_FORBID_NETWORK or chatnb.models.forbid_network()), "
            "so the model was not asked. Use OfflineModel, ScriptedModel, a recording or FakeAnthropic."
        )
