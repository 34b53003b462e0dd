"""A history as something to read without a kernel: the static transcript, and exports as md, html, json and ipynb.

Pure functions of messages: no store, no clock, no network; the same history gives the same bytes. Markup passes one
allow-list (`sanitise.py`), math becomes MathML with its TeX (`tex.py`). The law is spec/widget.md, sections 7 and 9,
and spec/notebook.md, section 10.
"""

from __future__ import annotations

from .files import FORMATS, ChatRecord, export_chat, parse_json
from .transcript import render_html, render_markdown

__all__ = ["FORMATS", "ChatRecord", "export_chat", "parse_json", "render_html", "render_markdown"]
