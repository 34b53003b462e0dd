"""The revisions of the tables, oldest first, run by alembic. A released revision is never changed.

A new one: change `tables.py`, add a file to `versions/`, add its name here; `tests/store/test_migrations.py` compares.
"""

from __future__ import annotations

REVISIONS = ("0001",)
