"""Offers, decisions of the hook, budgets, parked turns, in real processes (spec/recovery.md, sections 4 to 7, 14)."""

from __future__ import annotations

import pytest

from tests.recovery.processes import OPEN, Scene, crash_in_text, recoveries, reopen


class TestOffers:
    """What is old, or wanted so, waits for a person."""

    def test_too_old(self, scene: Scene) -> None:
        """C10: crash 11 minutes ago: nothing runs, offered; `continue_last_turn()`: the same message grows."""
        crash_in_text(scene)
        found = reopen(scene, shift=660)
        assert (found["offered"], found["recovering"], scene.model_calls) == (True, False, 1)
        assert found["messages"][1][1].startswith("one")
        after = scene.run("""
        chat = make_agent("(on)").chat("c")
        before = chat.messages[1].id
        assert chat.interruption.offered
        outcome = await chat.continue_last_turn()
        result = [outcome.status, chat.messages[1].id == before, chat.messages[1].text, len(chat.messages)]
        result.append(chat.interruption)
        """)
        assert after[:2] == ["completed", True]
        assert after[2].endswith("(on)")
        assert after[3:] == [2, None]
        assert len(recoveries(scene)) == 1

    def test_not_auto(self, scene: Scene) -> None:
        """C11: `Recovery(auto=False)`, crash with no chunk: offered; continuing answers the user message, once."""
        scene.crash('chat = make_agent("x").chat("c")\nawait chat.send("hi")', at="model.before_call")
        found = scene.run("""
        chat = make_agent("answer", recovery=Recovery(auto=False)).chat("c")
        first = await chat.stable()
        result = [first, shown(chat)["offered"], (await chat.continue_last_turn()).status, shown(chat)["messages"]]
        """)
        assert found == [False, True, "completed", [["user", "hi"], ["assistant", "answer"]]]
        assert scene.model_calls == 1

    def test_a_new_message(self, scene: Scene) -> None:
        """C12: offered partial, then `send("new")`: one model call; partial stays; `conversation_changed`."""
        crash_in_text(scene)
        found = scene.run("""
        chat = make_agent("answer", recovery=Recovery(auto=False)).chat("c")
        await chat.stable()
        outcome = await chat.send("new")
        store = chat._engine.store
        incident = store.load_incidents("c")[0]
        result = [shown(chat), store.load_turns("c")[0].state, incident.reason, outcome.status]
        """)
        assert [m[0] for m in found[0]["messages"]] == ["user", "assistant", "user", "assistant"]
        assert found[0]["messages"][2:] == [["user", "new"], ["assistant", "answer"]]
        assert found[1:] == ["stopped", "conversation_changed", "completed"]
        assert scene.model_calls == 2

    HELD = """
    chat = make_agent(Reply("one two three four", delay=0.03)).chat("c")
    chat.send("hi")
    chat.send("x")
    chat.undo()
    await chat.send("y")
    """

    def test_held_inputs_run_after_it(self, scene: Scene) -> None:
        """With an offer in-flight inputs are held; Continue runs the turn and then them."""
        scene.crash(self.HELD.replace("    chat.undo()\n", ""), at="chunk.flushed:2")
        found = scene.run("""
        chat = make_agent("(on)", "a2", "a3", recovery=Recovery(auto=False)).chat("c")
        await chat.stable()
        result = [shown(chat)]
        await chat.continue_last_turn()
        await chat.stable()
        result.append(shown(chat))
        """)
        assert (found[0]["held"], found[0]["queue"]) == (2, [])
        assert [m[1] for m in found[1]["messages"]][2:] == ["x", "a2", "y", "a3"]

    def test_held_inputs_become_history(self, scene: Scene) -> None:
        """A new message turns held messages into plain history before it; held chat actions end `skipped`."""
        scene.crash(self.HELD, at="chunk.flushed:2")
        found = scene.run("""
        chat = make_agent("answer", recovery=Recovery(auto=False)).chat("c")
        await chat.stable()
        await chat.send("new")
        await chat.stable()
        result = shown(chat)
        """)
        assert [m[1] for m in found["messages"]][2:] == ["x", "y", "new", "answer"]
        assert reopen(scene)["messages"] == found["messages"]

    def test_discard(self, scene: Scene) -> None:
        """`discard()` ends an offered turn as `stopped`, reason `discarded`; its partial stays."""
        crash_in_text(scene)
        found = scene.run("""
        chat = make_agent("x", recovery=Recovery(auto=False)).chat("c")
        await chat.stable()
        chat.discard()
        stable = await chat.stable()
        store = chat._engine.store
        result = [stable, shown(chat), store.load_turns("c")[0].state, store.load_incidents("c")[0].reason]
        """)
        assert found[0] is True
        assert found[1]["messages"][1][1].startswith("one")
        assert (found[1]["offered"], found[2], found[3]) == (None, "stopped", "discarded")
        assert reopen(scene)["offered"] is None

    def test_the_hook_decides_over_age(self, scene: Scene) -> None:
        """C14: the hook returns `None` for a turn a day old: offered; a `RecoveryDecision()`: continued."""
        crash_in_text(scene)
        assert reopen(scene, shift=86400)["offered"] is True
        assert recoveries(scene)[0]["offered"] is True

    def test_the_hook_continues_an_old_one(self, scene: Scene) -> None:
        """C14: a `RecoveryDecision()` for a turn a day old: continued."""
        crash_in_text(scene)
        found = reopen(scene, '"(on)", hook=lambda event: RecoveryDecision()', shift=86400)
        assert found["messages"][1][1].endswith("(on)")
        assert found["offered"] is None

    def test_an_old_one_is_old_at_the_second_opening_too(self, scene: Scene) -> None:
        """An opening that dies before anything was decided is no sign of life of the turn."""
        crash_in_text(scene)
        scene.crash(OPEN.format(steps='"x"'), at="recovery.scanned", shift=660)
        assert reopen(scene, shift=662)["offered"] is True
        assert scene.model_calls == 1


