"""The architecture holds, and its rules see when it does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import architecture

ROOT = Path(__file__).resolve().parents[1]
# May only shrink: an exception names the file's present length.
LONG_FILES: dict[str, int] = {}
# Looks for a free port; is a server on this machine.
MAY_USE_NETWORK = frozenset({"chatnb.sites.lab", "chatnb.sites.serve", "chatnb.testing.fake_anthropic"})
# What `import chatnb` may never load (spec/notebook.md, section 11; DESIGN's column "may also use").
HEAVY = [
    "IPython",
    "a2a",
    "alembic",
    "anthropic",
    "anywidget",
    "cloudpickle",
    "griffe",
    "httpx",
    "httpx2",
    "ipykernel",
    "ipywidgets",
    "latex2mathml",
    "markdown_it",
    "matplotlib",
    "mcp",
    "nbformat",
    "nest_asyncio2",
    "nh3",
    "numpy",
    "opentelemetry",
    "pandas",
    "sqlalchemy",
    "starlette",
    "traitlets",
]


@pytest.fixture(scope="module")
def chatnb() -> dict[str, architecture.Module]:
    return architecture.read(ROOT)


Tree = Callable[..., dict[str, architecture.Module]]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes a small package, a text for each path without its `.py`, and parses it."""

    def write(files: dict[str, str]) -> dict[str, architecture.Module]:
        for name, text in files.items():
            path = tmp_path / "chatnb" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        for folder in {path.parent for path in (tmp_path / "chatnb").rglob("*.py")}:
            if not (folder / "__init__.py").exists():
                (folder / "__init__.py").write_text('"""Owns."""\n__all__ = []\n', "utf-8")
        return architecture.read(tmp_path)

    return write


