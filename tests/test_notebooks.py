"""The notebooks are documentation that runs (spec/notebook.md, section 11). nbval itself is a command of CI."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import nbformat
import pytest

from chatnb.testing import nbval_sanitizer

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RULES = ROOT / "notebooks" / "nbval.cfg"


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
        assert not re.search(r"/(home|root|Users|tmp)/|C:\\\\", path.read_text("utf-8"))
