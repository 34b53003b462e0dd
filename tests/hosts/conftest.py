"""Kernels of the regimes, made once and kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.environments import REGIMES, NotToBeHadError, make_environment

FindPython = Callable[[str], Path]


@pytest.fixture(scope="session")
def python_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FindPython:
    """Finds the Python of a regime's environment. Without a registry its tests are skipped, but not in CI."""

    def find(regime: str) -> Path:
        requirement = REGIMES[regime]
        if requirement is None:
            return Path(sys.executable)
        try:
            cache = getattr(request.config, "cache", None)
            place = cache.mkdir("kernels") if cache is not None else tmp_path_factory.mktemp("kernels")
            return make_environment(requirement, place)
        except NotToBeHadError as error:
            if os.environ.get("CHATNB_REQUIRE_KERNELS") == "1":
                pytest.fail(str(error))
            pytest.skip(str(error))

    return find
