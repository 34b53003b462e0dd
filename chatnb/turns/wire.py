"""The chunk as turns handle it: a plain dict in wire form, while it is made, looked at and passed on."""

from __future__ import annotations

from .._json import JsonValue

WireChunk = dict[str, JsonValue]
"""A chunk as a plain dict. `check_emittable` decides whether it is one that chatnb sends."""
