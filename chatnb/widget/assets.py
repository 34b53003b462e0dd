"""Content that travels beside the frames: images, long values, extras (spec/widget.md, 3.1 and 3.4).

An asset is named by the SHA-256 of its bytes and sent once per widget; a view that lacks it asks for it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote_to_bytes

from .._json import JsonValue, dumps

STATIC = Path(__file__).parent / "static"
PIECE = 1024 * 1024
"""Bytes of one buffer, at most."""
INLINE_BINARY = 8 * 1024
"""Binary data above this many bytes becomes an asset."""
INLINE_TEXT = 32 * 1024
"""Any other value whose JSON is longer becomes one."""
LARGEST = 20_000_000
"""Bytes above which nothing is sent."""
KEPT = 256 * 1024 * 1024
"""Bytes of assets that are kept for views that ask again."""

JSON_TYPE = "application/json"
NOT_BUILT = "The panel is not built: run `python hatch_build.py` in the source folder, or install a wheel of chatnb."
NOT_BUILT_ESM = f"""export default {{
  render({{ el }}) {{
    el.textContent = {NOT_BUILT!r};
  }},
}};
"""


@dataclass(frozen=True, slots=True)
class Asset:
    """Content and its media type."""

    media_type: str
    data: bytes


class AssetShelf:
    """The assets of one widget: what its frames refer to, and what of it has been sent."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Asset] = OrderedDict()
        self._bytes = 0
        self._known: set[str] = set()
        self._unsent: list[str] = []

    def add(self, data: bytes, media_type: str, *, object_name: str | None = None) -> dict[str, JsonValue]:
        """Keep content and return the reference that stands for it (`AssetRef`)."""
        reference: dict[str, JsonValue] = {"asset": None, "mediaType": media_type, "bytes": len(data)}
        if object_name is not None:
            reference["object"] = object_name
        if len(data) > LARGEST:
            return reference
        name = hashlib.sha256(data).hexdigest()
        reference["asset"] = name
        if name not in self._kept:
            self._kept[name] = Asset(media_type, data)
            self._bytes += len(data)
            while self._bytes > KEPT and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= len(gone.data)
        if name not in self._known:
            self._known.add(name)
            self._unsent.append(name)
        return reference

    def take_unsent(self) -> list[str]:
        """Return the hashes that no frame has carried yet, and count them as sent."""
        names, self._unsent = self._unsent, []
        return names

    def forget(self) -> None:
        """Count what was not sent as not known: nobody was there, and the next frame that refers to it sends it."""
        self._known.difference_update(self._unsent)
        self._unsent = []

    def clear(self) -> None:
        """Let go of everything."""
        self.__init__()  # type: ignore[misc]

    def find(self, name: str) -> Asset | None:
        """Return an asset that is still kept."""
        asset = self._kept.get(name)
        if asset is not None:
            self._kept.move_to_end(name)
        return asset


def asset_frames(name: str, asset: Asset, extra: str | None = None) -> Iterator[tuple[dict[str, JsonValue], bytes]]:
    """Yield the `asset` frames of some content, without version and epoch, each with its buffer."""
    count = max(1, -(-len(asset.data) // PIECE))
    for index in range(count):
        frame: dict[str, JsonValue] = {
            "type": "asset",
            "hash": name,
            "mediaType": asset.media_type,
            "index": index,
            "count": count,
        }
        if extra is not None:
            frame["name"] = extra
        yield frame, asset.data[index * PIECE : (index + 1) * PIECE]


class Outsourcer:
    """Replaces large values inside JSON by references.

    Args:
        shelf: Where they go. None keeps them in place (a saved snapshot has no kernel to ask), but for those above
            `limit` bytes, of which only type and size are told.
        limit: Used without a shelf.
    """

    def __init__(self, shelf: AssetShelf | None, limit: int = 500_000) -> None:
        self._shelf = shelf
        self._limit = limit

    def replace(self, value: JsonValue, *, object_name: str | None = None, inline: int = INLINE_TEXT) -> JsonValue:
        """Return the value with references in the places of large ones.

        Args:
            value: Any JSON value; it is not changed.
            object_name: The entry of `chat.objects` that holds the content.
            inline: Length of JSON up to which a value stays in place.
        """
        small = self._walk(value, "text/plain", object_name, inline)
        if isinstance(small, list | dict) and len(text := json.dumps(small)) > inline:
            return self._put(dumps(small).encode("utf-8", "replace"), JSON_TYPE, object_name, small, len(text))
        return small

    def script(self, source: str) -> JsonValue:
        """Return a reference to the source of a module, however short it is."""
        return self._put(source.encode("utf-8", "replace"), "text/javascript", None, source, len(source))

    def _walk(self, value: JsonValue, media_type: str, object_name: str | None, inline: int) -> JsonValue:
        if isinstance(value, str):
            return self._text(value, media_type, object_name, inline)
        if isinstance(value, Mapping):
            return {key: self._walk(item, _type_of(key), object_name, inline) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(item, "text/plain", object_name, inline) for item in value]
        return value

    def _text(self, value: str, media_type: str, object_name: str | None, inline: int) -> JsonValue:
        if len(value) <= INLINE_BINARY:
            return value
        if value.startswith("data:") and (found := read_data_url(value)) is not None:
            if len(found.data) <= INLINE_BINARY:
                return value
            return self._put(found.data, found.media_type, object_name, value, len(value))
        if media_type.startswith("image/") and media_type != "image/svg+xml":
            try:
                data = base64.b64decode(value, validate=False)
            except (binascii.Error, ValueError):
                pass
            else:
                small = len(data) <= INLINE_BINARY
                return value if small else self._put(data, media_type, object_name, value, len(value))
        if len(value) * 6 > inline and len(json.dumps(value)) > inline:
            return self._put(value.encode("utf-8", "replace"), media_type, object_name, value, len(value))
        return value

    def _put(self, data: bytes, media_type: str, object_name: str | None, value: JsonValue, length: int) -> JsonValue:
        if self._shelf is not None:
            return self._shelf.add(data, media_type, object_name=object_name)
        if length > self._limit:
            return {"asset": None, "mediaType": media_type, "bytes": len(data), "object": object_name}
        return value


def _type_of(key: str) -> str:
    return key if "/" in key and not key.startswith("/") else "text/plain"


def read_data_url(url: str) -> Asset | None:
    """Return the content of a data URL, or None when it is none."""
    head, comma, body = url.partition(",")
    if not comma or not head.startswith("data:"):
        return None
    kind, *flags = head[len("data:") :].split(";")
    try:
        data = base64.b64decode(body, validate=False) if "base64" in flags else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        return None
    return Asset(kind or "text/plain", data)


@cache
def find_extras() -> dict[str, str]:
    """Return the extras of the built front end: name to the hash of its source."""
    return {
        path.stem.removeprefix("extra-"): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(STATIC.glob("extra-*.js"))
    }


def read_extra(name: str) -> Asset | None:
    """Return the source of an extra, or None when there is none of this name."""
    if name not in find_extras():
        return None
    return Asset("text/javascript", (STATIC / f"extra-{name}.js").read_bytes())


def read_bundle(name: str) -> str | None:
    """Return a file of the built front end, or None when it has not been built."""
    try:
        return (STATIC / name).read_text("utf-8")
    except FileNotFoundError:
        return None
