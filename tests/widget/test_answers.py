"""Answers of forms are checked in the kernel too (spec/widget.md, 5.5)."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb import Agent, ClientTool
from chatnb.models import Reply, ScriptedModel
from chatnb.widget.answers import answer_problem

from .shown import shown

PERSON = {
    "type": "object",
    "required": ["first"],
    "properties": {"first": {"type": "string"}, "age": {"type": "integer"}},
}


class TestAnswers:
    """What is wrong is told, without its value."""

    @pytest.mark.parametrize(
        ("answer", "field"), [({}, "first"), ({"first": 3}, "first"), ({"first": "a", "age": "secret"}, "age")]
    )
    def test_a_wrong_one(self, answer: Any, field: str) -> None:
        problem = answer_problem(answer, PERSON)
        assert problem is not None
        assert problem.field == field
        assert "secret" not in problem.message

    def test_a_right_one(self) -> None:
        assert answer_problem({"first": "Ada"}, PERSON) is None

    @pytest.mark.parametrize(
        "schema", [{"type": "nonsense"}, {"$ref": "http://example.org/x.json"}, {"properties": {"a": {"$ref": "#/no"}}}]
    )
    def test_no_schema_checks_nothing(self, schema: dict[str, Any]) -> None:
        assert answer_problem({"a": 1}, schema) is None

    async def test_a_form_without_a_schema_of_its_own(self) -> None:
        """`form=True`: the fields are those of the call, by which the answer is checked."""
        tool = ClientTool("who", "Asks", PERSON, form=True)
        agent = Agent(ScriptedModel([Reply(calls=[("who", {}, "c1")]), "Hello Ada."]))
        async with shown(agent=agent, client_tools=[tool]) as view:
            view.widget.send_message("hi")
            await view.mock.done()
            await view.hello()
            (item,) = next(frame for frame in view.sent if frame["type"] == "reset")["snapshot"]["pending"]
            assert (item["form"], item["schema"]) == (True, PERSON)
            assert (await view.command("toolOutput", toolCallId="c1", output={}))["error"]["field"] == "first"
            assert (await view.command("toolOutput", toolCallId="c1", output={"first": "Ada"}))["ok"]

    async def test_a_wrong_one_leaves_the_call_pending(self) -> None:
        """An answer that does not fit is refused with its field; the call waits on; a right one goes through."""
        tool = ClientTool("who", "Asks", {"type": "object", "properties": {}}, form=PERSON)
        agent = Agent(ScriptedModel([Reply(calls=[("who", {}, "c1")]), "Hello Ada."]))
        async with shown(agent=agent, client_tools=[tool]) as view:
            view.widget.send_message("hi")
            await view.mock.done()
            refused = await view.command("toolOutput", toolCallId="c1", output={})
            assert refused["error"]["field"] == "first"
            assert len(view.mock.chat.pending) == 1
            accepted = await view.command("toolOutput", toolCallId="c1", output={"first": "Ada"})
            assert accepted["ok"]
            await view.mock.done()
            assert view.mock.chat.messages[-1].text == "Hello Ada."
