"""Two processes race for one chat, 200 times: one owner each time, never two answers (spec/recovery.md, 3 and 12)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recovery.processes import Scene

NEW, DEAD, ALIVE = 110, 60, 30
"""Rounds for a chat that is not there yet, for one whose owner was killed, and for one to take over: 200 in all."""
SPARE = 10

# The owner that the racers come after: in each of its chats an answer is being said, and does not end.
OWN = """
names = [f"{job['kind']}-{n}" for n in range(job["count"])]
agent = make_agent(*[Reply("said ", hang=True)] * len(names), actions=[])
chats = [agent.chat(name) for name in names]
sent = [chat.send("hi") for chat in chats]
await until(lambda: all(map(is_logged, chats)))
(folder / f"owned-{job['kind']}").touch()
if job["kind"] == "dead":
    die()
await asyncio.sleep(600)
"""

# A racer: before each round both say that they are there, after it how it went. A pipe each way, so that nobody polls.
RACE = """
import select, struct, time
from chatnb.errors import ChatInUseError

mine, other = (os.open(folder / f"to-{number}", os.O_RDWR) for number in (job["me"], 1 - job["me"]))
WORD = struct.Struct("<?dd")

def exchange(won, began, ended):
    os.write(other, WORD.pack(won, began, ended))
    if not select.select([mine], [], [], 60)[0]:
        raise TimeoutError("the other racer is gone")
    return WORD.unpack(os.read(mine, WORD.size))

async def play(name):
    '''Return whether this one won, whether the other did, and whether they were there at the same time.'''
    exchange(False, 0.0, 0.0)
    began, won = time.monotonic(), True
    try:
        chat = agent.chat(name, take_over=name.startswith("alive"))
        ended = time.monotonic()
    except ChatInUseError as error:
        won, ended = False, time.monotonic()
        losses.append([name, error.pid])
    if won:
        await (chat.send("hi") if name.startswith("new") else chat.stable())
    they_won, they_began, they_ended = exchange(won, began, ended)
    return won, they_won, began < they_ended and they_began < ended

agent = make_agent(*["on"] * 400, actions=[])
wins, losses, played, skipped = [], [], [], []
for kind, count in job["rounds"].items():
    number = done = 0
    while done < count:
        name = f"{kind}-{number}"
        number += 1
        won, they_won, is_race = await play(name)
        if won and they_won and not is_race:
            skipped.append(name)  # one had won before the other set out: that is no race, another chat is played for
            continue
        played.append(name)
        wins += [name] * won
        done += 1
result = {"wins": wins, "losses": losses, "played": played, "skipped": skipped}
"""

LOOK = """
from chatnb.store import open_store
store = open_store(str(folder / "chats.db"))
result = {}
for name in job["names"]:
    roles = [node.role for node in store.load_nodes(name)]
    turns = [turn.state for turn in store.load_turns(name)]
    wires = store.load_messages(name, [node.node_id for node in store.load_nodes(name) if node.role == "assistant"])
    texts = ["".join(p.get("text", "") for p in wire["parts"]) for wire in wires.values()]
    result[name] = [roles, turns, texts]
"""


@pytest.fixture
def races(scene: Scene) -> Iterator[dict[str, Any]]:
    """200 races: what the racers tell, what the deposed owner tells, what is in the store."""
    scene.crash(OWN, kind="dead", count=DEAD, limit=60.0)
    owner = scene.start(OWN, kind="alive", count=ALIVE + SPARE, limit=120.0)
    try:
        _wait_for(scene.folder / "owned-alive", scene)
        for number in range(2):
            os.mkfifo(scene.folder / f"to-{number}")
        before = scene.model_calls
        rounds = {"new": NEW, "dead": DEAD, "alive": ALIVE}
        racers = [scene.start(RACE, me=me, rounds=rounds, limit=120.0) for me in range(2)]
        ended = [scene.end(racer) for racer in racers]
        assert [e.status for e in ended] == [0, 0], [e.error for e in ended]
        told = [e.result for e in ended]
        names = told[0]["played"]
        yield {
            "told": told,
            "pids": racers,
            "found": scene.run(LOOK, names=names),
            "model_calls": scene.model_calls - before,
        }
    finally:
        os.kill(owner, signal.SIGKILL)
        scene.end(owner)


def _wait_for(path: Path, scene: Scene) -> None:
    scene.run(f'await until((folder / "{path.name}").exists)', limit=60.0)


class TestRace:
    """Two processes never both own a chat."""

    def test_200_rounds(self, races: dict[str, Any]) -> None:
        """200 times: one owner each time, whom the other one's error names; never two answers."""
        first, second = races["told"]
        played = first["played"]
        assert played == second["played"]
        assert len(played) == NEW + DEAD + ALIVE == 200
        assert sorted(first["wins"] + second["wins"]) == sorted(played)
        for told, winner in ((first, races["pids"][1]), (second, races["pids"][0])):
            assert {pid for _, pid in told["losses"]} <= {winner}
        for name, (roles, turns, texts) in races["found"].items():
            said = "on" if name.startswith("new") else "said on"
            assert (name, roles, turns, texts) == (name, ["user", "assistant"], ["completed"], [said])
        assert races["model_calls"] == 200 + 2 * len(first["skipped"])
