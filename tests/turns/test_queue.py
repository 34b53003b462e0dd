"""Admission, the queue and the five policies (spec/turns.md, sections 2 and 9)."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb import Agent, Debounce
from chatnb.errors import ConfigError, InputError
from chatnb.models import Reply, ScriptedModel
from chatnb.testing import mock_chat

SLOW = Reply("A is answered", delay=1.0)


def agent(concurrency: Any = "queue", *steps: Any, **options: Any) -> Agent:
    return Agent(
        ScriptedModel([*(steps or (SLOW,)), *[f"answer {n}" for n in range(2, 9)]]), concurrency=concurrency, **options
    )


def texts(mock: Any) -> list[str]:
    return [m.text for m in mock.chat.messages]


async def run_on(mock: Any) -> None:
    """Let the clock go until the chat is done."""
    for _ in range(30):
        await mock.clock.advance(1.0)


class TestOrder:
    """Inputs take the slot strictly in order of arrival."""

    async def test_a_mixture(self) -> None:
        """C19: while a turn runs, send B, undo, send C run after it in that order, each once."""
        async with mock_chat(agent()) as mock:
            first = mock.chat.send("A")
            await mock.clock.advance(0)
            second, third, fourth = mock.chat.send("B"), mock.chat.undo(), mock.chat.send("C")
            await run_on(mock)
            assert [s.result().status for s in (first, second, third, fourth)] == [
                "completed",
                "completed",
                "applied",
                "completed",
            ]
            assert texts(mock) == ["A", "A is answered", "C", "answer 3"]

    async def test_the_next_input_works_after_a_failure(self) -> None:
        """C19: the same when the turn fails."""
        async with mock_chat(agent("queue", Reply("half", delay=1.0, fail=RuntimeError("down")))) as mock:
            first, second = mock.chat.send("A"), mock.chat.send("B")
            await run_on(mock)
            assert (first.result().status, second.result().status) == ("error", "completed")

    async def test_order_is_that_of_the_answers(self) -> None:
        """A message enters the history when its slot starts: u1, a1, u2, a2."""
        async with mock_chat(agent()) as mock:
            mock.chat.send("A")
            mock.chat.send("B")
            await mock.clock.advance(0)
            assert [w.text for w in mock.chat.queue] == ["B"]
            assert "B" not in texts(mock)
            await run_on(mock)
            assert texts(mock) == ["A", "A is answered", "B", "answer 2"]


class TestPolicies:
    """The policies look only at sends that overlap."""

    async def test_latest(self) -> None:
        """C20: A untouched, B `skipped` but on the chain before C, C answered."""
        async with mock_chat(agent("latest")) as mock:
            a = mock.chat.send("A")
            await mock.clock.advance(0)
            b, c = mock.chat.send("B"), mock.chat.send("C")
            await run_on(mock)
            assert [s.result().status for s in (a, b, c)] == ["completed", "skipped", "completed"]
            assert texts(mock) == ["A", "A is answered", "B", "C", "answer 2"]

    async def test_a_barrier(self) -> None:
        """C20: a regenerate instead of C: B is answered."""
        async with mock_chat(agent("latest")) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            b, again = mock.chat.send("B"), mock.chat.regenerate()
            await run_on(mock)
            assert (b.result().status, again.result().status) == ("completed", "completed")

    async def test_merge(self) -> None:
        """C21: "x" and "y" become one user message with y's id and metadata; both have its outcome."""
        async with mock_chat(agent("merge")) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            x = mock.chat.send("x", metadata={"n": 1})
            y = mock.chat.send({"id": "why", "parts": [{"type": "text", "text": "y"}], "metadata": {"n": 2}})
            await run_on(mock)
            assert x.result() == y.result()
            merged = mock.chat.messages[2]
            assert [p.text for p in merged.parts] == ["x\n\ny"]
            assert (merged.id, dict(merged.metadata)) == ("why", {"n": 2})

    async def test_drop(self) -> None:
        """C22: an overlapping send is `skipped` at once and not stored."""
        async with mock_chat(agent("drop")) as mock:
            mock.chat.send("A")
            b = mock.chat.send("B")
            assert b.done
            assert b.result().status == "skipped"
            await run_on(mock)
            assert texts(mock) == ["A", "A is answered"]

    async def test_debounce(self) -> None:
        """C22: only C runs, not before C + 1 s; idle: at once."""
        async with mock_chat(agent(Debounce(1.0), "quick")) as mock:
            assert (await mock.chat.send("idle")).status == "completed"
        async with mock_chat(agent(Debounce(1.0), Reply("one", delay=0.1))) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            b = mock.chat.send("B")
            await mock.clock.advance(0.5)
            c = mock.chat.send("C")
            await mock.clock.advance(0.9)
            assert b.result().status == "skipped"
            assert not c.done
            assert len(mock.requests) == 1
            await mock.clock.advance(0.2)
            assert c.result().status == "completed"
            assert texts(mock) == ["A", "one", "B", "C", "answer 2"]

    @pytest.mark.parametrize("seconds", [-5, 0, float("inf"), float("nan"), 10**400])
    def test_bad_delays(self, seconds: float) -> None:
        """C22: a delay that is not finite and above 0, or an unknown policy, raises ConfigError."""
        with pytest.raises(ConfigError):
            Agent("offline", concurrency=Debounce(seconds))
        with pytest.raises(ConfigError):
            Agent("offline", concurrency="sometimes")  # type: ignore[arg-type]

    async def test_the_same_tick(self) -> None:
        """C23: two sends in the same tick on an idle chat: the second counts as overlapping."""
        async with mock_chat(agent("drop")) as mock:
            a, b = mock.chat.send("A"), mock.chat.send("B")
            await run_on(mock)
            assert (a.result().status, b.result().status) == ("completed", "skipped")


