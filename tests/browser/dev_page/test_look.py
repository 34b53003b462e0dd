"""What DESIGN.md of the front end says of the drawn panel, where it can be measured."""

from __future__ import annotations

from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.dev_page.conftest import Show

SMALL = """() => [...document.querySelectorAll(".chatnb-view *:not(math *, sup *)")]
  .filter(node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()))
  .map(node => [parseFloat(getComputedStyle(node).fontSize), node.textContent])
  .filter(([size]) => size < 12)"""
COLOURS = """() => new Set(
  [...document.querySelectorAll('.cn-log a:not(.cn-chip)')].map(a => getComputedStyle(a).color)).size"""
READY = {"op": "state", "state": {"status": "ready", "isStreaming": False, "streamingId": None}}


def box(locator: Locator) -> FloatRect:
    """Where an element stands."""
    found = locator.bounding_box()
    assert found
    return found


class TestLook:
    """The rules of the page on how the panel looks."""

    def test_type_and_edges(self, show: Show) -> None:
        """DESIGN.md: nothing is below 12 px, boxes to tick stand at the edge, links have one colour, lists labels."""
        page = show("rich")
        page.wait_for_function("() => window.kernel.isPlayed")
        assert page.evaluate(SMALL) == []
        check, text = box(page.locator(".cn-check").first), box(page.locator(".cn-md blockquote").first)
        assert abs(check["x"] - text["x"]) < 1
        assert page.evaluate(COLOURS) == 1
        read = "all => all.map(one => getComputedStyle(one, '::before').content)"
        labels = page.locator(".cn-sources").evaluate_all(read)
        assert [label.split('"')[1] for label in labels] == ["Footnotes", "Sources"]

    def test_size_of_the_host(self, show: Show) -> None:
        """DESIGN.md: whoever has made the host's text larger reads the panel as large."""
        page = show("talk")
        page.evaluate("() => document.body.style.setProperty('--jp-content-font-size1', '18px')")
        for text in (page.locator(".cn-md p").first, page.locator(".cn-words"), page.get_by_role("textbox")):
            assert text.evaluate("one => getComputedStyle(one).fontSize") == "18px"

    def test_words_beside_figures(self, show: Show) -> None:
        """DESIGN.md: a cell with words keeps a width to read in, and the table scrolls in its own box."""
        page = show("rich")
        assert box(page.locator("td", has_text="first season"))["width"] >= 120
        assert page.locator(".cn-log").evaluate("log => log.scrollWidth <= log.clientWidth")

    def test_cards_at_12(self, show: Show) -> None:
        """DESIGN.md: nothing in a card is below 12 px."""
        assert show("cards").evaluate(SMALL) == []

    def test_life(self, show: Show) -> None:
        """DESIGN.md: while a reply is written a dot stands where its buttons will be; nothing moves when they come."""
        page = show("thinking")
        foot = page.locator("[data-message-id=a1] > .cn-foot")
        assert foot.evaluate("one => getComputedStyle(one, '::before').width") == "8px"
        before = box(foot)
        page.evaluate("op => window.kernel.ops(op)", READY)
        expect(page.get_by_role("button", name="Regenerate")).to_be_visible()
        assert foot.evaluate("one => getComputedStyle(one, '::before').content") == "none"
        assert box(foot) == before

    def test_no_pill_without_more(self, show: Show) -> None:
        """5.6 of widget.md: "Jump to latest" goes when the panel has become so high that the end is in view."""
        page = show("history")
        page.locator(".cn-log").evaluate("log => (log.scrollTop = 0)")
        pill = page.get_by_role("button", name="Jump to latest")
        expect(pill).to_be_visible()
        page.evaluate("() => (document.querySelector('.chatnb-view').style.height = '40000px')")
        expect(pill).to_have_count(0)


