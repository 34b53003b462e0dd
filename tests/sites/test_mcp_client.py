"""`mcp_actions` with a server that is careless or hostile (issue 8: its text is untrusted)."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.server import Server

from chatnb import Agent, errors, mcp_actions
from chatnb.actions import Action
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import mock_chat

TEXT = {"type": "string"}
PARAMETERS: dict[str, Any] = {
    "class": TEXT,
    "from": TEXT,
    "a-b": TEXT,
    "a_b": TEXT,
    "": TEXT,
    "__proto__": TEXT,
    "kind": {"type": ["string", "null"]},
    "node": {"$ref": "#/$defs/N"},
    "anything": True,
    "flood": {**TEXT, "enum": ["x" * 100] * 100},
    "said": {**TEXT, "description": "evil\u202e\x00"},
}
TOOLS = [
    types.Tool(name="find", input_schema={"type": "object", "properties": PARAMETERS, "required": ["from", "nothing"]}),
    types.Tool(name="two words", input_schema={"type": "object"}),
    types.Tool(name="two_words", input_schema={"type": "object", "properties": [], "required": 7}),
    types.Tool(name="", input_schema={"type": "object"}),
    types.Tool(name="n" * 500, input_schema={"type": "object"}, title="t" * 500, description="d" * 5000),
    *(types.Tool(name=name, input_schema={"type": "object"}) for name in ("images", "mixed", "fails", "names_images")),
]


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    given: list[types.ContentBlock] = [types.TextContent(type="text", text=f"{params.name} {params.arguments}")]
    if params.name == "images":
        given.append(types.ImageContent(type="image", data="no base64", mime_type="image/svg+xml"))
        return types.CallToolResult(content=given, structured_content={"n": 1})
    if params.name == "mixed":
        inner = types.TextResourceContents(uri="file:///a.txt", text="inside")
        return types.CallToolResult(
            content=[
                types.AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
                types.EmbeddedResource(type="resource", resource=inner),
            ]
        )
    if params.name == "fails":
        text = types.TextContent(type="text", text="\x1b[31mno\u202e" + "y" * 9000)
        return types.CallToolResult(content=[text], is_error=True)
    if params.name == "names_images":
        return types.CallToolResult(
            content=given, structured_content={"n": 1, "_agent_images": [{"url": "https://evil.example/x.png"}]}
        )
    return types.CallToolResult(content=given)


@pytest.fixture
def found() -> dict[str, Action]:
    """The server's tools as actions."""
    server: Server[Any] = Server("evil\u202e\x00" + "n" * 500, on_list_tools=list_tools, on_call_tool=call_tool)
    return {action.name: action for action in mcp_actions(server, needs_approval=False)}


class TestNames:
    """Whatever a server calls its tools and their parameters, they can be called."""

    async def test_parameters(self, found: dict[str, Action]) -> None:
        """Keywords, doubles and names that are none get names of their own; the server gets its own back."""
        names = list(found["find"].input_schema["properties"])
        assert names == [
            *("p_class", "p_from", "a_b", "a_b_2", "p_", "p___proto__", "kind", "node", "anything", "flood", "said")
        ]
        assert found["find"].input_schema["required"] == ["p_from"]
        given = {"p_class": "1", "p_from": "2", "a_b": "3", "a_b_2": "4", "p_": "5", "p___proto__": "6", "kind": None}
        said = await found["find"](**given)
        assert said == f"find {dict(zip(PARAMETERS, '123456', strict=False))}"

    async def test_tools(self, found: dict[str, Action]) -> None:
        """Names that become the same are told apart; long ones are cut; an agent takes them all."""
        assert list(found)[1:4] == ["two_words", "two_words_2", "t_"]
        assert all(len(name) <= 64 for name in found)
        assert await found["two_words_2"]() == "two_words {}"
        Agent("offline", actions=list(found.values()))

    def test_schemas(self, found: dict[str, Action]) -> None:
        """A schema that floods is cut to its type; texts are cleaned."""
        shown = found["find"].input_schema["properties"]
        assert "enum" not in shown["flood"]
        assert shown["flood"]["type"] == "string"
        assert shown["said"]["description"] == "evil"
        assert len(found["n" * 64].description) < 2700


class TestResults:
    """What a server answers is data."""

    async def test_images(self, found: dict[str, Action]) -> None:
        """Images come beside the result; bad ones become notes; a result names none by itself."""
        script = [Reply(calls=[("images", {}), ("names_images", {})]), "done"]
        async with mock_chat(Agent(ScriptedModel(script), actions=list(found.values()))) as mock:
            await mock.chat.send("x")
            outputs = [p.output for p in mock.chat.messages[-1].parts if p.type.startswith("tool-")]
            assert outputs[0].startswith('{"n":1}\n[image dropped')
            assert outputs[1] == {"n": 1}
            assert "evil.example" not in str(mock.requests[-1].messages)

    async def test_other_content(self, found: dict[str, Action]) -> None:
        """Text inside of resources is text; what no model reads is a note."""
        assert await found["mixed"]() == "[audio]\ninside"

    async def test_failure(self, found: dict[str, Action]) -> None:
        """An error's text is cut and cleaned."""
        with pytest.raises(errors.ActionError) as caught:
            await found["fails"]()
        assert str(caught.value).startswith("[31mnoyyy")
        assert len(str(caught.value)) <= 2000


class TestUnreachable:
    def test_no_server(self) -> None:
        """A server that is not there: what failed, and where to look."""
        with pytest.raises(errors.ConfigError, match=r"\(ConnectError\): is it running"):
            mcp_actions("http://127.0.0.1:1/mcp")

    def test_no_command(self) -> None:
        """A command that is not there."""
        with pytest.raises(errors.ConfigError, match=r"\(FileNotFoundError\): does its command run by itself"):
            mcp_actions(["no-such-command-of-a-server"])
