"""VS Code, Colab, JupyterLite by stubs: what must work, what degrades and says so (spec/widget.md, section 8)."""

from __future__ import annotations

import json
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from chatnb.widget.delivery import find_place
from tests.hosts.environments import ROOT
from tests.hosts.stubs import StubHost
from tests.widget.page import Page


def assert_in_step(host: StubHost, widget: Any, page: Page) -> None:
    panel = widget._panel
    assert [m["id"] for m in page.messages] == [m.id for m in host.chat.messages]
    assert page.messages == json.loads(json.dumps([panel._form.message(m) for m in host.chat.messages]))
    assert page.pending == list(panel.channel.picture.pending)
    assert page.state["status"] == host.chat._engine.now.status


def approve(page: Page, item: Any) -> str:
    return page.command("approve", approvalId=item.id, hash=item.hash, nonce=page.nonce)


class TestVSCode:
    """All but one thing: commands wait for the running cell."""

    def test_the_panel_works(self) -> None:
        """A message is sent and answered, a call approved, a step undone; two outputs and a reload stay in step."""
        host = StubHost()
        widget = host.show()
        first, second = host.draw(widget), host.draw(widget, "view-2")
        host.wait(0.5)
        first.command("send", text="hello")
        host.wait(1)
        item = host.chat.ask("p1", amount=3)
        host.wait(0.5)
        approve(second, item)
        host.wait(1)
        assert host.chat.approved == ["p1"]
        reloaded = host.draw(widget, "view-3")
        host.wait(0.5)
        for page in (first, second, reloaded):
            assert_in_step(host, widget, page)
        second.command("undo")
        host.wait(1)
        assert host.chat.messages == ()
        assert_in_step(host, widget, first)
        widget.close()

    def test_a_reply_streams_while_a_cell_runs(self) -> None:
        """What the kernel sends is shown at once, also while a cell runs."""
        host = StubHost()
        widget = host.show()
        page = host.draw(widget)
        host.wait(0.5)

        def body() -> None:
            host.chat.say("from a cell")
            host.chat.begin()
            for number in range(10):
                host.time.call_later(0.1 * number, host.chat.delta, f"w{number} ")
            host.time.call_later(1.5, lambda: seen.append(page.messages[-1]["parts"][-1]["text"]))

        seen: list[str] = []
        host.run_cell(3, body)
        assert seen == ["".join(f"w{number} " for number in range(10))]
        host.chat.end()
        host.wait(1)
        assert_in_step(host, widget, page)
        widget.close()

    @pytest.mark.parametrize("ahead", [0.0, 30.0, -30.0])
    def test_a_command_waits_for_the_cell_and_the_panel_says_so(self, ahead: float) -> None:
        """It takes effect after the cell, once, however often it was sent again; then the delivery is known."""
        host = StubHost(clock_ahead=ahead)
        widget = host.show()
        page = host.draw(widget)
        host.wait(0.5)
        item = host.chat.ask("p1")
        host.wait(0.5)
        commands: list[str] = []
        host.run_cell(20, lambda: host.time.call_later(1, lambda: commands.append(approve(page, item))))
        assert commands[0] not in page.acks
        host.wait(1)
        assert page.acks[commands[0]]["ok"]
        assert host.chat.approved == ["p1"]
        assert page.state["delivery"] == "between-cells"
        widget.close()

    def test_a_panel_that_is_shown_by_a_long_cell(self) -> None:
        """The view says hello until the cell is over, and then shows what there is."""
        host = StubHost()
        host.chat.say("before")
        widget = host.show()
        pages: list[Page] = []
        host.run_cell(5, lambda: pages.append(host.draw(widget)))
        host.wait(0.5)
        assert_in_step(host, widget, pages[0])
        assert pages[0].state["delivery"] == "between-cells"
        widget.close()

    def test_it_is_known_by_its_mark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """VS Code tells the kernel the notebook's file: there commands wait, until a subshell shows otherwise."""
        shell = SimpleNamespace(kernel=object(), user_ns={"__vsc_ipynb_file__": "/a/b.ipynb"})
        module = ModuleType("IPython.core.getipython")
        module.get_ipython = lambda: shell  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython.core.getipython", module)
        monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace(version_info=(7, 4)))
        assert find_place().delivery == "between-cells"
        shell.user_ns = {}
        assert find_place().delivery == "unknown"
        monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace(version_info=(6, 31)))
        assert find_place().delivery == "between-cells"


