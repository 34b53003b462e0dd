"""Cases of widget.md, section 11, about the kernel behind the page, in JupyterLab and in Notebook: a store that fails,
observers, a page that sends state, what a reply costs, content that is huge, keys.

One notebook and one kernel for all of them; each case has a chat of its own.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.case_notebook import CaseNotebook
from tests.browser.conftest import OpenNotebook
from tests.browser.test_approvals import button, press
from tests.browser.test_cases_drawn import ask
from tests.browser.test_live_chat import words_in, words_up_to
from tests.browser.wire import Wire, tap

KEYS = ("sk-ant-argument-0123456789", "sk-ant-environment-0123456789")
CELLS = {
    "c5": """
asks = [("refund", {"order": "51"}), ("refund", {"order": "52"})]
show("c5", Reply(calls=asks), "Both are paid.")
""",
    "c16": """
import base64
show("c16-small", Reply(words(6000)), history=[message(0, "One")])
""",
    "c16 long": """
def picture(n):
    data = base64.b64encode(b"\\x89PNG" + bytes([n]) * 20_000).decode()
    return {"type": "file", "mediaType": "image/png", "filename": f"{n}.png", "url": f"data:image/png;base64,{data}"}

history = [message(n, f"Message {n}.") for n in range(1999)]
for n in range(20):
    history[1960 + 2 * n if n < 19 else 1998]["parts"].append(picture(n))
show("c16-long", Reply(words(6000)), history=history)
""",
    "c17": """
image = "data:image/png;base64," + "A" * 28_000_000
plot = {"type": "tool-plot", "toolCallId": "c1", "state": "output-available", "input": {},
        "output": {"object": "plot_1", "type": "Figure", "summary": "a figure"}}
reply = message(1, role="assistant")
text = ("words and words " * 60 + "\\U0001f642\\n\\n") * 3300
reply["parts"] = [plot, {"type": "text", "text": text}, {"type": "file", "mediaType": "image/png", "url": image}]
show("c17", history=[message(0, "Plot it"), reply])
""",
    "c32": """
import ipywidgets, traitlets
view = show("c32", Reply(words(40), delay=0.03))

def raises(change):
    effect(observed=change.new, on_main=threading.current_thread() is threading.main_thread())
    raise ValueError("an observer")

label = ipywidgets.Label()
view.observe(raises, "status")
traitlets.dlink((view, "status"), (label, "value"))
display(view)
label
""",
    "c33": """
def tried(function):
    try:
        function()
    except Exception as error:
        return [type(error).__name__, str(error)]

effect(append=tried(lambda: view.messages.append("x")), set=tried(lambda: setattr(view, "status", "x")))
""",
    "c33 then": """
effect(traits=[view.status, len(view.messages), view.error, len(view.pending), len(view.queue), view.is_streaming],
       esm="alert(1)" in view._esm, snapshot=view._snapshot)
""",
    "c36 argument": """
from chatnb.models import AnthropicModel
by_argument, by_environment = ("-".join(["sk", "ant", word, "0123456789"]) for word in ("argument", "environment"))
model = AnthropicModel("claude-sonnet-4-5", api_key=by_argument, base_url="http://127.0.0.1:9")
chat = Agent(model).chat("c36-claude")
chat.set_messages([message(0, "Which is mine?"), message(1, "It is " + by_argument)])
claude = chat.view(height="420px")
claude
""",
    "c36": """
