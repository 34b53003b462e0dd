"""AnthropicModel against the strict fake (spec/notebook.md, section 8; spec/messages.md, section 9)."""

from __future__ import annotations

import asyncio
import pickle
import warnings
from typing import Any

import pytest

from chatnb.errors import (
    ConfigError,
    ModelAuthError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamError,
)
from chatnb.models import ActionSpec, AnthropicModel, Reply
from chatnb.models.prices import find_price
from chatnb.testing.fake_anthropic import FakeAnthropic, FakeReply
from tests.models.build import (
    Waits,
    ask,
    assistant,
    chunks_until_error,
    collect,
    end_of,
    inputs_of,
    results,
    spec,
    text_of,
    user,
)

KEY = "sk-ant-test-0123456789abcdef"


def claude(server: FakeAnthropic, name: str = "claude-sonnet-4-5", **more: Any) -> AnthropicModel:
    more.setdefault("api_key", KEY)
    return AnthropicModel(name, base_url=server.url, **more)


def kinds(items: list[Any]) -> list[str]:
    return [item["type"] for item in items if isinstance(item, dict)]


class TestAnswers:
    async def test_text_thinking_and_calls(self) -> None:
        """messages.md, section 9: blocks become chunks in the order in which they were streamed."""
        reply = Reply("Look.", reasoning="Let me see.", calls=[("f", {"a": "é"}, "c1")])
        with FakeAnthropic([reply]) as server:
            items = await collect(claude(server, thinking=1024), ask("hi", actions=(spec(),)))
        shown = list(dict.fromkeys(kinds(items)))
        assert shown[:3] == ["reasoning-start", "reasoning-delta", "reasoning-end"]
        assert shown[3:6] == ["text-start", "text-delta", "text-end"]
        assert shown[6:] == ["tool-input-start", "tool-input-delta", "tool-input-available"]
        assert inputs_of(items) == [("f", {"a": "é"})]
        assert end_of(items).finish_reason == "tool-calls"

    async def test_thinking_goes_back_unchanged(self) -> None:
        """C33: the signature of reasoning-end, sent back with its text, is accepted by the API."""
        reply = Reply(reasoning="Let me see.", calls=[("f", {}, "c1")])
        with FakeAnthropic([reply, "done"]) as server:
            model = claude(server, thinking=1024)
            items = await collect(model, ask("hi", actions=(spec(),)))
            signed = next(item for item in items if item and item["type"] == "reasoning-end")["providerMetadata"]
            part = {"type": "reasoning", "text": "Let me see.", "providerOptions": signed}
            call = {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {}}
            again = ask(user("hi"), assistant(part, call), results(("c1", 1)), actions=(spec(),))
            assert text_of(await collect(model, again)) == "done"
        assert server.requests[1]["messages"][1]["content"][0]["thinking"] == "Let me see."
        assert server.requests[1]["thinking"] == {"type": "enabled", "budget_tokens": 1024}

    async def test_thinking_rests_for_a_loop_that_began_without(self) -> None:
        """R8: calls that were made without thinking are answered without, so the request is accepted."""
        call = {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {}}
        request = ask(user("hi"), assistant(call), results(("c1", 1)), actions=(spec(),))
        with FakeAnthropic(["done"]) as server:
            await collect(claude(server, thinking="adaptive"), request)
        assert "thinking" not in server.requests[0]

    async def test_usage_keeps_the_cache_apart(self) -> None:
        """`chat.usage` keeps cache reads and writes apart from input; the cost comes from the table."""
        with FakeAnthropic([lambda body: FakeReply(events=[], text="x")]) as server:
            usage = end_of(await collect(claude(server), ask("hi"))).usage
        assert usage is not None
        assert usage.cache_read_tokens == 0
        assert usage.input_tokens is not None
        assert usage.output_tokens is not None
        assert usage.cost == pytest.approx((usage.input_tokens * 3 + usage.output_tokens * 15) / 1e6)

    async def test_prices_can_be_given_and_may_be_unknown(self) -> None:
        """`prices=` overrides; an unknown price is None, never 0."""
        with FakeAnthropic(["a", "b"]) as server:
            known = await collect(claude(server, prices={"claude-sonnet": (1e6, 0, 0, 0)}), ask("hi"))
            unknown = await collect(claude(server, name="claude-unheard-of"), ask("hi"))
        usage = end_of(known).usage
        assert usage is not None
        assert usage.cost == pytest.approx(usage.input_tokens)
        assert end_of(unknown).usage is not None
        assert end_of(unknown).usage.cost is None  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("name", "price"),
        [
            ("claude-sonnet-4-5-20250929", 3),
            ("claude-opus-4-20250514", 15),
            ("claude-opus-4-5-latest", 5),
            ("claude-fable-5", 10),
            ("claude-mythos-5-1", 10),
            ("claude-opus-5-5", 4),
            ("claude-opus-5-7", None),
            ("claude-fable-5-2", None),
            ("claude-opus-4-15", None),
        ],
    )
    def test_a_price_is_that_of_one_version(self, name: str, price: float | None) -> None:
        """Dates and aliases are the same model; another version has no price until it stands in the table."""
        found = find_price(name)
        assert (found.input if found else None) == price

    async def test_names_that_the_api_does_not_take_come_back_whole(self) -> None:
        """Names are cleaned for the API; the chunk has the action's own name."""
        with FakeAnthropic([Reply(calls=[("my_tool", {})])]) as server:
            items = await collect(claude(server), ask("hi", actions=(spec("my.tool"),)))
        assert inputs_of(items) == [("my.tool", {})]

    async def test_arguments_that_the_api_does_not_take_come_back_whole(self) -> None:
        """An argument such as `größe` is sent under a name that the API takes, and the action gets its own again."""
        odd = spec("pack", "Pack.", ("größe", "box"), **{"größe": {"type": "number"}, "box": {"type": "string"}})
        sent = {"gr__e": 2.5, "box": "a"}
        with FakeAnthropic([Reply(calls=[("pack", sent, "c1")]), "Done."]) as server:
            items = await collect(claude(server), ask("hi", actions=(odd,)))
            assert inputs_of(items) == [("pack", {"größe": 2.5, "box": "a"})]
            said = assistant({"type": "tool-call", "toolCallId": "c1", "toolName": "pack", "input": {"größe": 2.5}})
            await collect(claude(server), ask("hi", said, results(("c1", 1)), actions=(odd,)))
        schema = server.requests[0]["tools"][0]["input_schema"]
        assert list(schema["properties"]) == schema["required"] == ["gr__e", "box"]
        assert schema["properties"]["gr__e"]["description"] == "größe"
        assert server.requests[1]["messages"][1]["content"][0]["input"] == {"gr__e": 2.5}

    async def test_a_union_at_the_root_of_a_schema(self) -> None:
        """Another server's tool may be a union at its root, which the API refuses: it is sent as one object."""
        union = {
            "type": "object",
            "$defs": {"ByName": {"properties": {"name": {"type": "string"}, "why": {}}, "required": ["name", "why"]}},
            "anyOf": [
                {"properties": {"id": {"type": "integer"}, "why": {"type": "string"}}, "required": ["id", "why"]},
                {"$ref": "#/$defs/ByName"},
            ],
        }
        with FakeAnthropic([Reply(calls=[("find", {"id": 3, "why": "x"})])]) as server:
            items = await collect(claude(server), ask("hi", actions=(ActionSpec("find", "Find.", union),)))
        sent = server.requests[0]["tools"][0]["input_schema"]
        assert "anyOf" not in sent
        assert set(sent["properties"]) == {"id", "why", "name"}
        assert sent["required"] == ["why"]
        assert inputs_of(items) == [("find", {"id": 3, "why": "x"})]

    async def test_pings_are_signs_of_life(self) -> None:
        """`ping` events reach the stall watchdog as None; unknown events are skipped; bytes may come singly."""
        reply = FakeReply(text="é ok", events=[{"type": "ping"}, {"type": "new_thing", "x": 1}], split=1)
        with FakeAnthropic([reply]) as server:
            items = await collect(claude(server), ask("hi"))
        assert items[:2] == [None, None]
        assert text_of(items) == "é ok"

    async def test_no_warning_reaches_a_cell(self) -> None:
        """The SDK warns about older models and settings; a chat must not print that into a cell."""
        with FakeAnthropic(["a"]) as server, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            await collect(claude(server, thinking=1024), ask("hi"))
        assert [str(w.message) for w in seen if "anthropic" in str(w.filename)] == []


