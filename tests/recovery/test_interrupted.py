"""Interrupted turns, in real processes: classes, hook, decision, continuing (spec/recovery.md, sections 4 to 7, 14)."""

from __future__ import annotations

from tests.recovery.processes import Scene, crash_in_text, recoveries, reopen


class TestStash:
    """What `stash` keeps is there after a crash."""

    def test_the_last_one_counts(self, scene: Scene) -> None:
        """C2: `stash(1)`, `stash({"id": 2})`, crash: the hook sees `{"id": 2}`."""
        scene.crash("""
        agent = make_agent("x")
        @agent.on_turn_start
        def start(event):
            event.chat.stash(1)
            event.chat.stash({"id": 2})
            die()
        await agent.chat("c").send("hi")
        """)
        reopen(scene)
        assert recoveries(scene)[0]["data"] == {"id": 2}

    def test_refusals(self, scene: Scene) -> None:
        """C2: `stash` when idle is `NoActiveTurnError`; `stash(object())` is `TypeError`; too large is refused."""
        assert scene.run("""
        chat = make_agent("x").chat("c")
        result = []
        for data in ({"a": 1}, object(), "x" * 300_000):
            try:
                chat.stash(data)
            except Exception as error:
                result.append(type(error).__name__)
        """) == ["NoActiveTurnError", "TypeError", "MessageTooLargeError"]


class TestStopped:
    """A stop survives the process."""

    def test_a_stop_whose_cleanup_hangs(self, scene: Scene) -> None:
        """C3: `stop()` whose cleanup hangs, crash, reopened: `stopped`, partial kept, no hook, no model call."""
        scene.crash("""
        agent = make_agent("x")
        @agent.run
        async def run(turn):
            yield {"type": "start-step"}
            yield {"type": "text-start", "id": "t"}
            yield {"type": "text-delta", "id": "t", "delta": "so far"}
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(60)
        chat = agent.chat("c")
        chat.send("hi")
        await until(lambda: is_logged(chat))
        chat.stop()
        await until(lambda: chat._engine.turn.stop.is_set())  # it is written by then
        die()
        """)
        found = reopen(scene)
        assert found["messages"] == [["user", "hi"], ["assistant", "so far"]]
        assert (recoveries(scene), scene.model_calls, found["offered"]) == ([], 0, None)
        assert [h["status"] for h in scene.hooks] == ["stopped"]