class TestTakenBack:
    """A waiting send that is stopped takes nothing else with it (section 2: nothing that arrives mid-turn is lost)."""

    @pytest.mark.parametrize("policy", ["latest", Debounce(0.5)])
    async def test_what_it_superseded_stays(self, policy: Any) -> None:
        """`latest`, A runs, C has superseded B and is stopped: B is on the chain, unanswered; the next send follows."""
        async with mock_chat(agent(policy)) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            b, c = mock.chat.send("B"), mock.chat.send("C")
            await mock.clock.advance(0)
            c.stop()
            await mock.clock.advance(0)
            assert (b.result().status, c.result().status) == ("skipped", "skipped")
            assert mock.chat.queue == ()
            await run_on(mock)
            assert texts(mock) == ["A", "A is answered", "B"]
            mock.chat.send("D")
            await run_on(mock)
            assert texts(mock) == ["A", "A is answered", "B", "D", "answer 2"]
            await mock.restart()
            assert texts(mock) == ["A", "A is answered", "B", "D", "answer 2"]
            assert len(mock.requests) == 2

    async def test_a_later_send_supersedes_what_is_left(self) -> None:
        """`latest`: C, which superseded B, is stopped, and D comes: B stands before D."""
        async with mock_chat(agent("latest")) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            mock.chat.send("B")
            mock.chat.send("C").stop()
            await mock.clock.advance(0)
            d = mock.chat.send("D")
            await run_on(mock)
            assert d.result().status == "completed"
            assert texts(mock) == ["A", "A is answered", "B", "D", "answer 2"]

    @pytest.mark.parametrize(
        ("which", "left", "id_of"),
        [(0, "y\n\nz", 2), (1, "x\n\nz", 2), (2, "x\n\ny", 1)],
        ids=["first", "middle", "last"],
    )
    async def test_one_of_several_merged(self, which: int, left: str, id_of: int) -> None:
        """`merge`: x, y and z wait as one message, one is stopped: it ends `skipped`, the others are one message."""
        async with mock_chat(agent("merge")) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            made = [
                mock.chat.send({"id": f"m{n}", "parts": [{"type": "text", "text": text}]})
                for n, text in enumerate("xyz")
            ]
            await mock.clock.advance(0)
            made[which].stop()
            await run_on(mock)
            statuses = ["completed", "completed", "completed"]
            statuses[which] = "skipped"
            assert [s.result().status for s in made] == statuses
            assert texts(mock) == ["A", "A is answered", left, "answer 2"]
            assert mock.chat.messages[2].id == f"m{id_of}"

    async def test_all_merged_one_after_another(self) -> None:
        """`merge`: when all that was merged is stopped, nothing waits and nothing is added."""
        async with mock_chat(agent("merge")) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            made = [mock.chat.send(text) for text in "xyz"]
            for one in made:
                one.stop()
            await run_on(mock)
            assert [s.result().status for s in made] == ["skipped"] * 3
            assert texts(mock) == ["A", "A is answered"]


