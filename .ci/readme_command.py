"""Prints the README's test command: the second of its shell blocks."""

from __future__ import annotations

import re
from pathlib import Path

readme = Path(__file__).resolve().parents[1].joinpath("README.md").read_text("utf-8")
print(re.findall(r"^```sh\n(.*?)\n```", readme, re.M | re.S)[1])
