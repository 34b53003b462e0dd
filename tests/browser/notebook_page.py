"""A notebook that is open in the browser, driven as a person would and through the application's own commands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator, Page, expect

from tests.browser.jupyter_server import JupyterServer

SHOTS = Path(__file__).with_name("shots")
KERNEL_MILLISECONDS = 60_000
CELL_MILLISECONDS = 60_000
# What a cell calls to leave a mark that the test can read: outputs are drawn anew by the page, a file is not.
EFFECT = """
import json as _json
def effect(**values):
    with open("effects.jsonl", "a", encoding="utf-8") as file:
        file.write(_json.dumps(values) + "\\n")
"""
_CURRENT = "window.jupyterapp.shell.currentWidget"
_FAILED = "cell => cell.model.outputs?.toJSON().some(output => output.output_type === 'error')"


class NotebookPage:
    """One notebook in one page.

    Args:
        page: A fresh page of the browser.
        server: The server that has the notebook.
        path: The notebook's file, below the server's folder.
    """

    def __init__(self, page: Page, server: JupyterServer, path: Path) -> None:
        self.page, self.path = page, path
        self._server = server
        page.on("dialog", lambda dialog: dialog.accept())  # "leave this page?"

    # --- the notebook ---

    def open(self) -> NotebookPage:
        """Opens the notebook and waits for its kernel."""
        relative = self.path.relative_to(self._server.files).as_posix()
        place = f"/lab/tree/{relative}?reset" if self._server.app == "lab" else f"/notebooks/{relative}"
        self.page.goto(self._server.url + place)
        self._wait_for_kernel()
        return self

    def reload(self) -> None:
        """Reloads the page as it was last saved, and waits for the kernel, which went on meanwhile."""
        self.page.reload()
        self._wait_for_kernel(idle=False)

    def save(self) -> None:
        """Saves the notebook and waits until it is on disk."""
        self._command("docmanager:save")
        self.page.wait_for_function(f"() => !{_CURRENT}.context.model.dirty")

    def restart_kernel(self) -> None:
        """Restarts the kernel, as the menu does after its question, and waits until it is idle."""
        self.page.evaluate(f"async () => {{ await {_CURRENT}.sessionContext.session.kernel.restart(); return null; }}")
        self._wait_for_kernel()

    def interrupt_kernel(self) -> None:
        """Interrupts the kernel, as the stop button of the toolbar does."""
        self.page.evaluate(
            f"async () => {{ await {_CURRENT}.sessionContext.session.kernel.interrupt(); return null; }}"
        )

    def shut_down(self) -> None:
        """Ends the kernel and closes the page."""
        self.page.evaluate(f"async () => {{ await {_CURRENT}?.sessionContext?.shutdown(); return null; }}")
        self.page.close()

    def _wait_for_kernel(self, *, idle: bool = True) -> None:
        # Raised to the first cell of the notebook: Lab draws its shell long before the document is there.
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=KERNEL_MILLISECONDS)
        state = "kernel?.status === 'idle'" if idle else "kernel"
        self.page.wait_for_function(
            f"""() => {{
                const kernel = {_CURRENT}?.sessionContext?.session?.kernel;
                return kernel?.connectionStatus === 'connected' && {state};
            }}""",
            timeout=KERNEL_MILLISECONDS,
        )

    def change_theme(self, name: str) -> None:
        """Changes the application's theme and waits until it is drawn."""
        change = "await window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
        self.page.evaluate(f"async theme => {{ {change}; return null; }}", name)
        self.page.locator(f"body[data-jp-theme-name='{name}']").wait_for(state="attached")
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    # --- cells ---

    def run_all(self) -> None:
        """Runs all cells and waits until the last has ended.

        Raises:
            AssertionError: A cell failed.
        """
        self._command("notebook:run-all-cells")
        for index in range(self._count_of_cells()):
            self.wait_for_cell(index)

    def run_cell(self, index: int, *, wait: bool = True) -> None:
        """Runs the cell at an index, counted from 0.

        Raises:
            AssertionError: It was waited for, and failed.
        """
        self.page.evaluate(
            f"""index => {{
                const notebook = {_CURRENT}.content;
                notebook.deselectAll();
                notebook.activeCellIndex = index;
                const model = notebook.widgets[index].model;
                if (model.type === 'code') model.executionCount = null;
            }}""",
            index,
        )
        if wait:
            self._command("notebook:run-cell")
            self.wait_for_cell(index)
        else:  # the command itself ends with the cell
            self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell'); return null; }")

    def wait_for_cell(self, index: int, *, timeout: float = CELL_MILLISECONDS) -> None:
        """Waits until a cell has ended; Markdown cells have at once.

        Raises:
            AssertionError: A cell failed, this one or one before it.
        """
        self.page.wait_for_function(
            f"""index => {{
                const cells = {_CURRENT}.content.widgets;
                const cell = cells[index];
                if (cell.model.type !== 'code' || cells.some({_FAILED})) return true;
                const count = cell.model.executionCount;
                return count != null && !cell.node.querySelector('.jp-InputPrompt')?.textContent.includes('*');
            }}""",
            arg=index,
            timeout=timeout,
        )
        traceback = self.page.evaluate(
            f"""() => {_CURRENT}.content.widgets.slice(0, {index + 1}).filter({_FAILED})
                .flatMap(cell => cell.model.outputs.toJSON()).find(output => output.traceback)?.traceback.join("\\n")"""
        )
        assert traceback is None, re.sub(r"\x1b\[[\d;]*m", "", traceback)

    def cell(self, index: int) -> Locator:
        """The cell at an index, as the page shows it."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def cell_sources(self) -> list[str]:
        """The text of every cell, as the page holds it."""
        sources: list[str] = self.page.evaluate(
            f"() => {_CURRENT}.content.widgets.map(cell => cell.model.sharedModel.getSource())"
        )
        return sources

    def cell_states(self) -> list[list[object]]:
        """Kind, text and execution count of every cell: what no key in a panel may change."""
        states: list[list[object]] = self.page.evaluate(
            f"() => {_CURRENT}.content.widgets.map(cell => "
            "[cell.model.type, cell.model.sharedModel.getSource(), cell.model.executionCount])"
        )
        return states

    def command_mode(self) -> None:
        """Leaves the cells' text, so that a letter is a command of the application's."""
        self.page.evaluate(f"() => {{ {_CURRENT}.content.mode = 'command'; return null; }}")

    def set_cell(self, index: int, text: str) -> None:
        """Writes a cell anew."""
        cell = f"{_CURRENT}.content.widgets[index]"
        self.page.evaluate(
            f"([index, text]) => {{ {cell}.model.sharedModel.setSource(text); return null; }}", [index, text]
        )

    def clear_output(self, index: int) -> None:
        """Clears the output of a cell, as the menu does."""
        self.page.evaluate(
            f"index => {{ {_CURRENT}.content.widgets[index].model.clearExecution(); return null; }}", index
        )

    def index_of_cell(self, text: str) -> int:
        """The index of the first cell whose text begins a line with this."""
        return next(number for number, source in enumerate(self.cell_sources()) if f"\n{text}" in f"\n{source}")

    def cell_outputs(self, index: int) -> str:
        """The outputs of a cell as JSON text: to look for texts and types in."""
        outputs = self.page.evaluate(f"index => {_CURRENT}.content.widgets[index].model.outputs.toJSON()", index)
        return json.dumps(outputs)

    def wait_for_output(self, index: int, text: str) -> None:
        """Waits until an output of a cell, of whatever type, holds a text."""
        self.page.wait_for_function(
            f"""([index, text]) => {{
                const outputs = {_CURRENT}.content.widgets[index].model.outputs.toJSON();
                const data = outputs.flatMap(output => Object.values(output.data ?? {{}}));
                return data.some(value => String(value).includes(text));
            }}""",
            arg=[index, text],
        )

    def _count_of_cells(self) -> int:
        count: int = self.page.evaluate(f"() => {_CURRENT}.content.widgets.length")
        return count

    def _command(self, name: str) -> None:
        # The command's own value may be a live object, which can't leave the page.
        self.page.evaluate("async name => { await window.jupyterapp.commands.execute(name); return null; }", name)

    # --- the panel, by the roles of spec/widget.md, section 5 ---

    def panel(self, index: int = 0) -> Panel:
        """The panel at an index among those of the page, when it is connected."""
        root = self.page.locator(".chatnb-view").nth(index)
        expect(root).to_have_attribute("data-connection", "live", timeout=20_000)
        return Panel(root)

    def watch_for(self, text: str) -> Callable[[], None]:
        """Begins to watch the panels of the page for a text that may pass quickly.

        Returns:
            Waits until it has been there.
        """
        self.page.evaluate(
            """text => {
                const seen = window.seenTexts ??= new Set();
                const look = () => {
                    for (const view of document.querySelectorAll('.chatnb-view')) {
                        if (view.textContent.includes(text)) seen.add(text);
                    }
                };
                const all = {childList: true, characterData: true, subtree: true};
                new MutationObserver(look).observe(document.body, all);
            }""",
            text,
        )

        def wait() -> None:
            self.page.wait_for_function("text => window.seenTexts.has(text)", arg=text)

        return wait

    # --- effects and pictures ---

    def effects(self) -> list[dict[str, Any]]:
        """What the cells' `effect(...)` calls have left so far."""
        path = self.path.with_name("effects.jsonl")
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def wait_for_effect(self, wanted: Callable[[dict[str, Any]], bool], *, timeout: float = 30) -> dict[str, Any]:
        """Waits until an effect is there that meets a condition, and returns it."""
        for _ in range(int(timeout * 20)):
            for effect in self.effects():
                if wanted(effect):
                    return effect
            # Playwright's own wait: it lets the page's events through.
            self.page.wait_for_timeout(50)
        raise AssertionError(f"no such effect in {timeout} s; there are {self.effects()}")

    def shot(self, name: str) -> None:
        """Saves a picture of the page under `tests/browser/shots/`."""
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}-{self._server.app}.png")


