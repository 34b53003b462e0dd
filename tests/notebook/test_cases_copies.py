"""Forks, comparisons, usage and exports of chats (spec/notebook.md, sections 9 and 10; cases C39 to C42)."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pandas as pd
import pytest

from chatnb import Agent, Usage, action, compare
from chatnb.errors import ChatExistsError, ExportError, ExportFormatError, MissingExtraError, UnknownMessageError
from chatnb.kernel.actions import notebook_actions
from chatnb.models import OfflineModel, Reply, ScriptedModel


@action(needs_approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


@action(read_only=True)
def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@action
def write(key: str) -> str:
    """Write something."""
    return key


class TestCompare:
    """One prompt, several models."""

    async def test_a_failure_is_a_row(self) -> None:
        """C39: two rows in the order of the models, the second with `error`; the given chat is unchanged."""
        chat = Agent(ScriptedModel(["before"])).chat()
        await chat.send("a")
        before = chat.export("json", branches=True)
        fails = ScriptedModel([Reply("so f", fail=RuntimeError("broken"))], name="fails")
        frame = await compare("hi", models=[OfflineModel(rhythm=False), fails], chat=chat)
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == [
            "model", "run", "text", "status", "error", "first_token_s", "latency_s", "input_tokens", "output_tokens",
            "cost",
        ]  # fmt: skip
        assert list(frame.model) == ["offline", "fails"]
        assert list(frame.status) == ["completed", "error"]
        assert pd.isna(frame.error[0])
        assert "broken" in frame.error[1]
        assert frame.text[1] == "so f"
        assert frame.cost[0] == 0
        assert chat.export("json", branches=True) == before

    async def test_what_is_offered(self) -> None:
        """Section 9: only read-only actions that need no approval; history of the chat; repetitions in order."""
        chat = Agent(ScriptedModel(["before"]), actions=[look, refund, write]).chat()
        await chat.send("first")
        one, two = ScriptedModel(["1a", "1b"], name="one"), ScriptedModel(["2a", "2b"], name="two")
        comparison = compare("hi", models=[one, two], chat=chat, repeat=2)
        await comparison
        rows = comparison.rows
        assert [(r["model"], r["run"]) for r in rows] == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
        assert sorted(r["text"] for r in rows) == ["1a", "1b", "2a", "2b"]
        assert {tuple(a.name for a in r.actions) for r in one.requests} == {("look",)}
        assert "first" in str(one.requests[0].messages)

    async def test_a_chat_that_waits(self) -> None:
        """Section 9: each run is a fork: a call that waits there is none here, and stays pending where it is."""
        chat = Agent(ScriptedModel([Reply(calls=[("refund", {"order": "7"})])]), actions=[refund]).chat()
        await chat.send("refund")
        model = ScriptedModel(["compared"])
        assert list((await compare("hi", models=[model], chat=chat)).text) == ["compared"]
        assert "Not executed: the chat was forked." in str(model.requests[0].messages)
        assert len(chat.pending) == 1

    async def test_without_pandas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Section 9: without pandas `await` gives the rows, and `to_frame()` names the command."""
        monkeypatch.setitem(sys.modules, "pandas", None)
        rows = await compare("hi", models=[ScriptedModel(["one"])])
        assert [row["text"] for row in rows] == ["one"]
        with pytest.raises(MissingExtraError, match="pip install"):
            Agent("offline").chat().usage.to_frame()

    async def test_keep_and_stop(self) -> None:
        """Section 9: `keep(i)` returns that column as a stored chat; stop ends all."""
        agent = Agent(ScriptedModel(["kept answer"], name="base"), actions=[look])
        comparison = compare("hi", models=[ScriptedModel(["one"]), ScriptedModel([Reply("x", hang=True)])], agent=agent)
        await comparison.runs[0].submission
        comparison.stop()
        frame = await comparison
        assert list(frame.status) == ["completed", "stopped"]
        kept = comparison.keep(0, "kept-column")
        assert [m.text for m in kept.messages] == ["hi", "one"]
        assert agent.chat("kept-column") is kept
        assert (await kept.send("more")).text == "kept answer"

    def test_from_a_script(self) -> None:
        """Section 9: `.result()` gives the frame; a model's unknown name is its row."""
        frame = compare("hi", models=["offline", "no-such-model"]).result(20)
        assert list(frame.status) == ["completed", "error"]
        assert "no-such-model" in frame.error[1]

    async def test_the_module_of_that_name(self) -> None:
        """`chatnb.compare` is the function, whatever was imported before."""
        module: Any = importlib.import_module("chatnb.compare")
        assert len(await module("hi", models=["offline"])) == 1

    async def test_columns(self) -> None:
        """Section 9: columns are one `ChatWidget` each in an ipywidgets box; every column shows the model's name."""
        comparison = compare("hi", models=[ScriptedModel(["1"], name="one"), ScriptedModel(["2"], name="two")])
        await comparison
        assert "application/vnd.jupyter.widget-view+json" in comparison._repr_mimebundle_()


