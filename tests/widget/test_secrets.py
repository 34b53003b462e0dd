"""Credentials given to models are in nothing that a widget sends or keeps (spec/widget.md, section 7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chatnb import Agent, ClientTool
from chatnb.export.redaction import make_redact
from chatnb.models import Reply, ScriptedModel
from chatnb.widget.redaction import Credentials

from .shown import Shown, quiet, refund, shown, still

KEY = "sk-ant-secret-0123456789"


def shown_text(view: Shown) -> str:
    """The last text of the stream, as a page puts it together."""
    text = ""
    for frame in view.sent:
        for op in frame.get("ops", ()):
            if op["op"] == "text":
                text += op["d"]
            elif op["op"] == "part" and op["part"]["type"] == "text":
                text = op["part"]["text"]
            elif op["op"] == "msg" and op["message"]["role"] == "assistant":
                text = "".join(part.get("text", "") for part in op["message"]["parts"])
    return text


class TestSecrets:
    async def test_no_key_anywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """C36: a key by environment and inside an error text is in no frame, trait, state, transcript."""
        key = KEY
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
        key = KEY
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
            await still(view)
            inserting.cancel()
            kinds = {frame["type"] for frame in view.sent}
            assert {"run", "insertCell", "ack"} <= kinds
            assert key not in json.dumps(view.sent)
            view.widget.add_tool_output(view.widget.pending[0].tool_call_id, 1)
            await quiet(view)

    async def test_nor_in_names_options_and_schemas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 7: nor as the name of a value, in an option, a schema, a script or what came with a message."""
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        schema = {"type": "object", "properties": {KEY: {"type": "string", "default": KEY}}}
        tools = [ClientTool("pick", KEY, schema, js=f"export default () => '{KEY}'")]
        options: dict[str, Any] = {"title": f"Chat {KEY}", "placeholder": KEY, "suggestions": [KEY]}
        call = Reply(calls=[("refund", {"order": KEY, "amount": 1.0})])
        async with shown(call, actions=[refund], client_tools=tools, **options) as view:
            await view.hello()
            parts = [{"type": "text", "text": "x"}, {"type": "data-x", "data": {KEY: {"a": [KEY]}}}]
            await view.widget.send_message({"role": "user", "parts": parts, "metadata": {"chatnb": {KEY: KEY}}})
            await quiet(view)
            await view.hello("v2")
            assert KEY not in json.dumps(view.sent)
            assert KEY not in json.dumps(view.widget.get_state("_snapshot"))

    async def test_nor_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 7: nor letter by letter, a frame each: the page puts no key together."""
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        agent = Agent(ScriptedModel(["x"]))

        @agent.run
        async def run(turn: Any) -> AsyncIterator[Any]:
            yield {"type": "text-start", "id": "t"}
            for piece in ("A task, and sk", "-ant-se", "cre", "t-0123", "45", "6789 is", " it; sk-ant", "a."):
                yield {"type": "text-delta", "id": "t", "delta": piece}
                before = len(view.sent)
                for _ in range(8):
                    await asyncio.sleep(0.006)
                    assert KEY not in shown_text(view)
                    if len(view.sent) > before:
                        break
            yield {"type": "text-end", "id": "t"}

        async with shown(agent=agent) as view:
            await view.hello()
            assert (await view.widget.send_message("x")).status == "completed"
            await quiet(view)
            assert KEY not in json.dumps(view.sent)
            assert shown_text(view) == "A task, and [redacted] is it; sk-anta."

    async def test_of_a_new_definition_too(self) -> None:
        """Section 7: a running panel goes over to the model of a new definition, and to its credentials."""

        class Keyed(ScriptedModel):
            credentials = (KEY,)

        agent = Agent(ScriptedModel(["a"]))
        async with shown(agent=agent) as view:
            await view.hello()
            view.mock.chat._engine.definition = view.mock.chat._engine.definition.__class__(
                **{**vars(view.mock.chat._engine.definition), "model": Keyed([f"it is {KEY}"])}
            )
            await view.widget.send_message("x")
            await quiet(view)
            assert KEY not in json.dumps(view.sent)


class TestCredentials:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [("plain", 0), ("the sk", 0), ("x sk-a", 4), (f"x {KEY[:-1]}", len(KEY) - 1), (f"x {KEY} y", None)],
    )
    def test_what_may_be_a_beginning_is_kept_back(self, text: str, kept: int | None) -> None:
        """Section 7: the end of a growing text that may be the beginning of a credential waits."""

        class Keyed:
            credentials = (KEY,)

        assert Credentials(Keyed).kept_back(text) == kept

    def test_in_other_writing(self) -> None:
        """Section 7: html and JSON write some signs otherwise; it is the same value."""
        redact = make_redact(['a"b&c<d>e'])
        assert redact is not None
        for text in ('a"b&c<d>e', "a&quot;b&amp;c&lt;d&gt;e", 'a\\"b&c<d>e'):
            assert redact(f"is {text}.") == "is [redacted]."
