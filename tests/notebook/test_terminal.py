"""IPython in a terminal: no panel can be drawn, so words are written as text (spec/notebook.md, section 7)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CELLS = r"""
from chatnb import Agent
from chatnb.models import Reply, ScriptedModel
replies = [Reply("One **two** three.", calls=[("go", {})]), "Done.", "Later."]
agent = Agent(ScriptedModel(replies))
chat = agent.chat("terminal")
chat
chat.view()
%load_ext chatnb
%chat Count!
chat.send("And now?")
"""


@pytest.mark.kernel
class TestTerminal:
    def test_text_and_no_objects(self, tmp_path: Path) -> None:
        """A chat and a view are one line, a reply of `%chat` is its text, and an unawaited send says what to do."""
        environment = {**os.environ, "CHATNB_STORE": str(tmp_path / "chats.db"), "IPYTHONDIR": str(tmp_path)}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "IPython",
                "--simple-prompt",
                "--colors=NoColor",
                "--no-banner",
                "--no-confirm-exit",
            ],
            input=CELLS,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        out = done.stdout
        assert "Chat terminal (0 messages, ready): a terminal can't draw the panel" in out
        assert "ChatWidget: a terminal can't draw it" in out
        assert "One **two** three.\n\nDone.\n" in out
        assert "): await it, or call .result()" in out
        for noise in ("Markdown object", "chat transcript", "Traceback"):
            assert noise not in out, out
