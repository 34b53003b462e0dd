"""`chatnb chats` (spec/recovery.md, section 3; spec/notebook.md, section 10)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chatnb import Agent, Chat
from chatnb.models import Reply, ScriptedModel
from chatnb.sites.cli import main


def lookup(region: str) -> dict[str, object]:
    """Look up sales."""
    return {"region": region, "amount": 1250}


@pytest.fixture
def chat() -> Iterator[Chat]:
    """A chat with one exchange, kept in the test's store, and open."""
    model = ScriptedModel([Reply(calls=[("lookup", {"region": "EU"})]), "There were 1250."])
    chat = Agent(model, actions=[lookup], name="analyst").chat("review")
    chat.send("Look it up").result(10)
    yield chat
    chat.close()


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["chats", *args])


class TestReading:
    """Reading needs no lease: it works beside a living owner."""

    def test_list(self, chat: Chat) -> None:
        head, line = run("list").output.splitlines()
        assert head.split() == ["CHAT", "AGENT", "MESSAGES", "MADE", "(UTC)"]
        assert line.split()[:3] == ["review", "analyst", "2"]

    def test_show(self, chat: Chat) -> None:
        text = run("show", "review").output
        assert text.index("Look it up") < text.index("[lookup: done]") < text.index("There were 1250.")

    def test_a_store_elsewhere(self, chat: Chat, own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CHATNB_STORE", str(own_store.with_name("other.db")))
        assert "review" in run("--store", str(own_store), "list").output

    def test_an_unknown_chat_is_told_so(self, chat: Chat) -> None:
        result = run("show", "nope")
        assert result.exit_code == 1
        assert "no chat 'nope'" in result.stderr

    def test_no_store_is_told_and_none_is_made(self, own_store: Path) -> None:
        result = run("list")
        assert result.exit_code == 1
        assert "There is no store here" in result.stderr
        assert not own_store.exists()


class TestExport:
    """The conversation as a file, without a kernel."""

    @pytest.mark.parametrize("form", ["md", "html", "json", "ipynb"])
    def test_every_format(self, chat: Chat, form: str) -> None:
        """Beside a kernel that has the chat, the text is that of `chat.export`."""
        result = run("export", chat.id, "--format", form)
        assert result.exit_code == 0, result.output
        assert result.stdout == chat.export(form)

    def test_branches_into_a_file(self, chat: Chat, tmp_path: Path) -> None:
        """`--branches` writes the whole tree; `-o` names a file."""
        chat.regenerate().result(10)
        path = tmp_path / "chat.json"
        assert run("export", chat.id, "--format", "json", "--branches", "-o", str(path)).exit_code == 0
        assert path.read_text("utf-8") == chat.export("json", branches=True)

    def test_an_unknown_format(self, chat: Chat) -> None:
        """It says which formats there are."""
        result = run("export", chat.id, "--format", "docx")
        assert result.exit_code == 2
        assert "ipynb" in result.output


class TestDelete:
    """Deleting takes the lease, asks, and is for good."""

    def test_asks_first(self, chat: Chat) -> None:
        chat.close()
        assert CliRunner().invoke(main, ["chats", "delete", "review"], input="n\n").exit_code == 1
        assert "review" in run("list").output

    def test_is_refused_while_a_kernel_has_the_chat(self, chat: Chat) -> None:
        """`delete` takes the lease, so another process is told who has it."""
        command = [sys.executable, "-c", "from chatnb.sites.cli import main; main()", "chats"]
        refused = subprocess.run([*command, "delete", "review", "--yes"], capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert refused.stderr.startswith("Error: ")
        assert "Traceback" not in refused.stderr
        shown = subprocess.run([*command, "show", "review"], capture_output=True, text=True, check=True)
        assert "There were 1250." in shown.stdout

    def test_deletes(self, chat: Chat) -> None:
        chat.close()
        assert run("delete", "review", "--yes").exit_code == 0
        assert "review" not in run("list").output