import os
os.environ["ANTHROPIC_API_KEY"] = by_environment
show("c36", RuntimeError("not with " + by_environment), "Yours is " + by_environment, transcript=True)
""",
    "c36 traits": 'effect(traits=repr([chat, chat.agent, model, claude, chat.error, claude.error, chat.export("md")]))',
}
# As if a page had changed traits: what the host's own widgets send.
UPDATE = """([comm, state]) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  kernel.sendShellMessage({
    header: {msg_id: crypto.randomUUID(), msg_type: 'comm_msg', session: kernel.clientId, username: '', version: '5.3',
             date: new Date().toISOString()},
    parent_header: {}, metadata: {}, channel: 'shell', buffers: [],
    content: {comm_id: comm, data: {method: 'update', state, buffer_paths: []}},
  }, false, true);
  return null;
}"""


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestKernel:
    """What a page does has its effect in the kernel, once, and no other."""

    def test_all(self, open_notebook: OpenNotebook, context: BrowserContext) -> None:
        tap(context)
        cases = CaseNotebook(open_notebook, CELLS)
        wire = Wire(cases.page)
        self._a_store_that_fails(cases)
        self._observers(cases)
        self._a_page_that_sends_state(cases, wire)
        self._keys(cases, wire)
        self._bytes(cases, wire)
        self._huge(cases, wire)

    def _a_store_that_fails(self, cases: CaseNotebook) -> None:
        """C5: the store is read-only: error text on that card, buttons on again, still pending; others unaffected."""
        panel = cases.show("c5")
        panel.send("Refund two")
        expect(ask(panel, 1)).to_be_visible()
        panel.wait_for_status("ready")
        store = cases.notebook.path.with_name(".chatnb") / "chats.db"
        store.chmod(0o444)
        press(cases.notebook, button(ask(panel), "Approve"))
        expect(ask(panel).get_by_role("alert")).to_contain_text("could not be saved")
        for name in ("Approve", "Edit arguments", "Reject"):
            expect(button(ask(panel), name)).to_be_enabled()
            expect(button(ask(panel, 1), name)).to_be_enabled()
        expect(ask(panel, 1).get_by_role("alert")).to_have_count(0)
        assert cases.effects("refund") == []
        store.chmod(0o600)
        for left in (1, 0):
            press(cases.notebook, button(ask(panel), "Approve"))
            expect(panel.root.get_by_role("group", name="Approval needed: refund")).to_have_count(left)
        expect(panel.message("assistant")).to_contain_text("Both are paid.")
        assert sorted(cases.effects("refund")) == ["51", "52"]

    def _observers(self, cases: CaseNotebook) -> None:
        """C32: one observer raises, another feeds a Label: that ends "ready", and all ran on the main thread."""
        panel = cases.show("c32")
        label = cases.page.locator(".widget-label")
        expect(label).to_have_text("ready")
        panel.send("Count")
        expect(label).to_have_text("streaming")
        panel.wait_for_reply()
        expect(label).to_have_text("ready")
        told = [effect for effect in cases.notebook.effects() if "observed" in effect]
        assert [effect["observed"] for effect in told][-2:] == ["streaming", "ready"]
        assert all(effect["on_main"] for effect in told)

    def _a_page_that_sends_state(self, cases: CaseNotebook, wire: Wire) -> None:
        """C33: `append` raises and names `set_messages`, setting raises `TraitError`, a page moves no trait."""
        cases.run("c33")
        tried = cases.notebook.effects()[-1]
        assert "set_messages" in tried["append"][1]
        assert tried["set"][0] == "TraitError"
        comm = wire.read("wire.sent.at(-1).comm")
        bad = {"status": "x", "messages": [], "error": "x", "pending": [1], "queue": [1], "is_streaming": True}
        for state in (bad, {"_esm": "alert(1)", "_snapshot": {"messages": []}}, {"height": 7, "theme": "pink"}):
            cases.page.evaluate(UPDATE, [comm, state])
        cases.page.evaluate(UPDATE, [comm, {"placeholder": "An option may be set"}])
        cases.run("c33 then")
        expected = {"traits": ["ready", 2, None, 0, 0, False], "esm": False, "snapshot": {}}
        assert cases.notebook.effects()[-1] == expected
        panel = cases.notebook.panel()
        expect(panel.box).to_have_attribute("placeholder", "An option may be set")
        expect(panel.articles).to_have_count(2)

    def _bytes(self, cases: CaseNotebook, wire: Wire) -> None:
        """C16: a reply costs the same at message 2 and at message 2,000 behind 20 images, and no image comes again."""
        costs = []
        for name in ("c16", "c16 long"):
            wire.rule()
            panel = cases.show(name)
            if name == "c16 long":
                wire.wait("wire.got.filter(one => one.body.type === 'asset').length === 20")
            wire.rule()
            panel.send("Count")
            expect(panel.message("assistant")).to_contain_text("word5999")
            panel.wait_for_status("ready")
            assert words_in(panel.message("assistant")) == words_up_to(6000)
            assert wire.read("wire.got.filter(one => ['asset', 'reset'].includes(one.body.type)).length") == 0
            costs.append(
                wire.read("wire.got.filter(one => one.body.type === 'ops').reduce((a, one) => a + one.size, 0)")
            )
        assert abs(costs[1] / costs[0] - 1) < 0.05, costs

    def _huge(self, cases: CaseNotebook, wire: Wire) -> None:
        """C17: 3 MB of text come in small frames and are whole; an image of 21 MB is a box that names what it is."""
        wire.rule()
        panel = cases.show("c17")
        reply = panel.message("assistant")
        expect(reply).to_contain_text("image/png")
        expect(reply).to_contain_text("21 MB")
        expect(reply).to_contain_text("plot_1")
        assert reply.locator("img").count() == 0
        button(reply, "Show all").click()
        # 3,300 paragraphs of 60 times three words and a face.
        whole = (
            "node => node.textContent.replace(/\\s+/g, '') === ('wordsandwords'.repeat(60) + '\\u{1f642}').repeat(3300)"
        )
        text = reply.locator(".cn-md").element_handle()
        cases.page.wait_for_function(whole, arg=text, polling=250)
        assert wire.read("Math.max(...wire.got.map(one => one.size))") <= 256 * 1024 + 300
        assert wire.read("wire.got.filter(one => one.body.type === 'asset').length") == 0

    def _keys(self, cases: CaseNotebook, wire: Wire) -> None:
        """C36: keys by argument and environment, and in an error: in no frame, no element, no trait, no saved file."""
        wire.rule()
        panel = cases.show("c36 argument")
        expect(panel.message("assistant")).to_contain_text("It is [redacted]")
        given = cases.outputs("c36 argument")
        panel = cases.show("c36")
        panel.send("Fail")
        expect(panel.root.get_by_role("alert")).to_contain_text("[redacted]")
        panel.send("And now?")
        expect(panel.message("assistant")).to_contain_text("Yours is [redacted]")
        panel.wait_for_status("ready")
        cases.run("c36 traits")
        cases.notebook.save()
        places = {
            "frames": wire.read("JSON.stringify(wire.got)"),
            "page": cases.page.content(),
            "traits": json.dumps(cases.notebook.effects()[-1]),
            "file": cases.notebook.path.read_text("utf-8"),
            "outputs": given + cases.outputs("c36"),
        }
        assert [(place, key) for place, text in places.items() for key in KEYS if key in text] == []
        assert "[redacted]" in places["outputs"]