class TestDecisions:
    """What the hook decides is done, and settled work is never dropped."""

    NO = "hook=lambda event: RecoveryDecision(persist=False, continue_=False)"

    def test_text_only(self, scene: Scene) -> None:
        """C15: `persist=False, continue_=False`, text only: no assistant message, the user message is there."""
        crash_in_text(scene)
        found = reopen(scene, f'"x", {self.NO}')
        assert found["messages"] == [["user", "hi"]]
        assert (found["offered"], found["reason"], scene.model_calls) == (False, "continue_disabled", 1)

    def test_settled_work(self, scene: Scene) -> None:
        """C15: with one settled call the whole partial is kept."""
        scene.crash(
            """
        chat = make_agent(Reply("sure", calls=[("pay", {"order": "7"}, "c1")]), "done").chat("c")
        await chat.send("hi")
        """,
            at="tool.recorded",
        )
        found = reopen(scene, f'"x", {self.NO}')
        assert found["parts"][1] == ["step-start", "sure", ["pay", "output-available", "paid 7"]]

    def test_dropping_the_partial_retries(self, scene: Scene) -> None:
        """`persist=False` on a text-only continue becomes a retry of the unanswered message."""
        crash_in_text(scene)
        found = reopen(scene, '"anew", hook=lambda event: RecoveryDecision(persist=False)')
        assert found["messages"] == [["user", "hi"], ["assistant", "anew"]]

    def test_a_chain(self, scene: Scene) -> None:
        """`chain` becomes a branch whose user leaf is answered; the stored partial stays in the tree."""
        crash_in_text(scene)
        found = scene.run("""
        def hook(event):
            message = {"id": "other", "role": "user", "parts": [{"type": "text", "text": "other"}]}
            return RecoveryDecision(chain=[message])
        chat = make_agent("answer", hook=hook).chat("c")
        await chat.stable()
        tree = chat._engine.tree
        result = [shown(chat)["messages"], len(tree), chat._engine.store.load_turns("c")[0].state]
        """)
        assert found == [[["user", "other"], ["assistant", "answer"]], 4, "completed"]

    def test_an_empty_chain(self, scene: Scene) -> None:
        """An empty `chain`: nothing runs."""
        crash_in_text(scene)
        found = reopen(scene, '"x", hook=lambda event: RecoveryDecision(chain=[])')
        assert (found["messages"], scene.model_calls) == ([], 1)

    def test_chosen_inputs(self, scene: Scene) -> None:
        """`recovered_inputs`: exactly those, in that order; an invented one gets the turn's body."""
        scene.crash(
            """
        chat = make_agent(Reply("one two three four", delay=0.03)).chat("c")
        chat.send("hi", body={"k": 1})
        chat.send("x")
        await chat.send("y")
        """,
            at="chunk.flushed:2",
        )
        found = scene.run("""
        bodies = []
        def hook(event):
            return RecoveryDecision(recovered_inputs=[event.in_flight_inputs[1], "mine"])
        agent = make_agent("(on)", "a2", "a3", hook=hook)
        agent.on_turn_start(lambda event: bodies.append(event.body))
        chat = agent.chat("c")
        await chat.stable()
        result = [shown(chat)["messages"], bodies]
        """)
        assert [m[1] for m in found[0]][2:] == ["y", "a2", "mine", "a3"]
        assert found[1] == [{"k": 1}, None, {"k": 1}]
        assert reopen(scene)["queue"] == []

    def test_no_inputs(self, scene: Scene) -> None:
        """`recovered_inputs=[]`: none run."""
        scene.crash(TestOffers.HELD, at="chunk.flushed:2")
        found = reopen(scene, '"(on)", hook=lambda event: RecoveryDecision(recovered_inputs=[])')
        assert len(found["messages"]) == 2

    @pytest.mark.parametrize("answer", ["1 / 0", "'yes'", "RecoveryDecision(chain=[{'role': 'nobody'}])"])
    def test_a_failing_hook(self, scene: Scene, answer: str) -> None:
        """A hook that raises or returns something else: partial stored, offered, reason told, no model call."""
        crash_in_text(scene)
        found = reopen(scene, f'"x", hook=lambda event: {answer}')
        assert (found["offered"], found["recovering"], scene.model_calls) == (True, False, 1)
        assert found["reason"]
        assert found["messages"][1][1].startswith("one")

    def test_requeued_and_then_the_hook_raises(self, scene: Scene) -> None:
        """C27: `recovery.requeued`, reopened, the hook raises: not recovering, offered, reason told, no model call."""
        crash_in_text(scene)
        scene.crash(OPEN.format(steps='"x"'), at="recovery.requeued")
        found = reopen(scene, '"x", hook=lambda event: 1 / 0')
        assert (found["recovering"], found["offered"]) == (False, True)
        assert "ZeroDivisionError" in found["reason"]
        assert scene.model_calls == 1


