"""What code of a call must leave alone in IPython: events, `In`, `Out`, `_`, the count, the kernel's life.

Hooks are put on the shell's instances once and look at the context, so that a cell that runs meanwhile is as it was
(spec/notebook.md, section 6; PLATFORM.md, additions B and D).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_inside: ContextVar[bool] = ContextVar("chatnb_inside_run_code", default=False)
_MARK = "_chatnb_shield"

Show = Callable[[Mapping[str, Any]], object]


@contextmanager
def shielded(shell: Any, show: Show) -> Iterator[None]:
    """Keep the shell's own state out of reach of the block and of what carries its context.

    Args:
        shell: The running IPython, or None.
        show: Takes a MIME bundle that the code puts out by ways of IPython that know no capture: `obj?`, results of
            cells within the code.
    """
    if shell is None:
        yield
        return
    _install(shell)
    count = shell.execution_count
    payloads = _read_payloads(shell)
    token = _inside.set(True)
    shower = _show.set(show)
    try:
        with shell.builtin_trap:
            yield
    finally:
        _show.reset(shower)
        _inside.reset(token)
        if shell.execution_count != count and not _is_in_cell(shell):
            shell.execution_count = count
        _take_payloads(shell, payloads, show)


_show: ContextVar[Show | None] = ContextVar("chatnb_run_code_show", default=None)


def _is_in_cell(shell: Any) -> bool:
    """Whether a cell runs beside the code: then the count may be that cell's."""
    return getattr(shell, "_chatnb_cell_count", None) not in (None, shell.execution_count)


def _install(shell: Any) -> None:
    _silence(shell.events, "trigger")
    _silence(shell.displayhook, "update_user_ns")
    _silence(shell.history_manager, "store_inputs")
    _guard_exit(shell)
    if hasattr(shell.displayhook, "session"):  # a kernel's: it would send the result to the cell that ran last
        _divert_results(shell.displayhook)


def _silence(holder: Any, name: str) -> None:
    inner = getattr(holder, name, None)
    if inner is None or getattr(inner, _MARK, False):
        return

    def quiet(*args: Any, **kwargs: Any) -> Any:
        return None if _inside.get() else inner(*args, **kwargs)

    setattr(quiet, _MARK, True)
    setattr(holder, name, quiet)


def _guard_exit(shell: Any) -> None:
    inner = shell.ask_exit
    if getattr(inner, _MARK, False):
        return

    def ask_exit(*args: Any, **kwargs: Any) -> Any:
        if _inside.get():
            raise SystemExit("exit() does not end the kernel here")
        return inner(*args, **kwargs)

    setattr(ask_exit, _MARK, True)
    shell.ask_exit = ask_exit


def _divert_results(displayhook: Any) -> None:
    inner = displayhook.write_format_data
    if getattr(inner, _MARK, False):
        return

    def write_format_data(format_dict: Mapping[str, Any], md_dict: Any = None) -> Any:
        show = _show.get()
        if show is None:
            return inner(format_dict, md_dict)
        show(format_dict)
        return None

    setattr(write_format_data, _MARK, True)
    displayhook.write_format_data = write_format_data
    _silence(displayhook, "start_displayhook")
    _silence(displayhook, "write_output_prompt")
    _silence(displayhook, "finish_displayhook")


# --- payloads ---------------------------------------------------------------------------------------------------------


def _read_payloads(shell: Any) -> list[Any]:
    manager = getattr(shell, "payload_manager", None)
    return [] if manager is None else list(manager.read_payload())


def _take_payloads(shell: Any, before: list[Any], show: Show) -> None:
    """Take the payloads of the code off the next cell's reply; a page, that of `obj?`, is shown."""
    fresh = [payload for payload in _read_payloads(shell) if not any(payload is old for old in before)]
    if not fresh:
        return
    shell.payload_manager.clear_payload()
    for payload in before:
        shell.payload_manager.write_payload(payload, single=False)
    for payload in fresh:
        data = payload.get("data") if payload.get("source") == "page" else None
        if isinstance(data, Mapping) and data:
            show(dict(data))