class TestUsage:
    """`chat.usage.to_frame()`."""

    async def test_rows(self) -> None:
        """Section 9: one row per turn, with its own model and steps; unknown numbers are missing, not 0."""
        first = ScriptedModel(
            [
                Reply(calls=[("look", {"key": "a"})], usage=Usage(input_tokens=10, output_tokens=2, cost=0.5)),
                Reply("done", usage=Usage(input_tokens=20, output_tokens=3, cost=0.25)),
            ],
            name="first",
        )
        Agent(first, actions=[look]).chat("usage")
        chat = Agent(first, actions=[look]).chat("usage")
        await chat.send("a")
        chat = Agent(ScriptedModel([Reply("x", fail=RuntimeError("no"))], name="second")).chat("usage")
        await chat.send("b")
        frame = chat.usage.to_frame()
        assert list(frame.columns) == [
            "turn", "trigger", "model", "steps", "input_tokens", "output_tokens", "cache_read_tokens",
            "cache_write_tokens", "reasoning_tokens", "cost", "complete", "status", "started_at", "seconds",
        ]  # fmt: skip
        assert list(frame.turn) == [1, 2] or list(frame.turn) == [0, 1]
        assert list(frame.trigger) == ["submit-message", "submit-message"]
        assert list(frame.model) == ["first", "second"]
        assert list(frame.steps) == [2, 1]
        assert list(frame.status) == ["completed", "error"]
        assert frame.input_tokens[0] == 30
        assert frame.output_tokens[0] == 5
        assert frame.cost[0] == 0.75
        assert pd.isna(frame.input_tokens[1])
        assert pd.isna(frame.cache_read_tokens[0])
        assert not frame.complete[1]
        assert str(frame.started_at.dt.tz) == "UTC"
        assert (frame.seconds >= 0).all()
        assert chat.usage.total.input_tokens == 30

    async def test_none(self) -> None:
        """Section 9: no turn yet: an empty frame with its columns."""
        assert "turn" in Agent("offline").chat().usage.to_frame().columns


class TestFork:
    """A new, independent chat."""

    async def test_undecided(self) -> None:
        """Section 9: undecided calls become "Not executed: the chat was forked."; the given chat still waits."""
        agent = Agent(ScriptedModel([Reply(calls=[("refund", {"order": "7"})]), "a", "b"]), actions=[refund])
        chat = agent.chat("forked")
        await chat.send("refund")
        fork = chat.fork(id="fork")
        assert "Not executed: the chat was forked." in fork.export("json")
        assert (len(fork.pending), len(chat.pending)) == (0, 1)
        assert not {m.id for m in fork.messages} & {m.id for m in chat.messages}
        assert (await fork.send("go on")).status == "completed"
        assert (await chat.approve()).status == "completed"
        assert len(chat.messages) == 2
        with pytest.raises(ChatExistsError):
            chat.fork(id="fork")
        with pytest.raises(UnknownMessageError):
            chat.fork("no-such-message")
        assert len(chat.fork(chat.messages[0].id).messages) == 1

    async def test_a_running_turn_is_not_in_it(self) -> None:
        """Section 9: a running turn is not in the fork."""
        chat = Agent(ScriptedModel(["one", Reply("two", hang=True)])).chat()
        await chat.send("a")
        submission = chat.send("b")
        async for chunk in submission:
            if chunk["type"] == "text-delta":
                break
        assert [m.text for m in chat.fork().messages][:2] == ["a", "one"]
        assert "two" not in chat.fork().export("json")
        chat.stop()
        await submission


