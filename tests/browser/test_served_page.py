"""The served page of `chatnb serve`: the notebook's panel over HTTP (issue 8; journey C, step 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, expect

from chatnb import Agent, Identity, action
from chatnb.models import Reply, ScriptedModel
from tests.browser.conftest import OpenNotebook
from tests.browser.dev_page import hostile
from tests.browser.dev_page.test_hostile import AUDIT
from tests.browser.dev_page.test_panel import AXE, RULES
from tests.browser.notebook_page import EFFECT, Panel
from tests.browser.test_panel_live import answered, button
from tests.sites.http_server import Client, running

ran: list[Any] = []


@action(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    ran.append((order, amount))
    return "refunded"


@pytest.fixture
def served(browser: Any) -> Iterator[tuple[str, Agent]]:
    from chatnb.sites.http import app

    ran.clear()
    model = ScriptedModel(["Hello **there**.", Reply(calls=[("refund", {"order": "7", "amount": 250.0})]), "Refunded."])
    agent = Agent(model, name="desk", actions=[refund], identity=Identity("ann"))
    with running(app(agent)) as address:
        yield address, agent


@pytest.fixture
def panel(served: tuple[str, Agent], new_page: Callable[[], Page], page_errors: list[str]) -> Iterator[Panel]:
    address, _ = served
    page = new_page()
    page.goto(address)
    yield Panel(page.locator(".chatnb-view"))
    assert page_errors == []


def say(panel: Panel, text: str) -> None:
    panel.box.fill(text)
    panel.send_button.click()


class TestServedPage:
    """The same panel as in the notebook, without a notebook."""

    def test_talk_approve_reload(self, panel: Panel, served: tuple[str, Agent], context: BrowserContext) -> None:
        """A colleague talks, approves with one click, and finds everything after a reload."""
        page = panel.root.page
        expect(page).to_have_title("desk")
        say(panel, "hi")
        expect(panel.root).to_contain_text("Hello there.")
        expect(panel.root.locator("strong")).to_have_text("there")
        say(panel, "refund it")
        approve = panel.root.get_by_role("button", name=re.compile("Approve"))
        expect(approve).to_be_visible()
        assert ran == []
        page.reload()
        expect(approve).to_be_visible()
        # The card takes a decision once it has been in view long enough to be read.
        page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 400))")
        approve.click()
        expect(panel.root).to_contain_text("Refunded.")
        assert ran == [("7", 250.0)]
        address, _ = served
        chat_id = re.search(r"chat=([^&]+)", page.url)
        assert chat_id is not None
        with Client(base_url=address) as client:
            assert len(client.messages(chat_id.group(1))) == 4

    def test_two_pages(self, panel: Panel, new_page: Callable[[], Page]) -> None:
        """Two pages of one chat show the same."""
        say(panel, "hi")
        expect(panel.root).to_contain_text("Hello there.")
        second = new_page()
        second.goto(panel.root.page.url)
        expect(second.locator(".chatnb-view")).to_contain_text("Hello there.")

    def test_no_decision_without_proof(self, panel: Panel, served: tuple[str, Agent]) -> None:
        """A decision without the page's cookie is refused, and a session belongs to its page."""
        say(panel, "hi")
        expect(panel.root).to_contain_text("Hello there.")
        address, _ = served
        with Client(base_url=address) as client:
            url = "/actions/-/panel/commands?chat=x&session=" + "0" * 32
            assert client.post(url, json={"content": {}}).status_code == 404
            assert client.get("/actions/-/panel/frames?chat=x&session=1").status_code == 400


