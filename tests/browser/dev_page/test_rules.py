"""Single sentences of sections 4 to 7 of spec/widget.md, each where it is easily broken."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import FilePayload, Page, expect

from tests.browser.dev_page.conftest import Show, commands

STREAM = {"op": "state", "state": {"status": "streaming", "isStreaming": True, "streamingId": "s"}}
READY = {"op": "state", "state": {"status": "ready", "isStreaming": False, "streamingId": None}}
TALK = """Here is **the result**, in a first paragraph that is long enough to wrap over the line of a narrow panel.

# Heading

| species | birds | mass |
|---|---:|---:|
| Adelie | 151 | 3,701 |
| Gentoo | 123 | 5,076 |

The gap of about $1.3\\,\\text{kg}$ holds.

1. First
   ```python
   def f(x):
       return x ** 2
   ```
2. Second

> A quote that ends it.
"""


def put(page: Page, *parts: dict[str, Any], role: str = "assistant", id: str = "x", **state: Any) -> None:
    """One more message at the end."""
    page.evaluate(
        """([id, role, parts, state]) => {
          const after = window.kernel.snapshot.messages.at(-1)?.message.id ?? null;
          window.kernel.ops({op: 'msg', message: {id, role, parts}, after}, {op: 'state', state});
        }""",
        [id, role, list(parts), state],
    )
    expect(page.locator(f"[data-message-id={id}]")).to_be_attached()


def enabled(page: Page) -> set[str]:
    """The names of all buttons that can be clicked."""
    buttons = page.locator(".chatnb-view button:not(:disabled)")
    return set(buttons.evaluate_all("all => all.map(button => button.ariaLabel || button.innerText.trim())"))


class TestSteady:
    """What is drawn stays where it is."""

    def test_nothing_jumps(self, show: Show) -> None:
        """C20 of widget.md: a growing text never shrinks; code is coloured when done, never empty for a frame."""
        page = show("history")
        result = page.evaluate(
            """async ([text, begin, end]) => {
              const k = window.kernel;
              const wait = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
              const log = document.querySelector('.cn-log'), before = document.querySelector('[data-message-id=u24]');
              k.ops(begin, {op: 'msg', message: {id: 's', role: 'assistant', parts: [{type: 'text', text: ''}]},
                         after: 'a24'});
              while (!document.querySelector('[data-message-id=s]')) await wait();
              const message = document.querySelector('[data-message-id=s]'), height = before.offsetHeight;
              const shrunk = [], empty = [];
              let last = 0, coloured = 0;
              const look = () => {
                const now = message.offsetHeight;
                if (now < last - 4) shrunk.push([last, now]);
                last = now;
                for (const pre of message.querySelectorAll('pre')) if (!pre.textContent.trim()) empty.push(now);
                if (before.offsetHeight !== height) shrunk.push('before');
                if (log.scrollHeight - log.scrollTop - log.clientHeight > 2) shrunk.push('away');
              };
              for (let at = 0; at < text.length; at += 5) {
                k.ops({op: 'text', m: 's', p: 0, field: 'text', d: text.slice(at, at + 5)});
                await wait();
                if (!/```\\w*\\s*$/.test(text.slice(0, at + 5))) look();
                if (at < text.indexOf('> A')) coloured += message.querySelectorAll('[class*=cn-hl]').length;
              }
              k.ops(end);
              for (let n = 0; n < 20; n++) { await wait(); look(); }
              return { shrunk, empty, coloured, end: message.querySelectorAll('[class*=cn-hl]').length };
            }""",
            [TALK, STREAM, READY],
        )
        assert result["shrunk"] == []
        assert result["empty"] == []
        assert result["coloured"] == 0
        assert result["end"] > 0

    def test_an_answer_after_a_heavy_one(self, show: Show) -> None:
        """3.1 of widget.md: what comes after a pause is drawn at once, also when the last drawing was slow."""
        page = show("history")
        page.wait_for_timeout(400)
        took = page.evaluate(
            """async () => {
              const start = performance.now();
              window.kernel.ops({op: 'msg', message: {id: 'n', role: 'assistant', parts: []}, after: 'a24'});
              while (!document.querySelector('[data-message-id=n]')) await new Promise(done => setTimeout(done));
              return performance.now() - start;
            }"""
        )
        assert took < 100


class TestContent:
    """What content may do, and may hide."""

    def test_direction_overrides(self, show: Show) -> None:
        """Section 7 of widget.md: they show as escapes in coloured code and in markup of results, too."""
        page = show("empty")
        bundle = {"text/html": "<b title='\u202ex'>pay \u202eeur 05</b>"}
        put(
            page,
            {"type": "text", "text": "```python\nx = 1 # \u202eeur 05\n```"},
            {"type": "tool-y", "toolCallId": "c", "state": "output-available", "input": {}, "output": None},
            {"type": "data-output", "id": "c", "data": {"toolCallId": "c", "outputs": [bundle]}},
        )
        expect(page.locator(".cn-hl-comment")).to_have_text("# \\u202eeur 05")
        expect(page.locator(".cn-markup b")).to_have_text("pay \\u202eeur 05")
        expect(page.locator(".cn-markup b")).to_have_attribute("title", "\\u202ex")

    def test_an_image_in_a_link(self, show: Show) -> None:
        """C22 of widget.md: a remote image that is a link is loaded by a click, and only that."""
        page = show("empty")
        put(page, {"type": "text", "text": "[![a chart](https://images.example/x.png)](https://elsewhere.example/)"})
        with page.context.expect_event("request", lambda request: "images.example" in request.url):
            page.get_by_role("button", name="Load image from images.example: a chart").click()
        assert len(page.context.pages) == 1

    def test_links_that_grow(self, show: Show) -> None:
        """C20 of widget.md: a bare address is a link once it is whole."""
        page = show("empty")
        page.evaluate("begin => window.kernel.ops(begin)", STREAM)
        put(page, {"type": "text", "text": "See https://a.exam"}, id="s")
        expect(page.locator(".cn-md")).to_have_text("See https://a.exam")
        expect(page.locator(".cn-md a")).to_have_count(0)
        page.evaluate("end => window.kernel.ops({op: 'text', m: 's', p: 0, field: 'text', d: 'ple/x'}, end)", READY)
        expect(page.locator(".cn-md a")).to_have_attribute("href", "https://a.example/x")

    def test_a_cell_that_cannot_be_inserted(self, show: Show) -> None:
        """Section 6 of notebook.md: where cells can't be inserted the text is offered to copy."""
        page = show("empty")
        source = "x = 1\n" * 80
        error = {"state": "output-error", "errorText": "Cells can't be inserted here.", "input": {"source": source}}
        put(page, {"type": "tool-insert_cell", "toolCallId": "c", **error})
        page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text; }")
        page.get_by_role("group", name="insert_cell").get_by_role("button", name="Copy", exact=True).click()
        assert page.evaluate("window.copied") == source


class TestInput:
    """Section 5.1 of widget.md."""

    def test_drops(self, show: Show) -> None:
        """A file may be dropped anywhere in the panel, and never takes the page away; a text is the box's own."""
        page = show("talk")
        drop = """(element, [name, text]) => {
          const data = new DataTransfer();
          if (name) data.items.add(new File(['x'], name, {type: 'text/csv'}));
          else data.setData('text/plain', text);
          const send = type => {
            const event = new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: data});
            element.dispatchEvent(event);
            return event.defaultPrevented;
          };
          return [send('dragover'), send('drop')];
        }"""
        log, box = page.get_by_role("log"), page.get_by_role("textbox", name="Message")
        assert log.evaluate(drop, ["orders.csv", ""]) == [True, True]
        expect(page.get_by_role("button", name="Remove orders.csv")).to_be_visible()
        assert box.evaluate(drop, ["", "words"]) == [False, False]

    def test_too_many(self, show: Show) -> None:
        """The error names each file that is left out, and the limit; the other ten stay."""
        page = show("empty")
        files = [FilePayload(name=f"{n}.csv", mimeType="text/csv", buffer=b"x") for n in range(12)]
        page.locator("input[type=file]").set_input_files(files)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("10.csv")
        expect(alert).to_contain_text("11.csv is left out: at most 10 files")
        expect(page.get_by_role("button", name=re.compile(r"Remove \d+\.csv"))).to_have_count(10)

    def test_undo_gives_files_back(self, show: Show) -> None:
        """5.2 of widget.md: after Undo the removed text and files are in the box, if that is empty."""
        page = show("talk")
        put(
            page,
            {"type": "text", "text": "Read this"},
            {"type": "file", "mediaType": "text/csv", "filename": "a.csv", "url": "data:text/csv;base64,eCx5Cg=="},
            {"type": "file", "mediaType": "text/plain", "filename": "b.txt", "url": "data:,one%20two"},
            role="user",
        )
        page.get_by_role("button", name="Undo").click()
        box = page.get_by_role("textbox", name="Message")
        expect(box).to_have_value("Read this")
        expect(page.get_by_role("button", name="Remove b.txt")).to_be_visible()
        page.evaluate(
            """() => {
              window.kernel.send = (command, _, buffers) => {
                if (command.type === 'send') window.sent = buffers.map(buffer => new TextDecoder().decode(buffer));
              };
            }"""
        )
        box.press("Enter")
        page.wait_for_function("() => window.sent?.length === 2")
        assert page.evaluate("window.sent") == ["x,y\n", "one two"]


class TestDecisions:
    """Section 5.4 of widget.md."""

    def test_all_of_it_in_the_group(self, show: Show) -> None:
        """The group has the title and every argument in full, however deep."""
        page = show("approval")
        page.evaluate(
            """() => {
              const item = {...window.kernel.snapshot.pending[0]};
              item.args = {order: {lines: [{sku: 'deep', more: {a: 1, b: 2, c: 3, d: 4, e: 5, f: 'deepest'}}]}};
              window.kernel.ops({op: 'pending', items: [item]});
            }"""
        )
        group = page.get_by_role("group", name="Approval needed: refund")
        expect(group).to_contain_text("Refund an order")
        expect(group.get_by_text("deepest")).to_be_visible()


class TestOff:
    """What cannot be done cannot be clicked."""

    def test_all_controls_of_a_dead_kernel(self, show: Show) -> None:
        """C12 of widget.md: only reading and copying are left, in open forms and editors too."""
        page = show("approval")
        page.evaluate(
            "window.kernel.ops({op: 'queue', items: [{id: 'q', kind: 'send', text: 'Later'}]}, {op: 'notice', id: 'n',"
            " level: 'info', text: 'Well', actions: [{kind: 'restoreVariables', label: 'Do', toolCallId: 'c'}]})"
        )
        page.get_by_role("button", name="Edit arguments").click()
        page.locator("[data-message-id=u1]").hover()
        page.locator("[data-message-id=u1]").get_by_role("button", name="Edit", exact=True).click()
        page.get_by_role("button", name="More").click()
        page.get_by_role("menuitem", name="Run an action").click()
        expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
        page.evaluate("window.kernel.isGone = true; window.kernel.emit('comm_live_update')")
        expect(page.get_by_text("The kernel was restarted.")).to_be_visible()
        # What closes an open form is left, too.
        assert enabled(page) <= {"Cancel", "Copy", "Jump to latest"}

    def test_all_controls_of_a_lost_lease(self, show: Show) -> None:
        """3.3 of widget.md: read-only, with a banner that names the new owner and "Take over"."""
        page = show("banners")
        expect(page.get_by_role("alert").first).to_contain_text("another notebook has taken over this conversation")
        page.locator("[data-message-id=a1]").get_by_role("button", name="Copy").wait_for()
        assert enabled(page) == {"Copy", "Copy it", "More", "Show the running reply", "Take over"}


class TestFocus:
    """Section 6 of widget.md: a control that vanishes hands its focus on."""

    def test_from_the_editor(self, show: Show) -> None:
        """Cancel and Escape lead back to the message's own toolbar."""
        page = show("talk")
        message = page.locator("[data-message-id=u1]")
        edit = message.get_by_role("button", name="Edit", exact=True)
        for leave in ("Cancel", "Escape"):
            edit.focus()
            page.keyboard.press("Enter")
            expect(message.get_by_role("textbox", name="Edit message")).to_be_focused()
            if leave == "Escape":
                page.keyboard.press("Escape")
            else:
                message.get_by_role("button", name="Cancel").focus()
                page.keyboard.press("Enter")
            expect(edit).to_be_focused()

    def test_what_is_told(self, show: Show) -> None:
        """Section 6 of widget.md: the polite region tells how many wait; errors are alerts, waiting is not."""
        page = show("talk")
        page.evaluate("window.kernel.ops({op: 'queue', items: [{id: 'q', kind: 'send', text: 'Later'}]})")
        expect(page.locator(".chatnb-view > [aria-live=polite]")).to_have_text("Messages waiting: 1.")
        page.evaluate("window.kernel.isSilent = true")
        page.get_by_role("button", name="Remove").click()
        page.wait_for_timeout(1100)
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("list", name="Waiting").get_by_role("status")).to_contain_text("Waiting for the kernel")
        assert len(commands(page, "cancel")) >= 1