async def coder(*, html: str = "done") -> Any:
    """A chat with an approved and a rejected `run_code`, and a question."""
    steps = [
        Reply("Let me.", calls=[("run_code", {"code": "x = 6 * 7\nprint('x is', x)\nx"})]),
        "It is 42.",
        Reply(calls=[("run_code", {"code": "raise SystemExit('never')"})]),
        html,
    ]
    chat = Agent(ScriptedModel(steps), actions=notebook_actions()).chat()
    await chat.send("compute `x`")
    await chat.approve()
    await chat.send("and more")
    await chat.reject(reason="no need")
    return chat


class TestExport:
    """`chat.export`."""

    async def test_notebook(self, tmp_path: Path) -> None:
        """C40: nbformat validates, there is one code cell, and nbclient runs it without error."""
        chat = await coder()
        path = tmp_path / "analysis.ipynb"
        text = chat.export("ipynb", path)
        assert text == path.read_text("utf-8")
        assert text == chat.export("ipynb")
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        [code] = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert code.source == "x = 6 * 7\nprint('x is', x)\nx"
        assert "never" in "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        assert "widgets" not in notebook.metadata
        nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
        assert "x is 42" in str(notebook.cells)

    async def test_notebook_of_edited_code(self) -> None:
        """Section 10: the code that ran, with its outputs; one that raised in the chat does not end the notebook."""
        steps = [Reply(calls=[("run_code", {"code": "shown = 1"})]), "It failed."]
        chat = Agent(ScriptedModel(steps), actions=notebook_actions()).chat()
        await chat.send("go")
        await chat.approve(args={"code": "1/0"})
        notebook = nbformat.reads(chat.export("ipynb"), as_version=4)
        [code] = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert code.source == "1/0"
        assert code.outputs[-1].ename == "ZeroDivisionError"
        nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()

    async def test_html(self) -> None:
        """C41: a remote image makes no request; math and a table are shown. (The network is watched in the browser.)"""
        text = "<img src=https://x/y> ![z](https://x/z.png)\n\n$$\\frac{1}{2}$$\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        page = (await coder(html=text)).export("html")
        assert "<img" not in page.replace("&lt;img", "")
        assert "<math" in page
        assert "<table" in page
        assert "<script" not in page
        assert "default-src 'none'" in page

    async def test_json(self, tmp_path: Path) -> None:
        """C42: exported with branches and loaded, the new export is equal apart from the chat's id."""
        agent = Agent(ScriptedModel(["one", "two", "three", Reply(calls=[("refund", {"order": "1"})]), "end"]),
                      actions=[refund])  # fmt: skip
        chat = agent.chat("branched")
        await chat.send("a")
        await chat.edit(chat.messages[0].id, "b")
        await chat.regenerate()
        await chat.send("refund 1")
        text = chat.export("json", tmp_path / "chat.json", branches=True)
        loaded = agent.load(tmp_path / "chat.json", id="loaded")
        again = loaded.export("json", branches=True)
        assert json.loads(again.replace("loaded", "branched")) == json.loads(text)
        assert len(loaded.pending) == 1
        assert (await loaded.approve()).text == "end"
        with pytest.raises(ChatExistsError):
            agent.load(text, id="loaded")
        newer = json.loads(text)
        newer["version"] += 1
        with pytest.raises(ExportFormatError):
            agent.load(json.dumps(newer))

    async def test_markdown(self) -> None:
        """Section 10: roles as headings, text verbatim, calls fenced."""
        text = (await coder()).export("md")
        assert "compute `x`" in text
        assert "It is 42." in text
        assert "no need" in text
        with pytest.raises(ExportError):
            (await coder()).export("pdf")

    async def test_while_streaming(self) -> None:
        """Section 10: it works while streaming, marked unfinished, and never changes the chat."""
        chat = Agent(ScriptedModel([Reply("so far", hang=True)])).chat()
        submission = chat.send("a")
        async for chunk in submission:
            if chunk["type"] == "text-delta":
                break
        for format in ("md", "html", "json", "ipynb"):
            text = chat.export(format)
            assert "so" in text
            assert "unfinished" in text.lower()
        chat.stop()
        await submission

    async def test_repr(self) -> None:
        """Section 10: `repr(chat)` is `Chat ID (N messages, STATUS)`."""
        chat = Agent("offline").chat("shown")
        assert repr(chat) == "Chat shown (0 messages, ready)"
