"""`chatnb lab` (spec/notebook.md, section 11)."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner

from chatnb.sites import lab
from chatnb.sites.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tour(tmp_path: Path) -> Path:
    folder = tmp_path / "tour"
    (folder / "data").mkdir(parents=True)
    (folder / lab.FIRST).write_text("one", "utf-8")
    (folder / "02_more.ipynb").write_text("two", "utf-8")
    (folder / "data" / "sales.csv").write_text("a,b", "utf-8")
    (folder / "nbval.cfg").write_text("for tests", "utf-8")
    return folder


class TestCopy:
    """The tour is copied, and what a person changed stays."""

    def test_notebooks_and_their_data_are_copied(self, tour: Path, tmp_path: Path) -> None:
        assert lab.copy_tour(tour, tmp_path / "new") == []
        names = {path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*.*")}
        assert names == {lab.FIRST, "02_more.ipynb", "data/sales.csv"}

    def test_a_changed_file_is_never_overwritten(self, tour: Path, tmp_path: Path) -> None:
        """`chatnb lab` never overwrites a changed file; a lost one comes back."""
        lab.copy_tour(tour, tmp_path / "new")
        (tmp_path / "new" / lab.FIRST).write_text("mine", "utf-8")
        (tmp_path / "new" / "02_more.ipynb").unlink()
        assert lab.copy_tour(tour, tmp_path / "new") == [Path(lab.FIRST)]
        assert (tmp_path / "new" / lab.FIRST).read_text("utf-8") == "mine"
        assert (tmp_path / "new" / "02_more.ipynb").read_text("utf-8") == "two"

    def test_the_tour_of_a_checkout_is_found(self) -> None:
        assert lab.tour_folder() == ROOT / "notebooks"


class TestCommand:
    """What is started, and what is said when it can't be."""

    def test_listens_on_this_machine_alone(self) -> None:
        command = lab.lab_command(Path("here"), 8999, browser=False)
        assert "--ServerApp.ip=127.0.0.1" in command
        assert {"--no-browser", "--ServerApp.port=8999", "--ServerApp.root_dir=here"} <= set(command)
        assert f"--LabApp.default_url=/lab/tree/{lab.FIRST}" in command

    def test_no_token_is_on_the_command_line(self) -> None:
        assert not [part for part in lab.lab_command(Path("here"), 8888) if "token" in part]

    def test_without_jupyterlab_the_command_to_install_is_named(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """No JupyterLab: exit code 1 and `pip install "chatnb[lab]"`."""
        monkeypatch.setattr(lab, "find_spec", lambda name: None)
        result = CliRunner().invoke(main, ["lab", str(tmp_path / "new")])
        assert result.exit_code == 1
        assert 'pip install "chatnb[lab]"' in result.stderr

    def test_a_kept_file_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(lab, "open_lab", lambda folder, **options: 0)
        for expected in ("", f"Kept your own {tmp_path / 'new' / lab.FIRST}.\n"):
            result = CliRunner().invoke(main, ["lab", str(tmp_path / "new")])
            assert (result.exit_code, result.output) == (0, expected)
            (tmp_path / "new" / lab.FIRST).write_text("mine", "utf-8")


class TestNews:
    """JupyterLab's own question about news is answered for this server alone, unless somebody has answered it."""

    @pytest.fixture(autouse=True)
    def config(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)
        monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
        return tmp_path / "config"

    def test_by_a_default(self) -> None:
        assert json.loads((Path(lab.config_path()) / lab._OVERRIDES).read_text("utf-8")) == {
            "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}
        }

    def test_after_what_the_environment_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JUPYTER_CONFIG_PATH", os.pathsep.join(["one", "two"]))
        assert lab.config_path().split(os.pathsep)[:2] == ["one", "two"]

    def test_a_configuration_that_answers_is_heeded(self, config: Path) -> None:
        theirs = config / lab._OVERRIDES
        theirs.parent.mkdir(parents=True)
        theirs.write_text('{"@jupyterlab/apputils-extension:notification": {"fetchNews": "true"}}', "utf-8")
        assert lab.config_path() == ""

    @pytest.mark.skipif(os.name == "nt", reason="Binder has Linux")
    def test_in_binder_too(self) -> None:
        """binder/start gives the reader's server the same folder, and then is that server."""
        program = "import os; print(os.environ['JUPYTER_CONFIG_PATH'])"
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        told = subprocess.run(
            [ROOT / "binder" / "start", sys.executable, "-c", program],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == lab.config_path()


@pytest.mark.skipif(os.name == "nt", reason="signals are of another kind there")
class TestServer:
    """A real JupyterLab, on 127.0.0.1, with a token, that ends with the command."""

    @pytest.fixture
    def running(self, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR")
        own = {name: str(tmp_path / name.lower()) for name in names}
        command = [sys.executable, "-c", "from chatnb.sites.cli import main; main()", "lab", str(tmp_path / "tour")]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--no-browser", "--port", str(port)],
                env={**os.environ, **own, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )
        yield process, port
        process.kill()
        process.wait()

    def test_lives_and_ends(self, running: tuple[subprocess.Popen[bytes], int], tmp_path: Path) -> None:
        """JupyterLab serves the copied tour behind a token and asks nothing of its own; Ctrl-C ends both."""
        process, port = running
        log = tmp_path / "log"
        url = f"http://127.0.0.1:{port}/api"
        self.wait_until_it_answers(process, url, log)
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(f"{url}/contents", timeout=5)
        refused.value.close()
        told = re.search(rf"http://127.0.0.1:{port}/lab/tree/01_first_chat.ipynb\?token=(\w+)", log.read_text("utf-8"))
        assert told is not None
        [runtime] = (tmp_path / "jupyter_runtime_dir").glob("jpserver-*.json")
        server = json.loads(runtime.read_text("utf-8"))
        request = urllib.request.Request(f"{url}/contents", headers={"Authorization": f"token {told[1]}"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            names = {entry["name"] for entry in json.load(answer)["content"]}
        assert lab.FIRST in names
        notification = f"http://127.0.0.1:{port}/lab/api/settings/@jupyterlab/apputils-extension:notification"
        request = urllib.request.Request(notification, headers={"Authorization": f"token {told[1]}"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            setting = json.load(answer)
        assert setting["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert setting["settings"] == {}
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(server["pid"], 0)

    @staticmethod
    def wait_until_it_answers(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        pause = Event()
        for _ in range(600):
            assert process.poll() is None, log.read_text("utf-8", "replace")
            try:
                with urllib.request.urlopen(url, timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pause.wait(0.1)
        raise AssertionError(log.read_text("utf-8", "replace"))
