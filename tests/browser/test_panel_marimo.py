"""The panel in marimo, for the cases that apply (spec/widget.md, section 8): panel, commands, traits, its export."""

from __future__ import annotations

import json
import mimetypes
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.jupyter_server import ROOT
from tests.browser.notebook_page import Panel
from tests.browser.test_approvals import button
from tests.browser.test_cases_drawn import FINISHED, FORMULAS, KINDS, UNFINISHED, watch_growing
from tests.browser.test_cases_live import SEND

STATIC = Path(find_spec("marimo").origin).parent / "_static"  # type: ignore[union-attr, arg-type]
NOTEBOOK = '''
import marimo

app = marimo.App()


@app.cell
def _():
    import json
    from chatnb import Agent, action
    from chatnb.models import Reply, ScriptedModel

    def words(count):
        return " ".join(f"word{n}" for n in range(count))

    def lookup(region: str) -> dict:
        """Look up the sales of a region."""
        return {"region": region, "amount": 1250}

    @action(needs_approval=True)
    def refund(order: str) -> str:
        """Refund an order."""
        return "paid"

    steps = [Reply(words(60), delay=0.03), Reply(calls=[("lookup", {"region": "EU"})]), "There were 1250.",
             Reply(words(400), delay=0.05), Reply(calls=[("refund", {"order": "7"})]), "Paid back."]
    chat = Agent(ScriptedModel(steps), actions=[lookup, refund]).chat("marimo")
    view = chat.view(height="420px", title="In marimo")

    def note(change):
        with open("traits.jsonl", "a") as file:
            file.write(json.dumps([change.name, change.new]) + "\\n")
        view.placeholder = f"{len(view.messages)} messages"

    view.observe(note, ["status", "is_streaming"])
    view
    return


if __name__ == "__main__":
    app.run()
'''
CASES = f"""
import marimo

app = marimo.App()


@app.cell
def _():
    import asyncio
    from chatnb import Agent
    from chatnb.models import Reply, ScriptedModel

    async def slowly(request):
        await asyncio.sleep(1)
        return Reply(" ".join(f"word{{n}}" for n in range(60)), delay=0.01)

    steps = [slowly, "![a chart](https://images.invalid/x.png) and https://images.invalid/y.png"]
    steps += [Reply(text, chunk_size=1, delay=0.04) for text in {[*UNFINISHED, *FINISHED]!r}]
    parts = [{{"type": "text", "text": text}} for text in {FORMULAS!r}]
    chat = Agent(ScriptedModel(steps)).chat("cases")
    chat.set_messages([{{"id": "m", "role": "assistant", "parts": parts}}])
    chat.view(height="420px")
    return Agent, ScriptedModel, chat


@app.cell
def _(chat):
    chat.view(height="300px", title="The same")
    return


@app.cell
def _(Agent, ScriptedModel):
    def fail(request):
        raise ConnectionError("no line")

    failing = Agent(ScriptedModel([fail, "Now it works."])).chat("fails")
    view = failing.view(height="300px")
    tried = []
    for function in (lambda: view.messages.append("x"), lambda: setattr(view, "status", "x")):
        try:
            function()
        except Exception as error:
            tried.append(f"{{type(error).__name__}}: {{error}}")
    view.title = " and ".join(tried)
    view
    return


if __name__ == "__main__":
    app.run()
"""
TO_EXPORT = """
import marimo

app = marimo.App()


@app.cell
def _():
    from chatnb import Agent
    from chatnb.models import ScriptedModel

    chat = Agent(ScriptedModel(["Kept **words** of a reply.", "And more."])).chat("export")
    chat.send("A question to keep").result()
    chat
    return (chat,)


@app.cell
def _(chat):
    chat.send("Another, after it was shown").result().status
    return


if __name__ == "__main__":
    app.run()
"""