class TestRetries:
    async def test_two_529_and_then_success(self) -> None:
        """C38: two 529 and then success: three requests, two transient data-retry chunks, the answer."""
        waits = Waits()
        overloaded = FakeReply("status", status=529)
        with FakeAnthropic([overloaded, overloaded, "ok"]) as server:
            items = await collect(claude(server), ask("hi", sleep=waits))
        retries = [item for item in items if item and not hasattr(item, "usage") and item["type"] == "data-retry"]
        assert len(server.requests) == 3
        assert [r["data"]["attempt"] for r in retries] == [1, 2]
        assert all(r["transient"] is True and r["data"]["of"] == 3 for r in retries)
        assert text_of(items) == "ok"
        assert 0.3 < waits.seconds[0] <= 0.5 < waits.seconds[1] <= 1.0

    @pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
    async def test_statuses_that_may_pass(self, status: int) -> None:
        """Statuses 408, 409, 429 and 5xx are retried."""
        with FakeAnthropic([FakeReply("status", status=status), "ok"]) as server:
            assert text_of(await collect(claude(server), ask("hi"))) == "ok"

    async def test_retry_after_rules(self) -> None:
        """`retry-after` rules up to 60 s; a longer one fails at once."""
        waits = Waits()
        replies = [
            FakeReply("status", status=429, headers={"retry-after": "7"}),
            FakeReply("status", status=429, headers={"retry-after": "61"}),
        ]
        with FakeAnthropic(replies) as server:
            _, error = await chunks_until_error(claude(server), ask("hi", sleep=waits))
        assert waits.seconds == [7.0]
        assert isinstance(error, ModelRateLimitError)
        assert len(server.requests) == 2

    @pytest.mark.parametrize("error_type", ["overloaded_error", "rate_limit_error", "api_error"])
    async def test_an_error_event_in_place_of_the_first_chunk(self, error_type: str) -> None:
        """An overload that comes as an event before the first chunk is a status that came late: it is retried."""
        reply = FakeReply("error", text="x", after=1, error_type=error_type)
        with FakeAnthropic([reply, "ok"]) as server:
            items = await collect(claude(server), ask("hi"))
        assert text_of(items) == "ok"
        assert [kind for kind in kinds(items) if kind == "data-retry"] == ["data-retry"]

    async def test_an_error_event_that_says_no(self) -> None:
        """One whose type is no passing failure is the error, at once."""
        with FakeAnthropic([FakeReply("error", text="x", after=1, error_type="invalid_request_error")]) as server:
            _, error = await chunks_until_error(claude(server), ask("hi"))
        assert isinstance(error, ModelRequestError)
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        ("status", "message", "hint"),
        [
            (401, "invalid x-api-key", "Check the key in ANTHROPIC_API_KEY."),
            (404, "model: claude-sonet-5", "Check the model's name."),
            (400, "prompt is too long: 210000 tokens > 200000 maximum", "Begin another chat"),
        ],
    )
    async def test_refusals_say_what_to_do(self, status: int, message: str, hint: str) -> None:
        """The API's own text, and what to do; a short placeholder for a key takes no letters out of it."""
        with FakeAnthropic([FakeReply("status", status=status, message=message)]) as server:
            _, error = await chunks_until_error(claude(server, api_key="k"), ask("hi"))
        assert message in str(error)
        assert hint in str(error)

    async def test_the_number_of_retries(self) -> None:
        """`max_retries` times, then the error."""
        with FakeAnthropic([FakeReply("status", status=500)] * 3) as server:
            _, error = await chunks_until_error(claude(server, max_retries=1), ask("hi"))
        assert isinstance(error, ModelOverloadedError)
        assert len(server.requests) == 2

    async def test_a_reset_before_the_first_chunk(self) -> None:
        """Connection failures before the first chunk are retried."""
        with FakeAnthropic([FakeReply("reset", text="x", after=1), "ok"]) as server:
            assert text_of(await collect(claude(server), ask("hi"))) == "ok"

    async def test_no_server(self) -> None:
        """A refused connection is retried, then a connection_lost that names no key."""
        with FakeAnthropic([]) as server:
            model = claude(server)
        waits = Waits()
        items, error = await chunks_until_error(model, ask("hi", sleep=waits))
        assert isinstance(error, ModelStreamError)
        assert error.kind == "connection_lost"
        assert len(waits.seconds) == len(items) == 3

    async def test_stop_ends_a_wait(self) -> None:
        """A stop ends the wait between two requests."""

        async def forever(seconds: float) -> None:
            await asyncio.get_running_loop().create_future()

        with FakeAnthropic([FakeReply("status", status=529)]) as server:
            stream = claude(server).stream(ask("hi", sleep=forever))
            assert (await anext(stream))["type"] == "data-retry"  # type: ignore[index]
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    async def test_no_first_chunk_in_time(self) -> None:
        """`timeout` is the time to the first chunk; pings do not count as one."""
        with FakeAnthropic([FakeReply("stall", text="x", after=0)] * 2) as server:
            _, error = await chunks_until_error(claude(server, timeout=0.15, max_retries=1), ask("hi"))
        assert isinstance(error, ModelStreamError)
        assert len(server.requests) == 2


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (401, ModelAuthError),
            (403, ModelAuthError),
            (400, ModelRequestError),
            (404, ModelRequestError),
            (413, ModelRequestError),
            (422, ModelRequestError),
            (429, ModelRateLimitError),
            (500, ModelOverloadedError),
            (529, ModelOverloadedError),
        ],
    )
    async def test_statuses(self, status: int, kind: type[ModelError]) -> None:
        """The table: errors by status, with status, request id and the API's own text."""
        with FakeAnthropic([FakeReply("status", status=status, message="own words")]) as server:
            _, error = await chunks_until_error(claude(server, max_retries=0), ask("hi"))
        assert type(error) is kind
        assert isinstance(error, ModelError)
        assert error.status == status
        assert error.request_id == "req_fake_1"
        assert "own words" in str(error)

    @pytest.mark.parametrize(
        ("error_type", "kind"),
        [
            ("overloaded_error", ModelOverloadedError),
            ("rate_limit_error", ModelRateLimitError),
            ("authentication_error", ModelAuthError),
            ("invalid_request_error", ModelRequestError),
        ],
    )
    async def test_error_events_go_by_their_type(self, error_type: str, kind: type[ModelError]) -> None:
        """An `error` event in the stream: by its type, whatever the HTTP status says; nothing is retried."""
        reply = FakeReply("error", text="Half a word", error_type=error_type, message="own words")
        with FakeAnthropic([reply]) as server:
            items, error = await chunks_until_error(claude(server), ask("hi"))
        assert type(error) is kind
        assert "own words" in str(error)
        assert text_of(items) == "Half a word"
        assert len(server.requests) == 1

    @pytest.mark.parametrize("kind", ["reset", "cut"])
    async def test_a_broken_connection(self, kind: Any) -> None:
        """Reset and broken chunking after the first chunk: connection_lost, the raw error as cause, no retry."""
        with FakeAnthropic([FakeReply(kind, text="Half a word")]) as server:
            items, error = await chunks_until_error(claude(server), ask("hi"))
        assert isinstance(error, ModelStreamError)
        assert error.kind == "connection_lost"
        assert error.__cause__ is not None
        assert text_of(items) == "Half a word"
        assert len(server.requests) == 1

    async def test_a_clean_end_without_message_stop(self) -> None:
        """C36, C45: the stream ends without `message_stop`: incomplete, partial kept, one body, no key."""
        with FakeAnthropic([FakeReply(kind="close", text="Half")]) as server:
            items, error = await chunks_until_error(claude(server), ask("hi"))
        assert isinstance(error, ModelStreamError)
        assert error.kind == "incomplete"
        assert text_of(items) == "Half"
        assert len(server.requests) == 1
        assert KEY not in repr(server.requests)

    async def test_a_stall_in_the_middle(self) -> None:
        """A read that times out after the first chunk is connection_lost."""
        with FakeAnthropic([FakeReply("stall", text="Half", after=3)]) as server:
            items, error = await chunks_until_error(claude(server, timeout=0.3), ask("hi"))
        assert isinstance(error, ModelStreamError)
        assert error.kind == "connection_lost"
        assert text_of(items) == "Half"

    async def test_a_truncated_tool_input_never_runs(self) -> None:
        """C37: `{"code": "print(1)"` and a block stop: tool-input-error with the raw text, no input."""
        with FakeAnthropic([FakeReply("cut-json", calls=[("f", {"code": "print(1)"})])]) as server:
            items = await collect(claude(server), ask("hi", actions=(spec(),)))
        assert inputs_of(items) == []
        failed = next(item for item in items if item and item["type"] == "tool-input-error")
        assert failed["input"] == '{"code": "print(1)"'

    @pytest.mark.parametrize("raw", ["[1]", "3", '{"a": NaN}', '{"a":1} x', '"s"'])
    async def test_inputs_that_are_no_object(self, raw: str) -> None:
        """Tool input that is not one whole JSON object by a strict parser is tool-input-error."""
        with FakeAnthropic([Reply(calls=[("f", raw)])]) as server:
            items = await collect(claude(server), ask("hi", actions=(spec(),)))
        assert inputs_of(items) == []

    async def test_no_text_at_all_is_an_empty_object(self) -> None:
        """messages.md, section 9: with no text at all the input is {}."""
        with FakeAnthropic([Reply(calls=[("f", "")])]) as server:
            items = await collect(claude(server), ask("hi", actions=(spec(),)))
        assert inputs_of(items) == [("f", {})]


