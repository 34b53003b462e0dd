"""Images in a transcript: drawn up to a size, else a line; in Markdown a name (spec/widget.md, section 9)."""

from __future__ import annotations

import re

LARGEST_IMAGE = 500_000
"""Bytes of an image that is shown."""
_DRAWN = re.compile(r'<img\b[^<>]*?\bsrc="data:[^",]*,([^"]*)"[^<>]*>')
_SVG = re.compile(r"<svg\b.*?</svg\s*>", re.DOTALL | re.IGNORECASE)
_WRITTEN = re.compile(
    r"!\[((?:[^\[\]\\]|\\.)*)\]"
    r"(?:\((?:[^()\s\\]|\\.|\([^()]*\))*(?:\s+\"[^\"]*\")?\s*\)|\[[^\[\]]*\])"
)


def image_line(size: int) -> str:
    """Return what stands for an image that is too large."""
    return f'<span style="opacity:0.75">[image of {size:,} bytes]</span>'


def bytes_of(data: str) -> int:
    """Return how many bytes some base64 is."""
    return len(data) * 3 // 4


def fit_images(markup: str, limit: int = LARGEST_IMAGE) -> str:
    """Return sanitised markup with a line in the place of each image that is larger than some bytes."""
    if len(markup) <= limit:
        return markup

    def drawn(found: re.Match[str]) -> str:
        size = bytes_of(found[1])
        return image_line(size) if size > limit else found[0]

    def vector(found: re.Match[str]) -> str:
        size = len(found[0].encode("utf-8", "replace"))
        return image_line(size) if size > limit else found[0]

    return _SVG.sub(vector, _DRAWN.sub(drawn, markup))


def name_images(text: str) -> str:
    """Return Markdown, none of it code, with the description of each image in its place."""
    return _WRITTEN.sub(lambda found: f"[image: {found[1] or 'no description'}]", text)
