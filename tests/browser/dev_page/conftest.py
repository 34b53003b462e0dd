"""The built panel with a kernel of paper, served on 127.0.0.1."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.dev_page.look import STATIC, serve

Show = Callable[..., Page]


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    if not (STATIC / "widget.js").exists():
        pytest.skip("The front end is not built: run `npm ci && npm run build` in widgets/.")
    server = serve(0)
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="package")
def page_context(browser: Browser) -> Iterator[BrowserContext]:
    """One context for all tests of the page: what it has cached is not fetched again."""
    context = browser.new_context(locale="en-US")
    context.set_default_timeout(15_000)
    yield context
    context.close()


@pytest.fixture
def show(page_context: BrowserContext, address: str) -> Iterator[Show]:
    """Opens a scenario; an uncaught error of the page fails the test."""
    errors: list[str] = []
    pages: list[Page] = []

    def open_page(
        scenario: str, *, width: int = 900, document: str = "index.html", draft: str = "", **query: str
    ) -> Page:
        page = page_context.new_page()
        page.set_viewport_size({"width": width, "height": 620})
        if draft:  # of an earlier page of this tab
            page.add_init_script(f"sessionStorage.setItem('chatnb.draft.demo', {json.dumps(draft)})")
        pages.append(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        rest = "".join(f"&{key}={value}" for key, value in query.items())
        page.goto(f"{address}/{document}?scenario={scenario}{rest}")
        reached = "connecting" if query.get("silent") else "live|gone|readonly"
        expect(page.locator(".chatnb-view")).to_have_attribute("data-connection", re.compile(reached))
        return page

    yield open_page
    for page in pages:
        page.close()
    assert errors == []


def commands(page: Page, kind: str) -> list[dict[str, Any]]:
    """What the page has sent, of one type."""
    found: list[dict[str, Any]] = page.evaluate("kind => window.kernel.commands.filter(c => c.type === kind)", kind)
    return found