@pytest.fixture
def in_colab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))


@pytest.mark.usefixtures("in_colab")
class TestColab:
    """The panel in its own output, and Python methods; updates come while a cell runs or on a 2 s hello."""

    def host(self) -> StubHost:
        return StubHost(by_itself=False, all_outputs=False)

    def test_updates_come_on_a_hello_and_the_panel_says_so(self) -> None:
        """What is said while no cell runs is there within 2 s of its hello; the panel tells this and `chat.view()`."""
        host = self.host()
        widget = host.show()
        page = host.draw(widget)
        host.wait(0.5)
        assert page.state["helloEvery"] == 2000
        assert page.state["delivery"] == "between-cells"
        told = page.notices["host"]["text"]
        assert "every 2 seconds" in told
        assert "chat.view()" in told
        host.chat.say("from a task")
        host.chat.begin()
        for number in range(40):
            host.chat.delta(f"w{number} ")
            host.wait(0.2)
        host.chat.end()
        assert len(page.messages) == 2
        host.wait(3.5)
        assert_in_step(host, widget, page)
        widget.close()

    def test_a_message_is_sent_and_answered(self) -> None:
        """A command reaches the kernel between cells, takes effect once, and its effect is seen within 3 s."""
        host = self.host()
        widget = host.show()
        page = host.draw(widget)
        host.wait(0.5)
        page.command("send", text="hello")
        host.wait(3)
        assert [name for name, *_ in host.chat.done] == ["send"]
        assert_in_step(host, widget, page)
        widget.close()

    def test_python_methods_and_updates_in_a_cell(self) -> None:
        """A cell that uses Python methods shows its updates while it runs."""
        host = self.host()
        widget = host.show()
        page = host.draw(widget)
        host.wait(0.5)
        host.run_cell(0.5, lambda: widget.send_message("from Python"))
        assert_in_step(host, widget, page)
        widget.close()

    def test_a_later_cell_needs_a_view_of_its_own(self) -> None:
        """A second panel by `chat.view()` in a later cell shows the same chat, beside the first."""
        host = self.host()
        first = host.show()
        page = host.draw(first)
        host.wait(0.5)
        host.run_cell(0.5, lambda: first.send_message("hello"))
        second = host.show()
        other = host.draw(second)
        host.wait(3)
        other.command("send", text="again")
        host.wait(3)
        assert_in_step(host, first, page)
        assert_in_step(host, second, other)
        assert len(other.messages) == 4
        first.close()
        second.close()

    def test_a_hello_costs_little(self) -> None:
        """While nothing is new, the answer to a hello is a secret and a mark, not everything again."""
        host = self.host()
        for number in range(20):
            host.chat.say(f"message {number} " + "x" * 1000)
        widget = host.show()
        page = host.draw(widget)
        host.wait(0.5)
        heard: list[dict[str, Any]] = []
        receive = page.receive
        page.receive = lambda frame, buffers: (heard.append(frame), receive(frame, buffers))  # type: ignore[method-assign, func-returns-value, assignment]
        host.wait(20)
        assert {frame["type"] for frame in heard} <= {"secret", "mark", "ack"}
        assert len([frame for frame in heard if frame["type"] == "secret"]) <= 12
        widget.close()


