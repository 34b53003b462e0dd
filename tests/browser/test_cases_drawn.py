"""Cases of widget.md, section 11, about what is drawn, in JupyterLab and in Notebook: growing text, formulas, hostile
content, covers, steered words. One notebook and one kernel for all of them; each case has a chat of its own.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.case_notebook import CaseNotebook
from tests.browser.conftest import OpenNotebook
from tests.browser.dev_page import hostile
from tests.browser.dev_page.test_hostile import AUDIT
from tests.browser.notebook_page import Panel
from tests.browser.test_approvals import button, press

# The five of C20, which end as text, and two that end as what they mean; with the sign that may never be seen raw.
UNFINISHED = ["**bold", "[a](http", "```py", "| a |", "$x"]
FINISHED = {"so **bold** it is": "*", "see [a](http://a.example/x) there": "]("}
FORMULAS = ["from $5 to $10", "$x^2$", "\\(a\\)", "\\[b\\]", "$$c$$", "`$d$`"]
CELLS = {
    "c20": f"""
texts = {[*UNFINISHED, *FINISHED]!r}
show("c20", *[Reply(text, chunk_size=1, delay=0.04) for text in texts])
""",
    "c20 again": 'chat.view(height="420px", transcript=False)',
    "c21": f'show("c21", history=[message(0, "Formulas"), message(1, *{FORMULAS!r})])',
    "c23": """
from tests.browser.dev_page.test_hostile import everything
show("c23", Reply(calls=[("refund", {"order": "23"})]), "Paid back.", history=everything(), transcript=True)
""",
    "c24": """
class Cover:
    def __init__(self, markup):
        self.markup = markup

    def _repr_html_(self):
        return self.markup

COVERS = [
    '<div class="cn-button cn-primary chatnb-view" style="position:fixed;inset:0;z-index:99999">Approve</div>',
    '<div style="margin-top:-900px;height:4000px;width:4000px;transform:scale(9);background-color:red">Approve</div>',
    '<div class="jp-Dialog cn-card" style="position:absolute;top:0;left:0;width:9000px;height:9000px">Approve</div>',
]

@action
def draw(number: int):
    \"\"\"Draw.\"\"\"
    return Cover(COVERS[number])

