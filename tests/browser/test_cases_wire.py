"""Cases of widget.md, section 11, in which the wire loses, holds, doubles or reorders, in JupyterLab and in Notebook.

One notebook and one kernel for all of them; each case has a chat of its own. The wire is the page's own socket
(`wire.py`): the kernel, the server and the host are the real ones.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.case_notebook import CaseNotebook
from tests.browser.conftest import OpenNotebook
from tests.browser.test_approvals import button, press
from tests.browser.test_live_chat import words_in, words_up_to
from tests.browser.wire import Wire, tap

SECTIONS = """
## A heading

1. One **bold** item
2. Another, with `code`

| a | b |
|---|---|
| 1 | 2 |

```python
x = 1
```

and $x^2$ as well.
"""
CELLS = {
    "c8": 'show("c8", "This was in the box.")',
    "c9": 'show("c9", Reply(words(150), delay=0.02))',
    "c10": 'show("c10", "Answer one.", "Answer two.", "Answer three.")',
    "c11": 'show("c11", history=[message(n, f"Message {n}.") for n in range(10)])',
    "c14": 'show("c14", Reply(calls=[("refund", {"order": "14"})]), "Paid back.")',
    "c19": f"""
thousand = "".join(f"word{{n}} " + ("\\n\\n" if n % 40 == 39 else "") for n in range(1000))
show("c19", Reply(thousand, delay=0.003), history=[message(0, "Show it"), message(1, {SECTIONS!r})])
""",
    "c37": 'show("c37", Reply(words(150), delay=0.02), history=[message(n, f"Text {n}. " * 1200) for n in range(50)])',
    "c37 again": 'sent = chat.send("Count")\nchat.view(height="420px", transcript=False)',
}


@pytest.mark.parametrize("server", ["lab", "notebook"], indirect=True)
class TestWire:
    """What the wire does is made good."""

    def test_all(self, open_notebook: OpenNotebook, context: BrowserContext) -> None:
        tap(context)
        cases = CaseNotebook(open_notebook, CELLS)
        wire = Wire(cases.page)
        self._stop_before_the_ack(cases, wire)
        self._lost_frames(cases, wire)
        self._doubled_commands(cases, wire)
        self._an_old_epoch(cases, wire)
        self._a_late_hello(cases, wire)
        self._nodes_stay(cases, wire)
        self._pieces_of_a_reset(cases, wire)

    def _stop_before_the_ack(self, cases: CaseNotebook, wire: Wire) -> None:
        """C8: Stop before the `send` is acked, delivered in reverse: not answered, the text is back, status ready."""
        panel = cases.show("c8")
        wire.rule(going="() => 'hold'")
        panel.send("Never mind")
        panel.stop_button.click()
        wire.wait("['send', 'cancel', 'stop'].every(type => wire.sent.some(one => one.body.type === type))")
        assert wire.read("wire.sent.map(one => one.body.type).slice(0, 3)") == ["send", "cancel", "stop"]
        wire.read("wire.going = null")
        wire.release("held => held.reverse()")
        expect(panel.box).to_have_value("Never mind")
        answer = "wire.got.find(one => one.body.type === 'ack' && one.body.id === wire.sent[0].body.id)"
        wire.wait(answer)
        assert wire.read(f"{answer}.body.ok") is False
        panel.wait_for_status("ready")
        expect(panel.articles).to_have_count(0)
        assert cases.report() == {"texts": [], "asked": 0, "status": "ready"}
        panel.box.press("Enter")  # and what is there now is as good as typed
        expect(panel.message("assistant")).to_contain_text("This was in the box.")

    def _lost_frames(self, cases: CaseNotebook, wire: Wire) -> None:
        """C9: every frame with `seq` divisible by 7 is lost, and the turn's last: equal within 3 s of the end."""
        panel = cases.show("c9")
        wire.rule(
            coming="""frame => {
              if (frame.ops?.some(op => op.state?.status === 'ready')) wire.over ??= performance.now();
              if (frame.type === 'mark' && wire.over) wire.marked = true;
              // Of what comes after the end nothing is heard either, until the kernel says how far it is.
              return frame.type === 'ops' && (frame.seq % 7 === 0 || (wire.over && !wire.marked)) ? 'drop' : undefined;
            }"""
        )
        panel.send("Count")
        wire.wait("wire.over", timeout=30_000)
        panel.wait_for_status("ready")
        assert words_in(panel.message("assistant")) == words_up_to(150)
        assert wire.read("performance.now() - wire.over") < 3000
        assert wire.read("wire.lost.filter(one => one.body.seq % 7 === 0).length") >= 3
        expect(panel.articles).to_have_count(2)
        wire.rule()

    def _doubled_commands(self, cases: CaseNotebook, wire: Wire) -> None:
        """C10: each command comes twice, in random order, send and undo among them: each takes effect once."""
        panel = cases.show("c10")
        wire.rule(
            going="""(() => {
              let state = 10, timer = null;
              const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
              const shuffled = all => all.map(one => [random(), one]).sort(([a], [b]) => a - b).map(([, one]) => one);
              // Gathered for a moment, then all of them twice. Those of before may come once more after later ones.
              const before = [];
              return () => {
                clearTimeout(timer);
                timer = setTimeout(() => wire.release(held => {
                  const late = before.splice(0);
                  before.push(...held);
                  return shuffled([...held, ...held, ...late]);
                }), 150);
                return 'hold';
              };
            })()"""
        )
        for number, word in enumerate(("one", "two"), 1):
            panel.send(f"Question {word}")
            expect(panel.wait_for_reply(number)).to_contain_text(f"Answer {word}.")
        button(panel.root, "Undo").click()
        expect(panel.articles).to_have_count(2)
        button(panel.root, "Redo").click()
        expect(panel.articles).to_have_count(4)
        button(panel.root, "Undo").click()
        expect(panel.articles).to_have_count(2)
        panel.send("Question three")
        expect(panel.wait_for_reply(2)).to_contain_text("Answer three.")
        kinds = wire.read("[...new Set(wire.sent.map(one => one.body.type))]")
        assert {"send", "undo", "redo"} <= set(kinds)
        texts = ["Question one", "Answer one.", "Question three", "Answer three."]
        assert cases.report() == {"texts": texts, "asked": 3, "status": "ready"}
        wire.rule()

    def _an_old_epoch(self, cases: CaseNotebook, wire: Wire) -> None:
        """C11: a command of a kernel's that is no more: `stale_epoch`, ten messages remain and are shown."""
        panel = cases.show("c11")
        expect(panel.articles).to_have_count(10)
        wire.rule(going="command => command.type === 'clear' ? {...command, epoch: 'before'} : undefined")
        button(panel.root, "More").click()
        for name in ("Clear", "Clear the conversation?"):
            panel.root.get_by_role("menuitem", name=name).click()
        wire.wait("wire.got.some(one => one.body.error?.code === 'stale_epoch')")
        wire.wait("wire.sent.some(one => one.body.type === 'hello')")
        wire.wait("wire.got.some(one => one.body.type === 'secret')")
        expect(panel.articles).to_have_count(10)
        expect(panel.root).to_have_attribute("data-connection", "live")
        texts = [f"Message {number}." for number in range(10)]
        assert cases.report() == {"texts": texts, "asked": 0, "status": "ready"}
        wire.rule()

    def _a_late_hello(self, cases: CaseNotebook, wire: Wire) -> None:
        """C14: the first hello is held back until after an `approve`: that applies, the hello changes nothing."""
        wire.rule(
            going="""command => command.type === 'hello' &&
              wire.sent.filter(one => one.body.type === 'hello').length === 1 ? 'hold' : undefined"""
        )
        panel = cases.show("c14")
        panel.send("Refund order 14")
        press(cases.notebook, button(panel.root.get_by_role("group", name="Approval needed: refund"), "Approve"))
        expect(panel.message("assistant")).to_contain_text("Paid back.")
        panel.wait_for_status("ready")
        before = panel.log.inner_text()
        wire.read("wire.got.length = 0")
        assert wire.read("wire.held.length") == 1
        wire.release()
        wire.wait("wire.got.some(one => one.body.type === 'secret')")
        wire.wait("wire.got.some(one => ['mark', 'reset'].includes(one.body.type))")
        assert panel.log.inner_text() == before
        panel.wait_for_status("ready")
        assert cases.effects("refund") == ["14"]
        wire.rule()

    def _nodes_stay(self, cases: CaseNotebook, wire: Wire) -> None:
        """C19: message 1 is marked, 1,000 deltas stream, a gap and a reset come: the same node objects remain."""
        panel = cases.show("c19")
        settled = panel.root.locator("[data-message-id=m1]")
        expect(settled.locator("math")).to_have_count(1)
        expect(settled.locator(".cn-hl-number")).to_have_count(1)
        settled.evaluate("node => { window.marked = [...node.querySelectorAll('.cn-md, .cn-md *')]; }")
        wire.rule(
            coming="frame => frame.type === 'ops' && !wire.lost.length && wire.got.length > 20 ? 'drop' : undefined"
        )
        panel.send("Count to a thousand")
        wire.wait("wire.lost.length === 1 && wire.got.some(one => one.body.type === 'reset')")
        panel.wait_for_status("ready")
        assert words_in(panel.message("assistant")) == words_up_to(1000)
        same = """node => {
          const now = [...node.querySelectorAll('.cn-md, .cn-md *')];
          return now.length === window.marked.length && now.every((one, n) => one === window.marked[n]);
        }"""
        assert settled.evaluate(same)
        wire.rule()

    def _pieces_of_a_reset(self, cases: CaseNotebook, wire: Wire) -> None:
        """C37: 50 messages of 10 kB come in several frames; one lost: hello again; ops between count afterwards."""
        lost = "frame => frame.type === 'reset' && frame.index === 1 && !wire.lost.length ? 'drop' : undefined"
        wire.rule(coming=lost)
        panel = cases.show("c37")
        expect(panel.articles).to_have_count(50)
        resets = "wire.got.filter(one => one.body.type === 'reset')"
        assert wire.read(f"{resets}[0].body.count") >= 2
        assert wire.read("wire.lost.length") == 1
        # The pieces of an answer have one number, and no frame is too large.
        assert wire.read(f"new Set({resets}.slice(0, {resets}[0].body.count).map(one => one.body.seq)).size") == 1
        assert max(wire.read("wire.got.map(one => one.size)")) < 256 * 1024 + 300
        wire.rule(
            coming="""frame => {
              if (frame.type !== 'reset' || frame.index !== frame.count - 1) return;
              wire.between = wire.got.length;
              setTimeout(() => {
                wire.between = wire.got.slice(wire.between).filter(one => one.body.type === 'ops').length;
                wire.hellos = wire.sent.filter(one => one.body.type === 'hello').length;
                wire.release();
              }, 500);
              return 'hold';
            }"""
        )
        panel = cases.show("c37 again")
        panel.wait_for_status("ready")
        assert wire.read("wire.between") >= 3
        expect(panel.articles).to_have_count(50)
        assert words_in(panel.message("assistant")) == words_up_to(150)
        # What came between was kept: nothing had to be asked for again.
        assert wire.read("wire.sent.filter(one => one.body.type === 'hello').length === wire.hellos")
        wire.rule()
