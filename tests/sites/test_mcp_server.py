"""The MCP site, by the official SDK's client (spec/actions.md, 11.2 to 11.4)."""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from pydantic import BaseModel

from chatnb import ActionContext, Agent, Identity, action, errors, mcp_actions
from chatnb._clock import SystemClock
from chatnb.models import Reply, ScriptedModel
from chatnb.sites.mcp import server, streamable_app
from chatnb.testing import mock_chat
from tests.sites.http_server import by_key, running

MODES = ("legacy", "auto")
ran: list[Any] = []
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Row(BaseModel):
    """A row."""

    region: str
    amount: float


@action(read_only=True, title="Sales")
def sales(region: str, year: int = 2025) -> dict[str, Any]:
    """Look up sales."""
    return {"region": region, "year": year}


@action(needs_approval=lambda args, ctx: args["amount"] > 100)
def refund(order: str, amount: float, password: str = "p4ss") -> str:
    """Refund an order."""
    ran.append((order, amount))
    return "refunded"


@action(mcp_output_schema=True)
def rows() -> list[Row]:
    """All rows."""
    return [Row(region="EU", amount=1.5)]


@action(ui_only=True)
def wipe() -> str:
    """Remove everything."""
    return "gone"


@action(agent_tool=False)
def private() -> str:
    """Not for models."""
    return "private"


@action(mcp_tool=False)
def not_mcp() -> str:
    """Not for MCP."""
    return "no"


@action(ends_turn=True)
def finish() -> str:
    """End."""
    return "end"


@action(ends_turn=True, mcp_tool=True)
def finish_too() -> str:
    """End, for MCP too."""
    return "end"


@action(mcp_annotations={"destructiveHint": False, "idempotentHint": True})
def tag(text: str) -> str:
    """Tag."""
    return text


@action
def picture() -> dict[str, Any]:
    """A picture."""
    return {"n": 1, "_agent_images": [{"data": PIXEL, "media_type": "image/png"}, {"url": "https://x.example/a.png"}]}


@action
def leak() -> str:
    """Fail."""
    raise RuntimeError("password=hunter2")


@action
async def slow(ctx: ActionContext) -> str:
    """Report progress."""
    ctx.progress(1, 2, "half")
    return ctx.identity.id if ctx.identity else "nobody"


ACTIONS = [sales, refund, rows, wipe, private, not_mcp, finish, finish_too, tag, picture, leak, slow]


@pytest.fixture(autouse=True)
def clean() -> None:
    ran.clear()


def made(identity: Identity | None = None) -> Any:
    return server(Agent(ScriptedModel([]), actions=ACTIONS), identity=identity)


def answering(action_: str, decision: str | None, asked: list[Any] | None = None) -> Any:
    """An elicitation callback that answers so."""

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        if asked is not None:
            asked.append(params)
        content = {"decision": decision} if decision else None
        return types.ElicitResult(action=action_, content=content)  # type: ignore[arg-type]

    return answer


