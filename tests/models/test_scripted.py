"""ScriptedModel, Reply, the port's seam and usage (spec/notebook.md, section 8; spec/turns.md, section 6)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chatnb.errors import ConfigError, ModelError, ModelStreamError, ScriptExhaustedError
from chatnb.models import (
    ModelRequest,
    OfflineModel,
    Reply,
    ScriptedModel,
    StepEnd,
    Usage,
    resolve_model,
    stream_step,
    sum_usage,
)
from tests.models.build import Waits, ask, chunks_until_error, collect, end_of, inputs_of, text_of


class TestSteps:
    async def test_text_and_reply(self) -> None:
        """A step is text or a `Reply`: reasoning, then text, then calls."""
        model = ScriptedModel(["one two", Reply("b", reasoning="a", calls=[("f", {"x": 1}), ("g", {}, "own")])])
        assert text_of(await collect(model, ask("hi"))) == "one two"
        items = await collect(model, ask("hi"))
        order = list(dict.fromkeys(item["type"].split("-")[0] for item in items[:-1]))
        assert order == ["reasoning", "text", "tool"]
        assert inputs_of(items) == [("f", {"x": 1}), ("g", {})]
        assert end_of(items) == StepEnd("tool-calls")
        assert [item["toolCallId"] for item in items[:-1] if item["type"] == "tool-input-available"] == [
            "call-1",
            "own",
        ]

    async def test_call_ids_count_over_the_model(self) -> None:
        """Calls without an id are call-1, call-2, …"""
        model = ScriptedModel([Reply(calls=[("f", {})])], loop=True)
        ids = [(await collect(model, ask("hi")))[0]["toolCallId"] for _ in range(3)]
        assert ids == ["call-1", "call-2", "call-3"]

    async def test_chunks_get_their_end(self) -> None:
        """A list of chunks gets a StepEnd where there is none: tool-calls with calls, else stop."""
        call = {"type": "tool-input-available", "toolCallId": "c", "toolName": "f", "input": {}}
        own = StepEnd("length", Usage(1))
        model = ScriptedModel([[call], [None], [call, own, call]])
        ends = [(await collect(model, ask("hi")))[-1] for _ in range(3)]
        assert ends == [StepEnd("tool-calls"), StepEnd("stop"), own]

    async def test_functions(self) -> None:
        """A function of the request, sync or async, returns a step."""

        async def later(request: ModelRequest) -> str:
            return f"step {request.step}"

        model = ScriptedModel([lambda request: later, lambda request: Reply(str(request.turn_number))])
        assert text_of(await collect(model, ask("hi", step=4))) == "step 4"
        assert text_of(await collect(model, ask("hi", turn_number=7))) == "7"

    async def test_exceptions(self) -> None:
        """An exception is raised; one that is no ModelError is wrapped, its cause kept."""
        boom = ValueError("boom")
        _, error = await chunks_until_error(ScriptedModel([boom]), ask("hi"))
        assert isinstance(error, ModelError)
        assert error.__cause__ is boom
        _, error = await chunks_until_error(ScriptedModel([ModelStreamError("x", kind="incomplete")]), ask("hi"))
        assert isinstance(error, ModelStreamError)

    async def test_steps_used_up(self) -> None:
        """Steps used up: ScriptExhaustedError with the number; `requests` has that request too."""
        model = ScriptedModel(["a"])
        await collect(model, ask("1"))
        _, error = await chunks_until_error(model, ask("2"))
        assert isinstance(error, ScriptExhaustedError)
        assert "request 2" in str(error)
        assert len(model.requests) == 2

    async def test_loop(self) -> None:
        """`loop` begins again after the last step."""
        model = ScriptedModel(["a", "b"], loop=True)
        assert [text_of(await collect(model, ask("x"))) for _ in range(3)] == ["a", "b", "a"]


class TestReply:
    async def test_delay_and_chunk_size(self) -> None:
        """`delay` seconds before each delta, by the request's clock; `chunk_size` characters each."""
        waits = Waits()
        items = await collect(ScriptedModel([Reply("abcde", delay=2, chunk_size=2)]), ask("hi", sleep=waits))
        assert [item["delta"] for item in items if isinstance(item, dict) and "delta" in item] == ["ab", "cd", "e"]
        assert waits.seconds == [2, 2, 2]

    @pytest.mark.parametrize(("after", "count"), [(None, 4), (0, 0), (2, 2), (99, 4)])
    async def test_fail(self, after: int | None, count: int) -> None:
        """`fail` is raised after `fail_after` chunks, by default at the end."""
        model = ScriptedModel([Reply("a b", fail=RuntimeError("x"), fail_after=after)])
        items, error = await chunks_until_error(model, ask("hi"))
        assert len(items) == count
        assert isinstance(error, ModelError)

    async def test_hang(self) -> None:
        """`hang` never ends after its chunks, until it is cancelled."""
        items: list[Any] = []

        async def run() -> None:
            async for item in ScriptedModel([Reply("a", hang=True)]).stream(ask("hi")):
                items.append(item)
                if item and item["type"] == "text-end":  # type: ignore[index]
                    asyncio.get_running_loop().call_soon(task.cancel)

        task = asyncio.ensure_future(run())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(items) == 3

    @pytest.mark.parametrize("text", ["", " ", "a", "  a  b\n\nc ", "\n", "a\n"])
    async def test_deltas_join_to_the_text(self, text: str) -> None:
        """No character is lost or moved, whatever the cut."""
        for size in (None, 1, 3):
            assert text_of(await collect(ScriptedModel([Reply(text, chunk_size=size)]), ask("hi"))) == text

    async def test_broken_arguments(self) -> None:
        """A string is the raw text of the arguments; one that is no whole object becomes tool-input-error."""
        items = await collect(ScriptedModel([Reply(calls=[("f", '{"a": 1'), ("f", '{"a": 1}')])]), ask("hi"))
        assert inputs_of(items) == [("f", {"a": 1})]
        assert [i["input"] for i in items[:-1] if i["type"] == "tool-input-error"] == ['{"a": 1']

    async def test_usage_and_finish_reason(self) -> None:
        """`usage` and `finish_reason` are the step's."""
        items = await collect(ScriptedModel([Reply("a", usage=Usage(1, 2), finish_reason="length")]), ask("hi"))
        assert end_of(items) == StepEnd("length", Usage(1, 2))

    def test_wrong_use(self) -> None:
        """Options that can't work raise where they are written."""
        for bad in ({"calls": ["f"]}, {"chunk_size": 0}, {"delay": -1}):
            with pytest.raises(ConfigError):
                Reply("a", **bad)
        with pytest.raises(ConfigError, match="list"):
            ScriptedModel("hi")


