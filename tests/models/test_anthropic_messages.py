"""spec/messages.md, section 9: model messages as the API's messages."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from chatnb.models import EPHEMERAL_OPTIONS, anthropic_messages
from chatnb.testing.fake_anthropic import check_request, sign_thinking
from tests.models.build import assistant, call, results, user

MODEL = "claude-sonnet-4-5"


def mapped(*messages: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    more.setdefault("cache", False)
    _, found = anthropic_messages(messages, **more)
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    assert check_request({"model": MODEL, "max_tokens": 8, "messages": found, "tools": tools}) is None
    return found


def thought(text: str, signature: str | None = None, model: str = MODEL) -> dict[str, Any]:
    options = {"anthropic": {"signature": signature or sign_thinking(model, text)}}
    return {"type": "reasoning", "text": text, "providerOptions": options}


def file(media: str, url: str, **more: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media, "data": {"type": "url", "url": url}, **more}


def data_url(media: str, data: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def one_file(item: dict[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = mapped({"role": "user", "content": [item]})[0]["content"][0]
    return block


class TestWritten:
    @pytest.mark.parametrize("media", ["application/json", "application/geo+json", "application/yaml; charset=utf-8"])
    def test_written_files_are_texts(self, media: str) -> None:
        """Texts that are called applications, such as the JSON that a panel takes, are documents too."""
        block = one_file(file(media, data_url(media, b'{"a": 1}'), filename="a.json"))
        assert (block["type"], block["source"]["data"], block["title"]) == ("document", '{"a": 1}', "a.json")

    def test_a_long_title_is_cut(self) -> None:
        """The API takes titles of up to 500 characters."""
        assert len(one_file(file("text/plain", data_url("text/plain", b"x"), filename="n" * 900))["title"]) == 500


class TestThinking:
    def test_signed_thinking_is_byte_identical(self) -> None:
        """C33: signed thinking, tool_use and results: text and signature are byte-identical in the next request."""
        text = "  weigh it\n\nthen é  "
        found = mapped(user("go"), assistant(thought(text), "Now.", call("c1")), results(("c1", 1)))
        assert found[1]["content"][0] == {"type": "thinking", "thinking": text, "signature": sign_thinking(MODEL, text)}
        assert [block["type"] for block in found[1]["content"]] == ["thinking", "text", "tool_use"]

    def test_signed_thinking_may_be_empty(self) -> None:
        """Section 9: thinking keeps its signature also with empty text."""
        assert mapped(user("a"), assistant(thought(""), "b"))[1]["content"][0]["thinking"] == ""

    def test_unsigned_thinking_is_left_out(self) -> None:
        """C34: reasoning cut by a stop has no signature: the request holds no thinking block for it."""
        found = mapped(user("a"), assistant({"type": "reasoning", "text": "half a tho"}, "b"), user("c"))
        assert found[1]["content"] == [{"type": "text", "text": "b"}]

    def test_redacted_thinking_goes_back(self) -> None:
        """Section 9: redactedData gives redacted_thinking with that data."""
        item = {"type": "reasoning", "text": "", "providerOptions": {"anthropic": {"redactedData": "xyz"}}}
        assert mapped(user("a"), assistant(item, "b"))[1]["content"][0] == {"type": "redacted_thinking", "data": "xyz"}

    def test_thinking_of_another_model_is_left_out(self) -> None:
        """notebook.md, section 8: signatures go back unchanged, another model's are left out."""
        foreign = thought("x", model="claude-opus-4-1")
        found = mapped(user("a"), assistant(foreign, "b"), user("c"), model=MODEL)
        assert [block["type"] for block in found[1]["content"]] == ["text"]

    @pytest.mark.parametrize(
        ("signed", "asked", "kept"),
        [
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
            ("claude-sonnet-5", "claude-sonnet-5-5", False),
            ("claude-a", "claude-a", True),
            ("claude-a", "claude-b", False),
        ],
    )
    def test_dated_names_are_the_same_model(self, signed: str, asked: str, kept: bool) -> None:
        """A date after a name is the same model; another version is not."""
        _, found = anthropic_messages([user("a"), assistant(thought("x", model=signed), "b")], cache=False, model=asked)
        assert (found[1]["content"][0]["type"] == "thinking") is kept


