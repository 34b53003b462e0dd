"""The sessions of the served page, as a stranger would try them (spec/actions.md, 4.8 and 11.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chatnb import Agent, action
from chatnb.models import ScriptedModel
from tests.sites.http_server import Client, by_key, client_of, code_of, serving

KEY = "0" * 32
ran: list[str] = []


@action(ui_only=True)
def wipe() -> str:
    """Remove all."""
    ran.append("wipe")
    return "gone"


@pytest.fixture
def address() -> Iterator[str]:
    ran.clear()
    agent = Agent(ScriptedModel([]), actions=[wipe])
    with serving(agent, authenticate=by_key) as at:
        yield at


@pytest.fixture
def page(address: str) -> Iterator[Client]:
    """Ann's page, with its session open."""
    with client_of(address) as client, client.stream("GET", place("frames")) as frames:
        next(frames.iter_lines())
        yield client


def place(name: str, chat: str = "k", session: str = KEY) -> str:
    return f"/actions/-/panel/{name}?chat={chat}&session={session}"


def command(client: httpx.Client, content: Any, buffers: Any = (), chat: str = "k", proof: str = "1") -> httpx.Response:
    body = {"content": content, "buffers": list(buffers) if isinstance(buffers, tuple) else buffers}
    return client.post(place("commands", chat), json=body, headers={"x-chatnb-ui": proof})


class TestSessions:
    """A session is its page's alone."""

    def test_others(self, address: str, page: Client) -> None:
        """Another identity finds neither the session nor the chat; nobody is a 401; another chat is no session."""
        hello = {"type": "hello"}
        assert command(page, hello).status_code == 204
        assert command(page, hello, chat="other").status_code == 404
        assert code_of(command(page, hello, proof="0")) == (403, "ui_capability_required")
        for who, known, new in (("bob", 404, 403), ("robot", 404, 403), (None, 401, 401)):
            with client_of(address, who) as stranger:
                assert command(stranger, hello).status_code == known
                assert stranger.get(place("frames")).status_code == known
                assert stranger.get(place("frames", session="1" * 32)).status_code == new
                assert stranger.get("/").status_code == (401 if who is None else 200)
                assert stranger.get("/openapi.json").status_code == (401 if who is None else 200)

    @pytest.mark.parametrize("content", [None, 7, [], {}, {"type": None}, {"type": []}, {"type": {}}])
    def test_no_command(self, page: Client, content: Any) -> None:
        """What is no command is a 400."""
        assert code_of(command(page, content)) == (400, "invalid_body")
        assert command(page, {"type": "hello"}, buffers=["!!"]).status_code == 400
        assert command(page, {"type": "hello"}, buffers=7).status_code == 400

    def test_what_decides_is_proven(self, page: Client) -> None:
        """Decisions and calls need the cookie; commands that reach into the process are for notebooks."""
        for kind in ("approve", "reject", "call"):
            assert code_of(command(page, {"type": kind, "name": "wipe"})) == (403, "ui_capability_required")
        for kind in ("complete", "preview", "restore", "takeOver", "cellInserted"):
            assert code_of(command(page, {"type": kind})) == (403, "forbidden")
        assert ran == []

    @pytest.mark.parametrize(
        "query", ["", "?chat=k", f"?session={KEY}", f"?chat=a/b&session={KEY}", "?chat=k&session=1"]
    )
    def test_no_session(self, address: str, query: str) -> None:
        """An address without a chat or a session is a 400."""
        with client_of(address) as client:
            assert client.get(f"/actions/-/panel/frames{query}").status_code == 400
