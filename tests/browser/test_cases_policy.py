"""C25 of widget.md in JupyterLab and in Notebook: the panel under the content security policy of section 7.

The applications come up without a policy, since they could not under this one: it takes from them their fonts, frames
and workers. Then the policy is put into the page as a `meta` element, from when on it binds everything: the page's own
modules, anywidget's (from a blob), the extras, styles, images. Added to it are the addresses of the host's own kernel
connection (`connect-src`), which no policy for a page with a kernel could leave out. That the policy is in force is
shown by what it refuses.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.case_notebook import CaseNotebook
from tests.browser.conftest import OpenNotebook
from tests.browser.test_approvals import button, press

POLICY = (
    "default-src 'none'; script-src 'self' blob:; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'self' ws: wss:"
)
# The last of the steps draws what needs each of the extras; the others ask.
CELLS = {
    "policy": '''
from chatnb import ClientTool
from IPython.display import HTML

CONTENT = """Text, **bold**.

```python
x = 1
```

and $x^2$ and a note[^1]

[^1]: The note.
"""

@action
def table():
    """Show a table."""
    return HTML("<table><tr><td>cell</td></tr></table>")

numbers = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
person = {"type": "object", "required": ["first"], "properties": {"first": {"type": "string"}}}
add = ClientTool(name="add", description="Adds in the page", parameters=numbers,
                 js="export default async ({a, b}) => ({sum: a + b})")
who = ClientTool(name="who", description="Asks", parameters={"type": "object", "properties": {}}, form=person)
picture = {"type": "file", "mediaType": "image/png", "filename": "dot.png", "url": "data:image/png;base64,"
           "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="}

def talk(id, *steps):
    global chat
    asked.clear()
    chat = Agent(Counted(list(steps)), actions=[refund, table]).chat(id)
    chat.set_messages([{"id": "p", "role": "user", "parts": [picture]}])
    return chat.view(height="520px", transcript=False, client_tools=[add, who])
''',
    "with": """
talk("with", Reply(calls=[("table", {})]), Reply(CONTENT, delay=0.02), Reply(calls=[("refund", {"order": "1"})]),
     "Paid back.", Reply(calls=[("add", {"a": 2, "b": 3})]), "Five.", Reply(calls=[("who", {})]), "Hello Ada.")
""",
    "without": """
talk("without", Reply(calls=[("table", {})]), Reply(CONTENT, delay=0.02), Reply(calls=[("refund", {"order": "2"})]),
     "Paid back.")
