"""Whose chats they are, and what else web clients may ask of them (issue 8; actions.md 2.7 and 11.1)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from chatnb import Agent, StopTurn, action
from chatnb.models import Reply, ScriptedModel
from tests.sites.http_server import answer_of, by_key, client_of, code_of, event_lines, serving, user
from tests.sites.test_http_chat import REFUND, answered, chatting, ran, refund


@pytest.fixture(autouse=True)
def clean() -> None:
    ran.clear()


class TestChats:
    """The chats of an identity, and who may use them."""

    def test_owner(self) -> None:
        """A chat belongs to who made it: everybody else gets 403, and does not see it in the list."""
        model = ScriptedModel([REFUND, "done"])
        agent = Agent(model, actions=[refund])
        with (
            serving(agent, authenticate=by_key) as address,
            client_of(address, "ann") as ann,
            client_of(address, "bob") as bob,
            client_of(address, None) as nobody,
        ):
            asked = ann.say("c", "refund").to_wire()
            for answer in (
                bob.post_chat("c", [user("refund"), answered(asked)]),
                bob.post_chat("c", [user("hi", "u9")]),
                bob.get("/api/chat/c"),
                bob.get("/api/chat/c/stream"),
                bob.get("/api/chat/c/events"),
                bob.post("/api/chat/c/actions", json={"type": "undo"}),
                bob.post("/api/chat/c/stop"),
            ):
                assert code_of(answer) == (403, "forbidden")
            assert nobody.get("/api/chat/c").status_code == 401
            assert [c["id"] for c in ann.get("/api/chats").json()["chats"]] == ["c"]
            assert bob.get("/api/chats").json()["chats"] == []
            assert ran == []

    def test_identity_of_calls(self) -> None:
        """The calls of a chat are made for its owner (2.7 of actions.md)."""
        seen: list[Any] = []

        @action(authorize=lambda args, ctx: seen.append(ctx.identity.id))
        def peek() -> str:
            """Peek."""
            return "ok"

        agent = Agent(ScriptedModel([Reply(calls=[("peek", {})]), "done"]), actions=[peek])
        with serving(agent, authenticate=by_key) as address, client_of(address, "bob") as bob:
            assert bob.say("c", "x").text == "done"
        assert seen == ["bob"]

    def test_open_elsewhere(self) -> None:
        """A chat that is open in another process is a 409 that says where; reading it needs no lease."""
        code = (
            "import sys; from chatnb import Agent, Identity; from chatnb.models import ScriptedModel\n"
            "chat = Agent(ScriptedModel(['hello']), identity=Identity('ann')).chat('c'); chat.send('hi').result(20)\n"
            "print('open', flush=True); sys.stdin.read()"
        )
        other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "open\n"
            with chatting() as (client, _):
                answer = client.post_chat("c", [user("x")])
                assert code_of(answer) == (409, "chat_in_use")
                assert answer.json()["details"]["pid"] == other.pid
                read = client.get("/api/chat/c").json()
                assert [m["role"] for m in read["messages"]] == ["user", "assistant"]
                assert read["openElsewhere"]["pid"] == other.pid
        finally:
            other.communicate("")

    def test_actions_of_a_chat(self) -> None:
        """A chat action answers with the state, one that asks for a turn with its stream for who accepts one."""
        with chatting("one", "two") as (client, _):
            client.say("c", "hi")
            state = client.post("/api/chat/c/actions", json={"type": "undo"}).json()
            assert (state["status"], state["messages"], state["canRedo"]) == ("applied", [], True)
            assert len(client.post("/api/chat/c/actions", json={"action": {"type": "redo"}}).json()["messages"]) == 2
            edit = {"type": "edit", "messageId": "u1", "text": "ho"}
            response = client.post("/api/chat/c/actions", json=edit, headers={"accept": "text/event-stream"})
            assert answer_of(response).text == "two"
            bad = client.post("/api/chat/c/actions", json={"type": "nonsense"})
            assert code_of(bad) == (400, "invalid_input")
            assert client.post("/api/chat/none/actions", json={"type": "undo"}).status_code == 404

    def test_events(self) -> None:
        """Changes and edits are told as they happen."""
        with chatting(Reply(calls=[("note", {"text": "n"})]), "done", "more") as (client, _):
            client.say("c", "first")
            with client.stream("GET", "/api/chat/c/events") as response:
                events = event_lines(response)
                assert next(events)[0] == "ready"
                client.post("/actions/note", json={"text": "hello"})
                _, data = next(e for e in events if e[0] == "change")
                assert (data["action"], data["site"]) == ("note", "http")
                client.post("/api/chat/c/actions", json={"type": "undo"})
                assert next(e for e in events if e[0] == "history")


class TestSecrets:
    """No secret is in any response."""

    def test_key_in_an_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A credential of the environment is replaced wherever a model or an error says it."""
        monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
        with chatting(Reply("the key is sk-very-secret-key", chunk_size=100)) as (client, _):
            response = client.post_chat("c", [user("x")])
            assert "sk-very-secret" not in response.text
            assert "sk-very-secret" not in client.get("/api/chat/c").text


def test_stop_turn() -> None:
    """`StopTurn` over HTTP is a 409 with its code (section 6 of actions.md)."""

    @action
    def leave() -> str:
        """Leave."""
        raise StopTurn("enough")

    with serving(Agent(ScriptedModel([]), actions=[leave])) as address, client_of(address) as client:
        assert code_of(client.post("/actions/leave", json={})) == (409, "stopped")
