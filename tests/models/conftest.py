"""No model of these tests may leave this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chatnb.models import forbid_network


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    forbid_network()
    yield
    forbid_network(False)
