"""The strict fake of Anthropic's API: every refusal R1 to R9, and every way to fail (spec/notebook.md, section 8)."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from chatnb.errors import ConfigError, ModelRateLimitError, ModelRequestError
from chatnb.models import Reply
from chatnb.testing.fake_anthropic import FakeAnthropic, FakeReply, StrictModel, check_request, sign_thinking
from tests.models.build import ask, assistant, call, collect, text_of, user

MODEL = "claude-sonnet-4-5"
TOOL = {"name": "f", "input_schema": {"type": "object"}}
TEXT = {"type": "text", "text": "hi"}
USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "1"}
MARK = {"cache_control": {"type": "ephemeral"}}
THINK = {"type": "enabled", "budget_tokens": 1024}


def says(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks) if blocks and not isinstance(blocks[0], str) else blocks[0]}


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 2048, "messages": list(messages) or [says("user", "hi")], **more}


def looped(*more: Any, **options: Any) -> dict[str, Any]:
    options.setdefault("tools", [TOOL])
    return body(says("user", "hi"), says("assistant", *(more or (USE,))), says("user", RESULT), **options)


def thinking(text: str = "hm", signature: str | None = None) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature or sign_thinking(MODEL, text)}


def image(media: str = "image/png", data: str = "cG5n") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in body().items() if name != key}


def forced(name: str) -> dict[str, Any]:
    return {"tools": [TOOL], "tool_choice": {"type": "tool", "name": name}}


BAD_ID = {"type": "tool_use", "id": "c:1", "name": "f", "input": {}}
BAD_RESULT = {"type": "tool_result", "tool_use_id": "c:1", "content": ""}
HOUR = {**TEXT, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
FIVE_MARKS = [{**TEXT, **MARK} for _ in range(5)]

REFUSED = [
    ("R2", without("model")),
    ("R2", without("max_tokens")),
    ("R2", without("messages")),
    ("R2", body(max_tokens=0)),
    ("R2", body(max_tokens="9")),
    ("R2", body(colour="red")),
    ("R2", body({"role": "user", "content": "hi", "name": "x"})),
    ("R2", body(says("user", {**TEXT, "id": "x"}))),
    ("R2", body(says("user", {**image(), "source": {**image()["source"], "x": 1}}))),
    ("R2", body(tools=[{**TOOL, "extra": 1}])),
    ("R2", body(says("user", {"type": "wat"}))),
    ("R2", body(temperature=1.5)),
    ("R2", body(temperature=-0.1)),
    ("R3", {**body(), "messages": []}),
    ("R3", body(says("system", "hi"))),
    ("R3", body(says("assistant", "hi"), says("user", "hi"))),
    ("R3", body(says("user", ""))),
    ("R3", body(says("user", "a"), {"role": "assistant", "content": []}, says("user", "b"))),
    ("R4", body(says("user", {"type": "text", "text": " \n"}))),
    ("R4", body(says("user", " "))),
    ("R4", body(says("user", "a"), says("assistant", "b "))),
    ("R4", body(says("user", "a"), says("assistant", "b"), model="claude-opus-5")),
    ("R4", body(says("user", "a"), says("assistant", "b"), thinking=THINK)),
    ("R5", body(says("user", "a"), says("assistant", USE), tools=[TOOL])),
    ("R5", body(says("user", "a"), says("assistant", USE), says("user", "b"), tools=[TOOL])),
    ("R5", body(says("user", "a"), says("assistant", USE), says("user", TEXT, RESULT), tools=[TOOL])),
    ("R5", body(says("user", RESULT), tools=[TOOL])),
    ("R5", body(says("user", "a"), says("assistant", USE), says("user", RESULT, RESULT), tools=[TOOL])),
    ("R5", {**looped(), "messages": [*looped()["messages"], says("assistant", USE), says("user", RESULT)]}),
    ("R6", body(says("user", "a"), says("assistant", BAD_ID), says("user", BAD_RESULT), tools=[TOOL])),
    ("R6", body(tools=[{**TOOL, "name": "a.b"}])),
    ("R6", body(tools=[{**TOOL, "name": "x" * 129}])),
    ("R6", body(tools=[{**TOOL, "name": ""}])),
    ("R6", body(tools=[TOOL, TOOL])),
    ("R6", body(tools=[{"name": "f", "input_schema": {"type": "string"}}])),
    ("R6", body(tools=[{"name": "f", "input_schema": {"type": "object", "anyOf": [{"type": "object"}]}}])),
    ("R6", body(tools=[{"name": "f", "input_schema": {"type": "object", "properties": {"größe": {}}}}])),
    ("R6", body(tools=[{"name": "f", "input_schema": {"type": "object", "properties": {"x" * 65: {}}}}])),
    ("R6", body(says("user", "a"), says("assistant", USE), says("user", RESULT))),
    ("R6", looped({**USE, "input": [1]})),
    ("R7", body(says("user", *FIVE_MARKS))),
    ("R7", looped({**thinking(), **MARK}, USE)),
    ("R8", body(thinking={"type": "enabled", "budget_tokens": 1023})),
    ("R8", body(thinking={"type": "enabled", "budget_tokens": 2048})),
    ("R7", body(says("user", HOUR), system=[{"type": "text", "text": "a", **MARK}])),
    ("R8", body(thinking=THINK, top_k=5)),
    ("R8", body(thinking=THINK, top_p=0.5)),
    ("R9", body(tool_choice={"type": "auto"})),
    ("R8", body(thinking=THINK, temperature=0.5)),
    ("R8", body(thinking=THINK, tools=[TOOL], tool_choice={"type": "any"})),
    ("R8", looped(thinking("hm", sign_thinking(MODEL, "other")), USE)),
    ("R8", looped(thinking("hm", sign_thinking("claude-opus-5", "hm")), USE)),
    ("R8", looped(thinking("hm", "c2ln"), USE)),
    ("R8", looped(USE, thinking=THINK)),
    ("R9", body(says("user", image("image/tiff")))),
    ("R9", body(says("user", image(data="?")))),
    ("R9", body(says("user", image(data=base64.b64encode(b"x" * (5 * 1024 * 1024 + 1)).decode())))),
    (
        "R9",
        {
            **looped(),
            "messages": [
                *looped()["messages"][:2],
                says("user", {**RESULT, "is_error": True, "content": [TEXT, image()]}),
            ],
        },
    ),
    ("R9", body(**forced("g"))),
]

ACCEPTED = [
    body(),
    body(says("user", "a"), says("assistant", "b")),
    body(says("user", "a"), {"role": "assistant", "content": []}),
    body(says("user", image(), TEXT), system=[{**TEXT, **MARK}], temperature=1, stream=True),
    looped(),
    looped(thinking(), USE, thinking=THINK),
    looped(USE, thinking={"type": "disabled"}),
    body(says("user", "a"), says("user", "b")),
    body(says("user", *FIVE_MARKS[:4])),
    body(**forced("f")),
]


class TestRefusals:
    @pytest.mark.parametrize(("rule", "value"), REFUSED)
    def test_a_bad_request_is_refused(self, rule: str, value: dict[str, Any]) -> None:
        """R2 to R9 of notebook.md, section 8: each refusal of the table, by its rule."""
        refusal = check_request(value)
        assert refusal is not None
        assert refusal.rule == rule
        assert refusal.status == 400

    @pytest.mark.parametrize("value", ACCEPTED)
    def test_a_good_request_is_accepted(self, value: dict[str, Any]) -> None:
        """What no rule refuses is accepted."""
        assert check_request(value) is None

    def test_prefill_can_be_forbidden(self) -> None:
        """R4: `no_prefill` adds names of models that refuse a last message of the assistant."""
        value = body(says("user", "a"), says("assistant", "b"))
        refusal = check_request(value, no_prefill=[MODEL])
        assert refusal is not None
        assert refusal.rule == "R4"


def post(server: FakeAnthropic, raw: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    sent = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(f"{server.url}/v1/messages", raw, sent)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


GOOD = {"x_api_key": "secret-key-1", "anthropic_version": "2023-06-01"}


class TestServer:
    @pytest.mark.parametrize(
        ("raw", "headers", "status", "kind"),
        [
            (json.dumps(body()).encode(), {"anthropic_version": "x"}, 401, "authentication_error"),
            (json.dumps(body()).encode(), {"x_api_key": "k"}, 400, "invalid_request_error"),
            (b"{", GOOD, 400, "invalid_request_error"),
            (b" " * (32 * 1024 * 1024 + 1), GOOD, 413, "request_too_large"),
            (json.dumps(body(x=1)).encode(), GOOD, 400, "invalid_request_error"),
        ],
    )
    def test_r1_and_the_shape_of_errors(self, raw: bytes, headers: dict[str, str], status: int, kind: str) -> None:
        """R1: no credential 401, no version, not JSON, over 32 MB 413; all in the API's shape."""
        with FakeAnthropic(["never"]) as server:
            found, answer = post(server, raw, **headers)
        assert found == status
        assert answer["type"] == "error"
        assert answer["error"]["type"] == kind
        assert len(server.requests) == 1

    def test_replies_serve_accepted_requests_alone(self) -> None:
        """Each reply serves one accepted request; used up: status 500 that says so."""
        with FakeAnthropic(["one"]) as server:
            post(server, json.dumps(body(x=1)).encode(), **GOOD)
            status, answer = post(server, json.dumps(body()).encode(), **GOOD)
            assert (status, answer["content"]) == (200, [{"type": "text", "text": "one"}])
            status, answer = post(server, json.dumps(body()).encode(), **GOOD)
        assert status == 500
        assert "used up" in answer["error"]["message"]
        assert [refusal.rule for refusal in server.refusals] == ["R2"]
        assert "secret-key-1" not in repr(server.requests)

    def test_a_whole_message_without_streaming(self) -> None:
        """A request that does not stream gets the same reply as one message."""
        with FakeAnthropic([Reply("a b", reasoning="hm", calls=[("f", {"x": 1}, "c9")])]) as server:
            _, answer = post(server, json.dumps(body()).encode(), **GOOD)
        assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use"]
        assert answer["content"][2]["input"] == {"x": 1}
        assert answer["stop_reason"] == "tool_use"

    def test_replies_may_be_functions_and_exceptions(self) -> None:
        """Replies are as ScriptedModel's steps: a function of the body, sync or async, or an exception."""

        async def later(asked: dict[str, Any]) -> Reply:
            return Reply(asked["model"])

        with FakeAnthropic(
            [lambda asked: asked["messages"][0]["content"], later, ModelRateLimitError("slow")]
        ) as server:
            raw = json.dumps(body()).encode()
            answers = [post(server, raw, **GOOD) for _ in range(3)]
        assert answers[0][1]["content"][0]["text"] == "hi"
        assert answers[1][1]["content"][0]["text"] == MODEL
        assert answers[2][0] == 429

    def test_wrong_use_is_told_at_once(self) -> None:
        """Unknown kinds and single replies raise where they are written."""
        with pytest.raises(ConfigError, match="no kind"):
            FakeReply("explode")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="list"):
            FakeAnthropic("hi")
        with pytest.raises(ConfigError, match="functions"):
            FakeAnthropic([3])


class TestStrictModel:
    async def test_it_answers_what_the_api_would_accept(self) -> None:
        """A history that the API accepts is answered, and its body is kept."""
        model = StrictModel(["ok"])
        assert text_of(await collect(model, ask("hi"))) == "ok"
        assert model.bodies[0]["messages"][0]["content"][0]["text"] == "hi"

    async def test_it_refuses_what_the_api_would_refuse(self) -> None:
        """A request that the API refuses fails with the rule."""
        model = StrictModel(["ok"], no_prefill=["claude-sonnet-4-5"])
        with pytest.raises(ModelRequestError, match="R4"):
            await collect(model, ask("hi", assistant("half")))

    async def test_history_with_tools_no_longer_there(self) -> None:
        """Calls in a history whose actions are gone are still accepted."""
        model = StrictModel(["ok"])
        await collect(model, ask(user("a"), assistant(call("c1")), user("b")))
        assert model.bodies[0]["tool_choice"] == {"type": "none"}
