"""What the panel does by itself, in a real browser with a scripted kernel (spec/widget.md)."""

from __future__ import annotations

import gzip

import pytest
from playwright.sync_api import FilePayload, expect

from tests.browser.dev_page.conftest import Show, commands
from tests.browser.dev_page.look import SCENARIOS, STATIC
from tests.browser.jupyter_server import ROOT

AXE = ROOT / "widgets" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


class TestSize:
    """What a saved notebook carries, and a page loads."""

    def test_the_core_bundle(self) -> None:
        """Section 8 of widget.md: the core, gzipped with its style sheet, has at most 45 kB."""
        if not (STATIC / "widget.js").exists():
            pytest.skip("The front end is not built: run `npm ci && npm run build` in widgets/.")
        files = (STATIC / name for name in ("widget.js", "widget.css"))
        assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) <= 45_000


class TestAccessibility:
    """Everybody can use it."""

    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_axe_finds_nothing(self, show: Show, scenario: str, theme: str) -> None:
        """C29 of widget.md: axe-core is clean in each state, light and dark."""
        if not AXE.exists():
            pytest.skip("axe-core is not there: run `npm ci` in widgets/.")
        page = show(scenario, theme=theme)
        page.wait_for_timeout(300)
        page.evaluate(AXE.read_text("utf-8"))
        result = page.evaluate("rules => axe.run('.chatnb-view', {runOnly: rules})", RULES)
        found = [(item["id"], item["nodes"][0]["html"]) for item in result["violations"]]
        assert found == []

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_narrow(self, show: Show, scenario: str) -> None:
        """Section 6 of widget.md: at 320 px nothing scrolls sideways, and targets have 24 px."""
        page = show(scenario, width=320)
        page.wait_for_timeout(200)
        wide = page.evaluate(
            "['.cn-log', '.cn-panel', '.chatnb-view'].map(s => document.querySelector(s))"
            ".map(e => e.scrollWidth - e.clientWidth)"
        )
        assert wide == [0, 0, 0]
        small = page.evaluate(
            "[...document.querySelectorAll('.chatnb-view :is(button, summary)')].map(e => e.getBoundingClientRect())"
            ".filter(r => r.width && (r.width < 24 || r.height < 24)).length"
        )
        assert small == 0

    def test_polite_region(self, show: Show) -> None:
        """C28 of widget.md: a stream changes the polite region at most three times; no token is told."""
        page = show("submitted")
        changes = page.evaluate(
            """async () => {
              let changes = 0;
              const region = document.querySelector('.chatnb-view [aria-live=polite]');
              const all = {childList: true, characterData: true, subtree: true};
              new MutationObserver(() => { changes += 1; }).observe(region, all);
              const k = window.kernel;
              k.ops({op: 'state', state: {status: 'streaming', isStreaming: true, streamingId: 'a1'}},
                    {op: 'msg', after: 'u1',
                     message: {id: 'a1', role: 'assistant', parts: [{type: 'text', text: ''}]}});
              for (let i = 0; i < 1000; i++) {
                k.ops({op: 'text', m: 'a1', p: 0, field: 'text', d: 'w' + i + ' '});
                if (i % 50 === 0) await new Promise(requestAnimationFrame);
              }
              k.ops({op: 'state', state: {status: 'ready', isStreaming: false, streamingId: null}});
              await new Promise(r => setTimeout(r, 300));
              return [changes, region.textContent.slice(0, 22)];
            }"""
        )
        assert changes[0] <= 3
        assert changes[1] == "Reply finished. w0 w1 "


class TestKeys:
    """Keys belong to the panel while it has the focus."""

    def test_nothing_leaves_but_saving(self, show: Show) -> None:
        """C26 of widget.md: no key reaches the host; Ctrl+S does, Escape once nothing is left to close."""
        page = show("talk")
        page.evaluate("window.heard = []; document.addEventListener('keydown', e => window.heard.push(e.key))")
        box = page.get_by_role("textbox", name="Message")
        box.click()
        page.keyboard.type("abxdd")
        for key in ("Shift+Enter", "Control+Enter", "Delete"):
            page.keyboard.press(key)
        page.get_by_role("button", name="Copy code").focus()
        page.keyboard.type("dd")
        assert page.evaluate("window.heard.filter(k => k !== 'Control' && k !== 'Shift')") == []
        assert box.input_value() == "abxdd\n"
        page.keyboard.press("Control+s")
        assert page.evaluate("window.heard.filter(k => k !== 'Control')") == ["s"]

    def test_input_methods(self, show: Show) -> None:
        """C27 of widget.md: Enter of an input method sends nothing; the next plain Enter sends once."""
        page = show("talk")
        box = page.get_by_role("textbox", name="Message")
        box.fill("text")
        for extra in ({"isComposing": True}, {"keyCode": 229}):
            box.evaluate(
                "(e, extra) => e.dispatchEvent(new KeyboardEvent('keydown',"
                " {key: 'Enter', bubbles: true, cancelable: true, ...extra}))",
                extra,
            )
        assert commands(page, "send") == []
        box.press("Enter")
        assert [command["text"] for command in commands(page, "send")] == ["text"]

    def test_walking(self, show: Show) -> None:
        """Section 6 of widget.md: arrows move between messages, Tab goes into the toolbar."""
        page = show("talk")
        page.get_by_role("log").focus()
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.dataset.messageId") == "a1"
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.dataset.messageId") == "u1"
        page.keyboard.press("Tab")
        expect(page.locator("[data-message-id=u1]").get_by_role("button", name="Edit")).to_be_focused()