class TestContinuing:
    """The same turn goes on in the same message."""

    def test_its_own_message(self, scene: Scene) -> None:
        """C9: [u1, a1, u2], crash inside a2's text: a2 has its own id, a1 is unchanged, the text is there once."""
        scene.crash(
            """
        chat = make_agent("first", Reply("one two three four", delay=0.03)).chat("c")
        await chat.send("u1")
        await chat.send("u2")
        """,
            at="chunk.flushed:5",
        )
        found = reopen(scene)
        partial = recoveries(scene)[0]["partial"]
        assert found["messages"][:3] == [["user", "u1"], ["assistant", "first"], ["user", "u2"]]
        assert "".join(found["parts"][3]).replace("step-start", "") == f"{partial}(on)"
        assert len(set(found["ids"])) == 4

    def test_shown_at_once(self, scene: Scene) -> None:
        """`chat.messages` shows the partial when `agent.chat()` returns, and `is_recovering` is true."""
        crash_in_text(scene)
        found = scene.run("""
        chat = make_agent(Reply("(on)", delay=0.2)).chat("c")
        result = [chat.messages[1].text, chat.is_recovering]
        await chat.stable()
        result += [chat.is_recovering]
        """)
        assert found[0].startswith("one")
        assert found[1:] == [True, False]

    def test_open_text_block(self, scene: Scene) -> None:
        """C33: crash in an open text block: one text part, one start-step in the log."""
        crash_in_text(scene)
        found = scene.run("""
        chat = make_agent("(on)", continuation="prefill").chat("c")
        await chat.stable()
        store = chat._engine.store
        turn = store.load_turns("c")[0]
        result = [shown(chat)["parts"][1], [c["type"] for c in store.load_chunks(turn.id)], turn.attempt, turn.number]
        """)
        partial = recoveries(scene)[0]["partial"]
        assert found[0] == ["step-start", f"{partial}(on)"]
        assert [found[1].count(kind) for kind in ("start", "start-step", "text-start", "finish")] == [1, 1, 1, 1]
        assert found[2:] == [2, 0]

    def test_prefill_request(self, scene: Scene) -> None:
        """A `prefill` request ends with the partial message, trailing white space cut."""
        crash_in_text(scene)
        request = scene.run("""
        model = make_model("(on)", continuation="prefill")
        chat = make_agent(model=model, actions=[]).chat("c")
        await chat.stable()
        result = [dict(m) for m in model.requests[0].messages]
        """)
        assert [m["role"] for m in request] == ["user", "assistant"]
        assert request[-1]["content"][0]["text"] == recoveries(scene)[0]["partial"].rstrip()

    def test_ephemeral_request(self, scene: Scene) -> None:
        """C16: a `user-message` request ends with a user message that is in no history and no export."""
        crash_in_text(scene)
        found = scene.run("""
        model = make_model("(on)")
        chat = make_agent(model=model, actions=[]).chat("c")
        before = chat.messages[1].id
        await chat.stable()
        said = model.requests[0].messages[-1]
        result = [said["role"], said["content"][-1]["text"], chat.export("json"), chat.messages[1].id == before]
        """)
        assert found[0] == "user"
        assert found[1] not in str(found[2])
        assert found[3] is True

    def test_after_a_settled_call(self, scene: Scene) -> None:
        """C33: a crash after a settled call: a new step."""
        scene.crash(
            """
        chat = make_agent(Reply("sure", calls=[("pay", {"order": "7"}, "c1")]), "done").chat("c")
        await chat.send("hi")
        """,
            at="tool.recorded",
        )
        assert reopen(scene, '"done"')["parts"][1] == [
            "step-start",
            "sure",
            ["pay", "output-available", "paid 7"],
            "step-start",
            "done",
        ]

    def test_in_a_read(self, scene: Scene) -> None:
        """C35: a crash in a read: its part says that it changes nothing and may be called again."""
        scene.crash("""
        chat = make_agent(Reply(calls=[("look", {"order": "die"}, "c1")])).chat("c")
        await chat.send("hi")
        """)
        call = reopen(scene, '"ok"')["parts"][1][1]
        assert call == [
            "look",
            "output-error",
            "The call was interrupted. It changes nothing; it is safe to call it again.",
        ]
        assert scene.calls == ["look die"]

    def test_in_an_idempotent_write(self, scene: Scene) -> None:
        """An `idempotent` action's unknown call says that it is safe to call again."""
        scene.crash("""
        chat = make_agent(Reply(calls=[("put", {"order": "die"}, "c1")])).chat("c")
        await chat.send("hi")
        """)
        assert reopen(scene, '"ok"')["parts"][1][1][2].endswith("It was not run again. It is safe to call it again.")