class TestBudgets:
    """What makes no progress is given up."""

    CRASH = 'chat = make_agent("x", recovery=Recovery(max_attempts=2)).chat("c")\nawait chat.stable()'
    GIVE_UP = """
    def exhausted(event):
        mark(f"exhausted {event.reason}")
    policy = Recovery(max_attempts=2, on_exhausted=exhausted, terminal_message="Over.")
    chat = make_agent("x", recovery=policy).chat("c")
    await chat.stable()
    result = [shown(chat), chat.error.message if chat.error else None]
    """

    def test_attempts(self, scene: Scene) -> None:
        """C19: `max_attempts=2`, crashing thrice: third reopening: `error`, `on_exhausted` once, banner."""
        scene.crash('chat = make_agent("x").chat("c")\nawait chat.send("hi")', at="model.before_call")
        scene.crash(self.CRASH, at="model.before_call")
        scene.crash(self.CRASH, at="model.before_call")
        found, text = scene.run(self.GIVE_UP)
        assert (found["error"], text, found["recovering"]) == ("max_attempts_exceeded", "Over.", False)
        assert scene.calls == ["exhausted max_attempts_exceeded"]
        again, text = scene.run(self.GIVE_UP)
        assert (again["error"], text) == ("max_attempts_exceeded", "Over.")
        assert (len(scene.calls), scene.model_calls) == (1, 0)
        assert [h["attempt"] for h in recoveries(scene)] == [1, 2]
        cleared = scene.run("""
        chat = make_agent("fine").chat("c")
        await chat.send("again")
        result = shown(chat)["error"]
        """)
        assert cleared is None
        assert reopen(scene)["error"] is None

    def test_progress(self, scene: Scene) -> None:
        """C20: each attempt adds text and crashes, `max_attempts=2`, five times: still recovering, `attempt` 1."""
        crash_in_text(scene)
        again = 'chat = make_agent(Reply("more words here now", delay=0.06), recovery=Recovery(max_attempts=2))'
        for _ in range(5):
            scene.crash(f'{again}.chat("c")\nawait chat.stable()', at="chunk.flushed:2")
        found = scene.run("""
        chat = make_agent("end", recovery=Recovery(max_attempts=2)).chat("c")
        await chat.stable()
        result = shown(chat)
        """)
        assert found["messages"][1][1].endswith("end")
        assert {h["attempt"] for h in recoveries(scene)} == {1}
        partials = [h["partial"] for h in recoveries(scene)]
        assert partials == sorted(partials, key=len)

    def test_work(self, scene: Scene) -> None:
        """C20: `max_work=2`, each attempt adds one: `work_budget_exceeded`."""
        crash_in_text(scene)
        again = 'chat = make_agent(Reply("more words here now", delay=0.06), recovery=Recovery(max_work=2)).chat("c")'
        for _ in range(3):
            scene.crash(again + "\nawait chat.stable()", at="chunk.flushed:2")
        found = scene.run("""
        chat = make_agent("end", recovery=Recovery(max_work=2)).chat("c")
        await chat.stable()
        result = shown(chat)
        """)
        assert found["error"] == "work_budget_exceeded"


