"""PydanticAIModel: other providers, with chatnb's own loop (spec/notebook.md, section 8)."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chatnb.errors import MissingExtraError, ModelError, ModelRequestError
from chatnb.models import PydanticAIModel
from tests.models.build import (
    ask,
    assistant,
    call,
    chunks_until_error,
    collect,
    end_of,
    inputs_of,
    results,
    spec,
    text_of,
    user,
)

is_installed = importlib.util.find_spec("pydantic_ai") is not None
needs_it = pytest.mark.skipif(not is_installed, reason='needs pip install "chatnb[pydantic-ai]"')


def function_model(*steps: Any, seen: list[Any] | None = None) -> Any:
    from pydantic_ai.models.function import FunctionModel

    async def stream(messages: Any, info: Any) -> AsyncIterator[Any]:
        if seen is not None:
            seen.append((messages, info))
        for step in steps:
            if isinstance(step, Exception):
                raise step
            yield step

    return FunctionModel(stream_function=stream)


class TestMissing:
    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A missing extra raises MissingExtraError with the command."""
        monkeypatch.setattr("chatnb.models.pydantic_ai.find_spec", lambda name: None)
        with pytest.raises(MissingExtraError, match="pip install"):
            PydanticAIModel("openai:some-model")


@needs_it
class TestAnswers:
    async def test_text(self) -> None:
        """Text is streamed in its pieces; the step ends with a reason and usage."""
        items = await collect(PydanticAIModel(function_model("Hello ", "you")), ask("hi"))
        assert text_of(items) == "Hello you"
        assert end_of(items).finish_reason == "stop"

    async def test_calls_are_declared_and_never_run(self) -> None:
        """Tools are passed as declarations; a call comes back as chunks."""
        from pydantic_ai.models.function import DeltaToolCall

        seen: list[Any] = []
        steps = ({0: DeltaToolCall("my_tool", '{"a":', tool_call_id="c1")}, {0: DeltaToolCall(json_args=" 1}")})
        model = PydanticAIModel(function_model(*steps, seen=seen))
        items = await collect(model, ask("hi", actions=(spec("my.tool", "Does it."),)))
        assert inputs_of(items) == [("my.tool", {"a": 1})]
        assert end_of(items).finish_reason == "tool-calls"
        assert [tool.name for tool in seen[0][1].function_tools] == ["my_tool"]

    async def test_broken_arguments_never_run(self) -> None:
        """Arguments that are not one whole object become tool-input-error."""
        from pydantic_ai.models.function import DeltaToolCall

        model = PydanticAIModel(function_model({0: DeltaToolCall("f", '{"a": 1', tool_call_id="c1")}))
        items = await collect(model, ask("hi", actions=(spec(),)))
        assert inputs_of(items) == []

    async def test_parts_may_overlap(self) -> None:
        """Deltas of parallel calls may come in turns: each goes to its own call."""
        from pydantic_ai.models.function import DeltaToolCall

        steps = (
            {0: DeltaToolCall("f", '{"a":', tool_call_id="c1")},
            {1: DeltaToolCall("g", '{"b":', tool_call_id="c2")},
            {0: DeltaToolCall(json_args=" 1}"), 1: DeltaToolCall(json_args=" 2}")},
        )
        model = PydanticAIModel(function_model(*steps))
        items = await collect(model, ask("hi", actions=(spec("f"), spec("g"))))
        assert sorted(inputs_of(items)) == [("f", {"a": 1}), ("g", {"b": 2})]

    async def test_arguments_come_back_whole(self) -> None:
        """Arguments with letters that some providers refuse are sent cleaned, and come back under their own names."""
        from pydantic_ai.models.function import DeltaToolCall

        odd = spec("pack", "Pack.", ("größe",), **{"größe": {"type": "number"}})
        model = PydanticAIModel(function_model({0: DeltaToolCall("pack", '{"gr__e": 2}', tool_call_id="c1")}))
        assert inputs_of(await collect(model, ask("hi", actions=(odd,)))) == [("pack", {"größe": 2})]

    async def test_what_a_provider_wants_back(self) -> None:
        """Signatures of thinking and details of calls are kept with their parts, and go back with them."""
        from pydantic_ai.messages import ModelResponse, PartEndEvent, PartStartEvent, ThinkingPart, ToolCallPart

        from chatnb.models.anthropic_tools import AnthropicTools
        from chatnb.models.pydantic_ai import _PartReader

        thinking = ThinkingPart("hm", signature="s1", provider_name="google")
        called = ToolCallPart("f", {"a": 1}, "c1", provider_name="google", provider_details={"thought_signature": "t"})
        reader = _PartReader(AnthropicTools(names={"f": "f"}), lambda what: None)
        chunks: list[Any] = []
        for index, part in enumerate((thinking, called)):
            chunks += reader.feed(PartStartEvent(index=index, part=part))
            chunks += reader.feed(PartEndEvent(index=index, part=part))
        chunks = [chunk for chunk in chunks + reader.close() if chunk is not None]
        kept = [chunk["providerMetadata"] for chunk in chunks if "providerMetadata" in chunk]
        assert [list(each) for each in kept] == [["pydantic-ai"], ["pydantic-ai"]]

        seen: list[Any] = []
        thought = {"type": "reasoning", "text": "hm", "providerOptions": kept[0]}
        foreign = {"type": "reasoning", "text": "x", "providerOptions": {"anthropic": {"signature": "other"}}}
        history = (user("a"), assistant(thought, foreign, {**call("c1", "f"), "providerOptions": kept[1]}))
        await collect(
            PydanticAIModel(function_model("ok", seen=seen)), ask(*history, results(("c1", 1)), actions=(spec("f"),))
        )
        response = seen[0][0][1]
        assert isinstance(response, ModelResponse)
        assert response.provider_name == "google"
        assert [part.part_kind for part in response.parts] == ["thinking", "tool-call"]
        assert response.parts[0] == thinking
        assert response.parts[1].provider_details == {"thought_signature": "t"}

    async def test_the_history(self) -> None:
        """Every call of the history is answered; instructions stand in front."""
        seen: list[Any] = []
        model = PydanticAIModel(function_model("ok", seen=seen))
        history = (user("a"), assistant("b", call("c1"), call("c2")), results(("c1", {"x": 1})), user("c"))
        await collect(model, ask(*history, instructions="Be brief."))
        kinds = [[part.part_kind for part in message.parts] for message in seen[0][0]]
        assert kinds == [
            ["system-prompt", "user-prompt"],
            ["text", "tool-call", "tool-call"],
            ["tool-return", "tool-return", "user-prompt"],
        ]

    async def test_errors(self) -> None:
        """Failures are ModelErrors, by status where there is one."""
        from pydantic_ai.exceptions import ModelHTTPError

        refused = ModelHTTPError(400, "some-model", {"message": "no"})
        _, error = await chunks_until_error(PydanticAIModel(function_model(refused)), ask("hi"))
        assert isinstance(error, ModelRequestError)
        assert error.status == 400
        assert str(error) == "The provider refused with status 400: no"
        _, error = await chunks_until_error(PydanticAIModel("nobody:knows"), ask("hi"))
        assert isinstance(error, ModelError)