calls = [("draw", {"number": n}) for n in range(len(COVERS))]
show("c24", Reply(calls=calls), Reply(calls=[("refund", {"order": "24"})]), "Paid back.", actions=[draw])
""",
    "c40": '''
@action(run_in="thread")
def look() -> str:
    """Look."""
    while not chat.queue:
        time.sleep(0.01)
    return "there are three species"

calls = Reply("Counting all of them.", calls=[("look", {})])
show("c40", calls, "There are 123.", actions=[look], steering=Steering(lambda batch: True))
''',
    "c40 again": 'chat.view(height="420px", transcript=False)',
}
# Notes all that the last message of the assistant ever shows, with how much of it can be pressed or loads.
WATCH = """root => {
  window.seen = [];
  const look = () => {
    const text = [...root.querySelectorAll('[data-role=assistant] .cn-md')].at(-1);
    if (text) window.seen.push([root.dataset.status, text.innerText, text.querySelectorAll('a, img, .cn-box').length]);
  };
  new MutationObserver(look).observe(root, {subtree: true, childList: true, characterData: true, attributes: true});
}"""
KINDS = """blocks => blocks.map(block => {
  const math = block.querySelector('.cn-math');
  if (!math) return block.querySelector('code') ? 'code' : 'text';
  return math.dataset.display === undefined ? 'math' : 'block';
})"""
# What of a transcript could act.
ACTS = """() => [...document.querySelectorAll('.chatnb-transcript *')].filter(e =>
  /^(?:script|style|link|meta|base|form|input|button|select|textarea|iframe|object|embed|video|audio|maction)$/i
    .test(e.localName)
  || [...e.attributes].some(({name, value}) => /^on|^(?:srcset|ping|id|xlink:href)$/i.test(name)
    || name === 'href' && !/^(?:https?:|mailto:|#)/i.test(value) || name === 'src' && !/^data:image/.test(value)))
  .map(e => e.outerHTML.slice(0, 120))"""
# Whether a control lies on top at its middle and near its four corners.
ON_TOP = """control => {
  const {x, y, width, height} = control.getBoundingClientRect();
  return [[0.5, 0.5], [0.1, 0.2], [0.9, 0.2], [0.1, 0.8], [0.9, 0.8]].every(([a, b]) =>
    control.contains(document.elementFromPoint(x + a * width, y + b * height)));
}"""


def ask(panel: Panel, index: int = 0) -> Locator:
    return panel.root.get_by_role("group", name="Approval needed: refund").nth(index)


def watch_growing(panel: Panel, former: int = 0) -> list[str]:
    """Sends until each of the texts of C20 has grown, one character at a time, and returns how they end."""
    ends = []
    panel.root.evaluate(WATCH)
    for number, text in enumerate([*UNFINISHED, *FINISHED], former + 1):
        panel.root.page.evaluate("window.seen.length = 0")
        panel.send("Go on")
        ends.append(panel.wait_for_reply(number).locator(".cn-md").inner_text())
        seen = [entry for entry in panel.root.page.evaluate("window.seen") if entry[0] == "streaming"]
        assert seen, text
        if text in FINISHED:
            assert [shown for _, shown, _ in seen if FINISHED[text] in shown] == []
        else:
            assert [shown for _, shown, links in seen if links] == [], text
    assert ends[:2] + ends[3:5] == ["**bold", "[a](http", "| a |", "$x"]
    assert ends[5:] == ["so bold it is", "see a there"]
    return ends


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestDrawn:
    """What is drawn is true, whole and harmless."""

    def test_all(self, open_notebook: OpenNotebook) -> None:
        cases = CaseNotebook(open_notebook, CELLS)
        self._character_by_character(cases)
        self._prices_and_formulas(cases)
        self._hostile_content(cases)
        self._covers(cases)
        self._steered(cases)

    def _character_by_character(self, cases: CaseNotebook) -> None:
        """C20: nothing raw flashes as link or image while it comes; the end is the whole text."""
        ends = watch_growing(cases.show("c20"))
        panel = cases.show("c20 again")
        drawn_at_once = panel.root.locator("[data-role=assistant] .cn-md")
        expect(drawn_at_once).to_have_count(len(ends))
        assert drawn_at_once.evaluate_all("all => all.map(one => one.innerText)") == ends

    def _prices_and_formulas(self, cases: CaseNotebook) -> None:
        """C21: text, math, math, block, block, code."""
        panel = cases.show("c21")
        blocks = panel.message("assistant").locator(".cn-md")
        expect(blocks.nth(1).locator("math")).to_have_count(1)
        assert blocks.evaluate_all(KINDS) == ["text", "math", "math", "block", "block", "code"]
        expect(blocks.first).to_have_text("from $5 to $10")
        expect(blocks.last).to_have_text("$d$")

    def _hostile_content(self, cases: CaseNotebook) -> None:
        """C22 to C24: a hundred payloads in every place, in the panel and in the transcript: nothing runs or loads."""
        assert len(hostile.ALL) >= 100
        panel = cases.show("c23")
        expect(panel.root.locator(".cn-markup")).to_have_count(len([*hostile.HTML, *hostile.MATHML, *hostile.SVG]))
        panel.send("Refund order 23")
        expect(ask(panel)).to_be_visible()
        panel.wait_for_status("ready")
        cases.page.wait_for_function("() => document.querySelector('.chatnb-transcript')?.textContent.includes('23')")
        assert cases.page.evaluate(AUDIT) == []
        assert cases.page.evaluate(ACTS) == []
        approve = button(panel.root, "Approve")
        expect(approve).to_have_count(1)
        press(cases.notebook, approve)
        expect(panel.message("assistant")).to_contain_text("Paid back.")
        assert cases.page.evaluate("window.ran") is None
        assert cases.effects("refund")[-1] == "23"

    def _covers(self, cases: CaseNotebook) -> None:
        """C24: what a result draws over Approve stays clipped in its box; under the pointer is our button."""
        panel = cases.show("c24")
        panel.send("Draw, then refund order 24")
        expect(ask(panel)).to_be_visible()
        boxes = panel.root.locator(".cn-markup")
        expect(boxes).to_have_count(3)
        approve = button(panel.root, "Approve")
        expect(approve).to_have_count(1)
        approve.scroll_into_view_if_needed()
        assert approve.evaluate(ON_TOP)
        inside = """all => all.every(box => {
          const card = box.closest('.cn-card').getBoundingClientRect(), own = box.getBoundingClientRect();
          return own.left >= card.left && own.right <= card.right + 1 && own.height <= 600 &&
            /content|paint/.test(getComputedStyle(box).contain) &&
            [...box.querySelectorAll('*')].every(e => !e.className && !e.style.position && !e.style.transform);
        })"""
        assert boxes.evaluate_all(inside)
        press(cases.notebook, approve)
        expect(panel.message("assistant")).to_contain_text("Paid back.")
        assert cases.effects("refund")[-1] == "24"

    def _steered(self, cases: CaseNotebook) -> None:
        """C40: in a view that is opened afterwards, steered words stand at their place within the reply."""
        panel = cases.show("c40")
        panel.send("Count them")
        expect(panel.cards).to_contain_text("Running")
        panel.send("Only the Gentoos, please")
        expect(panel.message("assistant")).to_contain_text("There are 123.")
        panel.wait_for_status("ready")
        for view in ("first", "second"):
            if view == "second":
                panel = cases.show("c40 again")
            expect(panel.articles).to_have_count(2)
            shown = panel.message("assistant").inner_text()
            places = [shown.index(words) for words in ("Counting all", "Only the Gentoos, please", "There are 123")]
            assert places == sorted(places)
