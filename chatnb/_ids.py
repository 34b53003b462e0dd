"""Ids of things, and the identity of this process."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from .errors import InputError

Kind = Literal["approval", "block", "call", "chat", "incident", "input", "msg", "node", "row", "turn", "view"]
NewId = Callable[[Kind], str]
"""Makes an id for a kind of thing. The engine gets one, so that tests can count instead of draw."""

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_ONLY_START = secrets.token_hex(8)


def random_word(length: int) -> str:
    """Return `length` random lower-case letters and digits."""
    number = secrets.randbelow(len(_ALPHABET) ** length)  # one question to the system for all of them
    letters: list[str] = []
    for _ in range(length):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


def new_id(kind: Kind) -> str:
    """Return a new id such as `msg-3f9…` with 16 random characters; 12 for a message, whose id is in every frame."""
    return f"{kind}-{random_word(12 if kind == 'msg' else 16)}"


def new_chat_id(agent: str) -> str:
    """Return the id of a new chat: the agent's name and 6 random characters."""
    return f"{agent}-{random_word(6)}"


def check_chat_id(id: object, *, child: bool = False) -> None:
    """Refuse what is no chat id.

    Raises:
        InputError: Not 1 to 200 printable characters, or it holds a `/`.
    """
    if not isinstance(id, str) or not 1 <= len(id) <= 200 or not id.isprintable():
        raise InputError("a chat id is 1 to 200 printable characters")
    if "/" in id and not child:
        raise InputError("a chat id holds no '/': that is kept for the chats of calls")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Who a process is, beyond its pid: pids are used again (spec/recovery.md, section 3).

    Attributes:
        host: Host name and machine id.
        pid: The process id.
        start: On Linux the boot id and the start in ticks since boot, elsewhere the start time in seconds.
    """

    host: str
    pid: int
    start: str


def this_process() -> ProcessIdentity:
    """Return the identity of this process; after a fork the child's own."""
    pid = os.getpid()
    return ProcessIdentity(host=_host(), pid=pid, start=start_of(pid) or "unknown")


def process_mark() -> str:
    """Return a text that names this process among all that share a store."""
    return _mark_of(os.getpid())


@cache
def _mark_of(pid: int) -> str:
    return hashlib.sha256(f"{_host()}/{pid}/{start_of(pid)}".encode()).hexdigest()[:16]


def start_of(pid: int) -> str | None:
    """Return when a process of this host started, in the form of `ProcessIdentity.start`; None if there is none."""
    if sys.platform.startswith("linux"):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()
        if fields[0] == "Z":
            return None
        return f"{_boot_id()}/{fields[19]}"
    if sys.platform == "emscripten":  # in a browser, where each kernel is the only process it knows
        return _ONLY_START if pid == os.getpid() else None
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.0f}"
    except psutil.Error:
        return None


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


@cache
def _host() -> str:
    name = platform.node() or "localhost"
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = f"{uuid.getnode():x}"
    return f"{name}/{hashlib.sha256(machine.encode()).hexdigest()[:12]}"
