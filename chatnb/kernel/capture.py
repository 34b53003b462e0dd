"""Capturing what a call puts out, by the call's context (spec/notebook.md, section 3; PLATFORM.md, addition C)."""

from __future__ import annotations

import builtins
import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chatnb.errors import InputNotAvailableError
from chatnb.kernel.figures import Figures
from chatnb.kernel.host import running_shell
from chatnb.kernel.outputs import Outputs, current_outputs, going_to
from chatnb.runtime.streams import hook_streams

_MARK = "_chatnb_hook"


@contextmanager
def capture(outputs: Outputs) -> Iterator[Outputs]:
    """Send what the block and whatever carries its context put out to `outputs`.

    For `FunctionCall.scope`: `scope=lambda: capture(outputs)`. Figures that the block leaves open are taken at its end.

    Args:
        outputs: Where it goes.

    Yields:
        The same.
    """
    install()
    figures = Figures(outputs)
    with going_to(outputs):
        try:
            yield outputs
        finally:
            figures.take()


def install() -> None:
    """Put the hooks into this process, once; harmless if they are there."""
    hook_streams()
    shell = running_shell()
    if shell is not None:
        _hook_display(shell.display_pub)
    _guard_input(getattr(shell, "kernel", None))


def _hook_display(publisher: Any) -> None:
    # On the instance, which nobody puts back; `register_hook` would hold for one thread alone.
    inner_publish, inner_clear = publisher.publish, publisher.clear_output
    if getattr(inner_publish, _MARK, False):
        return

    def publish(data: Any, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
        outputs = current_outputs.get()
        if outputs is not None:
            display_id = (kwargs.get("transient") or {}).get("display_id")
            if outputs.show(_with_image(data), display_id=display_id, update=bool(kwargs.get("update"))):
                return None
        return inner_publish(data, metadata, *args, **kwargs)

    def clear_output(wait: bool = False) -> Any:
        outputs = current_outputs.get()
        if outputs is None:
            return inner_clear(wait)
        outputs.clear(wait=wait)
        return None

    setattr(publish, _MARK, True)
    publisher.publish = publish
    publisher.clear_output = clear_output


def _with_image(bundle: Any) -> Any:
    """Draw a plotly figure as PNG if its library for that, kaleido, is there."""
    plotly = sys.modules.get("plotly.io")
    figure = bundle.get("application/vnd.plotly.v1+json")
    if plotly is None or figure is None or "image/png" in bundle:
        return bundle
    import base64

    try:
        data = {"data": figure.get("data", []), "layout": figure.get("layout", {})}
        return {**bundle, "image/png": base64.b64encode(plotly.to_image(data, format="png")).decode("ascii")}
    except Exception:  # noqa: BLE001 - kaleido is missing or has no browser: the note stands
        return bundle


# --- input ------------------------------------------------------------------------------------------------------


def _guard_input(kernel: Any) -> None:
    """Have `input()`, `getpass()` and `breakpoint()` raise in a call; elsewhere they are as they were.

    ipykernel sets `builtins.input` and `getpass.getpass` for each cell and puts back what it had saved, so its own
    methods and what it has saved are guarded as well.
    """
    _guard(builtins, "input", "input()")
    _guard(getpass, "getpass", "getpass()")
    _guard(sys, "breakpointhook", "breakpoint()")
    if kernel is not None:
        for name in ("raw_input", "_sys_raw_input"):
            _guard(kernel, name, "input()")
        for name in ("getpass", "_save_getpass"):
            _guard(kernel, name, "getpass()")


def _guard(holder: Any, name: str, what: str) -> None:
    inner: Callable[..., Any] | None = getattr(holder, name, None)
    if inner is None or getattr(inner, _MARK, False):
        return

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if current_outputs.get() is not None:
            raise InputNotAvailableError(
                f"{what} cannot be used in an action. Ask the person through the chat instead."
            )
        return inner(*args, **kwargs)

    guarded.__doc__ = inner.__doc__
    guarded.__name__ = name
    setattr(guarded, _MARK, True)
    setattr(holder, name, guarded)