class TestKey:
    async def test_no_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No key: ModelAuthError that names the variable, before any connection."""
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        with FakeAnthropic(["x"]) as server:
            _, error = await chunks_until_error(AnthropicModel("claude-x", base_url=server.url), ask("hi"))
        assert isinstance(error, ModelAuthError)
        assert "ANTHROPIC_API_KEY" in str(error)
        assert server.requests == []

    async def test_the_key_is_read_when_a_request_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The key is read when a request is made."""
        with FakeAnthropic(["x"]) as server:
            model = AnthropicModel("claude-x", base_url=server.url)
            monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
            assert text_of(await collect(model, ask("hi"))) == "x"

    async def test_the_key_is_nowhere(self) -> None:
        """The key is not in repr, pickles or exception texts, even when the API repeats it."""
        with FakeAnthropic([FakeReply("status", status=401, message=f"bad key {KEY}")]) as server:
            model = claude(server)
            _, error = await chunks_until_error(model, ask("hi"))
        assert KEY not in str(error) + repr(error) + repr(model) + repr(vars(model))
        assert KEY.encode() not in pickle.dumps(model)
        assert pickle.loads(pickle.dumps(model)).name == model.name

    async def test_unplanned_connections_are_refused(self) -> None:
        """A global switch makes any unplanned connection fail, before it is made."""
        _, error = await chunks_until_error(AnthropicModel("claude-x", api_key=KEY), ask("hi"))
        assert isinstance(error, ModelRequestError)
        assert "CHATNB_FORBID_NETWORK" in str(error)