@pytest.mark.parametrize("server", ["served"], indirect=True)
class TestTheRest:
    """What the tests of the notebook's panel try beside variables and cells, which a page has none of."""

    def test_tools_files_actions_exports(self, open_notebook: OpenNotebook, tmp_path: Path) -> None:
        """5.1, 5.2 and 5.5 of widget.md: scripts and forms, attachments, "Run an action", exports."""
        served = open_notebook(
            [
                EFFECT,
                '''
from chatnb import Agent, ClientTool, action
from chatnb.models import Reply, ScriptedModel

@action(title="Refund an order", needs_approval=True)
def refund(order: str, amount: float = 5.0) -> dict:
    """Refund an order."""
    effect(refund=order, amount=amount)
    return {"paid": amount}

numbers = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
person = {"type": "object", "required": ["first"], "properties": {"first": {"type": "string"}}}
tools = [
    ClientTool(name="add", description="Adds in the page", parameters=numbers,
               js="export default async ({a, b}) => ({sum: a + b, inPage: typeof document === 'object'})"),
    ClientTool(name="who", description="Asks", parameters={"type": "object", "properties": {}}, form=person),
]
model = ScriptedModel([
    Reply(calls=[("add", {"a": 2, "b": 3})]), "The page says five.",
    Reply(calls=[("who", {})]), "Hello Ada.", "Two files.",
])
chat = Agent(model, actions=[refund], name="probe").chat("input")
chat.view(client_tools=tools)
''',
            ]
        )
        served.run_all()
        panel = served.panel()
        panel.send("Add")
        answered(panel, "five.")
        panel.send("Who?")
        card = panel.cards.last
        button(card, "Submit").click()
        expect(card).to_contain_text("This is needed.")
        card.get_by_label("first").fill("Ada")
        button(card, "Submit").click()
        answered(panel, "Hello Ada.")
        panel.root.locator("input[type=file]").set_input_files(
            [
                FilePayload(name="a.csv", mimeType="text/csv", buffer=b"x,y\n1,2\n"),
                FilePayload(name="b.md", mimeType="text/markdown", buffer=b"# b" * 10_000),
            ]
        )
        panel.send("Read these")
        answered(panel, "Two files.")
        expect(panel.message("user")).to_contain_text("a.csv")
        button(panel.root, "More").click()
        panel.root.get_by_role("menuitem", name="Run an action").click()
        panel.root.get_by_role("combobox", name="Run an action").select_option("refund")
        panel.root.get_by_label("order").fill("77")
        button(panel.root, "Run").click()
        served.wait_for_effect(lambda effect: effect.get("refund") == "77")
        expect(panel.cards.last).to_contain_text("Done")
        button(panel.root, "More").click()
        with served.page.expect_download() as download:
            panel.root.get_by_role("menuitem", name="Export as Markdown").click()
        file = tmp_path / "talk.md"
        download.value.save_as(file)
        assert "Hello Ada." in file.read_text("utf-8")

    def test_hostile_texts_and_axe(self, open_notebook: OpenNotebook, outside_requests: list[str]) -> None:
        """C22 and C29 of widget.md: what others write does not act, and axe-core finds nothing."""
        served = open_notebook(
            [
                """
from chatnb import Agent, action
from chatnb.models import Reply, ScriptedModel
from tests.browser.dev_page import hostile

@action
def fail(names: list[str]) -> str:
    '''Fail.'''
    raise RuntimeError(" ".join(names))

text = "\\n\\n".join(hostile.MARKDOWN + [f"${tex}$" for tex in hostile.TEX])
ask = Reply(calls=[("fail", {"names": hostile.NAMES})])
chat = Agent(ScriptedModel([ask, text]), actions=[fail]).chat("hostile")
chat.view()
"""
            ]
        )
        served.run_all()
        panel, page = served.panel(), served.page
        panel.send("\n\n".join([*hostile.HTML, *hostile.NAMES]))
        answered(panel, "safe")
        expect(panel.cards.first).to_contain_text("RuntimeError")
        page.wait_for_timeout(300)
        assert page.evaluate("window.ran") is None
        assert page.evaluate(AUDIT) == []
        assert page.evaluate("document.querySelectorAll('iframe, object, embed, script:not([src])').length") == 0
        assert [address for address in outside_requests if "evil" in address] == []
        if AXE.exists():
            page.evaluate(AXE.read_text("utf-8"))
            result = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
            assert [(item["id"], item["nodes"][0]["html"]) for item in result["violations"]] == []