class TestClear:
    """`clear()` raises the generation at the call."""

    async def test_everything_before_it_goes(self) -> None:
        """C24: A `stopped`, the waiting ones `skipped`, chain empty; a send after it runs and does not overlap."""
        async with mock_chat(agent("drop")) as mock:
            a = mock.chat.send("A")
            await mock.clock.advance(0.1)
            save = mock.chat.save_messages([])
            cleared = mock.chat.clear()
            after = mock.chat.send("after")
            await run_on(mock)
            assert a.result().status == "stopped"
            assert save.result().status == "skipped"
            assert cleared.result().status == "applied"
            assert after.result().status == "completed"
            assert texts(mock)[0] == "after"


class TestSave:
    """`save_messages` with a list or a function."""

    async def test_boot_comes_first(self) -> None:
        """`on_boot` is before the first input of an opened chat, a function of `save_messages` too; once."""
        order: list[str] = []
        saving = agent("queue", "quick")
        saving.on_boot(lambda event: order.append(event.trigger))

        def save(chain: Any) -> list[Any]:
            order.append("function")
            return []

        async with mock_chat(saving) as mock:
            await mock.chat.save_messages(save)
            await mock.chat.send("A")
            assert order == ["submit-message", "function"]

    async def test_functions_see_each_other(self) -> None:
        """C25: the second function sees the first one's answer; one that raises: `error`, no turn number used."""
        seen: list[int] = []

        def add(messages: list[Any]) -> list[Any]:
            seen.append(len(messages))
            return [*messages, {"id": f"u{len(messages)}", "role": "user", "parts": [{"type": "text", "text": "q"}]}]

        def fail(messages: list[Any]) -> list[Any]:
            raise ValueError("no")

        async with mock_chat(agent("queue", "one")) as mock:
            first, second = mock.chat.save_messages(add), mock.chat.save_messages(add)
            assert (await first).status == "completed"
            assert (await second).status == "completed"
            assert seen == [0, 2]
            failed = await mock.chat.save_messages(fail)
            assert failed.status == "error"
            assert failed.turn is None
            assert (await mock.chat.send("x")).turn == 2

    async def test_new_messages(self) -> None:
        """`new_ui_messages` of a saved list: its user messages that were not there before, and the response."""
        made = agent("queue", "one")
        done: list[Any] = []
        made.on_turn_complete(done.append)
        async with mock_chat(made) as mock:
            await mock.chat.send("u")
            new = {"id": "n", "role": "user", "parts": [{"type": "text", "text": "q"}]}
            await mock.chat.save_messages([*mock.chat.messages, new])
            assert [m.text for m in done[-1].new_ui_messages] == ["q", "answer 2"]

    async def test_a_function_does_not_survive(self) -> None:
        """A waiting function is gone with its kernel: its input ends, and the next one works."""
        async with mock_chat(agent("queue")) as mock:
            mock.chat.send("A")
            await mock.clock.advance(0)
            mock.chat.save_messages(lambda messages: messages)
            await mock.restart(kill=True)
            await run_on(mock)
            assert mock.store.load_inputs("chat-1", ("waiting", "taken")) == []
            assert (await mock.chat.send("B")).status == "completed"

    async def test_nothing_to_answer(self) -> None:
        """A list that ends in an answer is `applied`."""
        async with mock_chat(agent()) as mock:
            answer = {"id": "a", "role": "assistant", "parts": [{"type": "text", "text": "t"}]}
            assert (await mock.chat.save_messages([answer])).status == "applied"
            assert texts(mock) == ["t"]


class TestInputs:
    """What can't be taken raises at the call, and nothing is written."""

    @pytest.mark.parametrize(
        "value",
        ["", "  \n", [], {"role": "assistant", "parts": [{"type": "text", "text": "x"}]}, 7, b"x", {"parts": None}],
    )
    async def test_bad_messages(self, value: Any) -> None:
        """No text, no part, another role: InputError."""
        async with mock_chat(agent()) as mock:
            with pytest.raises(InputError):
                mock.chat.send(value)
            assert mock.chat.messages == ()

    @pytest.mark.parametrize("files", ["a.png", b"x", 5, {"type": "file"}])
    async def test_files_are_a_list(self, files: Any) -> None:
        """A single file is not taken letter by letter: InputError, nothing written."""
        async with mock_chat(agent()) as mock:
            with pytest.raises(InputError, match="files is a list"):
                mock.chat.send("x", files=files)
            assert mock.chat.messages == ()
