"""MCP: the contract of what is advertised, and cancelled requests (spec/actions.md, 11.3 and 10)."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp import Client
from pydantic import BaseModel, TypeAdapter, WithJsonSchema

from chatnb import Agent, action, errors
from chatnb.models import ScriptedModel
from chatnb.sites import mcp_server
from chatnb.sites.mcp import server
from tests.sites.test_mcp_server import BIG, MODES, made, ran, sales, text_of


class TestContract:
    """11.3: what is advertised is checked in its JSON form, beyond what the output contract has checked."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_mcp_contract(self, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A result that passes the output contract and not the schema is contract "mcp": path and code, no value."""
        Mail = Annotated[str, WithJsonSchema({"type": "string", "format": "email"})]  # noqa: N806
        found: list[Any] = []

        class Contact(BaseModel):
            name: str
            mails: list[Mail]
            extra: dict[str, Mail] = {}

        @action(mcp_output_schema=True, read_only=True)
        def look() -> Contact:
            """Look."""
            return Contact(name="x", mails=["a@b.example", "hunter2"], extra={"secret-key": "hunter3"})

        @action(mcp_output_schema=True)
        def write() -> Contact:
            """Write."""
            return Contact(name="x", mails=["hunter2"])

        real = mcp_server.failure_of
        monkeypatch.setattr(mcp_server, "failure_of", lambda error: found.append(error) or real(error))
        async with Client(server(Agent(ScriptedModel([]), actions=[look, write])), mode=mode) as client:
            schema = next(t for t in (await client.list_tools()).tools if t.name == "look").output_schema
            assert schema["properties"]["mails"]["items"] == {"type": "string", "format": "email"}
            result = await client.call_tool("look", {})
            written = await client.call_tool("write", {})
        for failed in (result, written):
            assert failed.is_error
            assert failed.structured_content is None
            assert text_of(failed).endswith("(errorCode: output_contract_violation)")
            assert "hunter" not in str(failed)
        assert "mails.1: format" in text_of(result)
        assert "extra.*: format" in text_of(result)
        assert "do not retry" in text_of(written)
        assert [(error.contract, error.effect) for error in found] == [("mcp", "none"), ("mcp", "committed")]

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "not": {}},
            {"type": "object", "if": {}},
            {"type": "object", "properties": {"a": {"type": "array", "contains": {}}}},
            {"type": "object", "dependentRequired": {}},
            {"type": "object", "unevaluatedProperties": False},
            {"type": "object", "$id": "x"},
            {"type": "object", "$async": True},
            {"type": "object", "properties": {"a": {"type": "string", "format": "colour"}}},
            {"type": "string"},
            {"anyOf": [{"type": "object"}, {"type": "array"}]},
        ],
    )
    def test_raises_at_definition(self, schema: Any) -> None:
        """What the check can't enforce, and roots that MCP does not take, raise where the action is defined."""

        def found() -> Any:
            """Find."""

        shape = Annotated[Any, WithJsonSchema(schema)]
        with pytest.raises(errors.ActionDefinitionError, match="mcp_output_schema"):
            action(mcp_output_schema=True, output_schema=TypeAdapter(shape))(found)


class TestCancel:
    """A client that cancels its request stops the call (10: `cancelled`)."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_a_running_handler(self, mode: Any) -> None:
        """The handler is cancelled, and the ledger says so; the connection goes on."""
        entered, over = threading.Event(), threading.Event()

        @action
        async def endless() -> str:
            """Never ends by itself."""
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                over.set()
            return "never"

        agent = Agent(ScriptedModel([]), actions=[endless, sales])
        async with Client(server(agent), mode=mode) as client:
            call = asyncio.ensure_future(client.call_tool("endless", {}))
            assert await asyncio.to_thread(entered.wait, 10)
            call.cancel()
            assert await asyncio.to_thread(over.wait, 10)
            assert not (await client.call_tool("sales", {"region": "EU"})).is_error
            await asyncio.gather(call, return_exceptions=True)

    @pytest.mark.parametrize("mode", MODES)
    async def test_an_open_ask(self, mode: Any) -> None:
        """What is asked when the client cancels is refused; nothing runs, and nobody waits on."""
        asked, refused = asyncio.Event(), asyncio.Event()

        async def never(_context: Any, _params: Any) -> types.ElicitResult:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                refused.set()
            raise AssertionError

        async with Client(made(), mode=mode, elicitation_callback=never) as client:
            call = asyncio.ensure_future(client.call_tool("refund", BIG))
            await asked.wait()
            call.cancel()
            await asyncio.wait_for(refused.wait(), 10)
            assert not (await client.call_tool("sales", {"region": "EU"})).is_error
            await asyncio.gather(call, return_exceptions=True)
        assert ran == []