def begin(page: Page, text: str) -> None:
    """A reply that is being written."""
    page.evaluate(
        """text => {
          const message = {id: 's', role: 'assistant', parts: [{type: 'text', text}]};
          window.kernel.ops({op: 'state', state: {status: 'streaming', isStreaming: true, streamingId: 's'}},
            {op: 'msg', message, after: null});
        }""",
        text,
    )


def add(page: Page, text: str) -> None:
    """More of its text."""
    page.evaluate("d => window.kernel.ops({op: 'text', m: 's', p: 0, field: 'text', d})", text)


class TestReading:
    """Who reads along is not disturbed."""

    def test_paper(self, show: Show) -> None:
        """DESIGN.md: a printed panel is the whole talk, and nothing on it is to be pressed."""
        page = show("history")
        page.emulate_media(media="print")
        log = page.locator(".cn-log")
        assert log.evaluate("log => log.clientHeight === log.scrollHeight && log.clientHeight > 3000")
        expect(page.locator(".chatnb-view button:visible")).to_have_count(0)

    def test_selection_stays(self, show: Show) -> None:
        """Section 4 of widget.md: a selection in the very paragraph that is being written stays as it is."""
        page = show("empty")
        begin(page, "one two **three** four five")
        words = page.locator(".cn-md p")
        expect(words).to_have_text("one two three four five")
        words.evaluate("p => getSelection().setBaseAndExtent(p.childNodes[0], 4, p.childNodes[2], 5)")
        for text, word in ((" six", "six"), (" seven *eight*", "eight"), (" nine", "nine")):
            add(page, text)
            expect(words).to_contain_text(word)
            assert page.evaluate("() => getSelection().toString()") == "two three four"


class TestLong:
    """Lists and tables of any length are drawn in groups that keep their nodes."""

    def test_groups(self, show: Show) -> None:
        """C19 of widget.md: of a long table only the end is drawn again; a reference that comes last reaches all."""
        page = show("empty")
        rows, items = "| 1 | *two* |\n" * 2000, "- see [there]\n" * 100
        begin(page, f"{items}\n| a | b |\n|---|---|\n{rows}")
        expect(page.locator("tbody tr")).to_have_count(2000)
        expect(page.locator("li a")).to_have_count(0)
        page.evaluate("() => { for (const row of document.querySelectorAll('tbody tr')) row.mine = true; }")
        add(page, "| 3 | four |\n")
        expect(page.locator("tbody tr")).to_have_count(2001)
        kept = "all => all.filter(row => row.mine).length"
        assert page.locator("tbody tr").evaluate_all(kept) == 2000
        add(page, "\n[there]: https://example.org\n")
        page.evaluate("op => window.kernel.ops(op)", READY)
        expect(page.locator("li a")).to_have_count(100)
        assert page.locator("tbody tr").evaluate_all(kept) == 2000

    def test_deep_values(self, show: Show) -> None:
        """5.4 of widget.md: however deep an argument is, it is shown in full and can be decided on."""
        page = show("approval")
        page.evaluate(
            """() => {
              const order = JSON.parse('['.repeat(2000) + '"bottom"' + ']'.repeat(2000));
              const { message } = window.kernel.snapshot.messages[1];
              const item = {...window.kernel.snapshot.pending[0], args: {order}};
              const parts = [{...message.parts[1], input: item.args}];
              window.kernel.ops({op: 'msg', message: {...message, parts}, after: 'u1'}, {op: 'pending', items: [item]});
            }"""
        )
        expect(page.locator(".cn-approval")).to_contain_text("bottom")
        expect(page.get_by_role("button", name="Approve")).to_be_enabled()

    def test_entities(self, show: Show) -> None:
        """Section 4 of widget.md: entities are the characters they stand for, what is none stays, none is markup."""
        page = show("empty")
        begin(page, "&amp; &copy; &nosuch; &#65; &lt;b&gt; &#x202e; `&amp;` end")
        expect(page.locator(".cn-md p")).to_have_text("& © &nosuch; A <b> \\u202e &amp; end")