""",
}
# Puts the policy in force and notes what it refuses from then on.
ENFORCE = """policy => {
  window.refused = [];
  document.addEventListener('securitypolicyviolation', event =>
    window.refused.push([event.effectiveDirective, event.blockedURI, event.sourceFile, event.sample]));
  const meta = document.createElement('meta');
  meta.httpEquiv = 'Content-Security-Policy';
  meta.content = policy;
  document.head.append(meta);
}"""
# Tries what the policy forbids. Each is refused in its own way.
TRY = """async () => {
  await new Promise(done => setTimeout(done));  // what the debugger's own call may do, a page's may not
  const tried = {};
  const note = async (name, fn) => { try { await fn(); tried[name] = 'done'; } catch (e) { tried[name] = e.name; } };
  const blob = URL.createObjectURL(new Blob(['export default 1'], {type: 'text/javascript'}));
  await note('eval', () => window.eval('1 + 1'));
  await note('function', () => new Function('return 1')());
  await note('blob', () => import(blob));
  const inline = document.createElement('script');
  inline.textContent = 'window.inline = 1';
  document.body.append(inline);
  tried.inline = window.inline === undefined ? 'refused' : 'done';
  return tried;
}"""
FORBIDS = "forbids loaded modules"


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestPolicy:
    """What a strict host allows is enough."""

    def test_all(self, open_notebook: OpenNotebook) -> None:
        cases = CaseNotebook(open_notebook, CELLS)
        cases.run("policy")
        cases.page.evaluate(ENFORCE, POLICY)
        self._with_blob_modules(cases)
        cases.clear()
        cases.notebook.save()
        cases.notebook.reload()
        self._without_blob_modules(cases)

    def _with_blob_modules(self, cases: CaseNotebook) -> None:
        """C25: without `unsafe-eval` all works: stream, colours, formulas, notes, markup, decisions, tools, forms."""
        tried = cases.page.evaluate(TRY)
        assert tried == {"eval": "EvalError", "function": "EvalError", "blob": "done", "inline": "refused"}
        cases.page.evaluate("window.refused.length = 0")
        panel = cases.show("with")
        panel.send("Show it all")
        assert len(set(panel.texts_while_streaming(wanted=3))) == 3
        message = panel.wait_for_reply(1)
        expect(message.locator(".cn-hl-number")).to_have_text("1")
        expect(message.locator("math msup")).to_have_count(1)
        expect(message.get_by_role("region", name="Footnotes")).to_contain_text("The note.")
        expect(message.get_by_role("cell", name="cell")).to_be_visible()
        picture = panel.root.locator("img.cn-image")
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
        panel.send("Refund it")
        card = panel.root.get_by_role("group", name="Approval needed: refund")
        press(cases.notebook, button(card, "Edit arguments"))
        card.get_by_label("amount").fill("7")
        press(cases.notebook, button(card, "Approve"))
        expect(panel.message("assistant")).to_contain_text("Paid back.")
        panel.send("Add")
        expect(panel.message("assistant")).to_contain_text("Five.")
        panel.send("Who?")
        panel.cards.last.get_by_label("first").fill("Ada")
        button(panel.cards.last, "Submit").click()
        expect(panel.message("assistant")).to_contain_text("Hello Ada.")
        panel.wait_for_status("ready")
        expect(panel.root).not_to_contain_text(re.compile(FORBIDS))
        assert cases.effects("refund") == ["1"]
        assert self._refused_to_us(cases) == []

    def _without_blob_modules(self, cases: CaseNotebook) -> None:
        """C25: then without `blob:`: code plain, math and notes as source, a form as JSON, and one notice."""
        panel = cases.show("without")
        # The bundle itself came from a blob, as anywidget brings it. From here on no other may.
        cases.page.evaluate(ENFORCE, POLICY.replace("script-src 'self' blob:", "script-src 'self'"))
        tried = cases.page.evaluate(TRY)
        assert tried == {"eval": "EvalError", "function": "EvalError", "blob": "TypeError", "inline": "refused"}
        panel.send("Show it all")
        message = panel.wait_for_reply(1)
        expect(panel.root.get_by_text(re.compile(FORBIDS))).to_have_count(1)
        expect(message.locator("code.cn-math")).to_have_text("x^2")
        expect(message.locator("pre code").first).to_have_text("x = 1\n")
        expect(message.locator(".cn-md pre .cn-hl-number")).to_have_count(0)
        expect(message).to_contain_text("[^1]")
        panel.send("Refund it")
        card = panel.root.get_by_role("group", name="Approval needed: refund")
        press(cases.notebook, button(card, "Edit arguments"))
        card.get_by_role("textbox", name="Arguments as JSON").fill('{"order": "3", "amount": 7}')
        press(cases.notebook, button(card, "Approve"))
        expect(panel.message("assistant")).to_contain_text("Paid back.")
        panel.wait_for_status("ready")
        expect(panel.root.get_by_text(re.compile(FORBIDS))).to_have_count(1)
        assert cases.effects("refund") == ["1", "3"]

    def _refused_to_us(self, cases: CaseNotebook) -> list[object]:
        """What the policy refused but for what the host's own files asked."""
        refused: list[list[str]] = cases.page.evaluate("window.refused")
        return [one for one in refused if "/static/" not in one[2] and "/lab/extensions/" not in one[2]]
