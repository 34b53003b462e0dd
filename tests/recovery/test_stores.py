"""Stores that vanish, are damaged, or hold a row that can't be read (spec/recovery.md, section 9)."""

from __future__ import annotations

from tests.recovery.processes import Scene


class TestMissing:
    """A store that is deleted while it is open is not made again."""

    def test_deleted(self, scene: Scene) -> None:
        """C30: deleted while open: within 5 s `StoreMissingError`, no new file, `export("md")` works."""
        found = scene.run("""
        chat = make_agent("an answer").chat("c")
        await chat.send("hi")
        for name in ("chats.db", "chats.db-wal", "chats.db-shm"):
            (folder / name).unlink(missing_ok=True)
        await asyncio.wait_for(until(lambda: chat.error is not None), 6)
        outcome = await chat.send("more")
        result = [
            type(chat.error.cause).__name__ if chat.error else None,
            [outcome.status, outcome.error.stage, type(outcome.error.cause).__name__],
            (folder / "chats.db").exists(),
            "an answer" in chat.export("md"),
        ]
        """)
        assert found[0] == "StoreMissingError"
        assert found[1] == ["error", "input", "StoreMissingError"]
        assert found[2:] == [False, True]

    def test_deleted_while_a_turn_runs(self, scene: Scene) -> None:
        """The turn is cancelled; what it has said stays shown."""
        found = scene.run("""
        chat = make_agent(Reply(" ".join(["word"] * 900), delay=0.01)).chat("c")
        sent = chat.send("hi")
        await until(lambda: chat.messages[1:])
        for name in ("chats.db", "chats.db-wal", "chats.db-shm"):
            (folder / name).unlink(missing_ok=True)
        outcome = await sent
        result = [outcome.status, outcome.error.stage, chat.messages[-1].text[:9], (folder / "chats.db").exists()]
        """)
        assert found == ["error", "store", "word word", False]


class TestDamaged:
    """A file that is no store is left alone."""

    def test_garbage(self, bare_scene: Scene) -> None:
        """C30: a garbage file: `StoreCorruptError` with the path; the same bytes."""
        path = bare_scene.folder / "chats.db"
        path.write_bytes(b"this is no database at all" * 100)
        before = path.read_bytes()
        found = bare_scene.run("""
        try:
            make_agent("x").chat("c")
        except Exception as error:
            result = [type(error).__name__, "chats.db" in str(error)]
        """)
        assert found == ["StoreCorruptError", True]
        assert path.read_bytes() == before

    def test_one_row(self, scene: Scene) -> None:
        """One unreadable message row: a placeholder in its place, not sent to models; the row is untouched."""
        scene.run('chat = make_agent("a1").chat("c")\nawait chat.send("u1")')
        scene.run("""
        import sqlite3
        with sqlite3.connect(folder / "chats.db") as db:
            db.execute("update contents set payload = '{{' where payload like '%a1%'")
        """)
        found = scene.run("""
        model = make_model("a2")
        chat = make_agent(model=model, actions=[]).chat("c")
        await chat.send("u2")
        result = [[p.type for p in chat.messages[1].parts], [m["role"] for m in model.requests[0].messages]]
        """)
        assert found == [["data-unreadable"], ["user", "user"]]
        assert (
            scene.run("""
        import sqlite3
        with sqlite3.connect(folder / "chats.db") as db:
            result = db.execute("select count(*) from contents where payload = '{{'").fetchone()[0]
        """)
            == 1
        )

    def test_a_torn_log(self, scene: Scene) -> None:
        """A torn or unreadable batch ends the log there; the turn goes on behind what can be read."""
        scene.crash(
            """
        chat = make_agent(Reply("one two three four five", delay=0.04)).chat("c")
        await chat.send("hi")
        """,
            at="chunk.flushed:3",
        )
        scene.run("""
        import sqlite3
        with sqlite3.connect(folder / "chats.db") as db:
            last = db.execute("select max(first_seq) from chunks").fetchone()[0]
            db.execute("update chunks set payload = '[{' where first_seq = ?", (last,))
        """)
        scene.crash(
            """
        chat = make_agent(Reply("six seven eight", delay=0.06)).chat("c")
        await chat.stable()
        """,
            at="chunk.flushed:1",
        )
        found = scene.run("""
        chat = make_agent("end").chat("c")
        await chat.stable()
        result = shown(chat)
        """)
        first, second = [h["partial"] for h in scene.hooks if h["hook"] == "on_chat_recovery"]
        assert second.startswith(first)
        assert found["messages"][1][1].startswith(first)
        assert found["messages"][1][1].endswith("end")


class TestClock:
    """The wall clock may jump."""

    def test_backwards(self, scene: Scene) -> None:
        """A clock that jumped back: ages are clamped at 0, so the turn is recent."""
        scene.crash(
            """
        chat = make_agent(Reply("one two three four", delay=0.04)).chat("c")
        await chat.send("hi")
        """,
            at="chunk.flushed:2",
            shift=86400,
        )
        found = scene.run("""
        chat = make_agent("end").chat("c")
        await chat.stable()
        result = shown(chat)
        """)
        assert found["messages"][1][1].endswith("end")
