"""The long run, by hand: `python -m tests.combined --examples 2000 --steps 40 --seed 1`."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.combined.machine import TOTALS, ChatMachine


def main() -> int:
    """Run the machine from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.combined", description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore", ResourceWarning)
    phases = (Phase.generate,) if given.no_shrink else (Phase.generate, Phase.shrink)
    seed(given.seed)(ChatMachine)
    run_state_machine_as_test(
        seed(given.seed)(ChatMachine),
        settings=settings(
            max_examples=given.examples,
            stateful_step_count=given.steps,
            deadline=None,
            database=None,
            phases=phases,
            verbosity=Verbosity.normal,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(dict(TOTALS))
    print(f"{given.examples} examples of up to {given.steps} steps, seed {given.seed}: nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
