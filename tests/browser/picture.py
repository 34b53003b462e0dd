"""Takes the README's picture of the panel: `python -m tests.browser.picture` writes docs/panel.png."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.conftest import HOW_TO_GET_ONE, find_chromium
from tests.browser.jupyter_server import ROOT, JupyterServer
from tests.browser.notebook_page import NotebookPage


def main() -> None:
    """Opens the tour, asks one question, and takes the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        program = find_chromium(playwright)
        if program is None:
            sys.exit(HOW_TO_GET_ONE)
        server = JupyterServer("lab", Path(folder, "server"))
        server.start()
        try:
            shutil.copytree(ROOT / "notebooks", server.files / "tour")
            browser = playwright.chromium.launch(executable_path=program)
            page = browser.new_page(viewport={"width": 1150, "height": 1000}, device_scale_factor=1.5)
            notebook = NotebookPage(page, server, server.files / "tour" / "01_first_chat.ipynb").open()
            for index in (1, 3, 5):
                notebook.run_cell(index)
            panel = notebook.panel()
            panel.root.get_by_role("button", name="Show the sales").click()
            panel.wait_for_reply()
            panel.root.evaluate("node => { node.style.height = '700px'; }")
            page.mouse.move(0, 0)
            panel.root.scroll_into_view_if_needed()
            (ROOT / "docs").mkdir(exist_ok=True)
            panel.root.screenshot(path=ROOT / "docs" / "panel.png")
            browser.close()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
