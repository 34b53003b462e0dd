"""`chatnb lab`: copies the tour and opens JupyterLab on its first notebook (spec/notebook.md, section 11)."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import click

from chatnb.errors import ConfigError, MissingExtraError

FIRST = "01_first_chat.ipynb"
_PAGE = f"/lab/tree/{FIRST}"
_PACKAGE = Path(__file__).resolve().parents[1]
_STOP_SECONDS = 10
# Defaults for this one server: what somebody has chosen in JupyterLab stands above them, and nothing is written.
_DEFAULTS = Path(__file__).with_name("jupyter")
_OVERRIDES = Path("labconfig", "default_setting_overrides.json")


def tour_folder() -> Path:
    """Where the tour's notebooks are: in the installed package, else beside it in a checkout.

    Raises:
        ConfigError: Neither is there.
    """
    for folder in (_PACKAGE / "_tour", _PACKAGE.parent / "notebooks"):
        if (folder / FIRST).is_file():
            return folder
    raise ConfigError("This installation has no tour. Install chatnb from a wheel or a checkout of its repository.")


def tour_files(tour: Path) -> Iterator[Path]:
    """The notebooks and their data, as paths relative to the tour's folder."""
    for path in sorted([*tour.glob("*.ipynb"), *tour.glob("data/**/*")]):
        if path.is_file():
            yield path.relative_to(tour)


def copy_tour(tour: Path, folder: Path) -> list[Path]:
    """Copies the tour into a folder. A file that is there already stays as it is.

    Args:
        tour: What `tour_folder` found.
        folder: Where to; made if it is missing.

    Returns:
        The files, relative to the folder, that differ from the tour's and were kept.
    """
    kept = []
    for name in tour_files(tour):
        target = folder / name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tour / name, target)
        elif target.read_bytes() != (tour / name).read_bytes():
            kept.append(name)
    return kept


def lab_command(folder: Path, port: int, *, browser: bool = True) -> list[str]:
    """The command that starts JupyterLab in this Python on the first notebook.

    Args:
        folder: The server's root folder.
        port: The port, which must be free.
        browser: Whether a browser is opened.
    """
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url={_PAGE}"]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # In a container people are root; JupyterLab would refuse. It listens on this machine alone, with a token.
        command.append("--allow-root")
    return command


def config_path() -> str:
    """Where a Jupyter server looks for configuration, so that JupyterLab does not begin with a question about news.

    Returns:
        The value for `JUPYTER_CONFIG_PATH`. It is as before where a configuration of this machine answers the question.
    """
    before = os.environ.get("JUPYTER_CONFIG_PATH", "")
    told = subprocess.run([sys.executable, "-m", "jupyter_core", "--paths", "--json"], capture_output=True, check=True)
    theirs = [path for folder in json.loads(told.stdout)["config"] if (path := Path(folder, _OVERRIDES)).is_file()]
    if any("fetchNews" in path.read_text("utf-8", "replace") for path in theirs):
        return before
    return os.pathsep.join(part for part in (before, str(_DEFAULTS)) if part)


def open_lab(folder: Path, *, browser: bool = True, port: int | None = None) -> int:
    """Runs JupyterLab until it ends or until Ctrl-C, which ends both.

    Args:
        folder: The server's root folder.
        browser: Whether a browser is opened.
        port: The port, which must be free; by default the first free one from 8888 on.

    Returns:
        The exit code: JupyterLab's own, or 0 after Ctrl-C.

    Raises:
        MissingExtraError: JupyterLab is not installed.
    """
    if find_spec("jupyterlab") is None:
        raise MissingExtraError('The tour opens in JupyterLab, which is missing: pip install "chatnb[lab]"')
    port = _first_free_port() if port is None else port
    # In the environment, not on the command line, which other users of this machine can read.
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
    # The kernel is the one of this Python, even if the user's own folder has another of that name.
    own = {"JUPYTER_TOKEN": token, "JUPYTER_PREFER_ENV_PATH": "1", "JUPYTER_CONFIG_PATH": config_path()}
    environment = {**os.environ, **own}
    # JupyterLab hides a token that it was given, so the address is told here.
    click.echo(f"The tour: http://127.0.0.1:{port}{_PAGE}?token={token}")
    return _run_until_interrupted(lab_command(folder, port, browser=browser), environment)


def _first_free_port() -> int:
    for port in range(8888, 8988):
        with socket.socket() as probe:
            if os.name != "nt":  # there it would let two servers share the port
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ConfigError("The ports 8888 to 8987 are taken: name a free one with --port.")


def _run_until_interrupted(command: Sequence[str], environment: dict[str, str]) -> int:
    """Runs a program out of reach of the terminal's Ctrl-C, at which JupyterLab would ask a question, and ends it."""
    with _interrupted_by_signals():
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            process_group=None if os.name == "nt" else 0,
        )
        try:
            return int(process.wait())
        except KeyboardInterrupt:
            return 0
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Treats the end of the terminal and `kill` like Ctrl-C, also where a parent had told us to ignore it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    former = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