class TestOptions:
    @pytest.mark.parametrize("thinking", [1023, 8192, "yes", True, 2000.0])
    def test_thinking(self, thinking: Any) -> None:
        """Thinking is None, a budget of at least 1,024 and below max_tokens, or "adaptive"; else ConfigError."""
        with pytest.raises(ConfigError):
            AnthropicModel("claude-x", thinking=thinking)

    async def test_unknown_settings(self) -> None:
        """A setting that the API does not have is told by name."""
        with FakeAnthropic(["x"]) as server:
            _, error = await chunks_until_error(claude(server), ask("hi", settings={"warmth": 1}))
        assert isinstance(error, ModelRequestError)
        assert "warmth" in str(error)

    async def test_settings_and_instructions(self) -> None:
        """Settings go into the body, instructions into `system`."""
        with FakeAnthropic(["x"]) as server:
            await collect(claude(server), ask("hi", instructions="Be brief.", settings={"temperature": 0.5}))
        assert server.requests[0]["temperature"] == 0.5
        assert server.requests[0]["system"][0]["text"] == "Be brief."

    async def test_settings_that_do_not_go_together(self) -> None:
        """What may not stand beside thinking, or without tools, is left out: the request is accepted."""
        settings = {"top_k": 5, "top_p": 0.5, "temperature": 0.5, "tool_choice": {"type": "any"}}
        with FakeAnthropic(["x"]) as server:
            await collect(claude(server, thinking=1024), ask("hi", settings=settings))
        assert not set(settings) & set(server.requests[0])

    async def test_count_tokens(self) -> None:
        """`count_tokens` asks the counting endpoint once per distinct request; else an estimate marked so."""
        with FakeAnthropic([]) as server:
            model = claude(server)
            first, again = await model.count_tokens(ask("hi")), await model.count_tokens(ask("hi"))
            await model.count_tokens(ask("hello"))
        assert first == again > 0
        assert first.estimated is False
        assert len(server.counted) == 2
        assert (await model.count_tokens(ask("another"))).estimated is True