class TestSending:
    """An own message is there at once, and never lost."""

    def test_stop_is_there_at_once(self, show: Show) -> None:
        """C7 of widget.md: with a silent kernel Stop is there within 100 ms of the click, the text marked "Sending"."""
        page = show("talk")
        page.evaluate("window.kernel.isSilent = true")
        page.get_by_role("textbox", name="Message").fill("Hello")
        expect(page.get_by_role("button", name="Send")).to_be_enabled()
        took = page.evaluate(
            """async () => {
              const start = performance.now();
              document.querySelector('[aria-label=Send]').click();
              const isThere = () => document.querySelector('[aria-label=Stop]') || performance.now() - start > 2000;
              while (!isThere()) await new Promise(r => setTimeout(r));
              return performance.now() - start;
            }"""
        )
        assert took < 100
        expect(page.locator("[data-sending]")).to_contain_text("Sending")
        page.wait_for_timeout(1100)
        expect(page.locator(".chatnb-view")).to_have_attribute("data-connection", "waiting")
        expect(page.get_by_text("Waiting for the kernel, which is running a cell")).to_be_visible()

    def test_stop_before_the_ack(self, show: Show) -> None:
        """C8 of widget.md: Stop before the ack takes the text back into the box; `cancel` goes before `stop`."""
        page = show("talk")
        page.evaluate("window.kernel.isSilent = true")
        box = page.get_by_role("textbox", name="Message")
        box.fill("Not this")
        box.press("Enter")
        page.evaluate("window.kernel.isSilent = false")
        page.get_by_role("button", name="Stop").click()
        expect(box).to_have_value("Not this")
        kinds = page.evaluate(
            "window.kernel.commands.map(c => c.type).filter(t => ['send', 'cancel', 'stop'].includes(t))"
        )
        assert kinds[:3] == ["send", "cancel", "stop"]
        expect(page.locator("[data-sending]")).to_have_count(0)
        expect(page.get_by_role("button", name="Send")).to_be_visible()

    def test_refused(self, show: Show) -> None:
        """Section 3.2 of widget.md: a refusal shows at the box, with what was typed."""
        page = show("talk")
        page.evaluate(
            "window.kernel.answers = {send: () => ({error: {code: 'too_large', message: 'This is too long.'}})}"
        )
        box = page.get_by_role("textbox", name="Message")
        box.fill("Long")
        box.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("This is too long.")
        expect(box).to_have_value("Long")

    def test_files(self, show: Show) -> None:
        """5.1 of widget.md: an error names file and limit, the other files stay."""
        page = show("talk")
        page.locator("input[type=file]").set_input_files(
            [
                FilePayload(name="a.csv", mimeType="text/csv", buffer=b"x,y"),
                FilePayload(name="b.exe", mimeType="application/x-msdownload", buffer=b"x"),
            ]
        )
        expect(page.get_by_role("button", name="Remove a.csv")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("b.exe")
        page.get_by_role("button", name="Send").click()
        page.wait_for_function("window.kernel.commands.some(c => c.type === 'send')")
        assert commands(page, "send")[0]["files"] == [{"name": "a.csv", "mediaType": "text/csv", "size": 3}]


class TestDecisions:
    """A decision is a person's, on the card's own button."""

    def test_approve(self, show: Show) -> None:
        """3.4 of widget.md: a decision carries nonce, id and hash; an event that no person made decides nothing."""
        page = show("approval")
        page.wait_for_timeout(400)
        group = page.get_by_role("group", name="Approval needed: refund")
        group.get_by_role("button", name="Approve").evaluate("button => button.click()")
        assert commands(page, "approve") == []
        group.get_by_role("button", name="Approve").click()
        (command,) = commands(page, "approve")
        assert (command["approvalId"], command["hash"], len(command["nonce"])) == ("ap1", "h1", 32)

    def test_edited(self, show: Show) -> None:
        """C6 of widget.md: an emptied field is an error at the field, and nothing is sent until it is right."""
        page = show("approval")
        page.wait_for_timeout(400)
        group = page.get_by_role("group", name="Approval needed: refund")
        group.get_by_role("button", name="Edit arguments").click()
        amount = group.get_by_label("amount")
        amount.fill("")
        group.get_by_role("button", name="Approve").click()
        expect(group.get_by_text("This is needed.")).to_be_visible()
        assert commands(page, "approve") == []
        amount.fill("50")
        group.get_by_role("button", name="Approve").click()
        assert commands(page, "approve")[0]["args"]["amount"] == 50

    def test_failed(self, show: Show) -> None:
        """C5 of widget.md: an error is on the card, and the buttons work again."""
        page = show("approval")
        page.evaluate(
            "window.kernel.answers = {reject: () => ({error: {code: 'store', message: 'The store is read-only.'}})}"
        )
        page.wait_for_timeout(400)
        group = page.get_by_role("group", name="Approval needed: refund")
        group.get_by_label("Reason (optional)").fill("No")
        group.get_by_role("button", name="Reject").click()
        expect(group.get_by_role("alert")).to_have_text("The store is read-only.")
        expect(group.get_by_role("button", name="Reject")).to_be_enabled()
        assert commands(page, "reject")[0]["reason"] == "No"

    def test_in_a_closed_chat(self, show: Show) -> None:
        """3.3 of widget.md: a closed chat is read-only; nothing leads to a decision that can't be made."""
        page = show("approval")
        leading = page.get_by_role("button", name="1 decision waiting")
        expect(leading).to_be_visible()
        page.evaluate("window.kernel.ops({op: 'state', state: {closed: {reason: 'closed'}}})")
        expect(page.get_by_role("button", name="Approve")).to_be_disabled()
        expect(leading).to_have_count(0)

    def test_without_extras(self, show: Show) -> None:
        """C25 of widget.md: where no extra can be had, code is plain, math its source, a form a box for JSON."""
        page = show("approval", extras="0")
        page.wait_for_timeout(400)
        page.get_by_role("button", name="Edit arguments").click()
        page.get_by_role("textbox", name="Arguments as JSON").fill('{"amount": 5}')
        page.get_by_role("button", name="Approve").click()
        assert commands(page, "approve")[0]["args"] == {"amount": 5}


class TestDrawing:
    """What is settled stays as it is."""

    def test_nodes_stay(self, show: Show) -> None:
        """C19 of widget.md: a thousand deltas, a gap and a reset leave the nodes of settled messages alone."""
        page = show("talk")
        page.wait_for_timeout(300)
        same = page.evaluate(
            """async () => {
              const nodes = [...document.querySelectorAll('[data-message-id=a1] *')];
              const before = nodes.filter(e => !e.closest('.cn-math'));
              const k = window.kernel;
              k.ops({op: 'state', state: {status: 'streaming', isStreaming: true, streamingId: 'a2'}},
                    {op: 'msg', after: 'a1',
                     message: {id: 'a2', role: 'assistant', parts: [{type: 'text', text: ''}]}});
              for (let i = 0; i < 1000; i++) {
                k.ops({op: 'text', m: 'a2', p: 0, field: 'text', d: i % 40 ? 'word ' : '\\n\\n'});
                if (i % 100 === 0) await new Promise(requestAnimationFrame);
              }
              k.snapshot = JSON.parse(JSON.stringify(k.snapshot));
              k.seq += 5;
              k.ops({op: 'state', state: {}});
              await new Promise(r => setTimeout(r, 900));
              return before.every(node => node.isConnected || node.closest('.cn-foot') || !node.parentNode);
            }"""
        )
        assert same is True

    def test_reading_above(self, show: Show) -> None:
        """C30 of widget.md: a reader above is not moved; "Jump to latest" counts; at the end it follows again."""
        page = show("history")
        log = page.get_by_role("log")
        log.hover()
        page.mouse.wheel(0, -600)
        page.wait_for_timeout(200)
        before = log.evaluate("e => e.scrollTop")
        page.evaluate(
            "for (let i = 0; i < 3; i++) window.kernel.ops({op: 'msg', message: {id: 'n' + i, role: 'assistant',"
            " parts: [{type: 'text', text: 'new '.repeat(300)}]}, after: i ? 'n' + (i - 1) : 'a24'})"
        )
        jump = page.get_by_role("button", name="Jump to latest")
        expect(jump).to_contain_text("3 new")
        assert log.evaluate("e => e.scrollTop") == before
        jump.click()
        expect(jump).to_have_count(0)
        page.evaluate(
            "window.kernel.ops({op: 'msg', after: 'n2',"
            " message: {id: 'z', role: 'assistant', parts: [{type: 'text', text: 'x '.repeat(900)}]}})"
        )
        page.wait_for_timeout(200)
        assert log.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") < 2

    def test_own_message_jumps(self, show: Show) -> None:
        """C30 of widget.md: sending from above goes to the end, and the end is followed from then on."""
        page = show("history")
        log = page.get_by_role("log")
        log.hover()
        page.mouse.wheel(0, -3000)
        expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
        box = page.get_by_role("textbox", name="Message")
        box.fill("And now?")
        box.press("Enter")
        expect(page.get_by_role("button", name="Jump to latest")).to_have_count(0)
        expect(page.locator("[data-sending]")).to_be_in_viewport()

    def test_long_talks_rest(self, show: Show) -> None:
        """C18 of widget.md, in a long talk: what is out of sight is not painted, and nothing moves by that."""
        page = show("history")
        page.evaluate(
            """() => {
              const text = n => [{type: 'text', text: 'words '.repeat(20 * (1 + n % 5))}];
              let after = 'a24';
              for (let n = 0; n < 40; n++) {
                window.kernel.ops({op: 'msg', after, message: {id: 'l' + n, role: 'assistant', parts: text(n)}});
                after = 'l' + n;
              }
            }"""
        )
        log = page.get_by_role("log")
        page.wait_for_timeout(300)
        height = log.evaluate("e => e.scrollHeight")
        expect(page.locator("[data-rest]").first).to_be_attached()
        page.wait_for_timeout(300)
        assert log.evaluate("e => e.scrollHeight") == height
        expect(page.locator("[data-message-id=l39]")).to_be_in_viewport()

    def test_load_earlier(self, show: Show) -> None:
        """C18 of widget.md: earlier messages come above, and the first visible line does not move."""
        page = show("history")
        log = page.get_by_role("log")
        log.hover()
        page.mouse.wheel(0, -99999)
        page.wait_for_timeout(200)
        first = page.locator("[data-message-id=u0]")
        top = first.evaluate("e => e.getBoundingClientRect().top")
        page.evaluate(
            """window.kernel.answers = {loadEarlier: (c) => {
              const part = {type: 'text', text: 'earlier'};
              const one = (i) => ({message: {id: 'e' + i, role: 'user', parts: [part]}});
              const messages = Array.from({length: 50}, (_, i) => one(i));
              const rest = {hasEarlier: false, seq: 0, index: 0, count: 1};
              window.kernel.frame({type: 'page', to: c.view, before: c.before, messages, ...rest});
              return {};
            }}"""
        )
        page.get_by_role("button", name="Load earlier").click()
        expect(page.locator("[data-message-id=e0]")).to_be_attached()
        assert abs(first.evaluate("e => e.getBoundingClientRect().top") - top) < 2
        assert commands(page, "loadEarlier")[0]["before"] == "u0"

    def test_untrusted_markup(self, show: Show) -> None:
        """C23 of widget.md: markup of results runs nothing and loads nothing."""
        page = show("cards")
        page.locator(".cn-markup table").wait_for(state="attached")
        assert page.locator(".cn-markup :is(script, img, [onerror], [style*=position], [class], [id])").count() == 0

    def test_remote_image(self, show: Show) -> None:
        """C22 of widget.md: a remote image is a box naming host and alt text; nothing is asked for until a click."""
        page = show("talk")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.evaluate(
            "window.kernel.ops({op: 'msg', message: {id: 'i', role: 'assistant', parts: [{type: 'text',"
            " text: 'See ![a chart](https://images.example/x.png) and https://images.example/y.png'}]}, after: 'a1'})"
        )
        expect(page.get_by_role("button", name="Load image from images.example: a chart")).to_be_visible()
        assert [url for url in asked if "images.example" in url] == []

    def test_theme(self, show: Show) -> None:
        """C29 of widget.md: a change of the host's theme is followed within 200 ms."""
        page = show("talk")
        page.evaluate("document.body.dataset.jpThemeLight = 'false'")
        page.wait_for_timeout(200)
        assert page.locator(".chatnb-view").get_attribute("data-theme") == "dark"

    def test_gone(self, show: Show) -> None:
        """C12 of widget.md: the kernel restarted: all is readable and copyable, nothing else works, nothing spins."""
        page = show("gone")
        expect(
            page.get_by_text("The kernel was restarted. The conversation is saved; run the cell to go on.")
        ).to_be_visible()
        expect(page.get_by_role("button", name="Undo")).to_be_disabled()
        expect(page.get_by_role("button", name="Copy", exact=True).last).to_be_enabled()
        assert page.locator(".cn-spin, .cn-dots").count() == 0
