"""The served page of `chatnb serve`: the notebook's panel over HTTP (issue 8; journey C, step 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from chatnb import Agent, Identity, action
from chatnb.models import Reply, ScriptedModel
from tests.browser.notebook_page import Panel
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
