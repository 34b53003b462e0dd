"""The served page as a place for the browser tests: the same cells, the same panel, without a notebook.

The cells run in this process. What `chat.view()` would draw is shown by pages of a live server instead, one for each
view, in the order of the cells.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from playwright.sync_api import Page, expect

from chatnb import Agent, Chat, Identity
from chatnb.kernel.host import current_host
from chatnb.runtime import get_runtime
from chatnb.sites.http import app
from tests.browser.notebook_page import NotebookPage, Panel
from tests.sites.http_server import running


class ServedHost:
    """Where served pages put their files; stands beside `JupyterServer`."""

    app = "served"

    def __init__(self, files: Path) -> None:
        self.files = files


class ServedPage(NotebookPage):
    """Cells and the pages that show their chats.

    Args:
        new_page: Makes a page of the browser.
        host: Has the files.
        path: Where a notebook would be; effects are written beside it.
        cells: The cells' code.
    """

    def __init__(self, new_page: Callable[[], Page], host: ServedHost, path: Path, cells: list[str]) -> None:
        self.path = path
        self._server = host  # type: ignore[assignment]
        self._new_page = new_page
        self._cells = cells
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._pages: list[Page] = []
        self._stack = ExitStack()
        self._address = ""

    @property
    def page(self) -> Page:  # type: ignore[override]
        """The first view's page."""
        return self._pages[0]

    def open(self) -> ServedPage:
        """Does nothing: the pages come with the views."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def run_all(self) -> None:
        """Runs all cells."""
        for index in range(len(self._cells)):
            self.run_cell(index)

    def run_cell(self, index: int, *, wait: bool = True) -> None:
        """Runs one cell, here and now."""

        def show(chat: Chat, *, client_tools: Any = (), **_options: Any) -> None:
            self._show(chat, client_tools)

        with patch.object(Chat, "view", show):
            exec(compile(self._cells[index], f"<cell {index}>", "exec"), self._names)
        if "effect" in self._names:
            self._names["effect"] = self._note

    def _note(self, **values: Any) -> None:
        with self.path.with_name("effects.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def _show(self, chat: Chat, client_tools: Any) -> None:
        if not self._address:
            self._address = self._serve(chat.agent, client_tools)
        page = self._new_page()
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(f"{self._address}/?chat={quote(chat.id)}")
        self._pages.append(page)

    def _serve(self, agent: Agent, client_tools: Any) -> str:
        runtime = get_runtime("auto", current_host())
        self._stack.callback(setattr, runtime.main, "goes_to_calls_thread", False)
        return self._stack.enter_context(running(app(agent, client_tools=client_tools, identity=Identity("ann"))))

    def panel(self, index: int = 0) -> Panel:
        """The panel of a view."""
        root = self._pages[index].locator(".chatnb-view")
        expect(root).to_have_attribute("data-connection", "live", timeout=20_000)
        return Panel(root)

    def reload(self) -> None:
        """Loads the pages anew; the server goes on."""
        for page in self._pages:
            page.reload()

    def save(self) -> None:
        """Does nothing: nothing of a served page is kept in a file."""

    def cell_sources(self) -> list[str]:
        """The cells."""
        return list(self._cells)

    def shot(self, name: str) -> None:
        """Saves a picture of the first page, if there is one."""
        if self._pages:
            super().shot(name)

    def shut_down(self) -> None:
        """Closes the pages and ends the server."""
        for page in self._pages:
            page.close()
        self._stack.close()
