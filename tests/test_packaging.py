"""The package as it is built and installed (spec/notebook.md, section 11)."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from chatnb.sites.lab import FIRST

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# Names of import that differ from those of the packages.
PACKAGE_OF = {
    "a2a": "a2a-sdk",
    "griffe": "griffelib",
    "markdown_it": "markdown-it-py",
    "mcp_types": "mcp",
    "mdit_py_plugins": "mdit-py-plugins",
    "nest_asyncio2": "nest-asyncio2",
    "opentelemetry": "opentelemetry-api",
    "pydantic_core": "pydantic",
    "httpx2": "anthropic",
    "ipykernel": "chatnb[lab]",
    "IPython": "ipywidgets",
}


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small front end, and an `npm` on PATH which notes that it ran, copies the source, and fails if told so."""
    root = tmp_path / "checkout"
    (root / "widgets" / "src").mkdir(parents=True)
    (root / "widgets" / "package.json").write_text("{}", "utf-8")
    (root / "widgets" / "src" / "widget.js").write_text("one", "utf-8")
    programs = tmp_path / "programs"
    programs.mkdir()
    log = tmp_path / "npm.log"
    npm = f"""#!{sys.executable}
import pathlib, sys
with open({str(log)!r}, "a") as log:
    log.write(sys.argv[1] + "\\n")
if sys.argv[1] == "run":
    source = pathlib.Path("src/widget.js").read_text()
    out = pathlib.Path("../chatnb/widget/static")
    (out / "widget.css").write_text("")
    (out / "widget.js").write_text("half" if source == "bad" else "built " + source)
    sys.exit(source == "bad")
"""
    for name, text in {"npm": npm, "node": "#!/bin/sh\necho v20.0.0\n"}.items():
        (programs / name).write_text(text, "utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return root


def runs_of_npm(checkout: Path) -> int:
    log = checkout.parent / "npm.log"
    return log.read_text("utf-8").count("run") if log.exists() else 0


def bundle(checkout: Path) -> str:
    return (checkout / "chatnb" / "widget" / "static" / "widget.js").read_text("utf-8")


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for npm is a script with a shebang")
class TestBuildHook:
    """The hook builds when it must, once, and never leaves less than there was."""

    def test_builds_and_then_rests(self, hook: ModuleType, checkout: Path) -> None:
        """C43 of notebook.md: a second build does not run npm."""
        assert hook.build_front_end(checkout) is True
        assert bundle(checkout) == "built one"
        assert hook.build_front_end(checkout) is False
        assert runs_of_npm(checkout) == 1

    def test_builds_again_when_a_source_changed(self, hook: ModuleType, checkout: Path) -> None:
        hook.build_front_end(checkout)
        (checkout / "widgets" / "src" / "widget.js").write_text("two", "utf-8")
        assert hook.build_front_end(checkout) is True
        assert bundle(checkout) == "built two"

    def test_builds_again_when_the_bundle_is_not_as_it_was_built(self, hook: ModuleType, checkout: Path) -> None:
        hook.build_front_end(checkout)
        (checkout / "chatnb" / "widget" / "static" / "widget.js").write_text("touched", "utf-8")
        assert hook.build_front_end(checkout) is True
        assert bundle(checkout) == "built one"

    def test_tests_and_installed_packages_are_no_inputs(self, hook: ModuleType, checkout: Path) -> None:
        hook.build_front_end(checkout)
        for folder in ("tests", "node_modules", "src/node_modules"):
            (checkout / "widgets" / folder).mkdir()
            (checkout / "widgets" / folder / "x.js").write_text("x", "utf-8")
        assert hook.build_front_end(checkout) is False

    def test_leaves_the_old_bundle_on_failure(self, hook: ModuleType, checkout: Path) -> None:
        hook.build_front_end(checkout)
        (checkout / "widgets" / "src" / "widget.js").write_text("bad", "utf-8")
        with pytest.raises(hook.FrontEndBuildError, match="npm run build"):
            hook.build_front_end(checkout)
        assert bundle(checkout) == "built one"

    def test_is_safe_in_parallel(self, hook: ModuleType, checkout: Path) -> None:
        with ThreadPoolExecutor(4) as pool:
            built = list(pool.map(hook.build_front_end, [checkout] * 4))
        assert sorted(built) == [False, False, False, True]
        assert runs_of_npm(checkout) == 1

    def test_leaves_nothing_in_the_sources(self, hook: ModuleType, checkout: Path) -> None:
        before = sorted((checkout / "widgets").rglob("*"))
        hook.build_front_end(checkout)
        assert sorted((checkout / "widgets").rglob("*")) == before

    def test_a_source_distribution_needs_no_sources(self, hook: ModuleType, checkout: Path) -> None:
        hook.build_front_end(checkout)
        shutil.rmtree(checkout / "widgets")
        assert hook.build_front_end(checkout) is False

    def test_neither_sources_nor_bundle_is_an_error(self, hook: ModuleType, tmp_path: Path) -> None:
        with pytest.raises(hook.FrontEndBuildError, match="no front end"):
            hook.build_front_end(tmp_path)

    def test_takes_node_from_the_build_requirement(
        self, hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        command, folder = hook.find_npm()
        assert all(Path(part).is_file() for part in command)
        assert any((folder / name).is_file() for name in ("node", "node.exe"))

    def test_an_old_node_on_path_is_passed_over(
        self, hook: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (checkout.parent / "programs" / "node").write_text("#!/bin/sh\necho v12.22.0\n", "utf-8")
        command, _ = hook.find_npm()
        assert command[0] != str(checkout.parent / "programs" / "npm")


def without_node(folder: Path) -> str:
    """A PATH with everything but Node: folders that hold it are replaced by folders of links to all else."""
    parts = []
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(os.environ["PATH"].split(os.pathsep)):
        source = Path(part)
        if any((source / name).exists() for name in ("node", "npm")):
            links = folder / str(number)
            links.mkdir()
            for program in source.iterdir():
                if program.name not in ("node", "nodejs", "npm", "npx", "corepack"):
                    (links / program.name).symlink_to(program)
            parts.append(str(links))
        else:
            parts.append(part)
    return os.pathsep.join(parts)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and an sdist, built from a copy of this checkout that has no bundle yet.

    Without isolation, which would ask a registry: the build requirements are there with the extra `test`.
    """
    folder = tmp_path_factory.mktemp("build")
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in names.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "copy" / name)
    (folder / "path").mkdir()
    environment = {**os.environ, "PATH": without_node(folder / "path")}
    assert shutil.which("node", path=environment["PATH"]) is None
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist")]
    # First the sdist, then the wheel from the sdist: what a registry's users get.
    done = subprocess.run(command, cwd=folder / "copy", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.skipif(os.name == "nt", reason="links to programs need rights there")
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what belongs to the sources is asked of git")
class TestDistributions:
    """C43 of notebook.md: given a PATH without node, the wheel holds the bundle; so does the sdist."""

    def test_the_wheel_is_whole(self, built: Path) -> None:
        [wheel] = (built / "dist").glob("*.whl")
        names = set(zipfile.ZipFile(wheel).namelist())
        wanted = {"widget/static/widget.js", "widget/static/widget.css", "py.typed", "_tour/01_first_chat.ipynb"}
        assert {f"chatnb/{name}" for name in wanted} <= names
        assert any(name.startswith("chatnb/store/migrations/") for name in names)
        assert not [name for name in names if "node_modules" in name or name.startswith("tests")]

    def test_the_sdist_carries_the_bundle_and_all_it_is_made_of(self, built: Path) -> None:
        [sdist] = (built / "dist").glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        assert {
            "chatnb/widget/static/widget.js",
            "chatnb/widget/static/build.json",
            "hatch_build.py",
            "widgets/package-lock.json",
            "notebooks/01_first_chat.ipynb",
            "tests/test_packaging.py",
        } <= names
        assert not [name for name in names if "node_modules" in name]

    def test_the_checkout_has_no_more_than_the_bundle(self, built: Path) -> None:
        assert not (built / "copy" / "widgets" / "node_modules").exists()


@pytest.fixture
def environment(built: Path, tmp_path: Path) -> Path:
    """A new virtual environment that the wheel was installed into; what chatnb needs comes from the tests' own.

    That one is behind the new one on the path, so chatnb itself is the wheel's.
    """
    folder = tmp_path / "fresh"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    [wheel] = (built / "dist").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q", str(wheel)]
    subprocess.run(pip, check=True)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    libraries = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    Path(paths["purelib"], "behind.pth").write_text("\n".join(sorted(libraries)), "utf-8")
    return folder


@pytest.mark.skipif(os.name == "nt", reason="links to programs need rights there")
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what belongs to the sources is asked of git")
class TestInstalled:
    """The wheel in a fresh environment without Node (issue 7; section 11)."""

    def test_serves_the_tour(self, built: Path, environment: Path, tmp_path: Path) -> None:
        """`chatnb lab --no-browser` of the installed wheel copies the tour and serves it, with the bundle there."""
        own = {**os.environ, "PATH": f"{environment / 'bin'}{os.pathsep}{without_node(tmp_path / 'path')}"}
        own.pop("PYTHONPATH", None)
        assert shutil.which("node", path=own["PATH"]) is None
        # The application's own files are where JupyterLab is installed.
        own["JUPYTERLAB_DIR"] = str(Path(sys.prefix, "share", "jupyter", "lab"))
        own |= {name: str(tmp_path / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")}
        where = "import chatnb, chatnb.widget.assets as a; print(chatnb.__file__, bool(a.read_bundle('widget.js')))"
        told = subprocess.run(
            ["python", "-c", where], cwd=tmp_path, env=own, capture_output=True, text=True, check=True
        )
        assert told.stdout.split()[0].startswith(str(environment))
        assert told.stdout.split()[1] == "True"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = ["chatnb", "lab", "tour", "--no-browser", "--port", str(port)]
        with (tmp_path / "log").open("wb") as log:
            lab = subprocess.Popen(command, cwd=tmp_path, env=own, stdout=log, stderr=log)
        try:
            notebook = self.fetch(lab, tmp_path / "log", port, f"api/contents/{FIRST}")
            assert notebook["content"]["cells"][0]["cell_type"] == "markdown"
            assert len(self.fetch(lab, tmp_path / "log", port, "api/contents")["content"]) >= 11
        finally:
            lab.send_signal(signal.SIGINT)
            assert lab.wait(30) == 0

    @staticmethod
    def fetch(lab: subprocess.Popen[bytes], log: Path, port: int, path: str) -> Any:
        pause = Event()
        for _ in range(600):
            assert lab.poll() is None, log.read_text("utf-8", "replace")
            told = re.search(r"token=(\w+)", log.read_text("utf-8", "replace"))
            if told is not None:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/{path}?token={told[1]}", timeout=5) as answer:
                        return json.load(answer)
                except (URLError, ConnectionError, TimeoutError):
                    pass
            pause.wait(0.1)
        raise AssertionError(log.read_text("utf-8", "replace"))


class TestMetadata:
    """What the package says of itself."""

    def test_the_core_needs_what_it_imports(self) -> None:
        """Every library that a file of chatnb imports is a requirement, of the core or of an extra."""
        declared = {re.split(r"[\[<>=]", name)[0] for name in PYPROJECT["project"]["dependencies"]}
        extras = {
            re.split(r"[\[<>=]", name)[0].removesuffix("-slim")
            for extra, names in PYPROJECT["project"]["optional-dependencies"].items()
            if extra not in ("all", "test")
            for name in names
        }
        used = set()
        for path in (ROOT / "chatnb").rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names = [node.module]
                used |= {name.split(".")[0] for name in names}
        used -= {*sys.stdlib_module_names, "__main__", "chatnb"}
        packages = {PACKAGE_OF.get(name, name.replace("_", "-")) for name in used}
        assert packages - declared - extras - {"chatnb[lab]"} == set()

    def test_the_extras(self) -> None:
        assert {"lab", "http", "mcp", "a2a", "pydantic-ai", "postgres", "pandas", "all", "test"} == set(
            PYPROJECT["project"]["optional-dependencies"]
        )

    def test_the_version_stands_in_one_place(self) -> None:
        import chatnb

        assert re.fullmatch(r"\d+\.\d+\.\d+", chatnb.__version__)
        assert PYPROJECT["project"]["dynamic"] == ["version"]
        assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "chatnb/__init__.py"

    def test_lock_files_name_no_registry(self) -> None:
        """Lock files hold no registry host."""
        for path in [*ROOT.glob("*.lock"), *ROOT.glob("widgets/package-lock.json")]:
            packages = json.loads(path.read_text("utf-8"))["packages"]
            assert [name for name, entry in packages.items() if "resolved" in entry] == []
