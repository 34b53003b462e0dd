"""`chat.history`: reading, editing, branches (spec/turns.md, sections 4 and 9)."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb import Agent
from chatnb.errors import ChatBusyError, UnknownMessageError
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import mock_chat


def message(id: str, role: str = "user", *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "role": role, "parts": list(parts) or [{"type": "text", "text": id}]}


def call(id: str, state: str = "input-available", name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"type": f"tool-{name}", "toolCallId": id, "state": state, "input": {}, **fields}


def ids(mock: Any) -> list[str]:
    return [m.id for m in mock.chat.messages]


CHAIN = [message("u1"), message("a1", "assistant"), message("u2"), message("a2", "assistant")]


def chat_of(messages: list[dict[str, Any]], *steps: Any) -> Any:
    return mock_chat(Agent(ScriptedModel(list(steps) or ["x"])), messages=messages)


class TestReading:
    """The chain as it is shown."""

    async def test_copies(self) -> None:
        """`all()` and `get_chain()` are new lists; changing them changes nothing."""
        async with chat_of(CHAIN) as mock:
            history = mock.chat.history
            history.all().clear()
            assert [m.id for m in history.get_chain()] == ["u1", "a1", "u2", "a2"]
            assert history.find_message("a1").role == "assistant"
            assert history.find_message("zzz") is None
            assert len(history) == 4


class TestEdits:
    """Edits from a cell apply at once."""

    @pytest.mark.parametrize(
        ("start", "end", "kept"),
        [
            (0, 2, "u1 a1"),
            (1, None, "a1 u2 a2"),
            (-1, None, "a2"),
            (0, -2, "u1 a1"),
            (0, 99, "u1 a1 u2 a2"),
            (9, None, ""),
        ],
    )
    async def test_slice(self, start: int, end: int | None, kept: str) -> None:
        """`slice` keeps a half-open range, as Python slices do."""
        async with chat_of(CHAIN) as mock:
            mock.chat.history.slice(start, end)
            assert " ".join(ids(mock)) == kept

    async def test_replace(self) -> None:
        """`replace` swaps in place, the id may change, later messages stay; the old one is a branch."""
        async with chat_of(CHAIN) as mock:
            mock.chat.history.replace("a1", message("b1", "assistant"))
            assert ids(mock) == ["u1", "b1", "u2", "a2"]
            mock.chat.history.replace("zzz", message("y"))
            assert ids(mock) == ["u1", "b1", "u2", "a2"]
            assert [b.message.id for b in mock.chat.history.branches("b1")] == ["a1", "b1"]

    async def test_nothing_is_destroyed(self) -> None:
        """What leaves the chain is still in the tree, after a restart too."""
        async with chat_of(CHAIN) as mock:
            mock.chat.history.set([])
            mock.chat.history.set([message("other")])
            await mock.restart(kill=True)
            assert ids(mock) == ["other"]
            assert [(b.message.id, b.active) for b in mock.chat.history.branches("u1")] == [
                ("u1", False),
                ("other", True),
            ]
            mock.chat.history.switch("u1")
            assert ids(mock) == ["u1", "a1", "u2", "a2"]

    async def test_an_unchanged_list(self) -> None:
        """An unchanged list writes nothing; equal messages keep their nodes."""
        async with chat_of(CHAIN) as mock:
            before = mock.store.load_nodes("chat-1")
            mock.chat.history.set([dict(m) for m in CHAIN])
            mock.chat.set_messages(mock.chat.messages)
            assert mock.store.load_nodes("chat-1") == before

    async def test_content_is_shared(self) -> None:
        """After an edit early in the chain the later messages are new nodes which share their content."""
        async with chat_of(CHAIN) as mock:
            mock.chat.history.remove("u1")
            nodes = mock.store.load_nodes("chat-1")
            assert len(nodes) == 7
            assert len({n.content_id for n in nodes}) == 4

    async def test_busy(self) -> None:
        """From a cell while the chat works: ChatBusyError."""
        async with chat_of([], Reply("x", delay=1.0)) as mock:
            mock.chat.send("hi")
            for edit in (
                lambda: mock.chat.history.set([]),
                lambda: mock.chat.history.slice(0, 1),
                lambda: mock.chat.history.switch("u"),
            ):
                with pytest.raises(ChatBusyError):
                    edit()


class TestSwitch:
    """Branches and the leaf last shown."""

    async def test_the_leaf_last_shown(self) -> None:
        """`switch` goes to the leaf that was last shown below; node ids work; an unknown id raises."""
        async with mock_chat(Agent(ScriptedModel([f"a{n}" for n in range(9)]))) as mock:
            await mock.chat.send("u1")
            await mock.chat.send("u2")
            await mock.chat.regenerate()
            whole = ids(mock)
            await mock.chat.edit(whole[0], "other")
            mock.chat.history.switch(whole[0])
            assert ids(mock) == whole
            node = mock.chat.history.branches(whole[3])[0].node_id
            mock.chat.history.switch(node)
            assert ids(mock)[:3] == whole[:3]
            assert ids(mock)[3] != whole[3]
            with pytest.raises(UnknownMessageError):
                mock.chat.history.switch("zzz")
            assert mock.chat.history.branches("zzz") == []


class TestCalls:
    """What is known of the calls of a chain."""

    async def test_pending(self) -> None:
        """C18: the last assistant message has a call in input-available, then a user message: it is listed."""
        messages = [
            message("a1", "assistant", call("c0")),
            message("a2", "assistant", call("c1"), call("", name="g"), call("c2", "output-available", output=1)),
            message("u1"),
        ]
        async with chat_of(messages) as mock:
            found = mock.chat.history.get_pending_tool_calls()
            assert [(c.tool_call_id, c.tool_name, c.message_id) for c in found] == [("c1", "f", "a2")]

    async def test_resolved(self) -> None:
        """Resolved calls of the whole chain: outputs and errors."""
        messages = [
            message("a1", "assistant", call("c0", "output-error", errorText="no")),
            message("a2", "assistant", call("c1"), call("c2", "output-available", output=1)),
        ]
        async with chat_of(messages) as mock:
            history = mock.chat.history
            assert [c.tool_call_id for c in history.get_resolved_tool_calls()] == ["c0", "c2"]
            new = message(
                "n",
                "assistant",
                call("c2", "output-available", output=9),
                call("c1", "output-available", output=2),
                call("c1", "output-available", output=3),
                call("c3", "output-error", errorText="bad"),
            )
            results = history.extract_new_tool_results(new)
            assert [(r.tool_call_id, r.tool_name, r.output, r.error_text) for r in results] == [
                ("c1", "f", 2, None),
                ("c3", "f", None, "bad"),
            ]
            assert history.extract_new_tool_results(message("u", "user")) == []
