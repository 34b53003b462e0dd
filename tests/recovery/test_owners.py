"""One owner per chat, between real processes (spec/recovery.md, sections 3 and 14)."""

from __future__ import annotations

import os
import signal

from tests.recovery.processes import Scene

HOLD = """
chat = make_agent("a", "b", "c").chat("c")
(folder / "open").touch()
await until((folder / "go").exists)
"""
TRY = """
from chatnb.errors import ChatInUseError
try:
    chat = make_agent("x", "y").chat("c")
    result = shown(chat)
except ChatInUseError as error:
    result = [error.host, error.pid, "take_over=True" in str(error)]
"""


def wait_for(scene: Scene, name: str) -> None:
    scene.run(f'await until((folder / "{name}").exists)')


class TestLease:
    """A living owner keeps its chat; a dead one loses it at once."""

    def test_in_use(self, scene: Scene) -> None:
        """C4: open in A, B opens: `ChatInUseError` naming host and pid; A killed: B opens at once."""
        owner = scene.start(HOLD)
        wait_for(scene, "open")
        host, pid, names_the_way = scene.run(TRY)
        assert (bool(host), pid, names_the_way) == (True, owner, True)
        os.kill(owner, signal.SIGKILL)
        assert scene.end(owner).is_killed
        assert scene.run(TRY, limit=5.0)["messages"] == []

    def test_asleep(self, scene: Scene) -> None:
        """C7: the owner stopped by SIGSTOP for 5 minutes on this host: still `ChatInUseError`."""
        owner = scene.start(HOLD)
        wait_for(scene, "open")
        os.kill(owner, signal.SIGSTOP)
        try:
            assert scene.run(TRY, shift=300)[1] == owner
        finally:
            os.kill(owner, signal.SIGKILL)
            scene.end(owner)

    def test_take_over(self, scene: Scene) -> None:
        """C5: B takes over; A's next `send` ends `error`, stage `input`, cause `LeaseLostError`; A stored nothing."""
        owner = scene.start(
            HOLD
            + """
from chatnb.errors import LeaseLostError
try:
    outcome = await chat.send("mine")
    first = [outcome.status, outcome.error.stage, type(outcome.error.cause).__name__]
except LeaseLostError as error:
    first = "raised"
try:
    chat.send("again")
    result = [first, "sent"]
except LeaseLostError:
    result = [first, "raised"]
"""
        )
        wait_for(scene, "open")
        scene.run('chat = make_agent("x").chat("c", take_over=True)\nawait chat.send("theirs")')
        (scene.folder / "go").touch()
        ended = scene.end(owner)
        assert ended.status == 0, ended.error
        assert ended.result == [["error", "input", "LeaseLostError"], "raised"]
        assert scene.run(TRY)["messages"] == [["user", "theirs"], ["assistant", "x"]]

    def test_a_running_turn_is_taken_over(self, scene: Scene) -> None:
        """The deposed owner cancels its turn and writes nothing; the new one goes on, cause `taken_over`."""
        owner = scene.start("""
        chat = make_agent(Reply(" ".join(["word"] * 400), delay=0.01)).chat("c")
        sent = chat.send("hi")
        await until(lambda: is_logged(chat))
        (folder / "open").touch()
        outcome = await sent
        result = [outcome.status, type(outcome.error.cause).__name__, "taken over" in outcome.error.message]
        """)
        wait_for(scene, "open")
        found = scene.run("""
        chat = make_agent("(on)").chat("c", take_over=True)
        await chat.stable()
        result = shown(chat)
        """)
        assert scene.end(owner).result == ["stopped", "LeaseLostError", True]  # and its outcome says so
        assert found["messages"][1][1].endswith("(on)")
        assert scene.hooks[0]["cause"] == "taken_over"
        assert scene.run(TRY)["messages"] == found["messages"]

    def test_two_take_over_at_once(self, scene: Scene) -> None:
        """C6: two processes `take_over` at once: exactly one chat object, one `ChatInUseError`, one continuation."""
        scene.crash(
            """
        chat = make_agent(Reply("one two three four", delay=0.03)).chat("c")
        await chat.send("hi")
        """,
            at="chunk.flushed:2",
        )
        owner = scene.start(HOLD.replace('"a", "b", "c"', '"x", recovery=Recovery(auto=False)'))
        wait_for(scene, "open")
        race = """
        from chatnb.errors import ChatInUseError
        await until((folder / "race").exists)
        try:
            chat = make_agent("(on)", hook=lambda event: RecoveryDecision()).chat("c", take_over=True)
            if chat.interruption is not None:
                await chat.continue_last_turn()
            await chat.stable()
            (folder / "done").touch()
            result = "won"
        except ChatInUseError as error:
            result = "lost"
        await until((folder / "done").exists)
        """
        racers = [scene.start(race), scene.start(race)]
        (scene.folder / "race").touch()
        ended = [scene.end(racer) for racer in racers]
        assert sorted(str(e.result) for e in ended) == ["lost", "won"], [e.error for e in ended]
        (scene.folder / "go").touch()
        scene.end(owner)
        assert scene.model_calls == 2


class TestFork:
    """A forked child has no chats."""

    def test_the_child_and_the_parent(self, scene: Scene) -> None:
        """C8: the child's `chat.send` is `ChatInUseError`; it exits; the parent's lease and next turn are fine."""
        found = scene.run("""
        chat = make_agent("a1", "a2").chat("c")
        await chat.send("u1")
        pid = os.fork()
        if pid == 0:
            try:
                chat.send("child")
                code = 1
            except Exception as error:
                code = 0 if type(error).__name__ == "ChatInUseError" and str(os.getppid()) in str(error) else 2
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        outcome = await chat.send("u2")
        result = [os.waitstatus_to_exitcode(status), outcome.status, len(chat.messages)]
        """)
        assert found == [0, "completed", 4]

    def test_every_use(self, scene: Scene) -> None:
        """Any use in the child raises `ChatInUseError` naming the parent; another chat works; nothing is released."""
        found = scene.run("""
        from chatnb.errors import ChatInUseError
        agent = make_agent("a1", "child", "a2")
        chat = agent.chat("c")
        await chat.send("u1")
        uses = {
            "state": lambda: (chat.messages, chat.status, chat.error, chat.pending, chat.queue, chat.usage),
            "close": chat.close,
            "export": lambda: chat.export("md"),
            "history": lambda: chat.history,
            "objects": lambda: chat.objects,
            "stable": lambda: asyncio.run(chat.stable(1)),
            "stash": lambda: chat.stash(1),
            "stop": chat.stop,
            "view": chat.view,
            "again": lambda: agent.chat("c"),
        }
        pid = os.fork()
        if pid == 0:
            asyncio._set_running_loop(None)
            wrong = []
            for name, use in uses.items():
                try:
                    use()
                    wrong.append(name)
                except ChatInUseError as error:
                    if error.pid != os.getppid():
                        wrong.append(name + " names another")
                except BaseException as error:
                    wrong.append(name + " " + repr(error))
            if agent.chat("other").send("hi").result(10).text != "child":
                wrong.append("another chat")
            (folder / "wrong").write_text(str(wrong))
            os._exit(0)
        os.waitpid(pid, 0)
        outcome = await chat.send("u2")
        result = [(folder / "wrong").read_text(), outcome.status, len(chat.messages)]
        """)
        assert found == ["[]", "completed", 4]
