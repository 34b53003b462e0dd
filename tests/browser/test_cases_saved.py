"""C34 of widget.md: a saved notebook that nobody runs, in JupyterLab, in Notebook and as html."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, expect

from tests.browser.case_notebook import CaseNotebook
from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter_server import JupyterServer

CELLS = {
    "talk": '''
@action
def plot():
    """Draw the sales."""
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(3, 2))
    axes.plot([1, 4, 9])
    plt.close(figure)
    return figure

text = """The mean is $\\\\bar{x} = \\\\frac{1}{n}\\\\sum x_i$.

| region | sales |
|---|---|
| North | 1250 |

```python
total = 1250
```
"""
show("c34", Reply("I draw it.", calls=[("plot", {})]), text, actions=[plot], transcript=True)
''',
}
EXPECTED = ("Draw the sales, please", "I draw it.", "plot", "North", "1250", "total = 1250")


def read(page: Page) -> None:
    """What a reader finds in the transcript of a page, whatever shows it."""
    talk = page.locator(".chatnb-transcript")
    expect(talk).to_be_visible()
    for text in EXPECTED:
        expect(talk).to_contain_text(text)
    assert "\\bar{x}" in (talk.text_content() or "")  # the TeX, beside the formula or in its place
    expect(talk.get_by_role("cell", name="North")).to_be_visible()
    figure = talk.locator("img")
    assert figure.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestSaved:
    """What was said stays readable."""

    def test_all(self, open_notebook: OpenNotebook, server: JupyterServer, browser: Browser, tmp_path: Path) -> None:
        cases = CaseNotebook(open_notebook, CELLS)
        panel = cases.show("talk")
        panel.send("Draw the sales, please")
        expect(panel.message("assistant")).to_contain_text("total = 1250")
        panel.wait_for_status("ready")
        cases.page.wait_for_function(
            "() => document.querySelector('.chatnb-transcript')?.textContent.includes('total = 1250')"
        )
        expect(cases.page.locator(".chatnb-transcript")).to_be_hidden()  # while there is a live view
        cases.notebook.save()
        self._without_a_kernel(cases, server)
        self._as_html(cases.notebook.path, browser, tmp_path)

    def _without_a_kernel(self, cases: CaseNotebook, server: JupyterServer) -> None:
        """C34: in the application, with no kernel and not trusted: readable, and nothing spins or sends."""
        saved = nbformat.read(cases.notebook.path, 4)
        saved.metadata["kernelspec"] = {"name": "gone", "display_name": "Gone", "language": "none"}
        del saved.metadata["language_info"]  # else the application would find a kernel of that language
        path = cases.notebook.path.with_name("saved.ipynb")
        nbformat.write(saved, path)
        relative = path.relative_to(server.files).as_posix()
        page = cases.page
        place = f"/lab/tree/{relative}?reset" if server.app == "lab" else f"/notebooks/{relative}"
        page.goto(server.url + place)
        page.locator(".jp-Dialog").get_by_role("button", name="No Kernel").click()
        read(page)
        assert page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel ?? null") is None
        expect(page.locator(".chatnb-view .cn-spin, .chatnb-view .cn-dots")).to_have_count(0)
        expect(page.get_by_role("button", name="Send", exact=True)).to_have_count(0)
        cases.notebook.shot("saved")

    def _as_html(self, path: Path, browser: Browser, tmp_path: Path) -> None:
        """C34: by `nbconvert --to html`, with the network off: readable; nothing is asked for because of the talk."""
        saved = nbformat.read(path, 4)
        empty = nbformat.from_dict(json.loads(json.dumps(saved)))
        for cell in empty.cells:
            cell.outputs = []
        asked: dict[str, set[str]] = {}
        context = browser.new_context(offline=True)
        for name, notebook in (("saved", saved), ("empty", empty)):
            html, _ = HTMLExporter().from_notebook_node(notebook)
            (tmp_path / f"{name}.html").write_text(html, "utf-8")
            page, asked[name] = context.new_page(), set()
            page.on("request", lambda request, name=name: asked[name].add(request.url))
            page.goto((tmp_path / f"{name}.html").as_uri())
            if name == "saved":
                read(page)
        context.close()
        # The form of nbconvert asks for a script or two of its own, with or without a talk.
        assert {url for url in asked["saved"] if not url.startswith(("file:", "data:"))} <= asked["empty"]
