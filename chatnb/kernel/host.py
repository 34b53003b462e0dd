"""What chatnb needs from the place it runs in: an IPython kernel, a terminal IPython, or a script.

The notebook side of the port `Host`. IPython is asked for only if somebody else has loaded it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import PurePath
from typing import Any, Literal

from chatnb._ids import this_process
from chatnb._ports import Host
from chatnb.runtime import ScriptHost


class PlainHost(ScriptHost):
    """A script, a test run, a web server: named by what was started."""

    def __init__(self) -> None:
        path = sys.argv[0] if sys.argv else ""
        name = PurePath(path).name
        self.label = None if name in ("", "-c", "-m") else name  # `python -c` has no name


class TerminalHost(PlainHost):
    """IPython in a terminal."""

    kind: Literal["kernel", "terminal", "script"] = "terminal"

    def __init__(self, shell: Any) -> None:
        super().__init__()
        self._shell = shell
        self.label = "IPython"

    def namespace(self) -> dict[str, Any]:
        """Return the user's namespace."""
        namespace: dict[str, Any] = self._shell.user_ns
        return namespace


class KernelHost(TerminalHost):
    """An IPython kernel.

    Its loop is the main thread's and turns between cells; the same object serves all cells (PLATFORM.md, addition A).
    """

    kind: Literal["kernel", "terminal", "script"] = "kernel"

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.kernel_id = _kernel_id(shell.kernel)
        self.label = _label(shell.user_ns)

    def main_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the kernel's loop."""
        io_loop = getattr(self._shell.kernel, "io_loop", None)
        loop = getattr(io_loop, "asyncio_loop", None)
        if loop is None and threading.current_thread() is threading.main_thread():
            try:
                loop = asyncio.get_running_loop()  # kernels without tornado: Pyodide's
            except RuntimeError:
                return None
        return loop if isinstance(loop, asyncio.AbstractEventLoop) else None

    def wake_main(self) -> None:
        """Wake a Qt loop that owns the main thread between cells (`%gui qt`)."""
        app = getattr(self._shell.kernel, "app", None)
        qt_loop = getattr(app, "qt_event_loop", None)
        if qt_loop is None or threading.current_thread() is threading.main_thread():
            return
        qt_core = _qt_core(qt_loop)
        if qt_core is None:
            return
        queued = getattr(qt_core.Qt, "ConnectionType", qt_core.Qt).QueuedConnection
        qt_core.QMetaObject.invokeMethod(qt_loop, "quit", queued)


def current_host() -> Host:
    """Return what chatnb runs in now."""
    shell = running_shell()
    if shell is None:
        return PlainHost()
    if getattr(shell, "kernel", None) is not None:
        return KernelHost(shell)
    return TerminalHost(shell)


def running_shell() -> Any:
    """Return the running IPython, or None. It is asked for only if somebody else has loaded it."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def is_text_terminal(shell: Any = None) -> bool:
    """Tell whether output goes to a terminal that shows text alone: IPython's own, without a kernel."""
    shell = running_shell() if shell is None else shell
    return any(cls.__name__ == "TerminalInteractiveShell" for cls in type(shell).__mro__)


def _qt_core(qt_loop: Any) -> Any:
    """The QtCore module of the binding that the loop comes from: PyQt5, PyQt6, PySide2, PySide6."""
    return next(
        (sys.modules[cls.__module__] for cls in type(qt_loop).__mro__ if cls.__module__.endswith(".QtCore")), None
    )


def _kernel_id(kernel: Any) -> str:
    """The kernel's id and its process's start: a restarted kernel keeps its id and is another one."""
    connection = getattr(getattr(kernel, "parent", None), "connection_file", "") or ""
    name = PurePath(str(connection)).stem.removeprefix("kernel-") or f"pid-{os.getpid()}"
    return f"{name}@{this_process().start}"


def _label(namespace: dict[str, Any]) -> str | None:
    """The notebook's file name, where the server or the front end says it."""
    path = os.environ.get("JPY_SESSION_NAME") or namespace.get("__vsc_ipynb_file__")
    return PurePath(str(path)).name if path else None
