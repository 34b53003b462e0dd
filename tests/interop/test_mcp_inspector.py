"""The MCP Inspector's command-line mode lists and calls, over stdio (issue 8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.interop.node import ENVIRONMENT, NODE, install

PROTOTYPE = '''
from chatnb import Agent, action
from chatnb.models import ScriptedModel

@action(read_only=True)
def look(region: str) -> dict[str, str]:
    """Look up a region."""
    return {"region": region}

agent = Agent(ScriptedModel([]), actions=[look])
'''
SERVER = "import os, sys; os.chdir(sys.argv[1]); sys.argv[1:] = ['mcp', 'prototype:agent']\n" + (
    "from chatnb.sites.cli import main; main()\n"
)


def inspect(folder: Path, *args: str) -> Any:
    """Run the Inspector against `chatnb mcp`; returns what it prints."""
    place = install("inspector", "@modelcontextprotocol/inspector")
    (folder / "prototype.py").write_text(PROTOTYPE)
    (folder / "server.py").write_text(SERVER)
    program = place / "node_modules" / ".bin" / "mcp-inspector"
    command = [NODE, str(program), "--cli", sys.executable, str(folder / "server.py"), str(folder), *args]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.environ["PYTHONPATH"], "CHATNB_STORE": str(folder / "chats.db")}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class TestInspector:
    """What the Inspector sees is what is defined."""

    def test_list(self, tmp_path: Path) -> None:
        """`tools/list` gives name, schema and annotations."""
        [tool] = inspect(tmp_path, "--method", "tools/list")["tools"]
        assert (tool["name"], tool["annotations"]) == ("look", {"readOnlyHint": True})
        assert tool["inputSchema"]["required"] == ["region"]

    def test_call(self, tmp_path: Path) -> None:
        """`tools/call` gives the result."""
        args = ("--method", "tools/call", "--tool-name", "look", "--tool-arg", "region=EU")
        assert inspect(tmp_path, *args)["content"] == [{"type": "text", "text": '{"region":"EU"}'}]
