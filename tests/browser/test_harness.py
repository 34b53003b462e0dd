"""The harness itself, on a widget of five lines: what other browser tests stand on."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import EFFECT

COUNTER = [
    "#md # A counter",
    EFFECT
    + '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    function render({ model, el }) {
        const button = document.createElement("button");
        button.textContent = "Count";
        button.onclick = () => model.send({ click: 1 });
        model.on("msg:custom", message => { button.textContent = "Count " + message.count; });
        el.append(button);
    }
    export default { render };
    """

    def __init__(self):
        super().__init__()
        self.count = 0
        self.on_msg(self.clicked)

    def clicked(self, widget, content, buffers):
        self.count += 1
        effect(count=self.count)
        self.send({"count": self.count})

counter = Counter()
''',
    "counter",
    "print(counter.count)",
]


class TestHarness:
    """Cells run, widgets live, effects are read, the kernel can be restarted."""

    def test_a_click_reaches_the_kernel_and_comes_back(self, open_notebook: OpenNotebook) -> None:
        notebook = open_notebook(COUNTER)
        notebook.run_all()
        button = notebook.page.get_by_role("button", name="Count")
        button.click()
        expect(button).to_have_text("Count 1")
        assert notebook.effects() == [{"count": 1}]
        notebook.run_cell(3)
        assert '"1\\n"' in notebook.cell_outputs(3)
        notebook.save()
        notebook.reload()
        expect(notebook.page.get_by_role("button", name="Count")).to_be_visible()
        notebook.restart_kernel()
        notebook.run_all()
        assert '"0\\n"' in notebook.cell_outputs(3)
        # JupyterLab's own question about news would be there by now.
        expect(notebook.page.locator(".Toastify__toast")).to_have_count(0)
