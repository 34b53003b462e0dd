"""Cases of spec/widget.md that need a page but no kernel: how a text grows, waits, and is read in other languages."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.dev_page.conftest import Show, commands

# Pushes a text of the assistant one character at a time and returns all that was ever shown of it.
GROW = """async text => {
  const k = window.kernel, seen = [];
  const id = 'g' + k.seq;
  k.ops({op: 'state', state: {status: 'streaming', isStreaming: true, streamingId: id}},
        {op: 'msg', message: {id, role: 'assistant', parts: [{type: 'text', text: ''}]}, after: null});
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  const look = sent => {
    const node = document.querySelector(`[data-message-id=${id}] .cn-md`);
    if (node) seen.push([node.innerText, node.querySelectorAll('a, img, button.cn-box').length, sent]);
  };
  for (let n = 0; n < text.length; n++) {
    k.ops({op: 'text', m: id, p: 0, field: 'text', d: text[n]});
    await frame();
    look(n + 1);
  }
  k.ops({op: 'state', state: {status: 'ready', isStreaming: false, streamingId: null}});
  const find = id => document.querySelector(`[data-message-id=${id}] .cn-md`);
  const copy = id + 'b';
  k.ops({op: 'msg', message: {id: copy, role: 'assistant', parts: [{type: 'text', text}]}, after: id});
  for (let n = 0; n < 100; n++) {
    await frame();
    if (find(copy) && find(id).innerHTML === find(copy).innerHTML) return {seen, same: true};
  }
  return {seen, same: false};
}"""


def add(page: Page, *texts: str, role: str = "assistant") -> None:
    page.evaluate(
        """async ([texts, role]) => {
          const parts = texts.map(text => ({type: 'text', text}));
          window.kernel.ops({op: 'msg', message: {id: 'x', role, parts}, after: null});
          await new Promise(done => setTimeout(done, 150));
        }""",
        [list(texts), role],
    )


class TestGrowing:
    """A text that is being written never flashes its signs."""

    def test_no_raw_sign_flashes(self, show: Show) -> None:
        """C20 of widget.md: unclosed bold, links, code, tables and math, one character at a time."""
        page = show("empty")
        for text, raw in [
            ("so **bold** it is", "*"),
            ("see [a](http://a.example/x) there", "]("),
            ("do `code` here", "`"),
            ("```py\nx = 1\n```\nend", "`"),
            ("| a | b |\n|---|---|\n| c | d |\n", "|"),
            ("if $x^2$ is", "$"),
            ("and ![alt](http://a.example/x.png) shown", "!["),
        ]:
            result = page.evaluate(GROW, text)
            assert [shown for shown, _, _ in result["seen"] if raw in shown] == [], text
            assert result["same"], text

    def test_no_link_before_its_address(self, show: Show) -> None:
        """C20 of widget.md: nothing is a link or an image before its address is whole."""
        page = show("empty")
        text = "[a](http://a.example/long/address) z"
        seen = page.evaluate(GROW, text)["seen"]
        whole = text.index(")") + 1
        assert [entry for entry in seen if entry[1] and entry[2] < whole] == []
        expect(page.get_by_role("link", name="a").first).to_have_attribute("href", "http://a.example/long/address")

    def test_prices_and_formulas(self, show: Show) -> None:
        """C21 of widget.md: what is math, block or inline, and what is text or code."""
        page = show("empty")
        add(page, "from $5 to $10", "$x^2$", "\\(a\\)", "\\[b\\]", "$$c$$", "`$d$`")
        blocks = page.locator("[data-message-id=x] .cn-md")
        expect(blocks.nth(1).locator("math")).to_have_count(1)
        kinds = blocks.evaluate_all(
            """blocks => blocks.map(block => {
              const math = block.querySelector('.cn-math');
              if (!math) return block.querySelector('code') ? 'code' : 'text';
              return math.dataset.display === undefined ? 'math' : 'block';
            })"""
        )
        assert kinds == ["text", "math", "math", "block", "block", "code"]
        expect(blocks.first).to_have_text("from $5 to $10")

    def test_wrong_tex_shows_its_source(self, show: Show) -> None:
        """Section 4 of widget.md: wrong TeX shows its source, with the error as title."""
        page = show("empty")
        add(page, "$\\frac{1}{$")
        source = page.locator("code.cn-math")
        expect(source).to_have_text("\\frac{1}{")
        page.wait_for_function("() => document.querySelector('code.cn-math').title.includes('KaTeX')")

    def test_footnotes(self, show: Show) -> None:
        """Section 4 of widget.md: footnotes are numbered by their first mention; the rest stays as it is."""
        page = show("empty")
        add(
            page,
            "One[^b] two[^a] three[^b] none[^c] `[^a]`.\n\n[^a]: First *note*.\n"
            "[^b]: Second,\n    with a line more.\n\nEnd.",
        )
        message = page.locator("[data-message-id=x]")
        expect(message.locator("sup")).to_have_text(["1", "2", "1"])
        expect(message.get_by_role("region", name="Footnotes").get_by_role("listitem")).to_contain_text(
            ["Second, with a line more.", "First note."]
        )
        expect(message).to_contain_text("none[^c] [^a].")
        expect(message.locator(".cn-md > p").last).to_have_text("End.")


class TestWaiting:
    """What is shown before there is anything to show."""

    def test_three_dots(self, show: Show) -> None:
        """C39 of widget.md: three dots from "submitted" to the first content; none for a continuation."""
        page = show("submitted")
        expect(page.locator(".cn-dots")).to_be_visible()
        page.evaluate(
            """window.kernel.ops({op: 'state', state: {status: 'streaming', isStreaming: true, streamingId: 'a1'}},
              {op: 'msg', after: 'u1',
               message: {id: 'a1', role: 'assistant', parts: [{type: 'text', text: 'Word'}]}})"""
        )
        expect(page.locator(".cn-dots")).to_have_count(0)
        page.evaluate(
            "window.kernel.ops({op: 'state', state: {status: 'submitted', isStreaming: false, streamingId: null,"
            " isToolContinuation: true}})"
        )
        expect(page.locator(".chatnb-view")).to_have_attribute("data-status", "submitted")
        expect(page.locator(".cn-dots")).to_have_count(0)

    def test_steered_words_stand_in_their_place(self, show: Show) -> None:
        """C40 of widget.md: a view opened afterwards shows steered words between the parts of the reply."""
        page = show("steered")
        shown = page.locator("[data-message-id=a1]").inner_text()
        places = [shown.index(words) for words in ("Counting all of them", "Only the Gentoos, please", "There are 123")]
        assert places == sorted(places)
        assert page.locator(".cn-steering").evaluate("e => getComputedStyle(e).alignSelf") == "flex-end"

    def test_an_unloaded_message(self, show: Show) -> None:
        """C18 of widget.md: a delta for a message that is not loaded does nothing."""
        page = show("history")
        page.locator("math").last.wait_for()
        page.wait_for_timeout(200)
        before = page.locator(".cn-log").inner_text()
        page.evaluate("window.kernel.ops({op: 'text', m: 'gone', p: 0, field: 'text', d: 'lost'})")
        page.wait_for_timeout(100)
        assert page.locator(".cn-log").inner_text() == before
        assert len(commands(page, "hello")) == 1


class TestClientTools:
    """Section 5.5 of widget.md, as a page sees it."""

    def test_run_again(self, show: Show) -> None:
        """A call whose view has vanished can be run again here, or rejected; what another has settled is left alone."""
        page = show("clientTool")
        page.get_by_role("button", name="Run again").click()
        page.wait_for_function("window.kernel.commands.some(c => c.type === 'toolOutput')")
        assert [c["toolCallId"] for c in commands(page, "toolStarted")] == ["t1"]
        assert commands(page, "toolOutput")[0]["output"] == {"sum": 5}
        page.evaluate(
            "window.kernel.answers = {toolStarted: () => ({error: {code: 'already_decided', message: 'Taken.'}})}"
        )
        page.get_by_role("button", name="Run again").click()
        page.wait_for_function("window.kernel.commands.filter(c => c.type === 'toolStarted').length === 2")
        page.wait_for_timeout(100)
        assert commands(page, "toolError") == []


class TestLanguages:
    """Strings by key from one table (section 6 of widget.md)."""

    def test_arabic(self, show: Show) -> None:
        """With `locale="ar"` all words of the panel are Arabic and it runs from right to left; code does not."""
        page = show("approval", locale="ar")
        view = page.locator(".chatnb-view")
        expect(view).to_have_attribute("dir", "rtl")
        expect(page.get_by_role("button", name="موافقة", exact=True)).to_be_visible()
        words = view.evaluate(
            """e => [...e.querySelectorAll('button, textarea, [aria-label], .cn-state')]
              .flatMap(x => [x.ariaLabel, x.title, x.placeholder, x.children.length ? '' : x.textContent])
              .filter(text => text && /^[A-Z][a-z]+( [a-z]+)*$/.test(text))"""
        )
        assert [word for word in words if word != "Refund an order"] == []
        send, attach = (page.get_by_role("button", name=name).bounding_box() for name in ("إرسال", "إرفاق ملفات"))
        assert send is not None
        assert attach is not None
        assert send["x"] < attach["x"]

    def test_english_until_it_is_there(self, show: Show) -> None:
        """3.4 of widget.md: where no extra can be had the UI is English."""
        page = show("approval", locale="ar", extras="0")
        expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
