"""The chapters that stand here are those of the shared design, and the case numbers in tests resolve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED = ROOT.parent / "shared" / "spec"
CHAPTERS = sorted(path.name for path in HERE.glob("*.md"))
REFERENCE = re.compile(r"\b((?:C\d+(?:, | and | to )?)+) of (\w+\.md)")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared design is not beside this repository")
class TestCopies:
    """A copy never says something else than its original."""

    def test_every_chapter_is_here(self) -> None:
        assert sorted(path.name for path in SHARED.glob("*.md")) == CHAPTERS

    @pytest.mark.parametrize("name", CHAPTERS)
    def test_equals_the_original(self, name: str) -> None:
        assert (HERE / name).read_bytes() == (SHARED / name).read_bytes()


class TestReferences:
    """A docstring that says "C12 of messages.md" names a case that exists."""

    def test_resolve(self) -> None:
        texts = {name: (HERE / name).read_text("utf-8") for name in CHAPTERS}
        cases = {name: set(re.findall(r"^(?:- )?(?:\*\*)?(C\d+)[.:* ]", text, re.M)) for name, text in texts.items()}
        files = [path for folder in ("chatnb", "tests") for path in (ROOT / folder).rglob("*.py")]
        dangling = [
            f"{path.relative_to(ROOT)}: {number} of {chapter}"
            for path in files
            for numbers, chapter in REFERENCE.findall(path.read_text("utf-8"))
            for number in re.findall(r"C\d+", numbers)
            if number not in cases.get(chapter, ())
        ]
        assert dangling == []
