"""The panel in marimo, for the cases that apply (spec/widget.md, section 8). Skipped where marimo is not installed."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from playwright.sync_api import Page, expect

from tests.browser.jupyter_server import ROOT
from tests.browser.notebook_page import Panel

pytestmark = pytest.mark.skipif(importlib.util.find_spec("marimo") is None, reason="marimo is not installed")

NOTEBOOK = '''
import marimo

app = marimo.App()


@app.cell
def _():
    from chatnb import Agent
    from chatnb.models import Reply, ScriptedModel

    def words(count):
        return " ".join(f"word{n}" for n in range(count))

    def lookup(region: str) -> dict:
        """Look up the sales of a region."""
        return {"region": region, "amount": 1250}

    steps = [Reply(words(60), delay=0.03), Reply(calls=[("lookup", {"region": "EU"})]), "There were 1250.",
             Reply(words(400), delay=0.05)]
    chat = Agent(ScriptedModel(steps), actions=[lookup]).chat("marimo")
    view = chat.view(height="420px", title="In marimo")
    view
    return


if __name__ == "__main__":
    app.run()
'''


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A marimo server of the test's own, on 127.0.0.1."""
    (tmp_path / "notebook.py").write_text(NOTEBOOK, "utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "run", "notebook.py", "--headless", "--no-token"]
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "HOME": str(tmp_path)},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    url, pause = f"http://127.0.0.1:{port}", Event()
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            break
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pause.wait(0.1)
    yield url
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


class TestMarimo:
    """Panel, commands and traits work; there is no transcript output."""

    def test_talks(self, address: str, new_page: Callable[[], Page], page_errors: list[str]) -> None:
        """A reply streams, a call has its card, Stop stops, and the talk is there once."""
        page = new_page()
        page.goto(address)
        root = page.locator(".chatnb-view")
        expect(root).to_have_attribute("data-connection", "live", timeout=40_000)
        panel = Panel(root)
        panel.send("Hello")
        expect(panel.stop_button).to_be_visible()
        assert len(set(panel.texts_while_streaming(wanted=3))) == 3
        expect(panel.wait_for_reply(1)).to_contain_text("word59")
        panel.send("Look it up")
        expect(panel.wait_for_reply(2)).to_contain_text("There were 1250.")
        expect(panel.cards).to_contain_text("Done")
        panel.send("Once more")
        expect(root.locator("article[data-role=assistant]")).to_have_count(3)
        panel.texts_while_streaming(wanted=3)
        panel.stop_button.click()
        panel.wait_for_status("ready")
        assert page.locator(".chatnb-transcript").count() == 0
        expect(panel.articles).to_have_count(6)
        assert page_errors == []
