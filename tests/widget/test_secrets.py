"""Credentials given to models are in nothing that a widget sends or keeps (spec/widget.md, section 7)."""

from __future__ import annotations

import asyncio
import json

import pytest

from chatnb import ClientTool
from chatnb.models import Reply

from .shown import quiet, shown


class TestSecrets:
    async def test_no_key_anywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """C36: a key by environment and inside an error text is in no frame, trait, state, transcript."""
        key = "sk-ant-secret-0123456789"
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
        async with shown(RuntimeError(f"bad key {key}"), f"your key is {key}") as view:
            await view.hello()
            await view.widget.send_message("x")
            await view.widget.send_message("y")
            await quiet(view)
            assert key not in json.dumps(view.sent)
            assert "[redacted]" in json.dumps(view.sent)
            assert key not in json.dumps(view.widget.get_state("_snapshot"))
            assert key not in json.dumps(view.widget._render_transcript())

    async def test_nor_in_what_has_no_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 7: nor in answers to commands, in a script's input, in a cell to be inserted."""
        key = "sk-ant-secret-0123456789"
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
        tool = ClientTool("pick", "Pick", {"type": "object"}, js="export default async () => 1")
        async with shown(Reply(calls=[("pick", {"with": key})]), "thanks", client_tools=[tool]) as view:
            await view.hello("v1", canInsert=True)
            panel = view.widget._panel
            assert panel is not None
            await view.command("send", text="x")
            await quiet(view)
            inserting = asyncio.ensure_future(panel.deeds.cells.insert(f"key = {key!r}"))
            panel.deeds.send_ack("v1", "any", {"ok": True, "result": {"text": f"the key is {key}"}})
            await asyncio.sleep(0.1)
            inserting.cancel()
            kinds = {frame["type"] for frame in view.sent}
            assert {"run", "insertCell", "ack"} <= kinds
            assert key not in json.dumps(view.sent)
            view.widget.add_tool_output(view.widget.pending[0].tool_call_id, 1)
            await quiet(view)
