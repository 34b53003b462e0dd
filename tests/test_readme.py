"""The README does what it says."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
RECIPES = (ROOT / "docs" / "recipes.md").read_text("utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)


async def run_blocks(name: str, page: str) -> dict[str, object]:
    """Run the Python blocks of a page in one namespace, as the cells of a notebook."""
    namespace: dict[str, object] = {}
    for number, text in enumerate(blocks("python", page)):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(text, f"{name}, block {number + 1}", "exec", flags=flags, dont_inherit=True)
        result = eval(code, namespace)
        if inspect.isawaitable(result):
            await result
    return namespace


class TestReadme:
    """What a reader copies runs, and what a reader follows is there."""

    async def test_the_python_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The README's Python blocks are run, in order, in one namespace, as the cells of a notebook."""
        monkeypatch.setenv("CHATNB_OFFLINE_RHYTHM", "0")
        namespace = await run_blocks("README.md", README)
        outcome, chat = namespace["outcome"], namespace["chat"]
        assert outcome.status == "completed"  # type: ignore[attr-defined]
        assert [message.role for message in chat.messages] == ["user", "assistant"]  # type: ignore[attr-defined]
        assert any(part.type == "tool-sales" for part in chat.messages[1].parts)  # type: ignore[attr-defined]
        chat.close()  # type: ignore[attr-defined]

    async def test_the_recipes_run(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """docs/recipes.md: its blocks run in order, and what they assert holds."""
        pytest.importorskip("pydantic_ai")
        monkeypatch.setenv("CHATNB_STORE", str(tmp_path / "chats.db"))
        namespace = await run_blocks("docs/recipes.md", RECIPES)
        for chat in list(namespace["agent"].composition().chats.values()):  # type: ignore[attr-defined]
            chat.close()

    def test_ten_lines_are_ten_lines(self) -> None:
        lines = [line for line in blocks("python")[0].splitlines() if line.strip()]
        assert len(lines) <= 10

    def test_the_commands_are_one_line_each(self) -> None:
        """Two one-line commands: one installs and opens the tour, one installs and passes the tests."""
        tour, tests = blocks("sh")[:2]
        assert tour.strip().endswith("&& chatnb lab")
        assert "-m pytest" in tests
        assert [len(text.strip().splitlines()) for text in (tour, tests)] == [1, 1]

    def test_ci_runs_the_same_test_command(self) -> None:
        """CI takes the command out of the README, so the two can't differ."""
        script = (ROOT / ".ci" / "run").read_text("utf-8")
        assert "readme_command.py" in script
        # What CI's own search finds is the line that a reader sees.
        found = subprocess.run(
            [sys.executable, str(ROOT / ".ci" / "readme_command.py")], capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == blocks("sh")[1].strip()

    def test_the_first_word(self) -> None:
        """Section 11 of notebook.md: the time to the first streamed word stands here, and a script measures it."""
        [told] = re.findall(r"first streamed\s+word it takes ([\d.]+) s[^.]*measured by `([^`]+)`", README)
        assert 0 < float(told[0]) < 10
        assert (ROOT / told[1]).is_file()

    def test_links_to_files_resolve(self) -> None:
        for folder, page in ((ROOT, README), (ROOT / "docs", RECIPES)):
            targets = re.findall(r"\]\((?!https?:)([^)#]+)", page)
            assert [target for target in targets if not (folder / target).exists()] == []
