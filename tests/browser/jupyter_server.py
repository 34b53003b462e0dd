"""A Jupyter server of the tests' own: nothing of the user's configuration goes in, nothing of the tests' goes out."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from threading import Event
from typing import Literal

from chatnb.sites.lab import config_path

App = Literal["lab", "notebook"]
ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60

_FLAGS = {
    "lab": ("--LabApp.expose_app_in_browser=True",),
    "notebook": ("--JupyterNotebookApp.expose_app_in_browser=True",),
}


class JupyterServer:
    """Runs `jupyter lab` or `jupyter notebook` on 127.0.0.1 without a token.

    Kernels find chatnb in this checkout and keep their chats in the folder of their notebook. The offline model keeps
    its rhythm, so that streaming can be watched.
    """

    def __init__(self, app: App, folder: Path) -> None:
        self.app = app
        self.files = folder / "files"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        """Starts the server and waits until it answers.

        Raises:
            RuntimeError: It ended, or did not answer in a minute; the text holds the end of its log.
        """
        self.files.mkdir(parents=True)
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [
            *(sys.executable, "-m", "jupyter", self.app, "--no-browser", "--allow-root", "--ip=127.0.0.1"),
            *(f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password="),
            *("--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={self.files}"),
            *_FLAGS[self.app],
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self._environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Ends the server and its kernels."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def kernels(self) -> Path:
        """Where the server looks for kernels besides its own."""
        return self._folder / "jupyter_data_dir" / "kernels"

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _environment(self) -> dict[str, str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CHATNB_", "JUPYTER", "ANTHROPIC_", "PYTEST_"))
        }
        own = {
            name: str(self._folder / name.lower())
            for name in (
                "IPYTHONDIR",
                "JUPYTER_CONFIG_DIR",
                "JUPYTER_DATA_DIR",
                "JUPYTER_RUNTIME_DIR",
                "JUPYTERLAB_SETTINGS_DIR",
                "JUPYTERLAB_WORKSPACES_DIR",
            )
        }
        path = os.pathsep.join(part for part in (str(ROOT), environment.get("PYTHONPATH")) if part)
        # As `chatnb lab` does: else a question about news stands in the corner.
        return {**environment, **own, "PYTHONPATH": path, "JUPYTER_CONFIG_PATH": config_path()}

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        pause = Event()
        for _ in range(START_SECONDS * 10):
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/api", timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pause.wait(0.1)
        self.stop()
        raise RuntimeError(f"jupyter {self.app} did not start:\n{self._log.read_text('utf-8', 'replace')[-3000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
