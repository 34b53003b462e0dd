"""What holds for every test and for every kernel that nbval starts (spec/notebook.md, section 11)."""

from __future__ import annotations

import ipaddress
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent
SANITISER = ROOT / "notebooks" / "nbval.cfg"

# At import, before any kernel is started: nbval's kernels inherit this environment.
os.environ["CHATNB_OFFLINE_RHYTHM"] = "0"
os.environ["CHATNB_FORBID_NETWORK"] = "1"  # chatnb's own switch, for kernels and other processes
os.environ.pop("ANTHROPIC_API_KEY", None)
# Kernels find this checkout as the tests do, by `pythonpath` in pyproject.toml.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
_stores = tempfile.TemporaryDirectory(prefix="chatnb-tests-", ignore_cleanup_errors=True)
os.environ["CHATNB_STORE"] = str(Path(_stores.name, "chats.db"))


def pytest_configure(config: pytest.Config) -> None:
    # By its absolute path: the option in the ini file would only work when started from the root.
    if getattr(config.option, "nbval", False) or getattr(config.option, "nbval_lax", False):
        config.option.nbval_sanitize_with = str(SANITISER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the browser tests last: what is quick tells first, and nothing else runs beside Playwright's loop."""
    browser = ROOT / "tests" / "browser"
    items.sort(key=lambda item: browser in item.path.parents)


def pytest_unconfigure() -> None:
    _stores.cleanup()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Gives each notebook's kernel, which starts when its first cell is set up, a store of its own."""
    if item.path.suffix == ".ipynb":
        os.environ["CHATNB_STORE"] = str(Path(_stores.name, f"{item.path.stem}.db"))


class UnplannedConnectionError(AssertionError):
    """A test tried to reach something beyond this machine."""


def _is_local(address: object) -> bool:
    if not isinstance(address, tuple):
        return True  # a Unix socket's path
    host = str(address[0]).split("%")[0]
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class NetworkGuard:
    """Refuses connections to other machines, and remembers them, since a retry may swallow the refusal."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def check(self, address: object) -> None:
        """Raises `UnplannedConnectionError` if the address is not on this machine."""
        if not _is_local(address):
            self.refused.append(str(address))
            raise UnplannedConnectionError(f"A test tried to connect to {address}. Tests have no network.")


@pytest.fixture(autouse=True)
def network_guard(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The global switch: any unplanned connection fails the test that made it, even if its code caught the error."""
    guard = NetworkGuard()
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        guard.check(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        guard.check(address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        guard.check((name or "localhost",))
        return getaddrinfo(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
    yield guard
    if guard.refused:
        raise UnplannedConnectionError(f"The test tried to connect to {', '.join(guard.refused)}.")


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Gives each test a store file of its own, so that chats with equal ids never meet."""
    path = tmp_path / "chats.db"
    monkeypatch.setenv("CHATNB_STORE", str(path))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return path
