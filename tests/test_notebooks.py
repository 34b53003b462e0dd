"""The notebooks are documentation that runs (spec/notebook.md, section 11). nbval itself is a command of CI."""

from __future__ import annotations

import os
import re
from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from chatnb.testing import nbval_sanitizer

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RULES = ROOT / "notebooks" / "nbval.cfg"
MAX_LINES = 30


def rules(path: str | Path) -> dict[str, dict[str, str]]:
    """The rules of a sanitiser file."""
    parser = ConfigParser(interpolation=None)
    parser.read(path, "utf-8")
    return {name: dict(parser[name]) for name in parser.sections()}


class TestSanitiser:
    """At most 8 rules, each with its reason; those that chatnb ships are the same."""

    def test_is_short_and_reasoned(self) -> None:
        text = RULES.read_text("utf-8")
        assert len(rules(RULES)) <= 8
        assert len(re.findall(r"^# .*\n\[", text, re.M)) == len(rules(RULES))

    def test_shares_the_rules_of_chatnb(self) -> None:
        own = rules(RULES)
        shipped = rules(nbval_sanitizer())
        assert shipped
        assert {name: own.get(name) for name in shipped} == shipped


class TestTour:
    """The notebooks are one tour, in an order that a reader sees."""

    def test_is_numbered(self) -> None:
        """Ten of them, each number once, in the file's name and in the title."""
        titles = {path: nbformat.read(path, 4).cells[0].source.splitlines()[0] for path in NOTEBOOKS}
        assert [path.stem[:2] for path in NOTEBOOKS] == [f"{number:02d}" for number in range(1, 11)]
        assert [path.stem for path, title in titles.items() if not title.startswith(f"# {int(path.stem[:2])} · ")] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestReading:
    """A notebook teaches: one idea a cell, plain words before the code, something to see after it."""

    def test_begins_with_words(self, path: Path) -> None:
        first = nbformat.read(path, 4).cells[0]
        assert first.cell_type == "markdown"
        assert len(first.source.split()) >= 20

    def test_a_cell_is_short(self, path: Path) -> None:
        """One idea a cell: what is longer than a screen half is two ideas."""
        lengths = [
            len([line for line in cell.source.splitlines() if line.strip()])
            for cell in nbformat.read(path, 4).cells
            if cell.cell_type == "code"
        ]
        assert max(lengths) <= MAX_LINES

    def test_words_come_before_code(self, path: Path) -> None:
        """At most three code cells follow one another without a word."""
        kinds = "".join("c" if cell.cell_type == "code" else "." for cell in nbformat.read(path, 4).cells)
        assert max(len(run) for run in kinds.split(".")) <= 3

    def test_there_is_something_to_see(self, path: Path) -> None:
        """At least half of the cells show something, and no two in a row show nothing without a word between."""
        cells = nbformat.read(path, 4).cells
        code = [cell for cell in cells if cell.cell_type == "code"]
        assert len([cell for cell in code if cell.outputs]) * 2 >= len(code)
        silent = [
            cell.id
            for before, cell in pairwise(cells)
            if before.cell_type == cell.cell_type == "code" and not before.outputs and not cell.outputs
        ]
        assert silent == []

    def test_nothing_fails(self, path: Path) -> None:
        """An error that is shown on purpose is caught and printed: Run All goes through."""
        for cell in nbformat.read(path, 4).cells:
            assert "raises-exception" not in str(cell.metadata)
            assert not [o for o in cell.get("outputs", []) if o.output_type == "error" or o.get("name") == "stderr"]

    def test_links_resolve(self, path: Path) -> None:
        words = "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown")
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", words)
        assert [target for target in targets if not (path.parent / target).exists()] == []

    def test_needs_no_key_and_no_network(self, path: Path) -> None:
        code = "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code")
        assert not re.search(r"\binput\(|https?://(?!127\.0\.0\.1|localhost)|!pip|%pip|getpass", code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestNotebooks:
    """A notebook is saved as it ran: in order, with its outputs, without a trace of the machine."""

    def test_was_run_in_order(self, path: Path) -> None:
        code = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))

    def test_ignores_no_output(self, path: Path) -> None:
        """No ignored outputs, except under a Markdown cell that gives the reason."""
        cells = nbformat.read(path, 4).cells
        for before, cell in zip([None, *cells], cells, strict=False):
            if "NBVAL" in cell.source or "nbval" in str(cell.metadata):
                assert before is not None
                assert before.cell_type == "markdown"

    def test_holds_no_state_of_a_kernel(self, path: Path) -> None:
        notebook = nbformat.read(path, 4)
        nbformat.validate(notebook)
        assert "widgets" not in notebook.metadata
        assert not [cell for cell in notebook.cells if "execution" in cell.metadata]

    def test_holds_no_path_of_a_machine(self, path: Path) -> None:
        assert not re.search(r"/(home|root|Users|tmp|work|opt)/|C:\\\\", path.read_text("utf-8"))


@pytest.mark.kernel
class TestAgain:
    """A reader chooses Run All Cells a second time."""

    @pytest.mark.parametrize("name", ["01_first_chat", "05_your_data", "06_recovery"])
    def test_in_the_same_kernel(self, name: str, tmp_path: Path) -> None:
        """No cell fails over what the first run has left: chats that are open, variables, files."""
        notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        twice = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in [*code, *code]])
        path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
        own = {"PYTHONPATH": path, "CHATNB_STORE": str(tmp_path / "chats.db"), "IPYTHONDIR": str(tmp_path / "ipython")}
        place = {"metadata": {"path": str(ROOT / "notebooks")}}
        NotebookClient(twice, timeout=60, resources=place).execute(env={**os.environ, **own})
