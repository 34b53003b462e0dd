"""A kernel for the cases that need a real one, shared by all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.kernel_driver import CHATS, Kernel


@pytest.fixture(scope="package")
def chats_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel whose cells use the public interface alone."""
    with Kernel(tmp_path_factory.mktemp("chats"), prelude=CHATS) as running:
        yield running


@pytest.fixture
def kernel(chats_kernel: Kernel) -> Kernel:
    """The same, with an empty journal."""
    chats_kernel.clear()
    return chats_kernel