class Quiet:
    """A model that breaks the port's rule: its stream ends without a StepEnd."""

    name = "quiet"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield None
        yield {"type": "text-start", "id": "t"}


class TestSeam:
    async def test_a_stream_without_its_end(self) -> None:
        """C46: a stream that ends without StepEnd failed: ModelStreamError, incomplete."""
        items, error = await chunks_until_error(Quiet(), ask("hi"))
        assert items[0] is None
        assert isinstance(error, ModelStreamError)
        assert error.kind == "incomplete"

    async def test_closing_it_closes_the_model(self) -> None:
        """Who leaves early closes the model's stream too."""
        closed = []

        class Watched(Quiet):
            async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
                try:
                    yield None
                    yield None
                finally:
                    closed.append(True)

        stream: Any = stream_step(Watched(), ask("hi"))
        await anext(stream)
        await stream.aclose()
        assert closed == [True]


class TestResolving:
    def test_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """None is the offline model without a key, Anthropic's default with one; names go to their models."""
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        assert resolve_model(None).name == "offline"
        assert isinstance(resolve_model("offline"), OfflineModel)
        assert resolve_model("claude-anything").name == "claude-anything"
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 9)
        assert resolve_model(None).name == "claude-sonnet-4-5"

    def test_models_pass_through(self) -> None:
        """A model is given back as it is."""
        model = Quiet()
        assert resolve_model(model) is model

    @pytest.mark.parametrize("value", ["gpt-9", 3, ScriptedModel, object()])
    def test_unknown_values(self, value: Any) -> None:
        """Unknown names raise with the list of what is known."""
        with pytest.raises(ConfigError) as caught:
            resolve_model(value)
        assert "offline" in str(caught.value) or "object" in str(caught.value)

    def test_importing_loads_no_provider(self) -> None:
        """`import chatnb.models` loads neither a provider's library nor an HTTP client."""
        code = (
            "import sys, chatnb.models as m; m.resolve_model('claude-x'); m.ScriptedModel, m.stream_step; "
            "print([n for n in ('anthropic', 'httpx', 'httpx2', 'pydantic_ai', 'pydantic') if n in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestUsage:
    def test_sums(self) -> None:
        """turns.md, section 6: numbers add up; a step without numbers counts 0 and makes the sum incomplete."""
        one = Usage(1, 2, 3, 4, 5, 0.5)
        assert sum_usage([one, one]) == Usage(2, 4, 6, 8, 10, 1.0)
        assert sum_usage([one, None]) == Usage(1, 2, 3, 4, 5, 0.5, complete=False)

    def test_fields_that_no_step_gave(self) -> None:
        """If no step gave a number, that field is None; nothing is unknown of no steps at all."""
        assert sum_usage([Usage(1, 2), Usage(3, 4)]) == Usage(4, 6)
        assert sum_usage([None, None]) == Usage(complete=False)
        assert sum_usage([]) == Usage()

    def test_an_unknown_price_stays_unknown(self) -> None:
        """notebook.md, section 8: unknown cost is None, also in sums, never 0."""
        assert sum_usage([Usage(1, 2), Usage(1, 2)]).cost is None
        mixed = sum_usage([Usage(1, 2, cost=0.0), Usage(1, 2), Usage(1, 2, cost=1.0)])
        assert mixed.cost is None
        assert mixed.complete is False
