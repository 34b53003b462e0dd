"""Servers, browser and pages for the browser tests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, Route, sync_playwright

from tests.browser.jupyter_server import App, JupyterServer
from tests.browser.notebook_page import NotebookPage, write_notebook
from tests.browser.served_page import ServedHost, ServedPage

OpenNotebook = Callable[..., NotebookPage]
NAMES_ON_PATH = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO_GET_ONE = "No Chromium was found: run `python -m playwright install chromium`, or put one on PATH."
# Uncaught errors of the applications themselves, by a text and a place that must both be in the error's trace.
OF_THE_HOST = [
    ("reading 'schema'", "/static/notebook/"),  # Notebook 7.6, while it loads its settings
    # A kernel that ends while the application waits for a subshell for some widget; this error has no trace.
    ("Canceled future for create_subshell_request", ""),
]

_failed = pytest.StashKey[bool]()


# The page of `chatnb serve` shows the same panel: what is the panel's own passes there too (issue 8).
everywhere = pytest.mark.parametrize("server", ["lab", "notebook", "served"], indirect=True)
in_lab_and_served = pytest.mark.parametrize("server", ["lab", "served"], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call":  # type: ignore[attr-defined]
        item.stash[_failed] = report.failed  # type: ignore[attr-defined]
    return report  # type: ignore[return-value]


def find_chromium(playwright: Playwright) -> str | None:
    """Chromium's program: on PATH, else the one that Playwright installed."""
    for name in NAMES_ON_PATH:
        if found := shutil.which(name):
            return found
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = find_chromium(playwright)
        if program is None:
            if os.environ.get("CHATNB_REQUIRE_BROWSER") == "1":
                pytest.fail(HOW_TO_GET_ONE)
            pytest.skip(HOW_TO_GET_ONE)
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[App], JupyterServer]]:
    """Starts each application once, when a test first asks for it."""
    started: dict[App, JupyterServer] = {}

    def get(app: App) -> JupyterServer:
        if app not in started:
            server = JupyterServer(app, tmp_path_factory.mktemp(app))
            server.start()
            started[app] = server
        return started[app]

    yield get
    for server in started.values():
        server.stop()


@pytest.fixture(params=["lab", "notebook"])
def server(
    request: pytest.FixtureRequest,
    servers: Callable[[App], JupyterServer],
    browser: Browser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> JupyterServer | ServedHost:
    """JupyterLab and Notebook in turn, and for tests that say so the served page.

    The browser is asked for first: without one no server need be started.
    """
    if request.param == "served":
        monkeypatch.setenv("CHATNB_STORE", str(tmp_path / "chats.db"))
        monkeypatch.setenv("CHATNB_IDENTITY", "ann")
        return ServedHost(tmp_path)
    return servers(request.param)


@pytest.fixture
def outside_requests() -> list[str]:
    """The addresses beyond this machine that a page asked for. The test fails if there is one at its end."""
    return []


@pytest.fixture
def page_errors() -> list[str]:
    """The uncaught errors of all pages. The test fails if there is one at its end."""
    return []


@pytest.fixture
def context(browser: Browser, outside_requests: list[str]) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, locale="en-US")
    context.set_default_timeout(20_000)

    def refuse_the_outside(route: Route) -> None:
        if urlsplit(route.request.url).hostname in ("127.0.0.1", "localhost", None):
            route.continue_()
        else:
            outside_requests.append(route.request.url)
            route.abort()

    context.route(re.compile("^https?://"), refuse_the_outside)
    yield context
    context.close()


@pytest.fixture
def new_page(context: BrowserContext, page_errors: list[str]) -> Callable[[], Page]:
    """Makes pages whose uncaught errors are collected."""

    def collect(error: Error) -> None:
        trace = error.stack or str(error)
        if not any(text in trace and place in trace for text, place in OF_THE_HOST):
            page_errors.append(trace)

    def make() -> Page:
        page = context.new_page()
        page.on("pageerror", collect)
        return page

    return make


@pytest.fixture
def open_notebook(
    request: pytest.FixtureRequest,
    server: JupyterServer | ServedHost,
    new_page: Callable[[], Page],
    page_errors: list[str],
    outside_requests: list[str],
) -> Iterator[OpenNotebook]:
    """Makes a notebook of cells in a folder of the test's own, or takes a file, and opens it."""
    name_of_test = re.sub(r"\W+", "-", f"{request.node.parent.name}-{request.node.name}").strip("-")
    opened: list[NotebookPage] = []

    def make(cells: Sequence[str] | Path, folder: str = name_of_test) -> NotebookPage:
        path = server.files / folder / "notebook.ipynb"
        if isinstance(server, ServedHost):
            assert not isinstance(cells, Path)
            opened.append(ServedPage(new_page, server, path, list(cells)).open())
            return opened[-1]
        if isinstance(cells, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(cells, path)
        else:
            write_notebook(path, cells)
        opened.append(NotebookPage(new_page(), server, path).open())
        return opened[-1]

    yield make
    if request.node.stash.get(_failed, False):
        for number, notebook in enumerate(opened):
            notebook.shot(f"failed-{name_of_test}-{number}")
    for notebook in opened:
        notebook.shut_down()
    assert page_errors == []
    assert outside_requests == []