class TestPairing:
    def test_a_missing_result_is_made(self) -> None:
        """C35: a tool-call without result before a user message: that message begins with an is_error tool_result."""
        found = mapped(user("a"), assistant(call("c1")), user("b"))
        assert found[2]["content"] == [
            {"type": "tool_result", "tool_use_id": "c1", "content": "This call did not finish.", "is_error": True},
            {"type": "text", "text": "b"},
        ]

    def test_a_call_at_the_end_gets_a_message_for_its_result(self) -> None:
        """Pairing: the message after a tool_use is the user's, also when the history ends with the call."""
        assert mapped(user("a"), assistant(call("c1")))[2]["content"][0]["is_error"] is True

    def test_results_are_in_the_order_of_the_calls(self) -> None:
        """Pairing: exactly one result for each call, in their order, then other content."""
        found = mapped(user("a"), assistant(call("c1"), call("c2")), results(("c2", 2), ("c1", 1)), user("b"))
        assert [block.get("content") for block in found[2]["content"]] == ["1", "2", None]

    def test_a_result_without_its_call_is_dropped(self) -> None:
        """Pairing: a result without its call is dropped."""
        assert mapped(user("a"), results(("zz", 1)), user("b")) == [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
        ]

    def test_the_last_of_two_results_wins(self) -> None:
        """Pairing: the last of two results for a call wins."""
        found = mapped(user("a"), assistant(call("c1")), results(("c1", 1), ("c1", 2)))
        assert [block["content"] for block in found[2]["content"]] == ["2"]

    def test_a_late_result_finds_its_call(self) -> None:
        """Pairing: a result that comes behind other content is placed at the head of the message after its call."""
        found = mapped(user("a"), assistant(call("c1")), user("b"), results(("c1", 1)))
        assert found[2]["content"][0]["content"] == "1"

    def test_repeated_ids_are_numbered_with_their_results(self) -> None:
        """Ids: a repeated id gets _2, its result too."""
        found = mapped(
            user("a"), assistant(call("c")), results(("c", 1)), assistant(call("c")), results(("c", 2)), user("b")
        )
        assert found[3]["content"][0]["id"] == "c_2"
        assert (found[4]["content"][0]["tool_use_id"], found[4]["content"][0]["content"]) == ("c_2", "2")

    def test_ids_and_names_are_cleaned(self) -> None:
        """Ids: other characters become _; names likewise, cut at 128; an input that is no object is wrapped."""
        item = {"type": "tool-call", "toolCallId": "c:1/é", "toolName": "my.tool" + "x" * 200, "input": 3}
        block = mapped(user("a"), assistant(item), results(("c:1/é", 1)))[1]["content"][0]
        assert block["id"] == "c_1__"
        assert block["name"].startswith("my_tool")
        assert len(block["name"]) == 128
        assert block["input"] == {"input": 3}

    def test_roles_alternate(self) -> None:
        """Neighbours of one role merge; a first assistant message gets a user text in front of it."""
        found = mapped(assistant("a"), assistant("b"), user("c"), user("d"))
        assert [message["role"] for message in found] == ["user", "assistant", "user"]
        assert len(found[1]["content"]) == 2


class TestResults:
    @pytest.mark.parametrize(
        ("output", "content", "is_error"),
        [
            ({"type": "text", "value": "plain"}, "plain", False),
            ({"type": "json", "value": {"a": ["é", None]}}, '{"a":["é",null]}', False),
            ({"type": "error-text", "value": "no"}, "no", True),
            ({"type": "error-text", "value": "  "}, "The action failed.", True),
            ({"type": "error-json", "value": {"code": 1}}, '{"code":1}', True),
            ({"type": "execution-denied", "reason": "too much"}, "too much", True),
            ({"type": "execution-denied"}, "The call was denied.", True),
        ],
    )
    def test_outputs(self, output: dict[str, Any], content: str, is_error: bool) -> None:
        """C32 and section 9: texts as they are, JSON compact, errors and denials as non-empty errors."""
        block = mapped(user("a"), assistant(call("c1")), results(("c1", output)))[2]["content"][0]
        assert block["content"] == content
        assert block.get("is_error", False) is is_error

    def test_content_items(self) -> None:
        """Content items become text, image and document blocks."""
        value = [{"type": "text", "text": "see"}, file("image/png", data_url("image/png", b"png"))]
        output = {"type": "content", "value": value}
        block = mapped(user("a"), assistant(call("c1")), results(("c1", output)))[2]["content"][0]
        assert [item["type"] for item in block["content"]] == ["text", "image"]


class TestFiles:
    def test_images(self) -> None:
        """Images go as base64 or url sources."""
        url = data_url("image/png", b"png")
        assert one_file(file("image/png", url))["source"]["media_type"] == "image/png"
        remote = one_file(file("image/png", "https://example.org/a.png"))
        assert remote["source"] == {"type": "url", "url": "https://example.org/a.png"}

    def test_documents(self) -> None:
        """PDF and text are documents; the text of a data URL is decoded; the title is the file's name."""
        text = one_file(file("text/csv", data_url("text/csv", "a;é".encode()), filename="x.csv"))
        assert text["source"] == {"type": "text", "media_type": "text/plain", "data": "a;é"}
        assert text["title"] == "x.csv"
        assert one_file(file("application/pdf", data_url("application/pdf", b"%PDF")))["type"] == "document"

    def test_references(self) -> None:
        """A file by reference with the key `anthropic` is a source with that id."""
        item = {
            "type": "file",
            "mediaType": "image/png",
            "data": {"type": "reference", "reference": {"anthropic": "f1"}},
        }
        assert one_file(item) == {"type": "image", "source": {"type": "file", "file_id": "f1"}}

    @pytest.mark.parametrize(
        "item",
        [
            file("image/svg+xml", "data:image/svg+xml,<svg/>", filename="a.svg"),
            file("audio/wav", "https://example.org/a.wav", filename="a.svg"),
            file("image/png", "data:image/png;base64,???", filename="a.svg"),
            file("image/png", data_url("image/png", b"x" * 5_300_000), filename="a.svg"),
        ],
    )
    def test_what_the_api_cannot_take_is_named(self, item: dict[str, Any]) -> None:
        """Content the API cannot take becomes a text that names the file and its media type."""
        block = one_file(item)
        assert block["type"] == "text"
        assert "a.svg" in block["text"]
        assert item["mediaType"] in block["text"]

    def test_files_of_the_assistant_are_notes(self) -> None:
        """Any file of the assistant is a text note; custom and reasoning-file are nothing."""
        item = file("image/png", data_url("image/png", b"png"), filename="a.png")
        found = mapped(user("a"), assistant(item, {"type": "custom", "kind": "a.b"}))
        assert [block["type"] for block in found[1]["content"]] == ["text"]


