"""A hundred payloads under the content security policy of spec/widget.md, section 7: C22 to C25."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.dev_page import hostile, hostile_markup
from tests.browser.dev_page.conftest import Show, commands

Part = dict[str, Any]

# What stands in the drawn content, and may not. Our own controls inside of it are known by their class.
AUDIT = """() => {
  const found = [];
  const plain = ['color', 'background-color', 'font-weight', 'font-style', 'text-align'];
  const own = e => e.matches('button.cn-quiet, button.cn-box, button.cn-icon-button, summary');
  for (const box of document.querySelectorAll('.cn-md, .cn-markup, .cn-math, .cn-outputs, .cn-words, .cn-rows')) {
    for (const e of box.querySelectorAll('*')) {
      const name = e.localName, say = why => found.push(why + ': ' + e.outerHTML.slice(0, 120));
      if (/^(?:script|style|link|meta|base|form|iframe|frame|frameset|object|embed|video|audio|source|template|dialog)$/
        .test(name)) say('element');
      if (/^(?:foreignobject|animate|set|feimage|filter|maction|annotation-xml|mglyph)$/i.test(name)) say('element');
      if (/^(?:button|input|select|textarea)$/.test(name) && !own(e)) say('control');
      const inside = e.parentElement.closest('.cn-markup');
      if (e.style.position) say('position');
      for (const { name: key, value } of e.attributes) {
        if (/^on/i.test(key)) say(key);
        if (/^(?:srcset|ping|xlink:href|background|action|popovertarget|contenteditable|accesskey)$/i.test(key))
          say(key);
        if (key === 'href' && !/^(?:https?:|mailto:|#|blob:|data:)/i.test(value)) say('href');
        if (key === 'src' && !/^(?:data:image|blob:)/i.test(value)) say('src');
        if (inside && /^(?:class|id|name|role|tabindex)$/.test(key)) say(key);
        if (inside && key === 'style')
          for (const rule of e.style) if (!plain.includes(rule)) say('style ' + rule);
      }
    }
  }
  return found;
}"""


# Cleans each markup, and lists what is not on the allow-list of section 7, before and after another reading.
CLEAN = """async all => {
  const { clean } = await import('/static/extra-markup.js');
  const names = new Set(('a abbr b bdi blockquote br caption cite code col colgroup dd del details dfn div dl dt em ' +
    'figcaption figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small span strike strong sub ' +
    'summary sup table tbody td tfoot th thead time tr u ul var wbr svg g path rect circle ellipse line polyline ' +
    'polygon text tspan defs linearGradient radialGradient stop clipPath use title desc marker pattern symbol image ' +
    'mask math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle merror mpadded mphantom msub msup msubsup ' +
    'munder mover munderover mmultiscripts mprescripts none mtable mtr mtd semantics annotation menclose').split(' '));
  const plain = ['color', 'background-color', 'font-weight', 'font-style', 'text-align'];
  const look = root => {
    const found = [];
    for (const e of root.querySelectorAll('*')) {
      if (!names.has(e.localName)) found.push('element ' + e.localName);
      for (const { name, value } of e.attributes) {
        const say = () => found.push(`${e.localName} ${name}=${value}`);
        if (/^on|^(?:aria|data|xlink|xml)[-:]/i.test(name)) say();
        if (/^(?:class|id|name|role|tabindex|srcset|ping|background|action|for|form|is|slot|part|popover)$/i.test(name))
          say();
        if (name === 'href' && !/^(?:https?:|mailto:|#)/i.test(value)) say();
        if (name === 'href' && e.localName !== 'a' && !value.startsWith('#')) say();
        if (name === 'src' && !(e.localName === 'img' && /^data:image\\/(?:png|jpe?g|gif|webp)[;,]/.test(value))) say();
        if (name === 'target' && value !== '_blank') say();
        if (name === 'style') for (const rule of e.style) if (!plain.includes(rule)) say();
        if (name === 'style' && /url|expression|var|env|[{}]/i.test(value)) say();
        if (!['href', 'src', 'title', 'alt'].includes(name) && /url\\s*\\(|script:|evil/i.test(value)) say();
      }
    }
    if (/[\\u202a-\\u202e\\u2066-\\u2069]/.test(root.textContent)) found.push('direction');
    return found;
  };
  return all.map(markup => {
    const box = document.createElement('div');
    box.append(clean(markup));
    document.body.append(box);
    const first = look(box), html = box.innerHTML;
    box.innerHTML = html;
    const again = look(box);
    box.remove();
    return [...first, ...again.map(one => 'again: ' + one)];
  });
}"""


def push(page: Page, messages: list[dict[str, Any]]) -> None:
    """Puts messages behind the last one, and waits until all is drawn."""
    page.evaluate(
        """async messages => {
          let after = window.kernel.snapshot.messages.at(-1)?.message.id ?? null;
          for (const message of messages) { window.kernel.ops({op: 'msg', message, after}); after = message.id; }
          await new Promise(done => setTimeout(done, 100));
        }""",
        messages,
    )
    expect(page.locator(f"[data-message-id={messages[-1]['id']}]")).to_be_attached()


def reply(id: str, *parts: Part) -> dict[str, Any]:
    return {"id": id, "role": "assistant", "parts": list(parts)}


def text(value: str) -> Part:
    return {"type": "text", "text": value}


def call(id: str, **more: Any) -> Part:
    return {"type": "tool-x", "toolCallId": id, "state": "output-available", "input": {}, "output": None, **more}


def outputs(id: str, *bundles: dict[str, Any]) -> Part:
    return {"type": "data-output", "id": id, "data": {"toolCallId": id, "outputs": list(bundles)}}


def named(name: str, number: int) -> list[Part]:
    """Every place where a short text of somebody else is shown."""
    id = f"n{number}"
    return [
        {"type": "file", "mediaType": "text/csv", "filename": name, "url": "data:text/csv,x"},
        {"type": "file", "mediaType": "image/png", "filename": name, "url": hostile.OUT},
        {"type": "dynamic-tool", "toolName": name, "toolCallId": id, "state": "output-error", "title": name}
        | {"input": {name: name, "nested": {name: [name]}}, "errorText": f"{name}\nTraceback\n{name}"},
        call(id + "b", output={name: name}),
        outputs(id + "b", {"stream": "stderr", "text": name}, {"application/json": {name: name}}),
        {"type": "source-url", "sourceId": id, "url": name, "title": name},
        {"type": "data-variable", "data": {"name": name, "summary": name}},
        {"type": "reasoning", "text": name},
    ]


def everything() -> list[dict[str, Any]]:
    markup = [*hostile.HTML, *hostile.MATHML]
    return [
        reply("m1", *[text(payload) for payload in hostile.MARKDOWN]),
        reply("m2", *[text(f"${payload}$ and $${payload}$$") for payload in hostile.TEX]),
        reply("m3", call("h"), outputs("h", *[{"text/html": payload} for payload in markup])),
        reply("m4", call("s"), outputs("s", *[{"image/svg+xml": payload} for payload in hostile.SVG])),
        reply("m5", call("l"), outputs("l", *[{"text/latex": payload} for payload in hostile.TEX])),
        reply("m6", call("k"), outputs("k", *[{"text/markdown": payload} for payload in hostile.MARKDOWN])),
        reply("m7", *[part for number, name in enumerate(hostile.NAMES) for part in named(name, number)]),
        {"id": "m8", "role": "user", "parts": [text(payload) for payload in [*hostile.HTML, *hostile.NAMES]]},
    ]


@pytest.fixture
def asked() -> list[str]:
    """The addresses outside that the page asked for."""
    return []


def open_hostile(show: Show, asked: list[str], **query: str) -> Page:
    page = show("approval", **query)

    def watch(request: Request) -> None:
        if urlsplit(request.url).hostname == "evil.example":
            asked.append(request.url)

    page.on("request", watch)
    page.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))
    page.on("framenavigated", lambda frame: asked.append(f"navigated to {frame.url}"))
    push(page, everything())
    expect(page.locator(".cn-markup")).to_have_count(len([*hostile.HTML, *hostile.MATHML, *hostile.SVG]))
    page.wait_for_timeout(300)
    return page


class TestHostile:
    """What others write is drawn; it does not act."""

    def test_a_hundred_payloads(self, show: Show, asked: list[str]) -> None:
        """C22 to C24 of widget.md: no script runs, nothing loads, nothing in the content is or covers a control."""
        assert len(hostile.ALL) >= 100
        page = open_hostile(show, asked)
        assert page.evaluate("window.ran") is None
        assert page.evaluate(AUDIT) == []
        assert page.evaluate("document.querySelectorAll('iframe, object, embed, script:not([src])').length") == 0
        # The one control called so is ours, and it is what lies under the pointer.
        approve = page.get_by_role("button", name="Approve", exact=True)
        expect(approve).to_have_count(1)
        approve.scroll_into_view_if_needed()
        page.wait_for_timeout(400)
        hit = """button => {
          const box = button.getBoundingClientRect();
          return button.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2));
        }"""
        assert approve.evaluate(hit)
        for name in ("Send", "Undo", "More", "Attach files"):
            assert page.get_by_role("button", name=name, exact=True).count() in (0, 1), name
        for selector in (".cn-send", ".cn-header button:last-of-type", ".cn-composer textarea"):
            assert page.locator(selector).first.evaluate(hit), selector
        page.mouse.move(300, 300)
        approve.click()
        assert len(commands(page, "approve")) == 1
        assert asked == []

    def test_a_second_hundred_for_the_sanitiser(self, show: Show, asked: list[str]) -> None:
        """Section 7 of widget.md: what comes of any markup is clean, and stays so when it is written and read again."""
        assert len(hostile_markup.ALL) >= 100
        page = show("empty")
        page.on("request", lambda request: asked.append(request.url))
        asked.clear()
        results = zip(hostile_markup.ALL, page.evaluate(CLEAN, hostile_markup.ALL), strict=True)
        assert [(markup, found) for markup, found in results if found] == []
        page.wait_for_timeout(100)
        assert page.evaluate("window.ran") is None
        assert [url for url in asked if "extra-markup" not in url] == []

    def test_boxes_are_clipped(self, show: Show, asked: list[str]) -> None:
        """C24 of widget.md: what an html bundle draws stays within its box, whatever it says of its place."""
        page = open_hostile(show, asked)
        spilled = page.evaluate(
            """() => [...document.querySelectorAll('.cn-markup')].filter(box => {
              const card = box.closest('.cn-card').getBoundingClientRect(), own = box.getBoundingClientRect();
              const style = getComputedStyle(box);
              return own.width > card.width + 1 || own.height > 600 || !style.contain.match(/content|paint/);
            }).length"""
        )
        assert spilled == 0

    def test_direction_overrides_show(self, show: Show, asked: list[str]) -> None:
        """Section 7 of widget.md: direction overrides show as escapes, in text, names and arguments."""
        page = open_hostile(show, asked)
        assert (
            page.locator(".cn-panel").evaluate("e => /[\\u202a-\\u202e\\u2066-\\u2069]/.test(e.textContent)") is False
        )
        expect(page.locator("[data-message-id=m1]")).to_contain_text("\\u202egpj.exe")
        expect(page.locator("[data-message-id=m7]")).to_contain_text("report\\u202efdp.exe")

    def test_a_remote_image(self, show: Show, asked: list[str]) -> None:
        """C22 of widget.md: a box names host and alt text; its click is what asks, without a referrer."""
        page = show("empty")
        push(page, [reply("m1", text(f"![a chart]({hostile.OUT}.png) and <{hostile.OUT}.png>"))])
        seen: list[tuple[str, str | None]] = []
        page.on("request", lambda request: seen.append((request.url, request.headers.get("referer"))))
        image = page.get_by_role("button", name="Load image from evil.example: a chart")
        expect(image).to_be_visible()
        page.wait_for_timeout(200)
        assert [url for url, _ in seen if "evil" in url] == []
        image.click()
        shown = page.locator("img[src*='evil.example']")
        expect(shown).to_be_attached()
        assert shown.get_attribute("referrerpolicy") == "no-referrer"


class TestPolicy:
    """The panel works under the content security policy of section 7."""

    CONTENT = "Text.\n\n```python\nx = 1\n```\n\nand $x^2$ and a note[^1]\n\n[^1]: The note.\n"

    def test_with_blob_modules(self, show: Show) -> None:
        """C25 of widget.md: without `unsafe-eval` all works: colours, formulas, footnotes, clean markup, forms."""
        page = show("approval")
        table = {"text/html": "<table><tr><td>cell</td></tr></table>", "text/plain": "plain"}
        push(page, [reply("m1", text(self.CONTENT), call("c"), outputs("c", table))])
        message = page.locator("[data-message-id=m1]")
        expect(message.locator(".cn-hl-number")).to_have_text("1")
        expect(message.locator("math msup")).to_have_count(1)
        expect(message.locator("sup").get_by_role("link")).to_have_text("1")
        expect(message.get_by_role("region", name="Footnotes")).to_contain_text("The note.")
        expect(message.get_by_role("cell", name="cell")).to_be_visible()
        page.get_by_role("button", name="Edit arguments").click()
        expect(page.get_by_label("amount")).to_be_visible()
        message.locator("sup").get_by_role("link").click()
        expect(message.get_by_role("listitem").filter(has_text="The note.")).to_be_focused()
        assert "#" not in page.url

    def test_without_blob_modules(self, show: Show) -> None:
        """C25 of widget.md: code plain, math and footnotes as their source, a form as JSON, and one notice."""
        page = show("approval", document="strict.html")
        table = {"text/html": "<table><tr><td>cell</td></tr></table>", "text/plain": "plain"}
        push(page, [reply("m1", text(self.CONTENT), call("c"), outputs("c", table))])
        message = page.locator("[data-message-id=m1]")
        expect(page.get_by_text(re.compile("forbids loaded modules"))).to_have_count(1)
        expect(message.locator("code.cn-math")).to_have_text("x^2")
        expect(message.locator("pre code").first).to_have_text("x = 1\n")
        expect(message).to_contain_text("[^1]")
        expect(message.locator(".cn-outputs")).to_have_text("plain")
        page.get_by_role("button", name="Edit arguments").click()
        page.get_by_role("textbox", name="Arguments as JSON").fill('{"amount": 5}')
        page.wait_for_timeout(400)
        page.get_by_role("button", name="Approve", exact=True).click()
        assert commands(page, "approve")[0]["args"] == {"amount": 5}
