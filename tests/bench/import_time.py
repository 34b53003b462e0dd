"""Prints what `import chatnb` costs: the best of ten fresh interpreters, less the interpreter's own start.

The aim is under 0.4 s on an idle machine (spec/notebook.md, section 11). Nothing is asserted: machines differ.
"""

from __future__ import annotations

import subprocess
import sys
import time


def best(code: str, runs: int = 10) -> float:
    """Seconds of the quickest run of a piece of code in a fresh interpreter."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    floor = best("pass")
    for code in ("import chatnb", "from chatnb import Agent", "from chatnb import ChatWidget"):
        print(f"{code:<32} {best(code) - floor:.3f} s")
    print(f"{'(the interpreter alone)':<32} {floor:.3f} s")
