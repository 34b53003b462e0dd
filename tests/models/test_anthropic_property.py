"""The mapping is total: any model messages give a request that the API accepts (spec/messages.md, section 9)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatnb.models import ActionSpec, ModelRequest
from chatnb.models.anthropic_request import anthropic_request
from chatnb.testing.fake_anthropic import check_request, sign_thinking

MODEL = "claude-sonnet-4-5"

texts = st.text(alphabet=st.sampled_from("ab \n\té\ud800.:"), max_size=6)
ids = st.sampled_from(["a", "b", "a_2", "x:y", ""])
names = st.sampled_from(["f", "g.h", "", "é" * 140])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | texts | st.just(float("nan")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
urls = st.sampled_from(
    [
        "data:image/png;base64,cG5n",
        "data:image/png;base64,=!",
        "data:text/plain,%20hi",
        "data:text/plain,",
        "https://example.org/x",
        "data:,",
    ]
)
marks = st.sampled_from(
    [
        {},
        {"anthropic": {"cacheControl": {"type": "ephemeral"}}},
        {"anthropic": {"cacheControl": {"type": "ephemeral", "ttl": "1h"}}},
        {"anthropic": {"cacheControl": "yes"}, "other": 1},
        {"chatnb": {"ephemeral": True}},
    ]
)
media = st.sampled_from(["image/png", "image/tiff", "text/csv", "application/pdf", "audio/wav", ""])
text_items = st.fixed_dictionaries({"type": st.just("text"), "text": texts, "providerOptions": marks})
file_items = st.fixed_dictionaries(
    {
        "type": st.just("file"),
        "mediaType": media,
        "data": st.fixed_dictionaries({"type": st.just("url"), "url": urls})
        | st.just({"type": "reference", "reference": {"anthropic": "id"}})
        | st.just({"type": "reference", "reference": {"other": "id"}}),
    },
    optional={"filename": texts},
)
reasoning = texts.flatmap(
    lambda text: st.sampled_from(
        [
            {"type": "reasoning", "text": text},
            {
                "type": "reasoning",
                "text": text.replace("\ud800", ""),
                "providerOptions": {"anthropic": {"signature": sign_thinking(MODEL, text.replace("\ud800", ""))}},
            },
            {
                "type": "reasoning",
                "text": text,
                "providerOptions": {"anthropic": {"signature": sign_thinking("claude-opus-5", text)}},
            },
            {"type": "reasoning", "text": text, "providerOptions": {"anthropic": {"redactedData": "d"}}},
        ]
    )
)
calls = st.fixed_dictionaries(
    {"type": st.just("tool-call"), "toolCallId": ids, "toolName": names, "input": values, "providerOptions": marks},
    optional={"providerExecuted": st.booleans()},
)
outputs = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "value": texts}),
    st.fixed_dictionaries({"type": st.just("json"), "value": values}),
    st.fixed_dictionaries({"type": st.just("error-text"), "value": texts}),
    st.fixed_dictionaries({"type": st.just("error-json"), "value": values}),
    st.fixed_dictionaries({"type": st.just("execution-denied")}, optional={"reason": texts}),
    st.fixed_dictionaries({"type": st.just("content"), "value": st.lists(text_items | file_items, max_size=2)}),
)
tool_results = st.fixed_dictionaries(
    {"type": st.just("tool-result"), "toolCallId": ids, "toolName": names, "output": outputs},
    optional={
        "providerOptions": marks | st.just({"anthropic": {"blockType": "web_search_tool_result"}}),
        "providerExecuted": st.booleans(),
    },
)
other = st.sampled_from([{"type": "custom", "kind": "a.b"}, {"type": "tool-approval-request", "approvalId": "p"}])
messages = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.just("system"), "content": texts}),
        st.fixed_dictionaries({"role": st.just("user"), "content": st.lists(text_items | file_items, max_size=3)}),
        st.fixed_dictionaries(
            {
                "role": st.just("assistant"),
                "content": st.lists(text_items | reasoning | calls | tool_results | file_items | other, max_size=4),
            }
        ),
        st.fixed_dictionaries({"role": st.just("tool"), "content": st.lists(tool_results, max_size=3)}),
    ),
    max_size=6,
)
actions = st.lists(names.map(lambda name: ActionSpec(name, "does it")), max_size=3)


def conformance_rows() -> list[dict[str, Any]]:
    text = Path(__file__).parent.with_name("conformance").joinpath("model.jsonl").read_text("utf-8")
    return [row for row in map(json.loads, text.splitlines()) if isinstance(row.get("model"), list)]


class TestAnyHistory:
    @pytest.mark.parametrize("row", conformance_rows(), ids=lambda row: row["name"])
    def test_the_conformance_rows_are_accepted(self, row: dict[str, Any]) -> None:
        """Every model view of conformance/model.jsonl maps to a body that R2 to R9 accept."""
        body = anthropic_request(MODEL, ModelRequest(tuple(row["model"])), max_tokens=4096).body
        assert check_request(body) is None

    @settings(max_examples=250, deadline=None)
    @given(messages, actions, st.booleans(), st.sampled_from([None, 1024, "adaptive"]))
    def test_the_request_is_accepted(
        self, history: list[dict[str, Any]], specs: list[ActionSpec], cache: bool, thinking: Any
    ) -> None:
        """Any list of model messages maps to a body that R2 to R9 accept, and is not changed by it."""
        before = copy.deepcopy(history)
        if thinking is not None:
            # The engine never ends a request on the assistant for a model that does not take a prefill.
            history = [*history, {"role": "user", "content": [{"type": "text", "text": "go on"}]}]
        request = ModelRequest(tuple(history), instructions="Be brief.", actions=tuple(specs))
        body = anthropic_request(MODEL, request, max_tokens=4096, thinking=thinking, cache=cache).body
        assert check_request(body) is None
        assert repr(history[: len(before)]) == repr(before)
