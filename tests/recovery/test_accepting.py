"""A process dies while a person's answer to an offer is being done: it counts once (spec/recovery.md, 4 and 6)."""

from __future__ import annotations

import pytest

from tests.recovery.processes import Scene

OFFER = """
chat = make_agent({steps}, recovery=Recovery(auto=False)).chat("c")
await chat.stable()
"""
LOOK = """
store = chat._engine.store
result = [
    shown(chat)["messages"], shown(chat)["offered"],
    [turn.state for turn in store.load_turns("c")], [turn.body for turn in store.load_turns("c")],
    [row.kind for row in store.load_inputs("c", ("waiting", "held", "taken"))],
]
"""


def offer(steps: str) -> str:
    return OFFER.format(steps=steps)


@pytest.fixture
def offered(scene: Scene) -> Scene:
    """A chat with an offered turn, and a message held behind it."""
    scene.crash(
        """
    chat = make_agent(Reply("one two three four", delay=0.04)).chat("c")
    chat.send("hi")
    await chat.send("behind")
    """,
        at="chunk.flushed:2",
    )
    assert scene.run(offer('"never"') + 'result = shown(chat)["held"]') == 1
    return scene


def partial(scene: Scene) -> str:
    """What the turn had said when it was first interrupted."""
    return next(str(hook["partial"]) for hook in scene.hooks if hook["hook"] == "on_chat_recovery")


class TestContinue:
    """`continue_last_turn(body=...)` on an offered turn."""

    CONTINUE = offer('Reply("(on) and on", delay=0.06)') + 'await chat.continue_last_turn(body={"b": 2})'

    @pytest.mark.parametrize("point", ["input.after", "recovery.stored"])
    def test_not_yet_in_line(self, offered: Scene, point: str) -> None:
        """Admitted and not done: the next opening does it, with its body, without asking again."""
        offered.crash(self.CONTINUE, at=point)
        messages, is_offered, turns, bodies, left = offered.run(offer('"(on)", "yes"') + LOOK)
        assert messages == [
            ["user", "hi"],
            ["assistant", partial(offered) + "(on)"],
            ["user", "behind"],
            ["assistant", "yes"],
        ]
        assert (is_offered, turns, bodies[0], left) == (None, ["completed", "completed"], {"b": 2}, [])

    @pytest.mark.parametrize("point", ["recovery.requeued", "turn.started", "model.before_call"])
    def test_in_line(self, offered: Scene, point: str) -> None:
        """In line already: offered again as `auto` is False; the answer to the first offer is used up."""
        offered.crash(self.CONTINUE, at=point)
        assert offered.run(offer('"never"') + LOOK)[1] is True
        messages, is_offered, turns, bodies, left = offered.run(
            offer('"(on)", "yes"') + "await chat.continue_last_turn()\nawait chat.stable()" + LOOK
        )
        assert [text for _, text in messages] == ["hi", partial(offered) + "(on)", "behind", "yes"]
        assert (is_offered, turns, bodies[0], left) == (None, ["completed", "completed"], {"b": 2}, [])

    def test_in_line_and_recent(self, offered: Scene) -> None:
        """With `auto` the turn goes on by itself; the answer to the offer is no second continuation."""
        offered.crash(self.CONTINUE, at="recovery.requeued")
        found = offered.run("""
        chat = make_agent("(on)", "yes", "too much").chat("c")
        await chat.stable()
        result = [shown(chat)["messages"], len(chat._engine.store.load_turns("c"))]
        """)
        assert [text for _, text in found[0]] == ["hi", partial(offered) + "(on)", "behind", "yes"]
        assert found[1] == 2


class TestNewMessage:
    """A new message on an offered turn."""

    def test_after_its_admission(self, offered: Scene) -> None:
        """It was sent to a chat that showed the offer: the turn ends, what was held becomes history, it is answered."""
        offered.crash(offer('"never"') + 'await chat.send("new")', at="input.after")
        messages, is_offered, turns, _, left = offered.run(offer('"yes"') + LOOK)
        assert messages == [
            ["user", "hi"],
            ["assistant", partial(offered)],
            ["user", "behind"],
            ["user", "new"],
            ["assistant", "yes"],
        ]
        assert (is_offered, turns, left) == (None, ["stopped", "completed"], [])