class TestRows:
    """A file imports only from its own folder and from the rows above it."""

    def test_hold(self, chatnb: dict[str, architecture.Module]) -> None:
        assert list(architecture.row_breaches(chatnb)) == []

    @pytest.mark.parametrize(
        "files",
        [
            {"messages/fold": "from chatnb.store import sql"},
            {"messages/fold": "import chatnb.turns"},
            {"messages/fold": "from chatnb.runtime.loop import x"},
            {"messages/fold": "from ..runtime import loop"},
            {"messages/fold": "def f():\n    from chatnb.agent import Agent"},
            {"messages/fold": "from importlib import import_module\nimport_module('chatnb.agent')"},
            {"messages/fold": "from chatnb import Agent"},
            {"messages/fold": "import chatnb"},
            {"errors": "import chatnb.messages"},
            {"agent": "import chatnb.kernel.host"},
            {"agent": "def f():\n    import chatnb.widget"},
            {"chat": "class C:\n    from chatnb.widget import ChatWidget"},
            {"elsewhere": ""},
        ],
        ids=lambda files: next(f"{name}: {text}" for name, text in files.items()),
    )
    def test_a_breach_is_seen(self, tree: Tree, files: dict[str, str]) -> None:
        assert len(list(architecture.row_breaches(tree(files)))) == 1

    @pytest.mark.parametrize(
        "files",
        [
            {"store/sql": "from chatnb.messages.fold import fold\nfrom chatnb import errors\nfrom . import tables"},
            {"messages/fold": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import chatnb.agent"},
            {"agent": "def f():\n    from chatnb.kernel.host import host"},
            {"chat": "def f():\n    from chatnb.widget import ChatWidget\nimport chatnb.agent"},
        ],
        ids=lambda files: next(iter(files)),
    )
    def test_what_is_allowed_is_no_breach(self, tree: Tree, files: dict[str, str]) -> None:
        assert list(architecture.row_breaches(tree(files))) == []


class TestLibraries:
    """A library is used where the column names it, and loaded on use."""

    def test_hold(self, chatnb: dict[str, architecture.Module]) -> None:
        assert list(architecture.library_breaches(chatnb)) == []

    @pytest.mark.parametrize(
        "files",
        [
            {"turns/loop": "def f():\n    import sqlalchemy"},
            {"errors": "import pydantic"},
            {"store/__init__": '"""Owns."""\nfrom chatnb.store import sql', "store/sql": "import sqlalchemy"},
            {"agent": "def f():\n    import numpy"},
        ],
        ids=lambda files: " ".join(files),
    )
    def test_a_breach_is_seen(self, tree: Tree, files: dict[str, str]) -> None:
        assert list(architecture.library_breaches(tree(files)))

    def test_a_file_that_is_loaded_on_use_may_have_it_at_its_head(self, tree: Tree) -> None:
        lazy = '"""Owns."""\n__all__ = []\ndef __getattr__(name):\n    from chatnb.store import sql'
        modules = tree({"store/__init__": lazy, "store/sql": "import sqlalchemy\nfrom chatnb.store import tables"})
        assert list(architecture.library_breaches(modules)) == []


class TestNetwork:
    """No file opens a connection but those whose work it is."""

    def test_hold(self, chatnb: dict[str, architecture.Module]) -> None:
        assert list(architecture.network_breaches(chatnb, MAY_USE_NETWORK)) == []

    @pytest.mark.parametrize(
        "text",
        ["import socket", "from http.server import HTTPServer", "import urllib.request", "asyncio.open_connection()"],
    )
    def test_a_breach_is_seen(self, tree: Tree, text: str) -> None:
        assert len(list(architecture.network_breaches(tree({"turns/loop": text}), frozenset()))) == 1


class TestFiles:
    """Files are short, folders list their names, and names say something."""

    def test_sizes_hold(self) -> None:
        assert list(architecture.size_breaches(ROOT, LONG_FILES)) == []

    def test_names_hold(self, chatnb: dict[str, architecture.Module]) -> None:
        assert list(architecture.name_breaches(chatnb)) == []

    def test_public_names_are_listed_and_sorted(self, chatnb: dict[str, architecture.Module]) -> None:
        assert list(architecture.all_breaches(chatnb)) == []

    def test_a_long_file_is_seen(self, tree: Tree, tmp_path: Path) -> None:
        tree({"turns/loop": "x = 1\n" * 501})
        assert len(list(architecture.size_breaches(tmp_path, {}))) == 1
        assert list(architecture.size_breaches(tmp_path, {"chatnb/turns/loop.py": 501})) == []

    def test_an_exception_may_only_shrink(self, tree: Tree, tmp_path: Path) -> None:
        tree({"turns/loop": "x = 1\n" * 501})
        assert len(list(architecture.size_breaches(tmp_path, {"chatnb/turns/loop.py": 502}))) == 1
        assert len(list(architecture.size_breaches(tmp_path, {"chatnb/turns/gone.py": 600}))) == 2

    @pytest.mark.parametrize(
        "text",
        ['"""Owns."""\n__all__ = ["b", "a"]', '"""Owns."""', '__all__ = ["a"]', '"""O."""\n__all__ = ["a", "a"]'],
    )
    def test_a_bad_list_is_seen(self, tree: Tree, text: str) -> None:
        assert len(list(architecture.all_breaches(tree({"turns/__init__": text})))) == 1

    def test_an_empty_name_is_seen(self, tree: Tree) -> None:
        assert len(list(architecture.name_breaches(tree({"turns/_utils": ""})))) == 1


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class TestImport:
    """C44 of notebook.md: a fresh `import chatnb` loads none of the listed packages."""

    def test_loads_nothing_heavy(self) -> None:
        loaded = f"print([name for name in {HEAVY!r} if name in sys.modules])"
        assert run_python(f"import sys, chatnb; {loaded}") == "[]"

    def test_every_public_name_is_there(self) -> None:
        assert run_python("import chatnb; [getattr(chatnb, name) for name in chatnb.__all__]; print('ok')") == "ok"

    def test_an_unknown_name_is_an_attribute_error(self) -> None:
        code = "import chatnb\ntry:\n    chatnb.nothing\nexcept AttributeError as error:\n    print(error)"
        assert run_python(code) == "module 'chatnb' has no attribute 'nothing'"

    def test_type_checkers_are_told_the_same_homes(self) -> None:
        """The imports under TYPE_CHECKING and the table of homes in chatnb/__init__.py are equal."""
        import ast

        tree = ast.parse((ROOT / "chatnb" / "__init__.py").read_text("utf-8"))
        told = {
            (node.module, alias.name)
            for block in tree.body
            if isinstance(block, ast.If)
            for node in block.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chatnb")
            for alias in node.names
        }
        homes = ast.literal_eval(run_python("import chatnb; print(chatnb._HOMES)"))
        assert told == {(home, name) for home, names in homes.items() for name in names}
