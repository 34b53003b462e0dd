"""Environments with another ipykernel than the installed one, for the regimes of spec/widget.md, section 8.

Each is a virtual environment of its own that has one ipykernel and, behind it, everything this environment has. They
are kept in pytest's cache, so that they are made once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REGIMES = {"6.31": "ipykernel==6.31.*", "7.3": "ipykernel==7.3.*", "7.4": None}
"""A kernel of each way of delivery, and what has to be installed for it; None: what is installed here will do."""
MAKE_SECONDS = 120


class NotToBeHadError(RuntimeError):
    """The package could not be installed; the text holds the end of what pip said."""


def make_environment(requirement: str, cache: Path) -> Path:
    """Return the Python of an environment with a requirement, made if need be.

    Args:
        requirement: One package. What it needs is found in this environment.
        cache: Where environments are kept.

    Raises:
        NotToBeHadError: pip could not install it.
    """
    key = hashlib.sha256(f"{requirement} {sys.version} {sys.prefix}".encode()).hexdigest()[:16]
    folder = cache / f"{requirement.split('=')[0]}-{key}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if (folder / "ready").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.EnvBuilder(symlinks=os.name != "nt", with_pip=False).create(folder)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    done = subprocess.run(
        [*(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"),
         *("--target", str(site), requirement)],
        capture_output=True,
        text=True,
        timeout=MAKE_SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise NotToBeHadError(f"{requirement} could not be installed: {done.stderr[-500:]}")
    # `addsitedir`, so that what this environment has by path files is there too; behind what was installed.
    behind = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    lines = [f"import site; site.addsitedir({path!r})" for path in behind]
    (site / "behind.pth").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "ready").touch()
    return python


def write_kernelspec(python: Path, name: str, kernels: Path) -> None:
    """Let Jupyter find the kernel of an environment by a name, in a folder of kernelspecs."""
    spec = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
    }
    (kernels / name).mkdir(parents=True, exist_ok=True)
    (kernels / name / "kernel.json").write_text(json.dumps(spec), "utf-8")
