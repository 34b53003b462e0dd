"""What a model reads of an exception in its code: frames from the code on, library frames folded, no colours."""

from __future__ import annotations

import linecache
import site
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from chatnb._json import JsonValue
from chatnb.export.calls import ANSI
from chatnb.kernel.summaries_text import cut
from chatnb.models.redaction import Redactor

MAX_FRAMES = 20
_MAX_MESSAGE = 2000
_MAX_CHAIN = 5

_OWN_PACKAGES = ("IPython", "chatnb", "ipykernel", "nest_asyncio2", "traitlets")


def describe_error(error: BaseException, filename: str) -> dict[str, JsonValue]:
    """Return `{type, message, traceback}`.

    Args:
        error: What was raised.
        filename: The source's name; frames before it are left out.
    """
    return {
        "type": type(error).__name__,
        "message": _clean(cut(_message(error), _MAX_MESSAGE)),
        "traceback": _clean("\n".join(_lines(error, filename))),
    }


def _clean(text: str) -> str:
    return str(Redactor().redact(ANSI.sub("", text)))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the user's `__str__`
        return ""


def _lines(error: BaseException, filename: str) -> list[str]:
    """The exceptions of the chain, the first one first, within the limit of frames."""
    chain = [error]
    joints: list[str] = []
    while len(chain) < _MAX_CHAIN:
        now = chain[-1]
        if now.__cause__ is not None and now.__cause__ not in chain:
            joints.append("The above exception was the direct cause of the following exception:")
            chain.append(now.__cause__)
        elif now.__context__ is not None and not now.__suppress_context__ and now.__context__ not in chain:
            joints.append("During handling of the above exception, another exception occurred:")
            chain.append(now.__context__)
        else:
            break
    made: list[str] = []
    room = MAX_FRAMES
    for place in reversed(range(len(chain))):
        frames, used = _frames(chain[place], filename, room)
        room -= used
        if frames:
            made.append("Traceback (most recent call last):")
            made.extend(frames)
        made.extend(_last_lines(chain[place]))
        if place:
            made.extend(["", joints[place - 1], ""])
    return made


def _last_lines(error: BaseException) -> list[str]:
    try:
        lines = traceback.format_exception_only(type(error), error)
    except Exception:  # noqa: BLE001 - the user's `__str__`
        return [type(error).__name__]
    return [line for text in lines for line in cut(text.rstrip("\n"), _MAX_MESSAGE).split("\n")]


def _frames(error: BaseException, filename: str, room: int) -> tuple[list[str], int]:
    frames = _from_code_on(error.__traceback__, filename)
    folded: list[str] = []
    shown: list[tuple[str, list[str]]] = []
    for place, (path, line, name) in enumerate(frames):
        library = library_of(path)
        if library is not None and place < len(frames) - 1:
            folded.append(library)
            continue
        before = _folding(folded)
        folded = []
        shown.append((before, _frame_lines(path, line, name, library)))
    left_out = max(0, len(shown) - room)
    kept = shown[:1] + shown[1 + left_out :] if left_out and room > 0 else shown[: max(room, 0)]
    made: list[str] = []
    for place, (before, lines) in enumerate(kept):
        if before:
            made.append(before)
        made.extend(lines)
        if place == 0 and left_out:
            made.append(f"  … {left_out} frames left out …")
    return made, len(kept)


def _from_code_on(trace: TracebackType | None, filename: str) -> list[tuple[str, int, str]]:
    found = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(trace)
        if not _is_own(frame.f_code.co_filename)
    ]
    begin = next((place for place, item in enumerate(found) if item[0] == filename), 0)
    return found[begin:]


def _frame_lines(path: str, line: int, name: str, library: str | None) -> list[str]:
    lines = [f'  File "{_shown_path(path, library)}", line {line}, in {name}']
    source = linecache.getline(path, line).strip()
    if source:
        lines.append(f"    {cut(source, 200)}")
    return lines


def _folding(folded: list[str]) -> str:
    if not folded:
        return ""
    names = ", ".join(dict.fromkeys(folded))
    return f"  … {len(folded)} frame{'s' if len(folded) > 1 else ''} of {names} …"


# --- whose file it is -------------------------------------------------------------------------------------------------


def _library_folders() -> tuple[str, ...]:
    found = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    found.update(site.getsitepackages())
    found.add(site.getusersitepackages())
    # The deepest first: site-packages lies within the standard library's folder.
    return tuple(sorted((folder for folder in found if folder), key=len, reverse=True))


_FOLDERS = _library_folders()


def library_of(path: str) -> str | None:
    """Return the library that a file belongs to, or None for the user's own."""
    if path.startswith("<frozen"):
        return "python"
    inside = _within_library(path)
    if inside is None:
        return None
    first = inside.replace("\\", "/").split("/")[0]
    return first.removesuffix(".py")


def _within_library(path: str) -> str | None:
    for folder in _FOLDERS:
        if path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("/", "\\"):
            return path[len(folder) + 1 :]
    return None


def _is_own(path: str) -> bool:
    """Tell whether a frame is chatnb's or IPython's machinery."""
    if _within_library(path) is not None:
        return library_of(path) in _OWN_PACKAGES
    package = sys.modules.get("chatnb")
    folder = str(Path(package.__file__ or "").parent) if package is not None and package.__file__ else ""
    return bool(folder) and path.startswith(folder + "/")


def _shown_path(path: str, library: str | None) -> str:
    """A path that says nothing about the machine: within its library, or below the working directory."""
    if library is not None:
        return _within_library(path) or path
    if path.startswith("<"):
        return path
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return Path(path).name
