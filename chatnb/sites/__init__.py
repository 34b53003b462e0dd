"""The sites: places outside the notebook from which chatnb is used, one file each.

A site maps a request in and an outcome out, and decides nothing. Today there is the command line (`cli.py`) with the
command that opens the tour (`lab.py`). Each file is loaded on use; nothing is imported from here.
"""

from __future__ import annotations

__all__: list[str] = []
