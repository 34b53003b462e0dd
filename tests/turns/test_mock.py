"""`mock_chat` as a product: what its page says is so (spec/turns.md, section 8)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from chatnb import Agent, ClientTool
from chatnb.models import Reply, ScriptedModel
from chatnb.store import memory_store
from chatnb.testing import mock_chat

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text("utf-8")


class TestPage:
    """docs/testing.md."""

    async def test_its_blocks_run(self) -> None:
        """Every Python block is run, in order, in one namespace, and so is each test in it."""
        namespace: dict[str, Any] = {}
        for number, text in enumerate(re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S), start=1):
            exec(compile(text, f"docs/testing.md, block {number}", "exec"), namespace)
        tests = [f for name, f in namespace.items() if name.startswith("test_")]
        assert len(tests) == 4
        for test in tests:
            await test()

    def test_the_signature(self) -> None:
        """The signature on the page is that of the function."""
        signature = inspect.signature(mock_chat)
        for name, parameter in signature.parameters.items():
            default = parameter.default
            assert f"`{name}`" in PAGE
            if default is not inspect.Parameter.empty and default is not None:
                assert f"{name}={default!r}".replace("'", '"') in PAGE


class TestMock:
    """The harness itself."""

    async def test_the_same_each_time(self) -> None:
        """Same script, same ids, chunks and times on each run."""

        async def once() -> Any:
            async with mock_chat(Agent(ScriptedModel([Reply("a b", delay=1.0)]))) as t:
                sent = t.chat.send("hi")
                await t.clock.advance(1)
                await t.clock.advance(1)
                await sent
                return t.chunks, [m.to_wire() for m in t.chat.messages], t.clock.now()

        first = await once()
        assert first == await once()
        assert first[1][0]["id"] == "msg-1"

    async def test_the_offline_model(self) -> None:
        """The offline model answers at once: its rhythm would wait for a clock that stands."""
        agent = Agent("offline")
        async with mock_chat(agent) as t:
            assert (await t.chat.send("hello")).status == "completed"
        assert agent.model.rhythm  # type: ignore[union-attr]

    async def test_two_on_one_store(self) -> None:
        """Chats on one store count their ids on; a chat is found again by a second mock."""
        store = memory_store()
        agent = Agent(ScriptedModel(["one", "two", "three"]))
        async with mock_chat(agent, "a", store=store) as t:
            await t.chat.send("hi")
            t.chat.close()
            await t.clock.advance(0)
        async with mock_chat(agent, "b", store=store) as t:
            await t.chat.send("hi")
        async with mock_chat(agent, "a", store=store) as t:
            assert [m.text for m in t.chat.messages] == ["hi", "one"]
            await t.chat.send("more")
            assert len({m.id for m in t.chat.messages}) == 4

    async def test_client_tools(self) -> None:
        """Client tools are brought by every input."""
        tool = ClientTool("locate", "Where.", {"type": "object", "properties": {}})
        model = ScriptedModel([Reply(calls=[("locate", {}, "c1")]), "thanks"])
        async with mock_chat(Agent(model), client_tools=[tool]) as t:
            assert (await t.chat.send("where?")).status == "awaiting"
            assert (await t.chat.add_tool_output("c1", "here")).text == "thanks"

    async def test_an_advance_nobody_awaits(self) -> None:
        """The clock moves also when `advance` is not awaited; a wait that is begun meanwhile counts from before."""
        async with mock_chat(Agent(ScriptedModel([Reply("a", delay=2.0)]))) as t:
            sent = t.chat.send("hi")
            t.clock.advance(2.0)
            assert t.clock.monotonic() == 2.0
            assert (await sent).status == "completed"

    async def test_an_advance_over_several_waits(self) -> None:
        """Who is woken on the way goes on before the next is, and its next wait counts from then."""
        async with mock_chat(Agent(ScriptedModel([Reply("one two three four", delay=1.0)]))) as t:
            sent = t.chat.send("hi")
            await t.clock.advance(2.5)
            assert t.chat.messages[-1].text == "one two "
            await t.clock.advance(10)
            assert sent.result().text == "one two three four"

    async def test_requests_of_another_model(self) -> None:
        """`requests` has those of a model that `stream_text` is given as well."""
        agent = Agent(ScriptedModel(["never"]))
        other = ScriptedModel(["other"])
        agent.run(lambda turn: turn.stream_text(model=other, temperature=0.5))
        async with mock_chat(agent) as t:
            assert (await t.chat.send("hi")).text == "other"
            assert [request.settings for request in t.requests] == [{"temperature": 0.5}]
