"""What holds for all tests of sites: one process serves and acts as a command line in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chatnb.kernel.host import current_host
from chatnb.runtime import get_runtime


@pytest.fixture(autouse=True)
def calls_on_the_main_thread() -> Iterator[None]:
    """A server site sends calls to their own thread for good; the next test begins as a new process would."""
    yield
    get_runtime("auto", current_host()).main.goes_to_calls_thread = False
