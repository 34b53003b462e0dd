"""Wrong use raises from `chatnb.errors` and says what to do; nothing is written or lost (issue: Bad input)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chatnb import Agent, Chat, ChatWidget, ClientTool, Compaction, Identity, ScriptedModel, Steering, compare
from chatnb.errors import ActionDefinitionError, ConfigError, InputError, StoreUnavailableError
from chatnb.models import AnthropicModel, OfflineModel, RecordedModel, Reply


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    opened = Agent(ScriptedModel(["fine"], loop=True), store=tmp_path / "chats.db").chat("bad-input")
    yield opened
    opened.close()


class TestAgentOptions:
    """Options that can't work raise when the agent is made, and name the option."""

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("approval_ttl", "soon"),
            ("client_data", 5),
            ("client_data", "int"),
            ("approval_ttl", float("inf")),
            ("approval_ttl", 10**400),
            ("approval_ttl", 1e12),
            ("compaction", 5),
            ("concurrency", []),
            ("identity", 5),
            ("identity", ""),
            ("instructions", 5),
            ("max_steps", True),
            ("objects", 50),
            ("plan_mode", "yes"),
            ("recovery", True),
            ("runtime", None),
            ("steering", lambda batch: True),
            ("store", 5),
            ("store", "mysql://here/chats"),
            ("variables", "off"),
        ],
    )
    def test_is_named(self, option: str, value: Any) -> None:
        options: dict[str, Any] = {option: value}
        with pytest.raises(ConfigError, match=option if option != "store" else "store|stores"):
            Agent("offline", **options)

    @pytest.mark.parametrize(
        ("make", "named"),
        [
            (lambda: Steering(True), "should_inject"),
            (lambda: Steering(bool, prepare=5), "prepare"),
            (lambda: Compaction(None), "should_compact"),
            (lambda: Identity(""), "id"),
            (lambda: Identity("me", kind="robot"), "kind"),
            (lambda: Identity("me", roles="admin"), "roles"),
            (lambda: Compaction(bool, "shorter"), "summarize"),
            (lambda: ClientTool("a b", "Asks.", {}), "name"),
            (lambda: ClientTool("ask", None, {}), "description"),
            (lambda: ClientTool("ask", "Asks.", []), "parameters"),
            (lambda: ClientTool("ask", "Asks.", {}, js=len), "js"),
            (lambda: ClientTool("ask", "Asks.", {}, form="yes"), "form"),
        ],
    )
    def test_a_policy_names_its_field(self, make: Callable[[], Any], named: str) -> None:
        with pytest.raises(ConfigError, match=named):
            make()

    @pytest.mark.parametrize("actions", [5, None, len])
    def test_actions_are_a_list(self, actions: Any) -> None:
        with pytest.raises(ActionDefinitionError, match="list of actions"):
            Agent("offline", actions=actions)

    @pytest.mark.parametrize("action", [5, "refund", None])
    def test_an_action_is_a_function(self, action: Any) -> None:
        with pytest.raises(ActionDefinitionError, match="function"):
            Agent("offline", actions=[action])


class TestModels:
    """Options of models that can't work raise when the model is made, and name the option."""

    @pytest.mark.parametrize(
        ("make", "named"),
        [
            (lambda: ScriptedModel(5), "list of steps"),
            (lambda: ScriptedModel(["a"], continuation="wat"), "continuation"),
            (lambda: ScriptedModel(["a"], name=5), "name"),
            (lambda: ScriptedModel(["a"], loop="yes"), "loop"),
            (lambda: ScriptedModel(["a"], accepts_images=1), "accepts_images"),
            (lambda: Reply(5), "text"),
            (lambda: Reply("a", reasoning=b"x"), "reasoning"),
            (lambda: Reply(calls=5), "calls"),
            (lambda: Reply(calls=[(1, {})]), "calls"),
            (lambda: Reply("a", delay="slow"), "delay"),
            (lambda: Reply("a", delay=float("nan")), "delay"),
            (lambda: Reply("a", chunk_size=1.5), "chunk_size"),
            (lambda: Reply("a", fail="x"), "fail"),
            (lambda: Reply("a", fail_after=-1), "fail_after"),
            (lambda: Reply("a", hang=1), "hang"),
            (lambda: Reply("a", usage={"input_tokens": 1}), "usage"),
            (lambda: Reply("a", finish_reason=5), "finish_reason"),
            (lambda: AnthropicModel(5), "name"),
            (lambda: AnthropicModel(""), "name"),
            (lambda: AnthropicModel("claude", cache="yes"), "cache"),
            (lambda: AnthropicModel("claude", api_key=5), "api_key"),
            (lambda: AnthropicModel("claude", base_url=5), "base_url"),
            (lambda: AnthropicModel("claude", timeout="long"), "timeout"),
            (lambda: AnthropicModel("claude", timeout=0), "timeout"),
            (lambda: AnthropicModel("claude", max_retries=True), "max_retries"),
            (lambda: AnthropicModel("claude", prices=5), "prices"),
            (lambda: OfflineModel(rhythm="yes"), "rhythm"),
            (lambda: RecordedModel(5), "path"),
            (lambda: RecordedModel("x.jsonl", speed="fast"), "speed"),
            (lambda: compare("hi", 5), "models"),
            (lambda: compare("hi", ["offline"], chat=5), "chat"),
            (lambda: compare("hi", ["offline"], agent=5), "agent"),
            (lambda: compare("hi", ["offline"], repeat=True), "repeat"),
            (lambda: Agent("offline").on_change(5), "on_change"),
        ],
    )
    def test_is_named(self, make: Callable[[], Any], named: str) -> None:
        with pytest.raises(ConfigError, match=named):
            make()

    def test_an_observer_is_a_function(self, chat: Chat) -> None:
        with pytest.raises(ConfigError, match="on_change"):
            chat.on_change(5)


