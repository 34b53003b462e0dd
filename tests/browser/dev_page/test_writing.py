"""What a person types stays as typed, whatever the kernel answers and however late (spec/widget.md, 3.2, 3.3, 5.1)."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.dev_page.conftest import Show, commands

# The first answer of a kernel that was silent: the page's next hello gets it.
ANSWER = "window.kernel.isSilent = false"
# All that was said so far once more, under the next number: as after a gap.
RESET = """() => {
  const k = window.kernel;
  k.seq += 1;
  const to = k.commands.find(c => c.type === 'hello').view;
  k.frame({type: 'reset', to, seq: k.seq, snapshot: k.snapshot, reason: 'hello', index: 0, count: 1});
  return new Promise(done => requestAnimationFrame(() => setTimeout(done)));
}"""


def box_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def live(page: Page) -> None:
    expect(page.locator(".chatnb-view")).to_have_attribute("data-connection", "live")


def caret(field: Locator) -> tuple[bool, int, int]:
    """Whether the focus is there, and where the caret is."""
    at = field.evaluate("e => [e === document.activeElement, e.selectionStart, e.selectionEnd]")
    return (at[0], at[1], at[2])


class InputMethod:
    """An input method that composes, as the browser sees it."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)

    def compose(self, text: str) -> None:
        at = {"selectionStart": len(text), "selectionEnd": len(text)}
        self._session.send("Input.imeSetComposition", {"text": text, **at})

    def commit(self, text: str) -> None:
        self._session.send("Input.insertText", {"text": text})


class TestBeforeTheAnswer:
    """A panel whose kernel has not answered yet is written in already."""

    def test_letters_stay(self, show: Show) -> None:
        """Typed while connecting: every letter is there, nothing is sent before the answer, all of it after."""
        page = show("talk", silent="1")
        box = box_of(page)
        box.click()
        page.keyboard.type("abxdd")
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowLeft")
        expect(box).to_have_value("abxdd")
        page.evaluate(ANSWER)
        live(page)
        assert caret(box) == (True, 4, 4)
        page.keyboard.type("00")
        expect(box).to_have_value("abxd00d")
        assert commands(page, "send") == []
        page.keyboard.press("Enter")
        assert [command["text"] for command in commands(page, "send")] == ["abxd00d"]

    def test_a_draft_comes_before_them(self, show: Show) -> None:
        """What was written before a reload stands before what was typed since, and both outlive the next reload."""
        page = show("talk", silent="1", draft="Which island")
        box = box_of(page)
        box.click()
        page.keyboard.type("abx")
        page.keyboard.press("ArrowLeft")
        page.evaluate(ANSWER)
        expect(box).to_have_value("Which island\nabx")
        assert caret(box) == (True, 15, 15)
        assert page.evaluate("sessionStorage.getItem('chatnb.draft.demo')") == "Which island\nabx"

    def test_they_are_a_draft_at_once(self, show: Show) -> None:
        """What was typed before the chat was known outlives a reload, though no letter followed."""
        page = show("talk", silent="1")
        box_of(page).click()
        page.keyboard.type("abx")
        page.evaluate(ANSWER)
        live(page)
        assert page.evaluate("sessionStorage.getItem('chatnb.draft.demo')") == "abx"

    def test_live_means_drawn(self, show: Show) -> None:
        """Section 5 of widget.md: where `data-connection` says live, the talk is drawn and the controls are on."""
        page = show("talk", silent="1")
        page.evaluate(
            """() => {
              const root = document.querySelector('.chatnb-view');
              const look = () => [root.dataset.connection, root.querySelectorAll('article').length,
                root.querySelector('[aria-label="Attach files"]').disabled];
              window.seen = [];
              new MutationObserver(() => window.seen.push(look())).observe(root, {attributes: true});
            }"""
        )
        page.evaluate(ANSWER)
        live(page)
        assert page.evaluate("window.seen.find(([connection]) => connection === 'live')") == ["live", 2, False]

    def test_an_input_method_goes_on(self, show: Show) -> None:
        """An answer, a draft and a new language that come while an input method composes leave it alone."""
        page = show("talk", silent="1", draft="Which island", locale="ar")
        box, method = page.locator(".cn-composer textarea"), InputMethod(page)
        box.click()
        method.compose("ni")
        page.evaluate(ANSWER)
        expect(page.locator(".chatnb-view")).to_have_attribute("dir", "rtl")
        page.evaluate(RESET)
        expect(box).to_have_value("ni")
        method.compose("nihao")
        expect(box).to_have_value("nihao")
        method.commit("\u4f60\u597d")
        expect(box).to_have_value("Which island\n\u4f60\u597d")
        assert caret(box) == (True, 15, 15)

    def test_another_language_leaves_the_box(self, show: Show) -> None:
        """The texts of another language come while somebody writes: same box, same caret, its name translated."""
        page = show("talk", silent="1", locale="ar")
        box = page.locator(".cn-composer textarea")
        box.click()
        page.keyboard.type("abx")
        page.keyboard.press("ArrowLeft")
        box.evaluate("e => { e.isTheSame = true; }")
        page.evaluate(ANSWER)
        expect(page.locator(".chatnb-view")).to_have_attribute("dir", "rtl")
        expect(box).not_to_have_attribute("aria-label", "Message")
        assert box.evaluate("e => e.isTheSame") is True
        assert caret(box) == (True, 2, 2)


