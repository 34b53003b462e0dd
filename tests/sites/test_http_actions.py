"""The action routes of the HTTP site (spec/actions.md, sections 1.4, 2, 4, 6 and 11.1)."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chatnb import ActionContext, Agent, Identity, action, action_errors
from chatnb.models import ScriptedModel
from chatnb.sites.http_proof import Proof
from tests.sites.http_server import by_key, client_of, code_of, serving

errors = action_errors("not_found")
ran: list[Any] = []


@action(http="GET")
def look(limit: int = 1, live: bool = False, word: str = "", tags: list[str] | None = None) -> dict[str, Any]:
    """Look."""
    return {"limit": limit, "live": live, "word": word, "tags": tags}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@action
def sales(region: str, year: int = 2025) -> str:
    """Look up sales."""
    ran.append((region, year))
    return f"{region} {year}"


@action(needs_approval=lambda args, ctx: args["amount"] > 100)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    ran.append((order, amount))
    return "refunded"


@action(ui_only=True)
def wipe() -> str:
    """Remove everything."""
    ran.append("wipe")
    return "gone"


@action(errors=errors)
def find(id: str) -> str:
    """Find a thing."""
    raise errors.no_write("There is no such thing.", "not_found", status_code=404, details={"id": id})


@action
def leak() -> str:
    """Fail."""
    raise RuntimeError("password=hunter2")


@action(authorize=lambda args, ctx: ctx.identity.id == "ann")
def guarded() -> str:
    """For Ann."""
    return "ok"


@action(needs_approval=lambda args: args["missing"])
def broken_gate() -> str:
    """Its predicate raises."""
    ran.append("broken_gate")
    return "ran"


@action(http={"method": "PUT", "path": "/things", "max_body_bytes": 50})
def put_thing(text: str) -> int:
    """Put a thing."""
    return len(text)


@action(http=False)
def hidden() -> str:
    """Not over HTTP."""
    return "hidden"


@action
def who(ctx: ActionContext) -> list[Any]:
    """Say who calls."""
    return [ctx.site, ctx.identity.id if ctx.identity else None, (ctx.headers or {}).get("x-mark")]


@action
def picture() -> dict[str, Any]:
    """A picture."""
    given = [
        {"data": PIXEL, "media_type": "image/png", "label": "dot"},
        {"url": "https://x.example/a.png"},
        {"data": base64.b64decode(PIXEL), "mediaType": "image/png"},
        7,
    ]
    return {"n": 1, "_agent_images": given}


@action
def drawn() -> Any:
    """A figure in a dict."""
    from matplotlib.figure import Figure

    return {"n": 1, "plot": Figure(figsize=(1, 1))}


ACTIONS = [picture, drawn, look, sales, refund, wipe, find, leak, guarded, broken_gate, put_thing, hidden, who]


@pytest.fixture
def address() -> Iterator[str]:
    ran.clear()
    with serving(Agent(ScriptedModel([]), actions=ACTIONS), authenticate=by_key) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with client_of(address) as client:
        yield client


def proven(client: httpx.Client) -> dict[str, str]:
    """The headers of the page; the client keeps the cookie."""
    assert client.get("/ui-capability").status_code == 204
    return {"x-chatnb-ui": "1", "origin": str(client.base_url).rstrip("/")}


class TestRoutes:
    """Only the declared verb and path answer."""

    def test_post(self, client: httpx.Client) -> None:
        """The default is POST /actions/<name>; the answer has the result and the hash, and is not kept."""
        answer = client.post("/actions/sales", json={"region": "EU", "year": 2025})
        assert answer.json() == {
            "result": "EU 2025",
            "callHash": "638c78845158355aff306cbec5afb3e7947c771768876dabc6031610675b5b5b",
        }
        assert answer.headers["cache-control"] == "no-store"

    def test_other_verb(self, client: httpx.Client) -> None:
        """Another verb is 405 with Allow."""
        answer = client.get("/actions/sales")
        assert code_of(answer) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "POST"
        assert client.post("/actions/look", json={}).headers["allow"] == "GET"

    def test_hidden_and_unknown(self, client: httpx.Client) -> None:
        """What the site does not show is 404 `unknown_action`."""
        for name in ("hidden", "nothing"):
            assert code_of(client.post(f"/actions/{name}", json={})) == (404, "unknown_action")

    def test_own_path(self, client: httpx.Client) -> None:
        """An action may name verb and path; the standard path is then not served."""
        assert client.put("/things", json={"text": "abc"}).json()["result"] == 3
        assert client.post("/actions/put_thing", json={"text": "abc"}).status_code == 404

    def test_query(self, client: httpx.Client) -> None:
        """C13 of actions.md: a GET takes the query; numbers and booleans are coerced, text stays text."""
        answer = client.get("/actions/look?limit=5&live=true&word=5&tags=a&tags=b")
        assert answer.json()["result"] == {"limit": 5, "live": True, "word": "5", "tags": ["a", "b"]}
        assert client.get("/actions/look?tags=a").json()["result"]["tags"] == ["a"]

    def test_context(self, client: httpx.Client) -> None:
        """The context names the site, the caller and the headers."""
        answer = client.post("/actions/who", json={}, headers={"x-mark": "m"})
        assert answer.json()["result"] == ["http", "ann", "m"]

    def test_images(self, client: httpx.Client) -> None:
        """11, `_agent_images`: over HTTP they stay in the JSON, as they were given; drawn ones become entries, once."""
        images = [{"data": PIXEL, "media_type": "image/png", "label": "dot"}, {"url": "https://x.example/a.png"}]
        result = client.post("/actions/picture", json={}).json()["result"]
        assert result == {"n": 1, "_agent_images": [*images, {"data": PIXEL, "mediaType": "image/png"}, 7]}
        drawn = client.post("/actions/drawn", json={}).json()["result"]
        assert (drawn["n"], drawn["plot"], len(drawn["_agent_images"])) == (1, "[image]", 1)
        assert drawn["_agent_images"][0]["media_type"] == "image/png"


class TestBodies:
    """What is no JSON object, or too large, is refused before anything runs."""

    @pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b'"text"', b"\xff", b'{"region": NaN}', b"[" * 100_000])
    def test_no_object(self, client: httpx.Client, body: bytes) -> None:
        """A body that is no JSON object is 400 `invalid_body`."""
        answer = client.post("/actions/sales", content=body, headers={"content-type": "application/json"})
        assert code_of(answer) == (400, "invalid_body")

    def test_other_content_type(self, client: httpx.Client) -> None:
        """A body that a page of another origin could send without asking is refused."""
        answer = client.post("/actions/sales", content=b"{}", headers={"content-type": "text/plain"})
        assert answer.status_code == 415

    def test_too_large(self, client: httpx.Client) -> None:
        """A body over the limit is 413, by its header or as it is counted."""
        assert code_of(client.put("/things", json={"text": "x" * 60})) == (413, "body_too_large")

        def pieces() -> Iterator[bytes]:
            yield b'{"text": "'
            for _ in range(10):
                yield b"x" * 10
            yield b'"}'

        answer = client.put("/things", content=pieces(), headers={"content-type": "application/json"})
        assert code_of(answer) == (413, "body_too_large")

    def test_invalid_arguments(self, client: httpx.Client) -> None:
        """C1 of actions.md: a missing argument is named, nothing runs."""
        answer = client.post("/actions/sales", json={})
        assert code_of(answer) == (400, "invalid_arguments")
        assert "region" in answer.json()["error"]
        assert ran == []


class TestErrors:
    """Errors have one form; a plain exception's text stays in the log."""

    def test_declared_code(self, client: httpx.Client) -> None:
        """C31 of actions.md: a declared code with 404 gives 404, that code, effect none."""
        answer = client.post("/actions/find", json={"id": "7"})
        assert answer.status_code == 404
        body = answer.json()
        assert (body["errorCode"], body["effect"], body["details"]) == ("not_found", "none", {"id": "7"})

    def test_plain_exception(self, client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
        """C32 of actions.md: 500 with a fixed text; the log has the secret."""
        with caplog.at_level(logging.ERROR):
            answer = client.post("/actions/leak", json={})
        assert code_of(answer) == (500, "action_failed")
        assert "hunter2" not in answer.text
        assert answer.json()["effect"] == "committed"
        assert "hunter2" in caplog.text

    def test_guard(self, address: str) -> None:
        """A guard that denies is 403 `forbidden`."""
        with client_of(address, "ann") as ann, client_of(address, "bob") as bob:
            assert ann.post("/actions/guarded", json={}).status_code == 200
            assert code_of(bob.post("/actions/guarded", json={})) == (403, "forbidden")

    def test_nobody(self, address: str) -> None:
        """Where there is authentication, who is not known is 401 `unauthenticated`."""
        with client_of(address, None) as nobody:
            for answer in (nobody.post("/actions/sales", json={"region": "EU"}), nobody.get("/ui-capability")):
                assert code_of(answer) == (401, "unauthenticated")


class TestProof:
    """A gated or `ui_only` call runs only with proof that a person clicks (11.1)."""

    def test_without_header(self, client: httpx.Client) -> None:
        """C23 of actions.md: 409 `approval_required` with the hash; a `ui_only` action is 403 `ui_only_action`."""
        answer = client.post("/actions/refund", json={"order": "7", "amount": 250.0})
        assert code_of(answer) == (409, "approval_required")
        assert answer.json()["callHash"] == "26757a05306a1ba48578c3df2572809c2b8acf3d674235ac0c8e081dd1cf6841"
        assert code_of(client.post("/actions/wipe", json={})) == (403, "ui_only_action")
        assert client.post("/actions/refund", json={"order": "7", "amount": 5}).json()["result"] == "refunded"
        assert ran == [("7", 5.0)]

    def test_header_without_cookie(self, client: httpx.Client) -> None:
        """C23 of actions.md: the header without a valid cookie is 403 `ui_capability_required`."""
        headers = {"x-chatnb-ui": "1", "origin": str(client.base_url).rstrip("/")}
        for name, args in (("refund", {"order": "7", "amount": 250}), ("wipe", {})):
            answer = client.post(f"/actions/{name}", json=args, headers=headers)
            assert code_of(answer) == (403, "ui_capability_required")

    def test_proven(self, client: httpx.Client) -> None:
        """C24 of actions.md: a proven request runs at the first try, without a prompt."""
        headers = proven(client)
        assert client.post("/actions/wipe", json={}, headers=headers).json()["result"] == "gone"
        args = {"order": "7", "amount": 250}
        assert client.post("/actions/refund", json=args, headers=headers).json()["result"] == "refunded"

    def test_other_identity(self, address: str, client: httpx.Client) -> None:
        """C24 of actions.md: the same cookie under another identity is 403."""
        headers = proven(client)
        with client_of(address, "bob") as bob:
            bob.cookies = client.cookies
            answer = bob.post("/actions/wipe", json={}, headers=headers)
        assert code_of(answer) == (403, "ui_capability_required")

    def test_origin(self, client: httpx.Client) -> None:
        """Without the same origin there is no proof; another origin is refused at the border."""
        headers = proven(client)
        missing = client.post("/actions/wipe", json={}, headers={"x-chatnb-ui": "1"})
        assert code_of(missing) == (403, "ui_capability_required")
        foreign = client.post("/actions/wipe", json={}, headers={**headers, "origin": "http://evil.example"})
        assert foreign.status_code == 403
        assert ran == []

    def test_service(self, address: str) -> None:
        """A service never approves: no cookie, and 409 whatever it sends."""
        with client_of(address, "robot") as robot:
            assert robot.get("/ui-capability").status_code == 403
            headers = {"x-chatnb-ui": "1", "origin": str(robot.base_url).rstrip("/")}
            answer = robot.post("/actions/refund", json={"order": "7", "amount": 250}, headers=headers)
            assert code_of(answer) == (409, "approval_required")
            assert code_of(robot.post("/actions/wipe", json={}, headers=headers)) == (403, "ui_only_action")

    def test_cookie(self, client: httpx.Client) -> None:
        """The cookie is HttpOnly, SameSite=Strict, for /actions and 10 minutes; other verbs are 405."""
        cookie = client.get("/ui-capability").headers["set-cookie"].lower()
        for wanted in ("httponly", "samesite=strict", "path=/actions", "max-age=600"):
            assert wanted in cookie
        assert client.post("/ui-capability").status_code == 405

    def test_forged_and_old(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A cookie with another secret, another identity, or older than 10 minutes is none."""
        proof, other = Proof(b"a"), Proof(b"b")
        token = proof._token("ann", int(time.time()) + 600)
        assert proof._is_valid(token, "ann")
        assert not other._is_valid(token, "ann")
        assert not proof._is_valid(token, "bob")
        assert not proof._is_valid("9" * 11 + token[10:], "ann")
        later = time.time() + 601
        monkeypatch.setattr(time, "time", lambda: later)
        assert not proof._is_valid(token, "ann")

    def test_predicate_that_raises(self, client: httpx.Client) -> None:
        """C2 of actions.md: a predicate that raises asks; the handler does not run."""
        assert code_of(client.post("/actions/broken_gate", json={})) == (409, "approval_required")
        assert ran == []


class TestBorder:
    """Pages of other origins and names that point here stay out."""

    def test_known_origin(self) -> None:
        """A listed origin may call, and is told so."""
        agent = Agent(ScriptedModel([]), actions=[sales])
        with serving(agent, origins=["http://front.example"]) as address, client_of(address) as client:
            headers = {"origin": "http://front.example"}
            preflight = client.options("/api/chat", headers=headers)
            assert preflight.headers["access-control-allow-origin"] == "http://front.example"
            answer = client.post("/actions/sales", json={"region": "EU"}, headers=headers)
            assert answer.headers["access-control-allow-origin"] == "http://front.example"
            assert client.post("/actions/sales", json={}, headers={"origin": "http://x.example"}).status_code == 403

    def test_no_host_no_origin(self) -> None:
        """A host or an origin that is none is refused, never a 500."""
        with serving(Agent(ScriptedModel([]), actions=ACTIONS), authenticate=by_key) as at, client_of(at) as client:
            for broken in ("http://[::1", "null", "http://x:99999999"):
                headers = {"host": broken.removeprefix("http://"), "origin": broken, "x-chatnb-ui": "1"}
                assert client.post("/actions/refund", json={}, headers=headers).status_code in (400, 403)
                assert client.get("/ui-capability", headers=headers).status_code == 204
                assert client.get("/nothing", headers=headers).status_code == 404

    def test_host(self) -> None:
        """With `hosts`, a request under another name is refused."""
        agent = Agent(ScriptedModel([]), actions=[sales])
        with serving(agent, hosts=["127.0.0.1"]) as address, client_of(address) as client:
            assert client.get("/openapi.json").status_code == 200
            assert client.get("/openapi.json", headers={"host": "evil.example"}).status_code == 421


class TestIdentity:
    """Without authentication, who works here calls."""

    def test_configured(self) -> None:
        """`Agent(identity=)` is who calls."""
        agent = Agent(ScriptedModel([]), actions=[who], identity=Identity("eve"))
        with serving(agent) as address, client_of(address) as client:
            assert client.post("/actions/who", json={}).json()["result"][1] == "eve"


class TestChanges:
    """C42 of actions.md: a write over HTTP gives one Change; a read, a failure none."""

    def test_one_change(self) -> None:
        seen: list[Any] = []
        agent = Agent(ScriptedModel([]), actions=[sales, look, leak])
        agent.on_change(seen.append)
        with serving(agent) as address, client_of(address) as client:
            client.post("/actions/sales", json={"region": "EU"})
            client.get("/actions/look")
            client.post("/actions/leak", json={})
            deadline = time.monotonic() + 5
            while not seen and time.monotonic() < deadline:
                client.get("/actions/look")
        assert [(c.action, c.site) for c in seen] == [("sales", "http")]