# A kernel in the browser has one thread; its loop is the one that cells run on.
JUPYTERLITE = """
import asyncio, json, sys, threading
sys.path.insert(0, sys.argv[1])

def refuse(self):
    raise RuntimeError("can't start new thread")

async def cell():
    from types import ModuleType, SimpleNamespace
    published = []
    shell = SimpleNamespace(
        kernel=SimpleNamespace(), user_ns={},
        events=SimpleNamespace(register=lambda *a: None, unregister=lambda *a: None),
        display_pub=SimpleNamespace(publish=lambda **given: published.append(given)),
    )
    shell.user_ns_hidden = {}
    import IPython
    import IPython.core.getipython
    IPython.get_ipython = IPython.core.getipython.get_ipython = lambda: shell
    import sqlalchemy, anthropic, anywidget
    sys.platform = "emscripten"
    threading.Thread.start = refuse
    from chatnb import Agent, action
    from chatnb.errors import CannotBlockError
    from chatnb.models import Reply, ScriptedModel
    from chatnb.store import memory_store

    @action
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    @action(needs_approval=True)
    def refund(order: str) -> str:
        "Refund an order."
        return "paid " + order

    steps = [Reply(calls=[("add", {"a": 2, "b": 3})]), Reply("It is 5.", delay=0.05)]
    steps += [Reply(calls=[("refund", {"order": "7"})]), "Paid."]
    agent = Agent(ScriptedModel(steps), actions=[add, refund], runtime="kernel", store=memory_store())
    chat = agent.chat("lite")
    widget = chat.view()
    frames, told = [], []
    widget._send_frame = widget._panel.channel._send_raw = lambda frame, buffers: frames.append(frame)
    widget.observe(lambda change: told.append(change.new), "status")
    epoch = widget._panel.channel.epoch

    async def command(kind, **fields):
        id = f"{kind}-{len(frames)}"
        data = {"v": 1, "epoch": epoch, "view": "v", "id": id, "type": kind, **fields}
        widget._handle_msg({"content": {"data": {"method": "custom", "content": data}}, "buffers": []})
        while not any(f["type"] == "ack" and f["id"] == id for f in frames):
            await asyncio.sleep(0.01)
        return next(f for f in frames if f["type"] == "ack" and f["id"] == id)

    await command("hello", versions=[1])
    sent = await command("send", text="Two and three?")
    await chat.stable()
    await chat.send("Refund order 7")
    nonce = next(f["nonce"] for f in frames if f["type"] == "secret")
    (asked,) = chat.pending
    approved = await command("approve", approvalId=asked.id, hash=asked.hash, nonce=nonce)
    await chat.stable()
    try:
        chat.send("and").result()
        blocked = "waited"
    except CannotBlockError as error:
        blocked = str(error)
    await asyncio.sleep(0.1)
    snapshot = next(f for f in frames if f["type"] == "reset")["snapshot"]
    exported = chat.export("md")
    print(json.dumps({
        "texts": [m.text for m in chat.messages[:4]], "sent": sent["ok"], "approved": approved["ok"], "told": told[:2],
        "delivery": snapshot["state"]["delivery"], "notices": [n["text"] for n in snapshot["notices"]],
        "blocked": blocked, "exported": "Paid." in exported,
        "transcript": bool(widget._render_transcript()["text/html"]),
    }))

asyncio.run(cell())
"""


class TestJupyterLite:
    """All with `runtime="kernel"` and a model of the notebook; commands wait; the store may be memory only."""

    def test_everything_on_one_thread(self) -> None:
        """Calls, approval, traits, transcript and export without a second thread; `.result()` says to use `await`."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", JUPYTERLITE, str(ROOT)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["texts"] == ["Two and three?", "It is 5.", "Refund order 7", "Paid."]
        assert told["sent"]
        assert told["approved"]
        assert told["told"] == ["submitted", "streaming"]
        assert told["delivery"] == "between-cells"
        assert "await" in told["blocked"]
        assert told["exported"]
        assert told["transcript"]
        (note,) = told["notices"]
        assert "clicks wait for the cell" in note
        assert "in memory only" in note

    def test_where_files_last(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With JupyterLite's drive the store lasts, and the panel does not say otherwise."""
        monkeypatch.setattr(sys, "platform", "emscripten")
        monkeypatch.setattr("chatnb.widget.delivery.os.path.ismount", lambda path: path == "/drive")
        assert "memory" not in str(find_place().note)
        assert "memory" in str(find_place(in_memory=True).note)
