"""The one runtime of a process: its first use, reloads, fork and exit (spec/notebook.md, section 1)."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal, cast

from chatnb._clock import Clock
from chatnb._ports import Host
from chatnb.errors import ConfigError
from chatnb.runtime.kinds import ScriptHost, ThreadRuntime, kernel_runtime
from chatnb.runtime.runtime import Runtime

# Not a module of chatnb: a reload must not touch it.
_HOLDER = "_chatnb_process"


@dataclass(slots=True)
class _Held:
    runtime: Runtime | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    forgotten: list[Runtime] = field(default_factory=list)


def get_runtime(
    kind: Literal["auto", "thread", "kernel"] = "auto", host: Host | None = None, clock: Clock | None = None
) -> Runtime:
    """Return the process's runtime, started at the first call; a dead one is replaced.

    Args:
        kind: `"thread"`, `"kernel"`, or `"auto"`: whichever there is, else `"thread"` where threads can start.
        host: The place that chatnb runs in; used at the start alone.
        clock: What time-based waits are measured by; used at the start alone.

    Raises:
        ConfigError: Another kind, or the process's runtime is of the other kind.
    """
    if kind not in ("auto", "thread", "kernel"):
        raise ConfigError(f'runtime={kind!r} is unknown. Use "auto", "thread" or "kernel".')
    held = _held()
    with held.lock:
        runtime = held.runtime
        if runtime is not None and not runtime.is_alive:
            runtime = None
        if runtime is None:
            runtime = held.runtime = _start(kind, ScriptHost() if host is None else host, clock)
        elif kind not in ("auto", runtime.kind):
            raise ConfigError(
                f'This process already works with runtime="{runtime.kind}"; the first chat decides. '
                f'Use it or "auto", or restart the kernel for runtime="{kind}".'
            )
        return runtime


def _start(kind: str, host: Host, clock: Clock | None) -> Runtime:
    if kind == "kernel":
        return kernel_runtime(host, clock)
    try:
        return ThreadRuntime(host, clock)
    except RuntimeError:
        if kind == "thread":
            raise ConfigError('Threads cannot start here. Use runtime="kernel".') from None
        return kernel_runtime(host, clock)


def _held() -> _Held:
    module = sys.modules.get(_HOLDER)
    if module is None:
        module = ModuleType(_HOLDER)
        held = _Held()
        module.__dict__["held"] = held
        module = sys.modules.setdefault(_HOLDER, module)
        if module.__dict__["held"] is held:
            atexit.register(_leave, held)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=lambda: _forget(held))
    return cast(_Held, module.__dict__["held"])


def _leave(held: _Held) -> None:
    if held.runtime is not None:
        held.runtime.shut_down()


def _forget(held: _Held) -> None:
    """In the child of a fork: the threads are gone, the clients' connections are the parent's. Touch nothing."""
    held.lock = threading.Lock()
    if held.runtime is not None:
        held.forgotten.append(held.runtime)  # collected, its loop would be closed
        held.runtime = None