def text_of(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


BIG = {"order": "7", "amount": 250}


class TestTools:
    """What is listed, and how."""

    async def test_exposure(self) -> None:
        """11.2: the veto holds for list and call."""
        async with Client(made()) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["sales", "refund", "rows", "finish_too", "tag", "picture", "leak", "slow"]
            for hidden in ("wipe", "private", "not_mcp", "finish", "nothing"):
                result = await client.call_tool(hidden, {})
                assert result.is_error
                assert text_of(result).endswith("(errorCode: unknown_action)")

    async def test_annotations(self) -> None:
        """11.2: declared annotations win whole; else readOnlyHint, and destructiveHint for gated ones."""
        async with Client(made()) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        hints = {name: t.annotations.model_dump(by_alias=True, exclude_none=True) for name, t in tools.items()}  # type: ignore[union-attr]
        assert hints["sales"] == {"readOnlyHint": True}
        assert hints["refund"] == {"readOnlyHint": False, "destructiveHint": True}
        assert hints["tag"] == {"destructiveHint": False, "idempotentHint": True}
        assert tools["sales"].title == "Sales"
        assert tools["sales"].input_schema == sales.input_schema
        assert tools["sales"].output_schema is None
        schema = tools["rows"].output_schema
        assert schema is not None
        assert schema["properties"]["items"]["type"] == "array"


class TestCalls:
    """What a call gives."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_result(self, mode: Any) -> None:
        """The text is what a model gets; structured content only where it is advertised."""
        async with Client(made(), mode=mode) as client:
            result = await client.call_tool("sales", {"region": "EU"})
            assert text_of(result) == '{"region":"EU","year":2025}'
            assert result.structured_content is None
            structured = (await client.call_tool("rows", {})).structured_content
            assert structured == {"items": [{"region": "EU", "amount": 1.5}]}

    async def test_errors(self, caplog: pytest.LogCaptureFixture) -> None:
        """Errors are `isError` text with the code; a plain exception's text stays in the log."""
        async with Client(made()) as client:
            result = await client.call_tool("sales", {})
            assert result.is_error
            assert "region" in text_of(result)
            assert text_of(result).endswith(" (errorCode: invalid_arguments)")
            with caplog.at_level(logging.ERROR):
                failed = await client.call_tool("leak", {})
        assert "hunter2" not in text_of(failed)
        assert "hunter2" in caplog.text

    async def test_images(self) -> None:
        """Images are image parts; links are notes in the text."""
        async with Client(made()) as client:
            result = await client.call_tool("picture", {})
        kinds = [block.type for block in result.content]
        assert kinds == ["text", "image"]
        assert "https://x.example/a.png" in text_of(result)
        assert PIXEL not in text_of(result)

    @pytest.mark.parametrize("mode", MODES)
    async def test_progress(self, mode: Any) -> None:
        """9.5: progress comes as progress notifications."""
        seen: list[Any] = []

        async def note(done: float, total: float | None, text: str | None) -> None:
            seen.append((done, total, text))

        async with Client(made(Identity("eve")), mode=mode) as client:
            result = await client.call_tool("slow", {}, progress_callback=note)
            assert text_of(result) == "eve"
        assert seen == [(1.0, 2.0, "half")]

    async def test_output_contract(self) -> None:
        """11.3: a result that does not fit what is advertised is a contract error without values."""

        @action(mcp_output_schema=True, output_schema=dict[str, int])
        def bad() -> Any:
            """Bad."""
            return {"a@b.example": "secret"}

        async with Client(server(Agent(ScriptedModel([]), actions=[bad]))) as client:
            result = await client.call_tool("bad", {})
        assert result.is_error
        assert "output_contract_violation" in text_of(result)
        assert "secret" not in text_of(result)
        assert "a@b" not in text_of(result)


class TestApproval:
    """11.4: the client asks its person, in both generations of the protocol."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_approve(self, mode: Any) -> None:
        """Accept with `approve` runs the call once; all arguments are shown, secrets masked."""
        asked: list[Any] = []
        callback = answering("accept", "approve", asked)
        async with Client(made(), mode=mode, elicitation_callback=callback) as client:
            result = await client.call_tool("refund", BIG)
        assert text_of(result) == "refunded"
        assert ran == [("7", 250.0)]
        assert len(asked) == 1
        assert "250" in asked[0].message
        assert "p4ss" not in asked[0].message

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize(
        ("answer", "decision"),
        [("accept", "deny"), ("decline", None), ("cancel", None), ("decline", "approve"), ("accept", None)],
    )
    async def test_refuse(self, mode: Any, answer: str, decision: str | None) -> None:
        """Anything but accept with `approve` refuses."""
        async with Client(made(), mode=mode, elicitation_callback=answering(answer, decision)) as client:
            result = await client.call_tool("refund", BIG)
        assert result.is_error
        assert "approval_required" in text_of(result)
        assert ran == []

    @pytest.mark.parametrize("mode", MODES)
    async def test_no_elicitation(self, mode: Any) -> None:
        """A client that can't ask is refused; an ungated call of the same action runs."""
        async with Client(made(), mode=mode) as client:
            assert "approval_required" in text_of(await client.call_tool("refund", BIG))
            assert text_of(await client.call_tool("refund", {"order": "7", "amount": 5})) == "refunded"

    @pytest.mark.parametrize("mode", MODES)
    async def test_service(self, mode: Any) -> None:
        """A service identity is refused, without asking."""
        asked: list[Any] = []
        made_ = made(Identity("robot", kind="service"))
        async with Client(made_, mode=mode, elicitation_callback=answering("accept", "approve", asked)) as client:
            assert "approval_required" in text_of(await client.call_tool("refund", BIG))
        assert asked == []

    async def test_used_other_and_expired_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A row is for one answer, one hash, one caller, and 10 minutes; a deny burns it."""
        yes = {"approval": types.ElicitResult(action="accept", content={"decision": "approve"})}
        no = {"approval": types.ElicitResult(action="accept", content={"decision": "deny"})}
        async with Client(made(), elicitation_callback=answering("accept", "approve")) as client:
            call = client.session.call_tool

            async def state_of(arguments: dict[str, Any]) -> str:
                first = await call("refund", arguments, allow_input_required=True)
                assert isinstance(first, types.InputRequiredResult)
                assert first.request_state is not None
                return first.request_state

            async def answered(state: str, responses: Any, arguments: dict[str, Any] = BIG) -> bool:
                found = await call(
                    "refund", arguments, input_responses=responses, request_state=state, allow_input_required=True
                )
                return isinstance(found, types.CallToolResult) and not found.is_error

            state = await state_of(BIG)
            assert not await answered(state, no)
            assert not await answered(state, yes)
            state = await state_of(BIG)
            assert not await answered(state, yes, {"order": "8", "amount": 250})
            state = await state_of(BIG)
            assert await answered(state, yes)
            assert not await answered(state, yes)
            assert not await answered("approval-invented", yes)
            state = await state_of(BIG)
            now = SystemClock.now
            monkeypatch.setattr(SystemClock, "now", lambda self: now(self) + timedelta(minutes=10, seconds=1))
            assert not await answered(state, yes)
        assert len(ran) == 1


class TestTransports:
    """Streamable HTTP and stdio."""

    def test_streamable(self) -> None:
        """Over HTTP the caller is who the site's authentication says; approvals work; nobody is a 401."""
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        application = streamable_app(Agent(ScriptedModel([]), actions=ACTIONS), authenticate=by_key)

        async def use(address: str, mode: Any) -> list[str]:
            async with create_mcp_http_client(headers={"authorization": "Bearer bob"}) as http:
                transport = streamable_http_client(f"{address}/mcp", http_client=http)
                callback = answering("accept", "approve")
                async with Client(transport, mode=mode, elicitation_callback=callback) as client:
                    who = text_of(await client.call_tool("slow", {}))
                    return [who, text_of(await client.call_tool("refund", BIG))]

        async def intrude(address: str) -> None:
            async with Client(f"{address}/mcp") as client:
                await client.list_tools()

        with running(application) as address:
            for mode in MODES:
                assert asyncio.run(use(address, mode)) == ["bob", "refunded"]
            with pytest.raises(Exception):  # noqa: B017, PT011 - the SDK's own error of a 401
                asyncio.run(intrude(address))

    async def test_stdio(self, tmp_path: Path) -> None:
        """`chatnb mcp module:agent` speaks over stdin and stdout; no print of its code disturbs that."""
        (tmp_path / "prototype.py").write_text(
            "import os, subprocess\nfrom chatnb import Agent, action\nfrom chatnb.models import ScriptedModel\n"
            "def noise():\n    print('noise')\n    os.write(1, b'raw')\n    subprocess.run(['echo', 'child'])\n"
            "noise()\n@action\ndef note(text: str) -> str:\n    '''Write a note.'''\n    noise()\n    return text\n"
            "agent = Agent(ScriptedModel([]), actions=[note])\n"
        )
        code = "from chatnb.sites.cli import main; main()"
        command = StdioServerParameters(
            command=sys.executable,
            args=["-c", code, "mcp", "prototype:agent"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(Path(__file__).parents[2]), "CHATNB_STORE": str(tmp_path / "chats.db")},
        )
        async with Client(command) as client:
            assert [t.name for t in (await client.list_tools()).tools] == ["note"]
            assert text_of(await client.call_tool("note", {"text": "x"})) == "x"


class TestClient:
    """`mcp_actions`: an MCP server's tools as actions."""

    async def test_actions(self) -> None:
        """Annotations choose read and approval; the schema is the tool's; the call goes to the server."""
        found = {a.name: a for a in mcp_actions(made(), prefix="shop_")}
        assert found["shop_sales"].read_only is True
        assert found["shop_sales"].needs_approval is False
        assert found["shop_refund"].needs_approval is True
        assert found["shop_leak"].needs_approval is True
        assert found["shop_tag"].needs_approval is False
        schema = found["shop_sales"].input_schema
        assert schema["required"] == ["region"]
        assert schema["properties"]["region"]["type"] == "string"
        model = ScriptedModel([Reply(calls=[("shop_sales", {"region": "EU", "year": 2024})]), "done"])
        async with mock_chat(Agent(model, actions=list(found.values()))) as mock:
            await mock.chat.send("x")
            assert "2024" in str(mock.requests[-1].messages)

    async def test_failure_and_override(self) -> None:
        """A tool's failure is the call's error; `needs_approval` overrides the annotations."""
        found = {a.name: a for a in mcp_actions(made(), needs_approval=False)}
        assert found["leak"].needs_approval is False
        with pytest.raises(errors.ActionError, match="errorCode: action_failed"):
            await found["leak"]()

    def test_unreachable(self) -> None:
        """A server that can't be reached, or is none, is a `ConfigError`."""
        for bad in ("nonsense", 7, []):
            with pytest.raises(errors.ConfigError):
                mcp_actions(bad)
        with pytest.raises(errors.ConfigError):
            mcp_actions([sys.executable, "-c", "raise SystemExit(3)"], timeout=10)

    async def test_untrusted_text(self) -> None:
        """What a server says of itself is cut and cleaned, and marked as its own words."""

        @action
        def odd() -> str:
            """Odd."""
            return "x"

        odd.description = "ignore\u202eall\x00 " + "x" * 5000
        [found] = mcp_actions(server(Agent(ScriptedModel([]), actions=[odd])))
        assert "described by itself" in found.description
        assert "\u202e" not in found.description
        assert "\x00" not in found.description
        assert len(found.description) < 2200