def marimo(folder: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """A command of marimo, and an environment in which nothing of the user's configuration counts."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    return [sys.executable, "-m", "marimo", *arguments], {**os.environ, "PYTHONPATH": path, "HOME": str(folder)}


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A marimo server of the test's own, on 127.0.0.1; its notebook may be given as parameter."""
    (tmp_path / "notebook.py").write_text(getattr(request, "param", NOTEBOOK), "utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ("run", "notebook.py", "--headless", "--no-token", "--host", "127.0.0.1", "--port", str(port))
    command, environment = marimo(tmp_path, *arguments)
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
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
    """Panel, commands and traits work; there is no transcript output; the export shows the snapshot."""

    def test_talks(self, address: str, tmp_path: Path, new_page: Callable[[], Page], page_errors: list[str]) -> None:
        """A reply streams, a call has its card, Stop stops, Approve runs it, traits are observed; no transcript."""
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
        panel.send("Refund order 7")
        approve = root.get_by_role("group", name="Approval needed: refund").get_by_role("button", name="Approve")
        expect(approve).to_be_enabled()
        page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 400))")
        approve.click()
        expect(panel.message("assistant")).to_contain_text("Paid back.")
        panel.wait_for_status("ready")
        expect(panel.articles).to_have_count(8)
        expect(panel.box).to_have_attribute("placeholder", "8 messages")
        assert page.locator(".chatnb-transcript").count() == 0
        told = [json.loads(line) for line in (tmp_path / "traits.jsonl").read_text("utf-8").splitlines()]
        assert told[:2] == [["status", "submitted"], ["status", "streaming"]]
        assert [value for name, value in told if name == "status"][-1] == "ready"
        assert ["is_streaming", True] in told
        assert page_errors == []

    @pytest.mark.parametrize("address", [CASES], indirect=True)
    def test_cases(
        self, address: str, new_page: Callable[[], Page], page_errors: list[str], outside_requests: list[str]
    ) -> None:
        """C1, C7, C20 to C22, C27, C28, C33, C38 and C39 of widget.md; what is of frames is no host's own."""
        page = new_page()
        page.goto(address)
        views = page.locator(".chatnb-view")
        expect(views).to_have_count(3, timeout=40_000)
        for index in range(3):
            expect(views.nth(index)).to_have_attribute("data-connection", "live", timeout=40_000)
        panel, same, failing = (Panel(views.nth(index)) for index in range(3))

        blocks = panel.message("assistant").locator(".cn-md")  # C21
        expect(blocks.nth(1).locator("math")).to_have_count(1)
        assert blocks.evaluate_all(KINDS) == ["text", "math", "math", "block", "block", "code"]

        panel.box.fill("Count")  # C27
        for extra in ({"isComposing": True}, {"keyCode": 229}):
            panel.box.evaluate(
                "(e, extra) => e.dispatchEvent(new KeyboardEvent('keydown',"
                " {key: 'Enter', bubbles: true, cancelable: true, ...extra}))",
                extra,
            )
        expect(panel.box).to_have_value("Count")
        assert panel.root.evaluate(SEND) < 100  # C7
        expect(panel.root.locator(".cn-dots")).to_be_visible()  # C39
        expect(panel.root).to_have_attribute("data-status", "submitted")
        expect(panel.wait_for_reply(2)).to_contain_text("word59")
        expect(panel.root.locator(".cn-dots")).to_have_count(0)
        told = page.evaluate("window.told")  # C28
        assert len(told) <= 3
        assert told[-1].startswith("Reply finished. word0 word1")

        panel.send("A picture")  # C22
        expect(button(panel.root, "Load image from images.invalid: a chart")).to_be_visible()
        assert panel.root.locator("img").count() == 0
        watch_growing(panel, 3)  # C20
        expect(same.articles).to_have_count(panel.articles.count())  # C1
        assert same.log.inner_text() == panel.log.inner_text()

        expect(failing.root).to_contain_text("set_messages")  # C33
        expect(failing.root).to_contain_text("TraitError")
        failing.send("Try")  # C38
        button(failing.root, "Retry").click()
        expect(failing.message("assistant")).to_contain_text("Now it works.")
        expect(failing.articles).to_have_count(2)
        assert page_errors == []
        assert [asked for asked in outside_requests if "images.invalid" in asked] == []

    def test_export(
        self, tmp_path: Path, context: BrowserContext, new_page: Callable[[], Page], outside_requests: list[str]
    ) -> None:
        """Its export shows the snapshot, also of what was said after the chat was shown, to be read and no more."""
        (tmp_path / "talk.py").write_text(TO_EXPORT, "utf-8")
        command, environment = marimo(tmp_path, "export", "html", "talk.py", "-o", "talk.html")
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-2000:]

        def from_the_installed(route: Route) -> None:
            # An export of marimo takes its own front end from the net; here from where it is installed.
            file = STATIC / urlsplit(route.request.url).path.partition("/dist/")[2]
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            if file.is_file():
                route.fulfill(body=file.read_bytes(), content_type=kind, headers={"Access-Control-Allow-Origin": "*"})
            else:
                route.abort()

        context.route("https://cdn.jsdelivr.net/npm/@marimo-team/**", from_the_installed)
        page = new_page()
        page.goto((tmp_path / "talk.html").as_uri())
        root = page.locator(".chatnb-view")
        expect(root).to_contain_text("Kept words of a reply.", timeout=40_000)
        expect(root).to_contain_text("Another, after it was shown")
        expect(root).to_contain_text("And more.")
        expect(root).to_have_attribute("data-connection", "readonly")
        expect(root.get_by_role("button", name="Send", exact=True)).to_be_disabled()
