"""The tolerant parse (spec/messages.md, section 5)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatnb.messages import ABSENT, Fold, UIMessage, parse_partial_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


class TestParse:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ('{"a":tr', {"a": True}),
            ('{"a":"x\\', {"a": "x"}),
            ('[1,{"k":', [1, {}]),
            ("12.", 12),
            ("", ABSENT),
        ],
    )
    def test_cases(self, text: str, value: Any) -> None:
        """C19 of messages.md."""
        assert parse_partial_json(text) == value

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ('"ab', "ab"),
            ("fal", False),
            ("n", None),
            ("-", ABSENT),
            ("-1.", -1),
            ("1e+", 1),
            ("[1,", [1]),
            ('{"a', {}),
            ('{"a"', {}),
            ('{"a":1,', {"a": 1}),
            ('{"a":1,"b', {"a": 1}),
            ('{"a":[{"b":"c', {"a": [{"b": "c"}]}),
            ('"\\u00', ""),
            ('"\\ud83d', ""),
            ('"x\\ud83d\\ude', "x"),
            ('"\\ud83d\\ude00', "\U0001f600"),
            ('"\\\\ud83d', "\\ud83d"),
            ('"x\ud83d', "x"),
            ("   ", ABSENT),
            ("nope{", ABSENT),
            ("NaN", ABSENT),
            ("[NaN", []),
            ("}", ABSENT),
            ('{"__proto__":{"a":1}}', ABSENT),
            ('{"\\u005f_proto__":1', ABSENT),
            ('{"a":{"__proto__":', ABSENT),
            ('{"constructor":{"prototype":1}}', ABSENT),
            ('{"constructor":{"prototype":1', ABSENT),
            ('{"constructor":1', {"constructor": 1}),
            ('{"prototype":1', {"prototype": 1}),
            (' {"a" : [ 1 , 2 ', {"a": [1, 2]}),
            ("[[],[", [[], []]),
            ("[1]", [1]),
        ],
    )
    def test_rules(self, text: str, value: Any) -> None:
        found = parse_partial_json(text)
        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize("unit", ["[", '{"a":', '[{"a":'])
    @pytest.mark.parametrize("count", [1_000, 100_000])
    def test_depth(self, unit: str, count: int) -> None:
        """C20 of messages.md: no RecursionError, closed or not."""
        assert parse_partial_json(unit * count) is ABSENT
        assert parse_partial_json("[" * count + "]" * count) is ABSENT


class TestProperties:
    @given(JSON)
    def test_every_prefix(self, value: Any) -> None:
        """No prefix raises; what is kept grows towards the whole value."""
        text = json.dumps(value, ensure_ascii=False)
        for end in range(len(text)):
            found = parse_partial_json(text[:end])
            if isinstance(value, list) and found is not ABSENT:
                assert found[:-1] == value[: len(found) - 1] if found else True
            if isinstance(value, dict) and found is not ABSENT:
                assert list(found)[:-1] == list(value)[: max(len(found) - 1, 0)]
        if "__proto__" not in text and "constructor" not in text:
            assert parse_partial_json(text) == value

    @given(st.text(alphabet='[]{}",:\\utrfn01.e-+ a'))
    def test_any_text(self, text: str) -> None:
        """No text raises, and a whole JSON text gives its value."""
        found = parse_partial_json(text)
        try:
            value = json.loads(text)
        except ValueError:
            return
        if value != float("inf") and "e" not in text:
            assert found == value


class TestDepth:
    @pytest.mark.parametrize(("unit", "end"), [("[", "]"), ('{"a":', "}")])
    @pytest.mark.parametrize("levels", [255, 256, 257, 300, 900])
    def test_what_a_message_can_hold(self, unit: str, end: str, levels: int) -> None:
        """A value is either good for a whole life in a message, or ABSENT."""
        text = unit * levels + "1" + end * levels if unit != "[" else unit * levels + end * levels
        for tried in (text, text[:-1]):
            fold = Fold()
            fold.feed({"type": "tool-input-start", "toolCallId": "c", "toolName": "g"})
            fold.feed({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": tried})
            message = fold.message
            assert message.parts[0].has("input") == (levels <= 256)
            again = UIMessage.from_wire(json.loads(json.dumps(message.to_wire())))
            assert again == message
            assert hash(again) == hash(message)
            assert copy.deepcopy(message.to_wire()) == message.to_wire()