class TestWaitingForAPerson:
    """A parked turn has no attempts, no clock, no age."""

    def test_a_week_later(self, scene: Scene) -> None:
        """C22: approval pending, crash, a week on: no incident, no attempt; `approve()`: handler once, turn goes on."""
        scene.crash(
            """
        chat = make_agent(Reply(calls=[("refund", {"order": "7"}, "c1")])).chat("c")
        await chat.send("hi")
        """,
            at="tool.approval",
        )
        found = scene.run(
            """
        chat = make_agent("thanks").chat("c")
        await chat.stable()
        result = [chat._engine.store.load_incidents("c"), shown(chat)["pending"], (await chat.approve()).text]
        """,
            shift=7 * 86400,
        )
        assert found == [[], ["refund"], "thanks"]
        assert (scene.calls, recoveries(scene)) == (["refund 7"], [])

    def test_a_batch_of_an_approval_and_a_running_call(self, scene: Scene) -> None:
        """C23: the call is unknown, the approval still in `pending`, the turn `awaiting`."""
        scene.crash("""
        calls = [("pay", {"order": "die"}, "c1"), ("refund", {"order": "7"}, "c2")]
        chat = make_agent(Reply(calls=calls)).chat("c")
        await chat.send("hi")
        """)
        found = scene.run("""
        chat = make_agent("thanks").chat("c")
        await chat.stable()
        result = [shown(chat), chat._engine.store.load_turns("c")[0].state]
        """)
        assert (found[0]["pending"], found[1]) == (["refund"], "awaiting")
        assert "whether it took effect is unknown" in found[0]["parts"][1][1][2]
        assert scene.calls == ["pay die"]