class Panel:
    """A drawn chat panel, with the controls that a person finds by their roles and names."""

    def __init__(self, root: Locator) -> None:
        self.root = root
        self.box = root.get_by_role("textbox", name="Message", exact=True)
        self.send_button = root.get_by_role("button", name="Send", exact=True)
        self.stop_button = root.get_by_role("button", name="Stop", exact=True)
        self.log = root.get_by_role("log", name="Conversation")
        self.articles = root.get_by_role("article")
        self.cards = root.locator("[data-tool-call-id]")

    def send(self, text: str) -> None:
        """Types a text and presses Enter."""
        self.box.click()
        self.box.fill(text)
        self.box.press("Enter")

    def message(self, role: str, index: int = -1) -> Locator:
        """The message at an index among those of a role, by default the last."""
        of_role = self.root.locator(f"article[data-role='{role}']")
        return of_role.last if index == -1 else of_role.nth(index)

    def wait_for_status(self, status: str, *, timeout: float = 30_000) -> None:
        """Waits until the panel shows a status: ready, submitted, streaming or error."""
        expect(self.root).to_have_attribute("data-status", status, timeout=timeout)

    def wait_for_reply(self, number: int = 1) -> Locator:
        """Waits until there are so many messages of the assistant and the last is settled, and returns that one."""
        of_assistant = self.root.locator("article[data-role='assistant']")
        expect(of_assistant).to_have_count(number, timeout=30_000)
        self.wait_for_status("ready")
        return of_assistant.last

    def texts_while_streaming(self, role: str = "assistant", *, wanted: int = 3) -> list[str]:
        """Watches the last message of a role until its text has changed `wanted` times, and returns these texts."""
        # In the page: on a busy machine a short stream is over before this process has looked three times.
        texts: list[str] = self.message(role).evaluate(
            """(node, wanted) => new Promise((done, fail) => {
                const texts = [];
                const look = () => {
                    const text = node.textContent;
                    if (text.trim() && text !== texts.at(-1)) texts.push(text);
                    if (texts.length < wanted) return;
                    observer.disconnect();
                    done(texts);
                };
                const observer = new MutationObserver(look);
                observer.observe(node, {childList: true, characterData: true, subtree: true});
                look();
                setTimeout(() => fail(new Error(`only ${texts.length} texts: ${texts}`)), 20000);
            })""",
            wanted,
        )
        return texts


def write_notebook(path: Path, cells: Sequence[str]) -> Path:
    """Writes a notebook of code cells; a text that begins with `#md` becomes a Markdown cell."""
    made = [
        nbformat.v4.new_markdown_cell(text[3:].strip())
        if text.startswith("#md")
        else nbformat.v4.new_code_cell(text.strip())
        for text in cells
    ]
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    notebook = nbformat.v4.new_notebook(cells=made)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path
