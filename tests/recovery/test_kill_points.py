"""Every kill point of spec/recovery.md, section 13: a process dies there by SIGKILL, another one opens the chat."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb.testing import kill_points
from tests.recovery.processes import Scene

NOTHING_DONE = "The call was interrupted before it started; nothing was done."
UNKNOWN = "The call was started but no result was recorded; whether it took effect is unknown. It was not run again."

SEND = """
chat = make_agent({steps}).chat("c")
await chat.send("hi")
"""
OPEN = """
chat = make_agent({steps}).chat("c")
await chat.stable()
result = shown(chat)
"""
PAY = 'Reply("sure", calls=[("pay", {"order": "7"}, "c1")]), "done"'


def send(steps: str) -> str:
    return SEND.format(steps=steps)


def reopen(scene: Scene, *steps: str, **options: Any) -> Any:
    return scene.run(OPEN.format(steps=", ".join(steps or ('"again"',))), **options)


def hook_calls(scene: Scene, name: str) -> list[dict[str, Any]]:
    return [h for h in scene.hooks if h["hook"] == name]


class TestInputs:
    """An input is written down before anything acts on it."""

    def test_before(self, scene: Scene) -> None:
        """`input.before`: no trace of the input."""
        scene.crash(send('"a"'), at="input.before")
        assert reopen(scene)["messages"] == []
        assert (scene.model_calls, scene.hooks) == (0, [])

    def test_after(self, scene: Scene) -> None:
        """`input.after`: it runs once as an in-flight input; one user message; no hook."""
        scene.crash(send('"a"'), at="input.after")
        assert reopen(scene)["messages"] == [["user", "hi"], ["assistant", "again"]]
        assert scene.model_calls == 1
        assert hook_calls(scene, "on_chat_recovery") == []


class TestRetries:
    """Nothing was produced: the message is answered anew."""

    @pytest.mark.parametrize("point", ["turn.started", "turn.stored", "model.before_call"])
    def test_retry(self, scene: Scene, point: str) -> None:
        """`turn.started`, `turn.stored`, `model.before_call`: one user message, one answer, one model call in all."""
        scene.crash(send('"a"'), at=point)
        found = reopen(scene)
        assert found["messages"] == [["user", "hi"], ["assistant", "again"]]
        assert scene.model_calls == 1
        assert [h["kind"] for h in hook_calls(scene, "on_chat_recovery")] == ["retry"]
        assert found["recovering"] is False

    def test_nothing_flushed(self, scene: Scene) -> None:
        """`chunk.buffered`: nothing flushed, retry."""
        scene.crash(send('"a b c"'), at="chunk.buffered:4")
        assert reopen(scene)["messages"] == [["user", "hi"], ["assistant", "again"]]
        assert hook_calls(scene, "on_chat_recovery")[0]["kind"] == "retry"


class TestChunks:
    """What was flushed is there once."""

    STEPS = 'Reply("one two three four five six", delay=0.04)'

    def test_buffered(self, scene: Scene) -> None:
        """`chunk.buffered`: else continue from the last flushed chunk."""
        scene.crash(send(self.STEPS), at="chunk.buffered:8")
        found = reopen(scene, '"(on)"')
        text = found["messages"][1][1]
        assert text.endswith("(on)")
        assert text.startswith("one two")
        assert len(found["messages"]) == 2
        assert hook_calls(scene, "on_chat_recovery")[0]["kind"] == "continue"

    @pytest.mark.parametrize("n", [2, 3])
    def test_flushed(self, scene: Scene, n: int) -> None:
        """`chunk.flushed`: all flushed text is there once; one assistant message."""
        scene.crash(send(self.STEPS), at=f"chunk.flushed:{n}")
        found = reopen(scene, '"(on)"')
        partial = hook_calls(scene, "on_chat_recovery")[0]["partial"]
        assert partial
        assert "one two three four five six".startswith(partial)
        assert found["messages"] == [["user", "hi"], ["assistant", f"{partial}(on)"]]


class TestCalls:
    """A handler is entered at most once; a recorded result is kept."""

    @pytest.mark.parametrize("point", ["tool.input", "tool.prepared"])
    def test_not_started(self, scene: Scene, point: str) -> None:
        """`tool.input`, `tool.prepared`: "nothing was done"; the handler never ran; the turn goes on."""
        scene.crash(send(PAY), at=point)
        found = reopen(scene, '"sorry"')
        call = found["parts"][1][2]
        assert call[:1] + call[1:] == ["pay", "output-error", NOTHING_DONE]
        assert scene.calls == []
        assert found["messages"][1][1].endswith("sorry")
        assert found["status"] == "ready"

    def test_approval(self, scene: Scene) -> None:
        """`tool.approval`: parked; in `chat.pending`; approving runs it once."""
        scene.crash(send('Reply(calls=[("refund", {"order": "7"}, "c1")])'), at="tool.approval")
        found = reopen(scene)
        assert (found["pending"], found["recovering"], found["offered"]) == (["refund"], False, None)
        assert (hook_calls(scene, "on_chat_recovery"), scene.calls) == ([], [])
        after = scene.run("""
        chat = make_agent("thanks").chat("c")
        outcome = await chat.approve()
        result = [outcome.status, outcome.text, shown(chat)]
        """)
        assert after[:2] == ["completed", "thanks"]
        assert scene.calls == ["refund 7"]

    ASK = """
    chat = make_agent(Reply(calls=[("refund", {"order": "7"}, "c1")]), "thanks").chat("c")
    await chat.send("hi")
    await chat.approve()
    """

    def test_decided(self, scene: Scene) -> None:
        """`decision.after`: the continuation runs once; nobody is asked again."""
        scene.crash(self.ASK, at="decision.after")
        found = reopen(scene, '"thanks"')
        assert scene.calls == ["refund 7"]
        assert (found["pending"], found["messages"][1][1]) == ([], "thanks")

    def test_before_entry(self, scene: Scene) -> None:
        """`tool.before_entry`: the grant is unused; the call runs once."""
        scene.crash(self.ASK, at="tool.before_entry")
        found = reopen(scene, '"thanks"')
        assert scene.calls == ["refund 7"]
        assert (found["pending"], found["messages"][1][1]) == ([], "thanks")

    @pytest.mark.parametrize(("point", "times"), [("tool.entered", 0), ("tool.returned", 1)])
    def test_unknown(self, scene: Scene, point: str, times: int) -> None:
        """`tool.entered`, `tool.returned`: unknown; the handler ran 0 or 1 times, never again; the turn goes on."""
        scene.crash(send(PAY), at=point)
        found = reopen(scene, '"sorry"')
        assert found["parts"][1][2] == ["pay", "output-error", UNKNOWN]
        assert scene.calls == ["pay 7"] * times
        assert found["messages"][1][1].endswith("sorry")
        assert hook_calls(scene, "on_chat_recovery")[0]["pending"] == [["pay", "unknown"]]

    @pytest.mark.parametrize(("point", "times"), [("tool.entered", 0), ("tool.returned", 1)])
    def test_unknown_once_approved(self, scene: Scene, point: str, times: int) -> None:
        """Of an approved call that was entered nobody knows: the hook hears of it, though its turn said nothing yet."""
        scene.crash(self.ASK, at=point)
        found = reopen(scene, '"sorry"')
        assert [p for p in found["parts"][1] if isinstance(p, list)] == [["refund", "output-error", UNKNOWN]]
        assert scene.calls == ["refund 7"] * times
        assert hook_calls(scene, "on_chat_recovery")[0]["pending"] == [["refund", "unknown"]]

    def test_recorded(self, scene: Scene) -> None:
        """`tool.recorded`: the result is kept; the handler ran once; the next step sees it."""
        scene.crash(send(PAY), at="tool.recorded")
        found = reopen(scene, '"done"')
        assert found["parts"][1][2] == ["pay", "output-available", "paid 7"]
        assert scene.calls == ["pay 7"]
        assert scene.lines("models")[-1].startswith('["user", "assistant", "tool"')

    def test_part_of_a_batch(self, scene: Scene) -> None:
        """`batch.partial`: the first is kept, the second unknown."""
        code = """
        pay = action(run_in="thread", parallel_safe=True)(make_pay(mark))
        chat = Agent(
            make_model(Reply(calls=[("pay", {"order": "7"}, "c1"), ("pay", {"order": "slow"}, "c2")])),
            actions=[pay], store=str(folder / "chats.db"),
        ).chat("c")
        await chat.send("hi")
        """
        scene.crash(code, at="batch.partial")
        found = reopen(scene, '"done"')
        calls = [p for p in found["parts"][1] if isinstance(p, list)]
        assert calls[0] == ["pay", "output-available", "paid 7"]
        assert calls[1] == ["pay", "output-error", UNKNOWN]
        assert sorted(scene.calls) == ["pay 7", "pay slow"]

    def test_between_steps(self, scene: Scene) -> None:
        """`step.between`: nothing to repair; the next step runs."""
        scene.crash(send(PAY), at="step.between")
        found = reopen(scene, '"done"')
        assert found["parts"][1][2] == ["pay", "output-available", "paid 7"]
        assert (scene.calls, scene.model_calls) == (["pay 7"], 2)
        assert found["parts"][1][3:] == ["step-start", "done"]


class TestEnds:
    """A turn that had said its end is completed without a model call."""

    def test_before_end(self, scene: Scene) -> None:
        """`turn.before_end`: completed without a model call."""
        scene.crash(send('"all of it"'), at="turn.before_end")
        found = reopen(scene)
        assert found["messages"] == [["user", "hi"], ["assistant", "all of it"]]
        assert (scene.model_calls, hook_calls(scene, "on_chat_recovery")) == (1, [])
        assert found["status"] == "ready"

    def test_ended(self, scene: Scene) -> None:
        """`turn.ended`: the answer stands, `on_turn_complete` is replayed once."""
        scene.crash(send('"all of it"'), at="turn.ended")
        assert reopen(scene)["messages"] == [["user", "hi"], ["assistant", "all of it"]]
        reopen(scene)
        assert scene.hooks == [{"hook": "on_turn_complete", "status": "completed", "replayed": True}]
        assert scene.model_calls == 1


class TestEdits:
    """A chat action is whole or not there."""

    EDIT = """
    chat = make_agent("a1", "a2").chat("c")
    await chat.send("u1")
    await chat.edit(chat.messages[0].id, "u2")
    """

    def test_before(self, scene: Scene) -> None:
        """`edit.before`: unedited, runs as an in-flight input."""
        scene.crash(self.EDIT, at="edit.before")
        assert reopen(scene, '"a2"')["messages"] == [["user", "u2"], ["assistant", "a2"]]
        assert scene.model_calls == 2

    def test_after(self, scene: Scene) -> None:
        """`edit.after`: the edit stands, its turn runs once."""
        scene.crash(self.EDIT, at="edit.after")
        assert reopen(scene, '"a2"')["messages"] == [["user", "u2"], ["assistant", "a2"]]
        assert scene.model_calls == 2
        branches = scene.run("""
        chat = make_agent().chat("c")
        result = len(chat.history.branches(chat.messages[0].id))
        """)
        assert branches == 2


class TestRecoveryItself:
    """Recovery may die too."""

    PARTIAL = 'Reply("one two three four", delay=0.04)'

    def test_lease_taken(self, scene: Scene) -> None:
        """`lease.taken`: the lease is dead; the next opener scans."""
        scene.crash(send(self.PARTIAL), at="chunk.flushed:2")
        scene.crash(OPEN.format(steps='"x"'), at="lease.taken")
        assert reopen(scene, '"(on)"')["messages"][1][1].endswith("(on)")

    @pytest.mark.parametrize("point", ["recovery.scanned", "recovery.stored"])
    def test_no_attempt_counted(self, scene: Scene, point: str) -> None:
        """`recovery.scanned`, `recovery.stored`: no attempt counted, the hook gets 1; the partial is there once."""
        scene.crash(send(self.PARTIAL), at="chunk.flushed:2")
        scene.crash(OPEN.format(steps='"x"'), at=point)
        found = reopen(scene, '"(on)"')
        hooks = hook_calls(scene, "on_chat_recovery")
        assert {h["attempt"] for h in hooks} == {1}
        assert len({h["incident"] for h in hooks}) == 1
        assert found["messages"] == [["user", "hi"], ["assistant", f"{hooks[-1]['partial']}(on)"]]

    def test_requeued(self, scene: Scene) -> None:
        """`recovery.requeued`: recovered once; the same `incident_id`, `attempt` 2."""
        scene.crash(send(self.PARTIAL), at="chunk.flushed:2")
        scene.crash(OPEN.format(steps='"x"'), at="recovery.requeued")
        found = reopen(scene, '"(on)"')
        hooks = hook_calls(scene, "on_chat_recovery")
        assert [h["attempt"] for h in hooks] == [1, 2]
        assert len({h["incident"] for h in hooks}) == 1
        assert found["messages"][1][1].endswith("(on)")
        assert scene.model_calls == 2

    GIVE_UP = """
    def exhausted(event):
        mark(f"exhausted {event.reason}")
    chat = make_agent("x", recovery=Recovery(max_attempts=1, on_exhausted=exhausted)).chat("c")
    await chat.stable()
    result = shown(chat)
    """

    @pytest.mark.parametrize(("point", "times"), [("exhausted.stored", 1), ("exhausted.recorded", 1)])
    def test_exhausted(self, scene: Scene, point: str, times: int) -> None:
        """`exhausted.stored`: repeated; `exhausted.recorded`: banner to new views, nothing runs."""
        scene.crash(send('"a"'), at="model.before_call")
        scene.crash(self.GIVE_UP, at="model.before_call")
        scene.crash(self.GIVE_UP, at=point)
        found = scene.run(self.GIVE_UP)
        assert found["error"] == "max_attempts_exceeded"
        assert (scene.model_calls, found["recovering"]) == (0, False)
        assert scene.calls == ["exhausted max_attempts_exceeded"] * times
        # What was left of the order is done as well: the incident is sealed, and the next opening finds nothing to do.
        assert scene.run(self.INCIDENTS) == [["exhausted", "max_attempts_exceeded"]]
        assert scene.run(self.GIVE_UP)["error"] == "max_attempts_exceeded"
        assert scene.calls == ["exhausted max_attempts_exceeded"] * times

    INCIDENTS = """
    from chatnb.store import open_store
    result = [[i.status, i.reason] for i in open_store(str(folder / "chats.db")).load_incidents("c")]
    """

    def test_migration(self, bare_scene: Scene) -> None:
        """`migrate.middle`: opens at the old revision and migrates."""
        scene = bare_scene
        scene.crash('make_agent().chat("c")', at="migrate.middle")
        assert reopen(scene)["messages"] == []


def test_every_point_is_here() -> None:
    """Every kill point is tried in this file."""
    text = __import__("pathlib").Path(__file__).read_text()
    assert [point for point in kill_points() if f'"{point}' not in text] == []
