"""Images that a result holds for the model (spec/actions.md, 9.4)."""

from __future__ import annotations

import base64
import binascii
import io
import mimetypes
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._json import JsonValue, dumps

FIELD = "_agent_images"

_MAX_IMAGES = 4
_MAX_BASE64 = 2_000_000
_LONGEST_SIDE = 1568
_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@dataclass(frozen=True, slots=True)
class Images:
    """What was found in a result.

    Attributes:
        items: File items for a model message, at most 4.
        notes: One line for each entry, dropped ones too.
        field: The entries as they were given, as JSON; None where the result had no such field.
    """

    items: tuple[JsonValue, ...] = ()
    notes: tuple[str, ...] = ()
    field: JsonValue = None


def take_images(value: object) -> tuple[object, Images]:
    """Take the images out of a result; a result without any is returned as the very object."""
    entries: list[Any] = []
    rest = value
    field: JsonValue = None
    if type(value) is dict and FIELD in value:
        given = value[FIELD]
        rest = {key: item for key, item in value.items() if key != FIELD}
        entries = list(given) if isinstance(given, list) else []
        field = [shown for entry in entries if (shown := _shown(entry)) is not None]
    entries.extend(_drawn(value))
    collected = _Collected()
    for entry in entries:
        collected.add(entry)
    return rest, Images(tuple(collected.items), tuple(collected.notes), field)


def _shown(entry: Any) -> JsonValue:
    """Return an entry as JSON, unchanged but for its bytes; None when it is none."""
    if _is_drawn(entry):
        try:
            return entry_of(_read_drawn(entry)[1])
        except _BadImageError:
            return None
    if isinstance(entry, Mapping):
        entry = {
            key: base64.b64encode(bytes(item)).decode() if isinstance(item, bytes | bytearray | memoryview) else item
            for key, item in entry.items()
        }
    try:
        dumps(entry)
    except (ValueError, TypeError, RecursionError):
        return None
    return entry


def entry_of(item: JsonValue) -> JsonValue:
    """Return a file item for a model as an entry of the field."""
    url = item["data"]["url"]
    where = {"data": url.partition(",")[2]} if url.startswith("data:") else {"url": url}
    return {**where, "media_type": item["mediaType"]}


def draw_image(value: object) -> bytes | None:
    """Return a matplotlib figure or axes, or a PIL image, as PNG (longest side 1,568 px); None for all else.

    Raises:
        ValueError: It can't be drawn.
    """
    if not _is_drawn(value):
        return None
    try:
        figure = _figure_of(value)
        return _draw_figure(figure) if figure is not None else _draw_picture(value)
    except Exception as error:  # noqa: BLE001 - drawing is a library's and the user's code
        raise ValueError(f"it can't be drawn ({type(error).__name__})") from None


def replace_drawn(value: object) -> object:
    """Return a result for the model's text, with each figure or picture replaced by a note."""
    if _is_drawn(value):
        return "[image]"
    if type(value) is list and any(map(_is_drawn, value)):
        return ["[image]" if _is_drawn(item) else item for item in value]
    if type(value) is dict and any(map(_is_drawn, value.values())):
        return {key: "[image]" if _is_drawn(item) else item for key, item in value.items()}
    return value


class _Collected:
    def __init__(self) -> None:
        self.items: list[JsonValue] = []
        self.notes: list[str] = []

    def add(self, entry: Any) -> None:
        try:
            note, item = _read_drawn(entry) if _is_drawn(entry) else _read_entry(entry)
        except _BadImageError as error:
            self.notes.append(f"[image dropped: {error}]")
            return
        if len(self.items) == _MAX_IMAGES:
            self.notes.append(f"[image dropped: more than {_MAX_IMAGES}]")
            return
        self.items.append(item)
        self.notes.append(note)


class _BadImageError(Exception):
    """An entry that is no image; the text is the note's reason."""


def _read_entry(entry: Any) -> tuple[str, JsonValue]:
    if not isinstance(entry, Mapping):
        raise _BadImageError("not an object")
    url = entry.get("url")
    media = entry.get("media_type", entry.get("mediaType"))
    if url is not None:
        if not isinstance(url, str) or not url.startswith("https://"):
            raise _BadImageError("its url is not https")
        if media is not None and media not in _TYPES:
            raise _BadImageError("its type is not png, jpeg, gif or webp")
        guessed = mimetypes.guess_type(url.partition("?")[0])[0]
        return f"[image: {url}]", _item(url, media or (guessed if guessed in _TYPES else "image/png"))
    data, media = _read_data(entry.get("data"), media)
    if media not in _TYPES:
        raise _BadImageError("its type is not png, jpeg, gif or webp")
    label = entry.get("label")
    return _make(data, media, label if isinstance(label, str) else None)


def _read_data(data: Any, media: Any) -> tuple[bytes, Any]:
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), media
    if not isinstance(data, str) or not data:
        raise _BadImageError("it has neither url nor data")
    if data.startswith("data:"):
        head, _, data = data.partition(",")
        if not head.endswith(";base64"):
            raise _BadImageError("its data is not base64")
        media = media or head[len("data:") : -len(";base64")]
    if len(data) > _MAX_BASE64:
        raise _BadImageError("too large")
    try:
        return base64.b64decode("".join(data.split()), validate=True), media
    except (binascii.Error, ValueError):
        raise _BadImageError("its data is not base64") from None


def _make(data: bytes, media: str, label: str | None) -> tuple[str, JsonValue]:
    text = base64.b64encode(data).decode()
    if len(text) > _MAX_BASE64:
        raise _BadImageError("too large")
    note = f"[image: {media}, {len(data)} bytes" + (f", {label}]" if label else "]")
    return note, _item(f"data:{media};base64,{text}", media)


def _item(url: str, media: str) -> JsonValue:
    return {"type": "file", "mediaType": media, "data": {"type": "url", "url": url}}


# --- figures and pictures, found without importing their libraries ----------------------------------------------


def _drawn(value: object) -> list[Any]:
    if _is_drawn(value):
        return [value]
    if type(value) is list:
        return [item for item in value if _is_drawn(item)]
    if type(value) is dict:
        return [item for item in value.values() if _is_drawn(item)]
    return []


def _is_drawn(value: object) -> bool:
    return _figure_of(value) is not None or _is_picture(value)


def _figure_of(value: object) -> Any:
    """Return a figure, or the whole figure that some axes are in, else None."""
    figures: Any = sys.modules.get("matplotlib.figure")
    axes: Any = sys.modules.get("matplotlib.axes")
    if figures is None:
        return None
    if axes is not None and isinstance(value, axes.Axes):
        value = value.figure
        while isinstance(value, figures.SubFigure):
            value = value.figure
    return value if isinstance(value, figures.Figure) else None


def _is_picture(value: object) -> bool:
    module: Any = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def _read_drawn(value: Any) -> tuple[str, JsonValue]:
    try:
        data = draw_image(value)
    except ValueError as error:
        raise _BadImageError(str(error)) from None
    return _make(data or b"", "image/png", None)


def _draw_figure(figure: Any) -> bytes:
    buffer = io.BytesIO()
    longest = max(figure.get_size_inches())
    figure.savefig(buffer, format="png", dpi=min(float(figure.dpi), (_LONGEST_SIDE - 1) / longest))
    return buffer.getvalue()


def _draw_picture(picture: Any) -> bytes:
    if max(picture.size) > _LONGEST_SIDE:
        picture = picture.copy()
        picture.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    buffer = io.BytesIO()
    (picture if picture.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I") else picture.convert("RGBA")).save(
        buffer, format="PNG"
    )
    return buffer.getvalue()
