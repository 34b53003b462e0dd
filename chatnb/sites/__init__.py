"""The sites: places outside the notebook from which chatnb is used.

A site maps a request in and an outcome out, and decides nothing. There is the command line (`cli.py`) with the command
that opens the tour (`lab.py`), and what serves an agent to others: HTTP (`http.py`), MCP (`mcp.py`) and A2A (`a2a.py`),
each with the files that begin with its name; `place.py` is what the three share, `serve.py` runs them. Each file is
loaded on use; nothing is imported from here.
"""

from __future__ import annotations

__all__: list[str] = []