class TestServedCalls:
    def test_a_served_call_and_its_result(self) -> None:
        """providerExecuted: server_tool_use and a block of the given type, content unchanged."""
        options = {"anthropic": {"blockType": "web_search_tool_result"}}
        content = [{"type": "web_search_result", "url": "https://example.org"}]
        result = {
            "type": "tool-result",
            "toolCallId": "s1",
            "toolName": "web_search",
            "output": {"type": "json", "value": content},
            "providerOptions": options,
        }
        found = mapped(user("a"), assistant(call("s1", "web_search", {"q": 1}, providerExecuted=True), result, "b"))
        assert [block["type"] for block in found[1]["content"]] == ["server_tool_use", "web_search_tool_result", "text"]
        assert found[1]["content"][1]["content"] == content

    def test_without_block_type_neither_goes(self) -> None:
        """providerExecuted without blockType: neither the call nor the result."""
        found = mapped(user("a"), assistant(call("s1", providerExecuted=True), "b"))
        assert found[1]["content"] == [{"type": "text", "text": "b"}]


class TestCache:
    def test_marks(self) -> None:
        """Marks on the last system block and on the last block of the last two user messages."""
        system, found = anthropic_messages(
            [{"role": "system", "content": "s"}, user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
        )
        assert "cache_control" in system[-1]
        assert ["cache_control" in message["content"][-1] for message in found] == [False, False, True, False, True]

    def test_never_more_than_four(self) -> None:
        """Marks of the parts' own count: never more than four, the earliest in messages lose."""
        mark = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
        items = [{"type": "text", "text": str(n), "providerOptions": mark} for n in range(6)]
        system, found = anthropic_messages([{"role": "system", "content": "s"}, {"role": "user", "content": items}])
        assert "cache_control" in system[0]
        assert ["cache_control" in block for block in found[0]["content"]] == [False] * 3 + [True] * 3

    def test_an_hour_goes_before_minutes(self) -> None:
        """A part's mark of an hour: what is marked before it lasts as long, or the API would refuse the request."""
        hour = {"anthropic": {"cacheControl": {"type": "ephemeral", "ttl": "1h"}}}
        item = {"type": "text", "text": "a", "providerOptions": hour}
        system, found = anthropic_messages(
            [{"role": "system", "content": "s"}, {"role": "user", "content": [item]}, assistant("b"), user("c")]
        )
        blocks = [*system, *(block for message in found for block in message["content"])]
        assert [block["cache_control"].get("ttl") for block in blocks if "cache_control" in block] == ["1h", "1h", None]
        assert check_request({"model": MODEL, "max_tokens": 8, "system": system, "messages": found}) is None

    def test_ephemeral_items_are_not_marked(self) -> None:
        """notebook.md, section 5: the list of variables is not cache-marked; the block before it is."""
        last = {"type": "text", "text": "vars", "providerOptions": EPHEMERAL_OPTIONS}
        _, found = anthropic_messages([user("a"), {"role": "user", "content": [last]}])
        assert ["cache_control" in block for block in found[0]["content"]] == [True, False]

    def test_cache_off(self) -> None:
        """`cache=False` sets none of its own."""
        system, found = anthropic_messages([{"role": "system", "content": "s"}, user("a")], cache=False)
        assert "cache_control" not in str(system) + str(found)


class TestEnds:
    def test_blank_text_is_dropped(self) -> None:
        """Text is dropped when blank."""
        assert mapped(user("a"), assistant(" \n"), user("b"))[0]["content"][1]["text"] == "b"

    def test_a_last_answer_does_not_end_in_white_space(self) -> None:
        """A request that goes on from an answer is acceptable as it stands."""
        assert mapped(user("a"), assistant("go on \n"))[1]["content"][0]["text"] == "go on"

    def test_lone_surrogates_and_odd_numbers_can_be_sent(self) -> None:
        """The body can be encoded whatever the history holds."""
        found = mapped(user("a\ud800"), assistant(call("c", args={"x": float("nan")})), results(("c", 1)))
        assert found[0]["content"][0]["text"] == "a\ufffd"
        assert found[1]["content"][0]["input"] == {"x": None}
