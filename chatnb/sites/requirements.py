"""The extras of the sites: what is missing is said with the command that installs it."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import MissingExtraError

_EXTRAS = {"http": ("starlette", "uvicorn"), "mcp": ("mcp",), "a2a": ("a2a", "starlette", "uvicorn")}


def require(extra: str) -> None:
    """Check that the libraries of a site are installed.

    Args:
        extra: `"http"`, `"mcp"` or `"a2a"`.

    Raises:
        MissingExtraError: They are not; the text has the command.
    """
    missing = [name for name in _EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f'The {extra.upper()} site needs {" and ".join(missing)}: pip install "chatnb[{extra}]"'
        )
