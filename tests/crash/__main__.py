"""The random crash test: `python -m tests.crash --kills 2000` (spec/recovery.md, section 12).

A chat is kept busy by processes that are killed at random moments, by a timer. After each kill another process opens
the chat, lets it finish, and the guarantees are checked. The last line sums up; all but the kills must be 0.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.scenario import CHECK, WORK
from tests.recovery.processes import Nursery, Scene

KILLS_PER_CHAT = 10


@dataclass
class Tally:
    """What was counted."""

    kills: int = 0
    turns: int = 0
    lost: list[Any] = field(default_factory=list)
    twice: list[Any] = field(default_factory=list)
    invalid: list[Any] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Every guarantee held."""
        return not (self.lost or self.twice or self.invalid)

    def summary(self) -> str:
        """Return the last line."""
        return (
            f"kills {self.kills}, turns {self.turns}, lost settled results {len(self.lost)}, duplicate handler entries "
            f"{len(self.twice)}, invalid histories {len(self.invalid)}"
        )


def run(kills: int, seed: int, folder: Path, *, limit: float | None = None) -> Tally:
    """Kill so many processes, and check after each.

    Args:
        kills: How many.
        seed: Makes the same scripts and moments again, as far as the machine does.
        folder: Where the chats are.
        limit: Seconds after which no further kill is begun.
    """
    rng = random.Random(seed)
    tally = Tally()
    began = time.monotonic()
    nursery = Nursery()
    try:
        chat = 0
        while tally.kills < kills:
            place = folder / f"chat-{chat}"
            place.mkdir()
            scene = Scene(nursery, place)
            turns = 0
            for _ in range(min(KILLS_PER_CHAT, kills - tally.kills)):
                turns = _kill_once(scene, rng, tally)
                if limit is not None and time.monotonic() - began > limit:
                    return tally
            tally.turns += turns
            chat += 1
    finally:
        nursery.close()
    return tally


def _kill_once(scene: Scene, rng: random.Random, tally: Tally) -> int:
    number = rng.randrange(10**6)
    ended = scene.end(scene.start(WORK, seed=number, after=0.05 + rng.random() ** 2 * 0.6, limit=30.0))
    where = f"seed {number} in {scene.folder.name}"
    if not ended.is_killed:
        tally.invalid.append(f"{where}: the worker ended by itself: {ended.error}")
        return 0
    tally.kills += 1
    checked = scene.end(scene.start(CHECK, seed=number + 1, limit=60.0))
    if checked.status != 0:
        tally.invalid.append(f"{where}: {checked.error}")
        return 0
    found = checked.result
    tally.lost += [f"{where}: {call}" for call in found["lost"]]
    problems = [
        *found["invalid"],
        *(f"input {k} left" for k in found["left"]),
        *(f"turn {s}" for s in found["unended"]),
    ]
    problems += [f"a message comes twice: {text}" for text in found["twice"]]
    if found["recovering"]:
        problems.append("still recovering")
    tally.invalid += [f"{where}: {problem}" for problem in problems]
    entries = Counter(scene.calls)
    tally.twice = [t for t in tally.twice if not t.startswith(scene.folder.name)]
    tally.twice += [f"{scene.folder.name}: {entry}" for entry, times in entries.items() if times > 1]
    return int(found["turns"])


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = run(given.kills, given.seed, Path(folder))
    for problem in [*tally.lost, *tally.twice, *tally.invalid]:
        print(problem)
    print(tally.summary())
    return 0 if tally.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