class TestInputs:
    """What can't be taken is refused at the call, in words that name what is taken."""

    @pytest.mark.parametrize(
        ("use", "named"),
        [
            (lambda c: c.send("hi", client_tools=[5]), "ClientTool"),
            (lambda c: c.regenerate(client_tools=5), "ClientTool"),
            (lambda c: c.continue_last_turn(client_tools=["x"]), "ClientTool"),
            (lambda c: c.save_messages(5), "list of messages"),
            (lambda c: c.save_messages("text"), "list of messages"),
            (lambda c: c.set_messages(None), "list of messages"),
            (lambda c: c.history.set({"id": "m"}), "list of messages"),
            (lambda c: c.persist_messages(5), "list of messages"),
            (lambda c: c.defer(5), "awaitable"),
        ],
    )
    def test_is_refused(self, chat: Chat, use: Callable[[Chat], Any], named: str) -> None:
        with pytest.raises(InputError, match=named):
            use(chat)
        assert chat.messages == ()
        assert chat.send("hi").result(10).text == "fine"


class TestStorePlace:
    """A store that can't be there says so; nothing is made or changed."""

    def test_a_folder_is_no_store(self, tmp_path: Path) -> None:
        (tmp_path / "chats.db").mkdir()
        with pytest.raises(StoreUnavailableError, match="is no file"):
            Agent("offline", store=tmp_path / "chats.db").chat("x")

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "notes").write_text("mine", "utf-8")
        with pytest.raises(StoreUnavailableError, match="is no file"):
            Agent("offline", store=tmp_path / "notes" / "chats.db").chat("x")
        assert (tmp_path / "notes").read_text("utf-8") == "mine"


class TestNumbers:
    """NaN and infinities are no JSON: refused where a message comes in, in words; the history is as before."""

    PART: ClassVar[dict[str, Any]] = {"type": "data-x", "data": [float("nan")]}

    @pytest.mark.parametrize(
        "use",
        [
            lambda c, part: c.send([{"type": "text", "text": "hi"}, part]),
            lambda c, part: c.save_messages([{"id": "m", "role": "user", "parts": [part]}]),
            lambda c, part: c.set_messages([{"id": "m", "role": "user", "parts": [part]}]),
            lambda c, part: c.set_messages([{"id": "m", "role": "assistant", "parts": [part]}]),
            lambda c, part: c.persist_messages([{"id": "m", "role": "user", "parts": [part]}]),
        ],
        ids=["send", "save", "set user", "set assistant", "persist"],
    )
    def test_is_refused(self, chat: Chat, use: Callable[[Chat, Any], Any]) -> None:
        with pytest.raises(InputError, match=r"finite|JSON"):
            use(chat, self.PART)
        assert chat.messages == ()
        assert chat.send("hi").result(10).text == "fine"

    def test_a_function_that_saves_them(self, chat: Chat) -> None:
        outcome = chat.save_messages(lambda old: [{"id": "m", "role": "user", "parts": [self.PART]}]).result(10)
        assert outcome.error is not None
        assert (outcome.error.stage, "finite" in outcome.error.message, chat.messages) == ("input", True, ())


class TestWidget:
    """A widget refuses what it can't use, and goes on."""

    def test_messages_are_a_list(self, chat: Chat) -> None:
        widget = ChatWidget(chat)
        for given in (5, "text", lambda now: 5):
            with pytest.raises(InputError, match="list of messages"):
                widget.set_messages(given)
        assert widget.send_message("hi").result(10).text == "fine"
        widget.close()

    def test_a_body_is_a_dict(self, chat: Chat) -> None:
        widget = ChatWidget(chat, body={"a": 1})
        for use in (lambda: widget.send_message("hi", body=5), lambda: widget.regenerate(body="x")):
            with pytest.raises(InputError, match="body is a dict"):
                use()
        assert widget.send_message("hi", body={"b": 2}).result(10).text == "fine"
        widget.close()

    def test_client_tools_are_a_list(self, chat: Chat) -> None:
        with pytest.raises(ConfigError, match="ClientTool"):
            ChatWidget(chat, client_tools=5)

    def test_a_page_of_another_version(self, chat: Chat) -> None:
        """3.4 of widget.md: the page is told which versions there are; what it asks for is not done."""
        widget = ChatWidget(chat)
        sent: list[dict[str, Any]] = []
        widget.send = lambda content, buffers=None: sent.append(content)
        hello = {"v": 0, "type": "hello", "view": "old", "id": "1", "epoch": "", "versions": [0]}
        send = {"v": 0, "type": "send", "view": "old", "id": "2", "epoch": "of an older kernel", "text": "hi"}
        for command in (hello, send, {}, None, {"v": "?", "type": ["send"]}):
            widget._handle_custom_msg(command, [])
        assert chat.send("hi").result(10).text == "fine"
        assert next(frame for frame in sent if frame["type"] == "unsupported")["versions"] == [1]
        assert [m.text for m in chat.messages] == ["hi", "fine"]
        widget.close()