class TestBetweenDrawings:
    """The page draws when it can; what is typed does not wait for it."""

    def test_a_letter_right_after_enter(self, show: Show) -> None:
        """Enter empties the box at once: the next letter, before any drawing, begins the next message."""
        page = show("talk")
        box = box_of(page)
        box.fill("First")
        box.evaluate(
            """e => {
              e.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
              document.execCommand('insertText', false, 'S');
            }"""
        )
        page.keyboard.type("econd")
        expect(box).to_have_value("Second")
        assert [command["text"] for command in commands(page, "send")] == ["First"]

    def test_a_refused_text_comes_back_beside_the_next(self, show: Show) -> None:
        """3.2 of widget.md: what was typed is back in its box, also when something else is being written there."""
        page = show("talk")
        page.evaluate("window.kernel.isSilent = true")
        box = box_of(page)
        box.fill("First")
        box.press("Enter")
        page.keyboard.type("Second")
        page.keyboard.press("ArrowLeft")
        page.evaluate(
            """() => {
              const k = window.kernel, {view: to, id} = k.commands.find(c => c.type === 'send');
              k.frame({type: 'ack', to, id, ok: false, error: {code: 'too_large', message: 'This is too long.'}});
            }"""
        )
        expect(page.get_by_role("alert")).to_have_text("This is too long.")
        expect(box).to_have_value("First\nSecond")
        assert caret(box) == (True, 11, 11)

    @pytest.mark.parametrize("label", ["Message", "Reason (optional)", "amount", "Edit message"])
    def test_a_reset_while_typing(self, show: Show, label: str) -> None:
        """3.1 of widget.md: nodes survive a `reset`, and with them what is being typed, in every field."""
        page = show("approval")
        if label == "amount":
            page.get_by_role("button", name="Edit arguments").click()
        if label == "Edit message":
            page.locator("[data-role=user]").hover()
            page.get_by_role("button", name="Edit", exact=True).click()
        field = page.get_by_label(label, exact=True)
        field.fill("4")
        page.keyboard.type("56")
        page.keyboard.press("ArrowLeft")
        method = InputMethod(page)
        method.compose("7")
        before = field.input_value()
        page.evaluate(RESET)
        assert field.input_value() == before
        method.commit("78")
        assert field.input_value() == "45786"
        assert field.evaluate("e => e === document.activeElement")


# Takes the panel out of the page and puts it back some frames later, as a notebook does that draws what is in sight.
MOVE = """async () => {
  const view = document.getElementById('view'), next = () => new Promise(requestAnimationFrame);
  view.remove();
  await next();
  await next();
  document.querySelector('main').append(view);
  await next();
  await next();
  await next();
}"""
AWAY = "e => Math.round(e.scrollHeight - e.clientHeight - e.scrollTop)"


class TestMoved:
    """A host that takes a view out and puts it in again takes nothing of it away."""

    def test_to_another_place(self, show: Show) -> None:
        """Text and place in the talk stay: at its end, and above it for somebody who reads there."""
        page = show("history")
        box, log = box_of(page), page.get_by_role("log")
        box.fill("abx")
        assert log.evaluate(AWAY) == 0
        page.evaluate(MOVE)
        expect(box).to_have_value("abx")
        assert log.evaluate(AWAY) == 0
        log.evaluate("e => { e.scrollTop -= 500; }")
        expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
        page.evaluate(MOVE)
        assert log.evaluate(AWAY) == 500
