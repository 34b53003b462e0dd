"""`chatnb serve`: the server as a process (issue 8; DESIGN's section "command line")."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chatnb import Agent, errors
from chatnb.sites import requirements
from chatnb.sites.http import app
from tests.sites.http_server import Client, answer_of, served_by_command, user

PROTOTYPE = '''
from chatnb import Agent, action
from chatnb.models import Reply, ScriptedModel

@action
def note(text: str) -> str:
    """Write a note."""
    return text

agent = Agent(ScriptedModel([Reply("one two three four five six seven", delay=DELAY), "again"]), actions=[note])
'''


@contextmanager
def served(folder: Path, *args: str, delay: float = 0.0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start `chatnb serve prototype:agent`; yields its address and process."""
    (folder / "prototype.py").write_text(PROTOTYPE.replace("DELAY", str(delay)))
    with served_by_command(folder, "serve", "prototype:agent", "--port", "0", *args) as started:
        yield started


class TestServe:
    """The process serves on this machine, and ends in order."""

    def test_answers(self, tmp_path: Path) -> None:
        """`chatnb serve module:agent` answers chats and actions; who started it is who calls."""
        with served(tmp_path) as (address, _), Client(base_url=address) as client:
            assert client.say("c", "hi").text.startswith("one two")
            assert client.post("/actions/note", json={"text": "x"}).json()["result"] == "x"
            assert client.get("/ui-capability").status_code == 204
            assert client.get("/openapi.json", headers={"host": "evil.example"}).status_code == 421

    def test_graceful_shutdown(self, tmp_path: Path) -> None:
        """At SIGTERM streams end at once and tell to resume; the turn goes on at the next start."""
        body = {"id": "c", "messages": [user("hi")], "trigger": "submit-message"}
        with served(tmp_path, delay=0.3) as (address, process):
            text = ""
            with Client(base_url=address) as client, client.stream("POST", "/api/chat", json=body) as response:
                for line in response.iter_lines():
                    text += line
                    if "text-delta" in line and process.poll() is None:
                        process.send_signal(signal.SIGTERM)
            assert "data-resume" in text
            assert "[DONE]" not in text
            process.wait(10)
        with served(tmp_path, delay=0.05) as (address, _), Client(base_url=address) as client:
            resumed = client.get("/api/chat/c/stream")
            answer = answer_of(resumed)
            assert answer.text.endswith("five six seven")
            messages = client.messages("c")
            assert [m["role"] for m in messages] == ["user", "assistant"]
            assert messages[-1] == answer.to_wire()

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (["serve", "nowhere:agent"], 2, "nowhere"),
            (["mcp", "prototype:nothing"], 2, "nothing"),
            (["serve", "prototype:agent", "--authenticate", "nowhere:who"], 1, "nowhere:who"),
        ],
    )
    def test_unknown_target(self, tmp_path: Path, words: list[str], code: int, said: str) -> None:
        """A target that is no agent, or no function, is said in one line."""
        (tmp_path / "prototype.py").write_text(PROTOTYPE.replace("DELAY", "0"))
        result = subprocess.run(
            [sys.executable, "-c", "from chatnb.sites.cli import main; main()", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert result.returncode == code
        assert said in result.stderr.splitlines()[-1]
        assert "Traceback" not in result.stderr


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its libraries the site says with which command to install them."""
    found: Any = lambda name: None  # noqa: E731
    monkeypatch.setattr(requirements, "find_spec", found)
    with pytest.raises(errors.MissingExtraError, match=r'pip install "chatnb\[http\]"'):
        app(Agent("offline"))