class TestInFlight:
    """What waited runs after the recovered turn, in order, each once."""

    def test_two_sends_waiting(self, scene: Scene) -> None:
        """C13: crash with two sends waiting: the recovered answer, then both, in order, each once."""
        scene.crash(
            """
        chat = make_agent(Reply("one two three four", delay=0.03)).chat("c")
        first = chat.send("hi")
        chat.send("x")
        await chat.send("y")
        """,
            at="chunk.flushed:2",
        )
        found = reopen(scene, '"(on)", "a2", "a3"')
        assert [m[1] for m in found["messages"]][2:] == ["x", "a2", "y", "a3"]
        assert found["messages"][1][1].endswith("(on)")
        assert recoveries(scene)[0]["in_flight"] == ["x", "y"]
        again = reopen(scene)
        assert (again["messages"], scene.model_calls) == (found["messages"], 4)

    def test_close_with_a_turn_and_a_send(self, scene: Scene) -> None:
        """C34: `close()`: within 1 s `stopped` and `skipped`, both `TurnError("closed")`; reopened: both answered."""
        found = scene.run("""
        import time
        chat = make_agent(Reply("one two three", hang=True)).chat("c")
        first, second = chat.send("hi"), chat.send("x")
        await until(lambda: is_logged(chat))
        began = time.monotonic()
        chat.close()
        outcomes = [await first, await second]
        result = [time.monotonic() - began, [[o.status, o.error.stage] for o in outcomes]]
        """)
        assert found[0] < 1.0
        assert found[1] == [["stopped", "closed"], ["skipped", "closed"]]
        again = reopen(scene, '"(on)", "a2"')
        assert [m[0] for m in again["messages"]] == ["user", "assistant", "user", "assistant"]
        assert again["parts"][1] == ["step-start", "one two three", "step-start", "(on)"]
        assert recoveries(scene)[0]["cause"] == "kernel_restarted"

    def test_close_while_a_handler_hangs(self, scene: Scene) -> None:
        """C34: also when a handler does not let go."""
        found = scene.run("""
        import time
        chat = make_agent(Reply(calls=[("pay", {"order": "slow"}, "c1")])).chat("c")
        first = chat.send("hi")
        await until((folder / "calls").exists)
        began = time.monotonic()
        chat.close()
        outcome = await first
        result = [time.monotonic() - began, outcome.status, outcome.error.stage]
        """)
        assert found[0] < 1.3
        assert found[1:] == ["stopped", "closed"]
        again = reopen(scene, '"sorry"')
        assert again["messages"][1][1] == "sorry"
        assert scene.calls == ["pay slow"]

    def test_exit_of_the_process(self, scene: Scene) -> None:
        """An orderly exit flushes, marks the turn and gives the lease back: cause `kernel_restarted`."""
        scene.run(
            """
        chat = make_agent(Reply("one two three", hang=True)).chat("c")
        chat.send("hi")
        await until(lambda: chat.messages[1:])
        from chatnb.runtime import process
        """,
            leave="exit",
        )
        assert reopen(scene)["messages"][1][1].endswith("(on)")
        assert recoveries(scene)[0]["cause"] == "kernel_restarted"


class TestContinueLastTurn:
    """`continue_last_turn` goes on with the last message."""

    def test_bodies(self, scene: Scene) -> None:
        """C18: `body={}` after {"a": 1}: the turn sees `{}`; with no argument {"a": 1}; an empty chat: `skipped`."""
        found = scene.run("""
        seen = []
        agent = make_agent("a", "b", "c")
        agent.on_turn_start(lambda event: seen.append([event.trigger, event.body]))
        chat = agent.chat("c")
        empty = (await chat.continue_last_turn()).status
        await chat.send("hi", body={"a": 1})
        await chat.continue_last_turn()
        await chat.continue_last_turn(body={})
        result = [empty, seen, len(chat.messages)]
        """)
        bodies = [["submit-message", {"a": 1}], ["continuation", {"a": 1}], ["continuation", {}]]
        assert found == ["skipped", bodies, 2]


class TestEmptyKernel:
    """A model is told that the kernel was restarted."""

    def test_the_note(self, scene: Scene) -> None:
        """C29: the first request holds the note just before the new message, and so do later ones; history does not."""
        scene.run('chat = make_agent("a1").chat("c")\nawait chat.send("u1")')
        found = scene.run("""
        model = make_model("a2", "a3")
        chat = make_agent(model=model).chat("c")
        await chat.send("u2")
        await chat.send("u3")
        texts = [[m["content"][0]["text"] for m in r.messages] for r in model.requests]
        result = [texts, [m.text for m in chat.messages]]
        """)
        (first, second), history = found
        assert [t for t in first if "kernel" not in t] == ["u1", "a1", "u2"]
        assert "kernel was restarted" in first[2]
        assert second[:4] == first
        assert history == ["u1", "a1", "u2", "a2", "u3", "a3"]

    def test_agents_without_actions_are_not_told(self, scene: Scene) -> None:
        """Requests of agents without actions carry no note."""
        scene.run('chat = make_agent("a1").chat("c")\nawait chat.send("u1")')
        assert scene.run("""
        model = make_model("a2")
        await make_agent(model=model, actions=[]).chat("c").send("u2")
        result = [m["content"][0]["text"] for m in model.requests[0].messages]
        """) == ["u1", "a1", "u2"]
