"""Files that a page sends along: checked again in the kernel (spec/widget.md, 5.1)."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Sequence

from .._json import JsonValue
from ..errors import InputError, MessageTooLargeError
from .protocol import FileInfo

TYPES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "application/pdf": (b"%PDF-",),
}
TEXTS = frozenset({"text/plain", "text/csv", "application/json", "text/markdown", "text/x-python"})
_SAME = {
    "image/jpg": "image/jpeg",
    "application/x-python": "text/x-python",
    "text/x-python-script": "text/x-python",
    "text/python": "text/x-python",
    "text/x-markdown": "text/markdown",
    "application/csv": "text/csv",
    "application/vnd.ms-excel": "text/csv",
}
_BY_ENDING = {
    "csv": "text/csv",
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "png": "image/png",
    "py": "text/x-python",
    "txt": "text/plain",
    "webp": "image/webp",
}


def file_parts(
    files: Sequence[FileInfo], buffers: Sequence[bytes], *, allowed: bool, max_bytes: int
) -> list[dict[str, JsonValue]]:
    """Return the file parts of attached files.

    Raises:
        InputError: Files are not allowed, a file has no content, is of a type that is not taken, or is not what its
            type says.
        MessageTooLargeError: A file is over the limit.
    """
    if len(files) != len(buffers):
        raise InputError("The files arrived without their content; attach them again.")
    if files and not allowed:
        raise InputError("This chat takes no files.")
    parts: list[dict[str, JsonValue]] = []
    for info, data in zip(files, buffers, strict=True):
        name = clean_name(info.name)
        if len(data) > max_bytes or info.size > max_bytes:
            raise MessageTooLargeError(f"{name} is larger than {max_bytes:,} bytes.")
        kind = _media_type(name, info.media_type)
        if kind is None or not _is_what_it_says(kind, data):
            raise InputError(f"{name} is no file of a type that can be attached.")
        url = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
        parts.append({"type": "file", "mediaType": kind, "filename": name, "url": url})
    return parts


def clean_name(name: str) -> str:
    """Return a file name without path, control characters and direction overrides."""
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(sign for sign in last if unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    return kept.strip().strip(".")[:200] or "file"


def _media_type(name: str, given: str) -> str | None:
    kind = given.partition(";")[0].strip().lower()
    kind = _SAME.get(kind, kind)
    if kind in TYPES or kind in TEXTS:
        return kind
    if kind.startswith("text/") or kind in ("", "application/octet-stream"):
        return _BY_ENDING.get(name.rpartition(".")[2].lower(), "text/plain" if kind.startswith("text/") else None)
    return None


def _is_what_it_says(kind: str, data: bytes) -> bool:
    if kind in TYPES:
        return data.startswith(TYPES[kind]) and (kind != "image/webp" or data[8:12] == b"WEBP")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "\x00" not in text
